// The operators that programs may have: built in, and from plugins.
//
// A file of ops/ has a list for each group; op_table.cc names the lists. Threading: const after it
// was filled.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/program/node_call.h"

namespace tenon {

struct OpTraits {
  bool in_place = false;  // output 0 may lie where an input of its type and shape lies
  bool view = false;      // output 0 has input 0's bytes: no launch when memory is shared
};
inline constexpr OpTraits kPlainOp = {};
inline constexpr OpTraits kInPlaceOp = {true, false};
inline constexpr OpTraits kViewOp = {false, true};

struct ProgramOp {
  std::string_view domain;  // "", "com.microsoft", "tenon", a plugin's
  std::string_view name;
  int64_t first_version = 1;  // of the domain's operator sets, both included
  int64_t last_version = 1;
  ProgramKernel kernel = nullptr;
  OpTraits traits;
  const void* context = nullptr;  // a plugin's
};
// Valid to the newest operator set that is read.
inline constexpr int64_t kEveryVersion = 1 << 20;

// The built-in groups.
std::span<const ProgramOp> UnaryOps();
std::span<const ProgramOp> CastOps();
std::span<const ProgramOp> BinaryOps();
std::span<const ProgramOp> ShapeOps();
std::span<const ProgramOp> MovementOps();
std::span<const ProgramOp> IndexingOps();
std::span<const ProgramOp> ReduceOps();
std::span<const ProgramOp> SortingOps();
std::span<const ProgramOp> MatMulOps();
std::span<const ProgramOp> NormOps();
std::span<const ProgramOp> QuantizeOps();
std::span<const ProgramOp> AttentionOps();
std::span<const ProgramOp> ContribOps();
std::span<const ProgramOp> FusedOps();
std::span<const ProgramOp> ConvOps();
std::span<const ProgramOp> PoolOps();
std::span<const ProgramOp> ControlOps();

class OpTable {
 public:
  OpTable();  // the built-in ones

  void Add(const ProgramOp& op) { ops_.push_back(op); }
  // Null when there is none of that name or version.
  const ProgramOp* Find(std::string_view domain, std::string_view name, int64_t version) const;
  std::span<const ProgramOp> ops() const { return ops_; }

 private:
  std::vector<ProgramOp> ops_;
};

}  // namespace tenon

// SlotTable: the conversations that /slots can save, restore and erase.
//
// Sequences are not bound to slots: a slot is a name for "the last conversation that was here". It
// keeps the tokens; their KV is what the prefix cache still has of them, whole blocks only.
// Owns the tokens. Threading: one thread at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/kv/kv_file.h"
#include "engine/kv/kv_pool.h"

namespace tenon {

enum class SlotAction : uint8_t { kSave, kRestore, kErase };

struct SlotOrder {
  SlotAction action = SlotAction::kSave;
  int32_t slot = 0;
  std::filesystem::path path;  // kSave, kRestore
  KvFileIdentity identity;     // kSave, kRestore
  CacheScope scope;            // of the caller: others' conversations are not there
};

struct SlotResult {
  int64_t tokens = 0;  // saved, restored or erased
  int64_t bytes = 0;   // of the file
  double seconds = 0.0;
};
using SlotSink = std::function<void(Result<SlotResult>)>;

class SlotTable {
 public:
  explicit SlotTable(int64_t slots) : slots_(static_cast<size_t>(slots)) {}

  // A conversation has ended. `slot` -1: the one that was used longest ago.
  void Remember(int32_t slot, std::span<const int32_t> tokens, const CacheScope& scope);

  // Fails with kInvalidArgument for a slot that is not there, with kNotFound when it holds nothing
  // of this scope whose KV is still cached, and as kv_file.h says.
  Result<SlotResult> Run(const SlotOrder& order, KvPool& pool);

  int64_t size() const { return static_cast<int64_t>(slots_.size()); }

 private:
  struct Slot {
    std::vector<int32_t> tokens;
    CacheScope scope;
    uint64_t last_use = 0;
  };

  Result<SlotResult> Save(const SlotOrder& order, KvPool& pool);
  Result<SlotResult> Restore(const SlotOrder& order, KvPool& pool);
  Result<SlotResult> Erase(const SlotOrder& order, KvPool& pool);

  std::vector<Slot> slots_;
  uint64_t uses_ = 0;
};

}  // namespace tenon

// WeightSource: where the engine gets a weight's bytes, whatever file or format they come from.
//
// Implemented by the composition root over a ModelSource. Threading: all members from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "tensor/dtype.h"

namespace tenon {

struct WeightView {
  DType dtype = DType::kF32;
  int64_t rows = 0;
  int64_t columns = 0;
  // rows * DTypeRowBytes(dtype, columns), mapped; empty when the rows lie in pieces (BytesAt).
  std::span<const std::byte> bytes;
};

class WeightSource {
 public:
  virtual ~WeightSource() = default;

  // kNotFound when there is no such weight.
  virtual Result<WeightView> Find(std::string_view name) const = 0;

  // The mapped bytes [offset, offset + count) of a weight. A stack of experts may lie in pieces:
  // REQUIRES that the bytes are in one of them.
  virtual Result<std::span<const std::byte>> BytesAt(std::string_view name, uint64_t offset,
                                                     uint64_t count) const {
    TENON_ASSIGN_OR_RETURN(const WeightView view, Find(name));
    return view.bytes.subspan(offset, count);
  }

  // Copies the bytes [offset, offset + out.size()) of a weight, without mapping them in: for rows
  // that are read now and then (token embeddings).
  virtual Status ReadAt(std::string_view name, uint64_t offset, std::span<std::byte> out) const = 0;

  // These mapped bytes of a weight will not be read again soon: their pages may leave memory.
  virtual void Release(std::string_view name, uint64_t offset, uint64_t count) const = 0;

  // The same for everything that is mapped.
  virtual void ReleaseAll() const = 0;
};

}  // namespace tenon

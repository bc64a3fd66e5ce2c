// Any parts of a packed matrix: unpacking ends with as many values as the sizes say, or with an
// error.
//
// Input: layout, bits, group size, inputs, outputs, words of zero points, number of scales and of
// group indices (a byte each), then the bytes of the parts in that order.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "model/hf/packed_weights.h"

namespace {

class Input {
 public:
  Input(const uint8_t* data, size_t size)
      : bytes_(reinterpret_cast<const std::byte*>(data), size) {}

  int64_t Number() {
    if (bytes_.empty())
      return 0;
    const auto number = std::to_integer<int64_t>(bytes_[0]);
    bytes_ = bytes_.subspan(1);
    return number;
  }
  // As many as there are.
  std::span<const std::byte> Bytes(int64_t count) {
    const auto taken = bytes_.first(std::min(bytes_.size(), static_cast<size_t>(count)));
    bytes_ = bytes_.subspan(taken.size());
    return taken;
  }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  tenon::PackedFormat format;
  format.layout = static_cast<tenon::PackedLayout>(input.Number() % 4);
  const int64_t bits = input.Number();
  format.symmetric = bits % 2 == 1;
  // As the readers of files give them.
  format.bits = format.layout == tenon::PackedLayout::kBytes ? 8 : int64_t{2} << (bits / 2 % 3);
  format.group_size = input.Number() - 1;
  format.zero_addend = bits / 8 % 2;
  tenon::PackedParts parts;
  parts.inputs = input.Number();
  parts.outputs = input.Number();
  const int64_t zeros = input.Number() * 4;
  const int64_t scales = input.Number();
  const int64_t groups = input.Number();
  // The weights' own size follows from the others in every reader.
  parts.qweight = input.Bytes(parts.inputs * parts.outputs * format.bits / 8);
  if (parts.qweight.size() < static_cast<size_t>(parts.inputs * parts.outputs * format.bits / 8))
    return 0;
  parts.qzeros = input.Bytes(zeros);
  parts.scales.assign(static_cast<size_t>(scales), 0.25F);
  for (const std::byte group : input.Bytes(groups))
    parts.groups.push_back(std::to_integer<int8_t>(group));
  const auto matrix = tenon::UnpackMatrix(format, parts, tenon::ColumnOrder::kSorted);
  if (!matrix.ok()) {
    TENON_CHECK(!matrix.error().message.empty());
    return 0;
  }
  const int64_t row = tenon::DTypeRowBytes(matrix->dtype, parts.inputs);
  TENON_CHECK(matrix->order.empty() || matrix->order.size() == static_cast<size_t>(parts.inputs));
  TENON_CHECK(matrix->buffer.bytes().size() >= static_cast<size_t>(row * parts.outputs));
  return 0;
}

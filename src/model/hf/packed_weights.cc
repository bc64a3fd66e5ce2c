#include "model/hf/packed_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include "quant/blocks.h"
#include "quant/half.h"

namespace tenon {
namespace {

constexpr int64_t kWordBits = 32;
constexpr int64_t kBlock = kSmallBlock;
// AutoAWQ's order of eight outputs in a word: position p holds output kAwqOrder[p].
constexpr std::array<int64_t, 8> kAwqOrder = {0, 2, 4, 6, 1, 3, 5, 7};

Status CheckBits(const JsonValue& config, std::string_view key, int64_t bits) {
  if (bits == 2 || bits == 4 || bits == 8)
    return {};
  return config.Member(key, config.element())
      .NotSupported(fmt::format("{} bits; known are 2, 4 and 8", bits));
}

Result<PackedFormat> ReadAwq(const JsonValue& config) {
  PackedFormat format;
  format.layout = PackedLayout::kAwq;
  TENON_ASSIGN_OR_RETURN(format.bits, config.IntegerOr("w_bit", 4));
  TENON_ASSIGN_OR_RETURN(format.bits, config.IntegerOr("bits", format.bits));
  TENON_ASSIGN_OR_RETURN(format.group_size, config.IntegerOr("q_group_size", 128));
  TENON_ASSIGN_OR_RETURN(format.group_size, config.IntegerOr("group_size", format.group_size));
  TENON_ASSIGN_OR_RETURN(std::string version, config.StringOr("version", "gemm"));
  TENON_ASSIGN_OR_RETURN(version, config.StringOr("format", version));
  std::ranges::transform(version, version.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (version != "gemm")
    return config.Member("version", config.element())
        .NotSupported(fmt::format("'{}'; known is gemm", version));
  if (format.bits != 4)
    return config.Member("bits", config.element())
        .NotSupported(fmt::format("{} bits; AWQ's are 4", format.bits));
  return format;
}

Result<PackedFormat> ReadGptq(const JsonValue& config) {
  PackedFormat format;
  TENON_ASSIGN_OR_RETURN(format.bits, config.IntegerOr("bits", 4));
  TENON_RETURN_IF_ERROR(CheckBits(config, "bits", format.bits));
  TENON_ASSIGN_OR_RETURN(format.group_size, config.IntegerOr("group_size", 128));
  TENON_ASSIGN_OR_RETURN(format.symmetric, config.BoolOr("sym", false));
  TENON_ASSIGN_OR_RETURN(std::string layout, config.StringOr("checkpoint_format", "gptq"));
  TENON_ASSIGN_OR_RETURN(layout, config.StringOr("format", layout));
  if (layout != "gptq" && layout != "gptq_v2")
    return config.Member("checkpoint_format", config.element())
        .NotSupported(fmt::format("'{}'; known are gptq and gptq_v2", layout));
  format.zero_addend = layout == "gptq" ? 1 : 0;
  return format;
}

// Reads the integers of one matrix.
class Words {
 public:
  Words(const PackedFormat& format, const PackedParts& parts, int64_t groups)
      : format_(format), parts_(parts), per_word_(kWordBits / format.bits), groups_(groups) {}

  int64_t per_word() const { return per_word_; }
  bool has_rows() const {
    return format_.layout == PackedLayout::kRows || format_.layout == PackedLayout::kBytes;
  }

  bool is_bytes() const { return format_.layout == PackedLayout::kBytes; }

  // q of one output and input.
  int64_t Quant(int64_t output, int64_t input) const {
    if (format_.layout == PackedLayout::kAwq)
      return OfOutput(parts_.qweight, input, output);
    if (format_.layout == PackedLayout::kBytes)
      return Byte(parts_.qweight, output * parts_.inputs + input);
    if (format_.layout == PackedLayout::kRows)
      return Bits(Word(parts_.qweight, (output * parts_.inputs + input) / per_word_),
                  input % per_word_);
    return Bits(Word(parts_.qweight, input / per_word_ * parts_.outputs + output),
                input % per_word_);
  }

  int64_t Zero(int64_t output, int64_t group) const {
    if (has_rows() && parts_.qzeros.empty())
      return int64_t{1} << (format_.bits - 1);
    if (format_.layout == PackedLayout::kBytes)
      return Byte(parts_.qzeros, output * groups_ + group);
    if (format_.layout == PackedLayout::kRows)
      return Bits(Word(parts_.qzeros, output / per_word_ * groups_ + group), output % per_word_);
    return OfOutput(parts_.qzeros, group, output) + format_.zero_addend;
  }

 private:
  static uint32_t Word(std::span<const std::byte> words, int64_t index) {
    uint32_t word = 0;
    std::memcpy(&word, words.data() + index * 4, 4);
    return word;
  }
  int64_t Bits(uint32_t word, int64_t position) const {
    return word >> (position * format_.bits) & ((uint32_t{1} << format_.bits) - 1);
  }
  // Of signed bytes, from 0 on.
  static int64_t Byte(std::span<const std::byte> bytes, int64_t index) {
    return std::to_integer<int64_t>(bytes[static_cast<size_t>(index)] ^ std::byte{0x80});
  }
  // Of words that hold outputs side by side. [rows, outputs / n]
  int64_t OfOutput(std::span<const std::byte> words, int64_t row, int64_t output) const {
    int64_t position = output % per_word_;
    if (format_.layout == PackedLayout::kAwq)
      position = std::ranges::find(kAwqOrder, position) - kAwqOrder.begin();
    const int64_t per_row = parts_.outputs / per_word_;
    return Bits(Word(words, row * per_row + output / per_word_), position);
  }

  const PackedFormat& format_;
  const PackedParts& parts_;
  int64_t per_word_;
  int64_t groups_;
};

class Unpacker {
 public:
  Unpacker(const PackedFormat& format, const PackedParts& parts)
      : parts_(parts),
        symmetric_(format.symmetric),
        group_size_(format.group_size > 0 ? format.group_size : parts.inputs),
        words_(format, parts, groups()) {}

  Status Check() const;
  Result<UnpackedMatrix> Run(ColumnOrder columns);

 private:
  int64_t groups() const {
    return group_size_ < 1 ? 0 : (parts_.inputs + group_size_ - 1) / group_size_;
  }
  size_t ZeroBytes() const;
  int64_t GroupOf(int64_t input) const {
    return parts_.groups.empty() ? input / group_size_ : parts_.groups[static_cast<size_t>(input)];
  }
  float Scale(int64_t output, int64_t group) const {
    return parts_.scales[static_cast<size_t>(words_.has_rows() ? output * groups() + group
                                                               : group * parts_.outputs + output)];
  }
  // The input that a column is for.
  int64_t InputOf(int64_t column) const {
    return order_.empty() ? column : order_[static_cast<size_t>(column)];
  }
  void SortColumns();
  bool GroupsAreBlocks() const;
  bool ScalesAreHalf() const;
  DType Choose() const;
  void FillRow(int64_t output);
  void PutFloats(std::byte* out) const;
  template <class Block>
  void PutBlocks(std::byte* out) const;

  const PackedParts& parts_;
  bool symmetric_;
  int64_t group_size_;
  Words words_;
  std::vector<int32_t> order_;  // [inputs] or empty: as they are
  int64_t output_ = 0;
  std::vector<int32_t> row_;      // [inputs] q - zero
  std::vector<float> row_scale_;  // [inputs]
};

size_t Unpacker::ZeroBytes() const {
  const int64_t n = words_.per_word();
  if (words_.has_rows() && symmetric_)
    return 0;
  if (words_.is_bytes())
    return static_cast<size_t>(groups() * parts_.outputs);
  return static_cast<size_t>(groups() * ((parts_.outputs + n - 1) / n)) * 4;
}

Status Unpacker::Check() const {
  const int64_t n = words_.per_word();
  const bool whole_outputs = words_.has_rows() || parts_.outputs % n == 0;
  if (parts_.inputs < 1 || parts_.outputs < 1 || parts_.inputs % n != 0 || !whole_outputs)
    return Corrupt(fmt::format("{} inputs and {} outputs, multiples of {} expected", parts_.inputs,
                               parts_.outputs, n));
  if (parts_.qzeros.size() != ZeroBytes() ||
      parts_.scales.size() != static_cast<size_t>(groups() * parts_.outputs)) {
    return Corrupt(
        fmt::format("{} bytes of zero points and {} scales found, {} and {} expected for {} groups",
                    parts_.qzeros.size(), parts_.scales.size(), ZeroBytes(),
                    groups() * parts_.outputs, groups()));
  }
  if (!parts_.groups.empty() && parts_.groups.size() != static_cast<size_t>(parts_.inputs))
    return Corrupt(
        fmt::format("groups of {} inputs found, {} expected", parts_.groups.size(), parts_.inputs));
  for (const int32_t group : parts_.groups) {
    if (group < 0 || group >= groups())
      return Corrupt(fmt::format("an input of group {}, but there are {}", group, groups()));
  }
  return {};
}

// By group, and within a group as they were.
void Unpacker::SortColumns() {
  order_.resize(static_cast<size_t>(parts_.inputs));
  std::iota(order_.begin(), order_.end(), 0);
  std::ranges::stable_sort(order_, {}, [&](int32_t input) { return GroupOf(input); });
}

// Whether the inputs of each block of 32 have one scale.
bool Unpacker::GroupsAreBlocks() const {
  if (parts_.inputs % kBlock != 0 || (group_size_ % kBlock != 0 && groups() > 1))
    return false;
  for (int64_t column = 0; column < parts_.inputs; ++column) {
    if (GroupOf(InputOf(column)) != GroupOf(InputOf(column / kBlock * kBlock)))
      return false;
  }
  return true;
}

bool Unpacker::ScalesAreHalf() const {
  return std::ranges::all_of(parts_.scales,
                             [](float scale) { return F16ToF32(F32ToF16(scale)) == scale; });
}

void Unpacker::FillRow(int64_t output) {
  output_ = output;
  for (int64_t column = 0; column < parts_.inputs; ++column) {
    const int64_t input = InputOf(column);
    const int64_t group = GroupOf(input);
    row_[static_cast<size_t>(column)] =
        static_cast<int32_t>(words_.Quant(output, input) - words_.Zero(output, group));
    row_scale_[static_cast<size_t>(column)] = Scale(output, group);
  }
}

// By the range that values can have, not by those that they do: experts of a layer get one format.
DType Unpacker::Choose() const {
  if (!GroupsAreBlocks() || !ScalesAreHalf())
    return DType::kF32;
  int64_t low = 0;
  int64_t high = 0;
  const int64_t range = int64_t{1} << (kWordBits / words_.per_word());
  for (int64_t group = 0; group < groups(); ++group) {
    for (int64_t output = 0; output < parts_.outputs; ++output) {
      const int64_t zero = words_.Zero(output, group);
      low = std::min(low, -zero);
      high = std::max(high, range - 1 - zero);
    }
  }
  if (low >= -8 && high <= 7 && (symmetric_ || range < 16))
    return DType::kQ4_0;
  if (low >= -16 && high <= 15)
    return DType::kQ5_0;
  return low >= -128 && high <= 127 ? DType::kQ8_0 : DType::kF32;
}

void Unpacker::PutFloats(std::byte* out) const {
  for (size_t i = 0; i < row_.size(); ++i) {
    const float value = row_scale_[i] * static_cast<float>(row_[i]);
    std::memcpy(out + i * sizeof(float), &value, sizeof(float));
  }
}

void SetValues(const int32_t* values, BlockQ4_0& block) {
  for (int j = 0; j < 16; ++j)
    block.qs[j] = static_cast<uint8_t>((values[j] + 8) | (values[j + 16] + 8) << 4);
}

void SetValues(const int32_t* values, BlockQ5_0& block) {
  uint32_t high = 0;
  for (int j = 0; j < 32; ++j)
    high |= static_cast<uint32_t>((values[j] + 16) >> 4) << j;
  std::memcpy(block.qh, &high, sizeof(high));
  for (int j = 0; j < 16; ++j)
    block.qs[j] = static_cast<uint8_t>(((values[j] + 16) & 15) | ((values[j + 16] + 16) & 15) << 4);
}

void SetValues(const int32_t* values, BlockQ8_0& block) {
  for (int j = 0; j < 32; ++j)
    block.qs[j] = static_cast<int8_t>(values[j]);
}

template <class Block>
void Unpacker::PutBlocks(std::byte* out) const {
  for (size_t i = 0; i < row_.size(); i += kBlock) {
    Block block;
    block.d = F32ToF16(row_scale_[i]);
    SetValues(&row_[i], block);
    std::memcpy(out + i / kBlock * sizeof(Block), &block, sizeof(Block));
  }
}

Result<UnpackedMatrix> Unpacker::Run(ColumnOrder columns) {
  UnpackedMatrix matrix;
  if (columns == ColumnOrder::kSorted && !GroupsAreBlocks())
    SortColumns();
  matrix.dtype = Choose();
  if (matrix.dtype == DType::kF32)
    order_.clear();
  const auto row_bytes = static_cast<size_t>(DTypeRowBytes(matrix.dtype, parts_.inputs));
  TENON_ASSIGN_OR_RETURN(matrix.buffer,
                         Buffer::Allocate(row_bytes * static_cast<size_t>(parts_.outputs)));
  row_.resize(static_cast<size_t>(parts_.inputs));
  row_scale_.resize(static_cast<size_t>(parts_.inputs));
  for (int64_t output = 0; output < parts_.outputs; ++output) {
    FillRow(output);
    std::byte* out = matrix.buffer.data() + static_cast<size_t>(output) * row_bytes;
    if (matrix.dtype == DType::kQ4_0)
      PutBlocks<BlockQ4_0>(out);
    else if (matrix.dtype == DType::kQ5_0)
      PutBlocks<BlockQ5_0>(out);
    else if (matrix.dtype == DType::kQ8_0)
      PutBlocks<BlockQ8_0>(out);
    else
      PutFloats(out);
  }
  matrix.order = std::move(order_);
  return matrix;
}

}  // namespace

Result<PackedFormat> ReadPackedFormat(const JsonValue& config, std::string_view method) {
  TENON_ASSIGN_OR_RETURN(PackedFormat format, method == "awq" ? ReadAwq(config) : ReadGptq(config));
  if (format.group_size == -1 || (format.group_size > 0 && format.group_size <= INT32_MAX))
    return format;
  return config.Member("group_size", config.element())
      .Wrong(fmt::format("{} found, -1 or a number of inputs expected", format.group_size));
}

Status CheckCompressedTensors(const JsonValue& config) {
  constexpr std::array<std::string_view, 5> kKnown = {
      "pack-quantized", "int-quantized", "naive-quantized", "float-quantized", "mixed-precision"};
  TENON_ASSIGN_OR_RETURN(const std::string format, config.StringOr("format", "dense"));
  if (std::ranges::find(kKnown, format) == kKnown.end())
    return config.Member("format", config.element())
        .NotSupported(fmt::format("'{}'; known are {}", format, fmt::join(kKnown, ", ")));
  TENON_ASSIGN_OR_RETURN(const std::string status,
                         config.StringOr("quantization_status", "compressed"));
  if (status != "compressed")
    return config.Member("quantization_status", config.element())
        .NotSupported(fmt::format("'{}'; 'compressed' expected", status));
  for (const std::string_view key : {"sparsity_config", "transform_config"}) {
    const auto other = config.Find(key);
    const bool empty = !other || (other->IsObject() && other->Object()->size() == 0);
    if (empty)
      continue;
    TENON_ASSIGN_OR_RETURN(const std::string kind, other->StringOr("format", "set"));
    if (kind != "dense")
      return other->NotSupported(fmt::format("'{}'", kind));
  }
  return {};
}

Result<UnpackedMatrix> UnpackMatrix(const PackedFormat& format, const PackedParts& parts,
                                    ColumnOrder columns) {
  Unpacker unpacker(format, parts);
  TENON_RETURN_IF_ERROR(unpacker.Check());
  return unpacker.Run(columns);
}

}  // namespace tenon

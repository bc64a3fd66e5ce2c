// Matrices of small integers with scales and zero points for groups of columns, as checkpoints of
// GPTQ (arXiv 2210.17323), AWQ (arXiv 2306.00978) and the compressed-tensors package store them.
//
// A weight of output o and input i is scales[g(i)][o] * (q[i][o] - zero[g(i)][o]).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/json/json_document.h"
#include "tensor/buffer.h"
#include "tensor/dtype.h"

namespace tenon {

// How integers lie in 32-bit words, lowest bits first.
enum class PackedLayout : uint8_t {
  kGptq,   // qweight [inputs / n, outputs]: a word holds n inputs of one output
  kAwq,    // qweight [inputs, outputs / n]: a word holds n outputs, even ones first
  kRows,   // weight_packed [outputs, inputs / n]: a word holds n inputs; zero points n outputs
  kBytes,  // weight [outputs, inputs] of signed bytes, as are zero points
};

// What config.json's quantization_config, quantize_config.json or quant_config.json says.
struct PackedFormat {
  PackedLayout layout = PackedLayout::kGptq;
  int64_t bits = 4;
  int64_t group_size = 128;  // inputs; -1: all
  int64_t zero_addend = 0;   // files of GPTQ's first version store zero points less 1
  bool symmetric = false;    // zero points are half the range
};

// `method` is "gptq" or "awq". kUnsupported for formats of other layouts, and for bits other than
// 2, 4 and 8.
Result<PackedFormat> ReadPackedFormat(const JsonValue& config, std::string_view method);

// Of compressed-tensors, whose files say of each matrix what it is: no layout or size, but that
// nothing is in a format that is not known (kUnsupported).
Status CheckCompressedTensors(const JsonValue& config);

// The parts of one matrix, as the file has them; a word is 4 bytes.
struct PackedParts {
  std::span<const std::byte> qweight;
  // [groups, outputs / n]; kRows: [outputs / n, groups], kBytes: [outputs, groups], both may be
  // empty: half the range.
  std::span<const std::byte> qzeros;
  std::vector<float> scales;    // [groups, outputs]; kRows and kBytes: [outputs, groups]
  std::vector<int32_t> groups;  // [inputs] each input's group; empty: in order
  int64_t inputs = 0;
  int64_t outputs = 0;
};

// Where groups are not whole blocks of neighbouring inputs, as with desc_act: kSorted puts the
// inputs of a group side by side, if that makes whole blocks.
enum class ColumnOrder : uint8_t { kOfFile, kSorted };

struct UnpackedMatrix {
  DType dtype = DType::kF32;
  Buffer buffer;               // [outputs] rows of `inputs` values
  std::vector<int32_t> order;  // [inputs] the input that each column is for; empty: its own
};

// The same values, exactly, in the smallest block format that holds them: Q4_0, Q5_0 or Q8_0, a
// group's scale repeated in its blocks; or as F32, where groups are not whole blocks of inputs, a
// scale is no F16 or a value no 8-bit integer. kCorrupt when sizes don't fit each other.
Result<UnpackedMatrix> UnpackMatrix(const PackedFormat& format, const PackedParts& parts,
                                    ColumnOrder columns);

}  // namespace tenon

// Small integers as the compressed-tensors package stores them: "pack-quantized" (eight 4-bit
// values in a word, each plus 8) and "int-quantized" (8-bit values), with a scale for each group of
// inputs or for each row, and the quantization_config that describes them.
//
// The values are exactly those of Q4_0 and Q8_0. Threading: free functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "frontend/convert/tensor_supply.h"

namespace tenon {

// How the weights of some modules are stored.
struct PackedScheme {
  int bits = 4;
  int64_t group = 32;  // inputs; 0: all of a row

  auto operator<=>(const PackedScheme&) const = default;
};

// Whether the form has a packed one: Q4_0 and Q8_0 in rows of whole groups.
bool HasPackedForm(const TensorForm& form, int64_t columns);
PackedScheme SchemeOf(const TensorForm& form);

// One row of blocks to its integers, packed. `out` is 4 bytes for 8 values, or a byte a value.
void PackRow(DType dtype, std::span<const std::byte> row, std::span<std::byte> out);

// The scales of one row. kInternal when inputs of one group have several.
Result<std::vector<float>> RowScales(const TensorForm& form, std::span<const std::byte> row);

struct PackedModules {
  std::map<PackedScheme, std::vector<std::string>> by_scheme;
  std::vector<std::string> ignored;  // linear modules that stay floats
  int activation_bits = 0;           // 8: activations are rounded too, token by token
};

// The member "quantization_config" of config.json.
nlohmann::ordered_json QuantizationConfig(const PackedModules& modules);

}  // namespace tenon

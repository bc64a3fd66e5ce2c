#include "hal/kv_type.h"

#include <fmt/format.h>

namespace tenon {
namespace {

struct NamedType {
  std::string_view name;
  KvType type;
};

// The first name of a type is its own one.
constexpr NamedType kNames[] = {
    {"f32", KvType::kF32},     {"f16", KvType::kF16},      {"bf16", KvType::kBF16},
    {"q8", KvType::kQ8},       {"q4", KvType::kQ4},        {"nf4", KvType::kNf4},
    {"hier", KvType::kHier},   {"q8_0", KvType::kQ8},      {"q4_0", KvType::kQ4},
    {"8bit_int", KvType::kQ8}, {"int8", KvType::kQ8},      {"4bit_int", KvType::kQ4},
    {"int4", KvType::kQ4},     {"4bit_nf4", KvType::kNf4}, {"8bit_hier", KvType::kHier},
    {"8bit", KvType::kQ8},     {"4bit", KvType::kQ4},      {"hierarchical", KvType::kHier},
};

}  // namespace

std::string_view KvTypeName(KvType type) {
  for (const NamedType& named : kNames) {
    if (named.type == type)
      return named.name;
  }
  return "?";
}

Result<KvType> ParseKvType(std::string_view name) {
  for (const NamedType& named : kNames) {
    if (named.name == name)
      return named.type;
  }
  return InvalidArgument(fmt::format(
      "KV cache type '{}'; known are f32, f16, bf16, q8 (q8_0, 8bit), q4 (q4_0, 4bit), nf4 "
      "(4bit_nf4), hier (hierarchical)",
      name));
}

}  // namespace tenon

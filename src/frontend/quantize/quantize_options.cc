#include "frontend/quantize/quantize_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace tenon {
namespace {

struct NamedMethod {
  std::string_view name;
  QuantizeMethod method;
};
constexpr std::array kMethods = {
    NamedMethod{"rtn", QuantizeMethod::kRtn},
    NamedMethod{"gptq", QuantizeMethod::kGptq},
    NamedMethod{"awq", QuantizeMethod::kAwq},
    NamedMethod{"haq", QuantizeMethod::kHaq},
    NamedMethod{"k-quant", QuantizeMethod::kKQuant},
    NamedMethod{"smoothquant", QuantizeMethod::kSmoothQuant},
};

// `file_type` is GGUF's number for a file that is mostly of this format.
struct NamedType {
  std::string_view name;
  DType dtype;
  int bits;
  bool mixed;
  uint32_t file_type;
};
constexpr std::array kTypes = {
    NamedType{"q4_0", DType::kQ4_0, 4, false, 2},  NamedType{"q4_1", DType::kQ4_1, 4, false, 3},
    NamedType{"q5_0", DType::kQ5_0, 5, false, 8},  NamedType{"q5_1", DType::kQ5_1, 5, false, 9},
    NamedType{"q8_0", DType::kQ8_0, 8, false, 7},  NamedType{"q2_k", DType::kQ2_K, 2, false, 10},
    NamedType{"q3_k", DType::kQ3_K, 3, false, 11}, NamedType{"q3_k_m", DType::kQ3_K, 3, true, 12},
    NamedType{"q4_k", DType::kQ4_K, 4, false, 14}, NamedType{"q4_k_m", DType::kQ4_K, 4, true, 15},
    NamedType{"q5_k", DType::kQ5_K, 5, false, 16}, NamedType{"q5_k_m", DType::kQ5_K, 5, true, 17},
    NamedType{"q6_k", DType::kQ6_K, 6, false, 18},
};

Result<NamedType> FindType(std::string_view name) {
  const auto found = std::find_if(kTypes.begin(), kTypes.end(),
                                  [&](const NamedType& type) { return type.name == name; });
  if (found != kTypes.end())
    return *found;
  std::string known;
  for (const NamedType& type : kTypes)
    known += fmt::format("{}{}", known.empty() ? "" : ", ", type.name);
  return InvalidArgument(fmt::format("no format is named '{}'; known are {}", name, known),
                         "--type");
}

Result<NamedType> TypeOf(const QuantizeOptions& options) {
  if (!options.type.empty())
    return FindType(options.type);
  const bool k_quant = options.method == QuantizeMethod::kKQuant;
  switch (options.weight_bits) {
    case 8:
      return FindType("q8_0");
    case 4:
      return FindType(k_quant ? "q4_k_m" : "q4_0");
    case 3:
      return FindType(k_quant ? "q3_k_m" : "q3_k");
    default:
      return InvalidArgument(
          fmt::format("weights of {} bits; 8, 4 and 3 are known", options.weight_bits), "--w-bits");
  }
}

// N of "blk.N.name"; -1 for other names.
int64_t LayerOf(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  int64_t layer = -1;
  if (name.starts_with(kPrefix))
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), layer);
  return layer;
}

// The layers whose value and down projections get more bits in llama.cpp's mixes: the first and
// last eighth, and every third between.
bool GetsMoreBits(int64_t layer, int64_t layers) {
  const int64_t eighth = layers / 8;
  return layer >= 0 && (layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2);
}

// A format with small blocks for rows that super blocks do not fit, with as many bits or more.
DType WithSmallBlocks(DType dtype) {
  switch (dtype) {
    case DType::kQ2_K:
    case DType::kQ3_K:
      return DType::kQ4_0;
    case DType::kQ4_K:
      return DType::kQ5_0;
    case DType::kQ5_K:
      return DType::kQ5_1;
    case DType::kQ6_K:
      return DType::kQ8_0;
    default:
      return dtype;
  }
}

bool IsOutput(std::string_view name) {
  return name == "output.weight";
}

// Next to nothing in size, and what it chooses is all or nothing.
bool IsRouter(std::string_view name) {
  return name.ends_with("ffn_gate_inp.weight") || name.ends_with("ffn_gate_inp_shexp.weight");
}

bool IsEmbedding(std::string_view name) {
  return name == "token_embd.weight";
}

}  // namespace

Result<QuantizeMethod> ParseQuantizeMethod(std::string_view name) {
  for (const NamedMethod& method : kMethods) {
    if (method.name == name)
      return method.method;
  }
  return InvalidArgument(fmt::format("no method is named '{}'", name), "--method");
}

std::string_view QuantizeMethodName(QuantizeMethod method) {
  return std::find_if(kMethods.begin(), kMethods.end(),
                      [&](const NamedMethod& named) { return named.method == method; })
      ->name;
}

Result<TypePlan> TypePlan::Create(const QuantizeOptions& options, const ModelSource& source) {
  TENON_ASSIGN_OR_RETURN(const NamedType type, TypeOf(options));
  TypePlan plan;
  plan.base_ = type.dtype;
  plan.mixed_ = type.mixed;
  plan.bits_ = options.type.empty() ? std::min(type.bits, options.weight_bits) : type.bits;
  const bool whole_rows = type.dtype == DType::kQ8_0 && options.activation_bits == 8;
  plan.group_ = options.group_size >= 0 ? options.group_size : whole_rows ? 0 : 32;
  const bool searches = options.method == QuantizeMethod::kHaq ||
                        options.method == QuantizeMethod::kAwq ||
                        options.method == QuantizeMethod::kKQuant;
  plan.rule_ = searches ? ScaleRule::kSearch : ScaleRule::kRange;
  plan.layers_ = source.config.layer_count;
  plan.tied_ = source.Find("output.weight") == nullptr;
  TENON_RETURN_IF_ERROR(MakeGrid(plan.base_, plan.bits_, plan.group_, plan.rule_));
  return plan;
}

DType TypePlan::ContainerOf(const TensorInfo& tensor) const {
  // The head decides every token: six bits at least, as in llama.cpp's files.
  if (IsOutput(tensor.name) || (tied_ && IsEmbedding(tensor.name)))
    return base_ == DType::kQ8_0 ? DType::kQ8_0 : DType::kQ6_K;
  const std::string_view name = tensor.name;
  const bool sensitive = name.ends_with("attn_v.weight") || name.ends_with("ffn_down.weight") ||
                         name.ends_with("ffn_down_exps.weight");
  if (mixed_ && sensitive && GetsMoreBits(LayerOf(name), layers_))
    return DType::kQ6_K;
  return base_;
}

std::optional<GridSpec> TypePlan::GridOf(const TensorInfo& tensor) const {
  if (tensor.shape.size() < 2 || tensor.columns() % 32 != 0 || IsRouter(tensor.name))
    return std::nullopt;
  DType container = ContainerOf(tensor);
  if (GetDTypeInfo(container).block_elements > 32 && tensor.columns() % 256 != 0)
    container = WithSmallBlocks(container);
  const bool is_base = container == base_;
  const bool is_head = IsOutput(tensor.name) || IsEmbedding(tensor.name);
  int64_t group = is_base && !is_head ? group_ : 32;
  while (group > 32 && tensor.columns() % group != 0)
    group /= 2;
  if (group % 32 != 0 || (group > 0 && tensor.columns() % group != 0))
    group = 32;
  // Another format than the one asked for is used in full.
  for (int bits = is_base ? bits_ : 8; bits >= 2; --bits) {
    const auto grid = MakeGrid(container, bits, group, rule_);
    if (grid.ok())
      return *grid;
  }
  return std::nullopt;
}

uint32_t TypePlan::FileType() const {
  return std::find_if(
             kTypes.begin(), kTypes.end(),
             [&](const NamedType& type) { return type.dtype == base_ && type.mixed == mixed_; })
      ->file_type;
}

std::string TypePlan::Name() const {
  std::string name(DTypeName(base_));
  return mixed_ ? name + "_M" : name;
}

}  // namespace tenon

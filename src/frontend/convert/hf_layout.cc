#include "frontend/convert/hf_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

namespace tenon {
namespace {

// Frequency factors become the parameters of config.json.
constexpr std::string_view kFactors = "rope_freqs.weight";

// A tensor's name in a ModelSource: "blk.<layer>.<stem>.<kind>", or "<stem>.<kind>" with layer -1.
struct SourceName {
  int64_t layer = -1;
  std::string stem;
  std::string kind;
};

SourceName ParseName(std::string_view name) {
  constexpr std::string_view kBlock = "blk.";
  SourceName parsed;
  if (name.starts_with(kBlock)) {
    name.remove_prefix(kBlock.size());
    const size_t dot = name.find('.');
    const std::string_view digits = name.substr(0, dot);
    std::from_chars(digits.data(), digits.data() + digits.size(), parsed.layer);
    name.remove_prefix(dot == std::string_view::npos ? name.size() : dot + 1);
  }
  const size_t dot = name.rfind('.');
  parsed.stem = name.substr(0, dot);
  parsed.kind = dot == std::string_view::npos ? "" : name.substr(dot + 1);
  return parsed;
}

class Layouter {
 public:
  Layouter(const ModelSource& source, const HfFamily& family) : source_(source), family_(family) {}

  Result<std::vector<HfTensorLayout>> Run();

 private:
  using Stems = std::vector<std::string_view>;

  Status Place(const TensorInfo& tensor);
  Status PlaceExperts(const TensorInfo& tensor, const SourceName& name, std::string_view stem);
  Status Join(const SourceName& name, const Stems& parts, std::string_view module);
  // The module's name in the file; empty when the family has none.
  std::string Module(const SourceName& name) const;
  std::string InLayer(const SourceName& name, std::string_view module) const;
  bool IsPermuted(const SourceName& name) const;
  HfTensorLayout Plain(const TensorInfo& tensor, std::string name) const;
  void Unpermute(HfTensorLayout& layout) const;
  void RegroupByHead(HfTensorLayout& layout) const;
  const TensorInfo* Find(const SourceName& name, std::string_view stem) const {
    return source_.Find(fmt::format("blk.{}.{}.{}", name.layer, stem, name.kind));
  }

  const ModelSource& source_;
  const HfFamily& family_;
  std::vector<HfTensorLayout> layouts_;
};

std::string Layouter::InLayer(const SourceName& name, std::string_view module) const {
  // A BertModel is its own root.
  const std::string_view root = family_.name == "bert" ? "" : family_.root;
  return fmt::format("{}{}{}.{}", root, family_.layer_prefix, name.layer, module);
}

std::string Layouter::Module(const SourceName& name) const {
  const auto& names = name.layer < 0 ? family_.top_names : family_.layer_names;
  // Two families' routers share one table.
  const bool router = name.stem == "ffn_gate_inp";
  for (const HfName& entry : names) {
    if (entry.gguf != name.stem ||
        (router && !family_.expert_prefix.starts_with(entry.hf.substr(0, entry.hf.find('.') + 1))))
      continue;
    if (name.layer >= 0)
      return InLayer(name, entry.hf);
    const bool outside = name.stem == "output" || family_.name == "bert";
    return fmt::format("{}{}", outside ? "" : family_.root, entry.hf);
  }
  return {};
}

// GGUF's llama rotates neighbours, so its converters permute the rows of queries and keys.
bool Layouter::IsPermuted(const SourceName& name) const {
  return (name.stem == "attn_q" || name.stem == "attn_k") && source_.config.rope.interleaved &&
         family_.name != "deepseek2";
}

HfTensorLayout Layouter::Plain(const TensorInfo& tensor, std::string name) const {
  HfTensorLayout layout;
  layout.name = std::move(name);
  layout.shape = tensor.shape;
  const bool vector = tensor.shape.size() == 1;
  layout.rows = {{&tensor, 0, vector ? tensor.shape[0] : tensor.rows()}};
  if (family_.norms_from_one && tensor.name.ends_with("norm.weight"))
    layout.addend = -1.0F;
  layout.linear =
      !vector && !tensor.name.starts_with("token") && !tensor.name.starts_with("position") &&
      tensor.name.find("_inp") == std::string::npos && family_.matrices != HfMatrices::kFusedGpt2;
  return layout;
}

// File row p of a head is row 2p, or 2(p - d/2) + 1 in its second half.
void Layouter::Unpermute(HfTensorLayout& layout) const {
  const TensorInfo& tensor = *layout.rows.front().tensor;
  const int64_t dim = source_.config.head_dim;
  const int64_t rows = tensor.shape.front();
  layout.rows.clear();
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t p = row % dim;
    const int64_t from = p < dim / 2 ? 2 * p : 2 * (p - dim / 2) + 1;
    layout.rows.push_back({&tensor, row - p + from, 1});
  }
}

// From all queries, keys and values to query, key and value of one head after the other.
void Layouter::RegroupByHead(HfTensorLayout& layout) const {
  const std::vector<RowRange> parts = std::move(layout.rows);
  layout.rows.clear();
  const int64_t dim = source_.config.head_dim;
  for (int64_t head = 0; head < source_.config.head_count; ++head) {
    for (const RowRange& part : parts)
      layout.rows.push_back({part.tensor, part.first + head * dim, dim});
  }
}

// The matrix or bias of one module that holds several parts.
Status Layouter::Join(const SourceName& name, const Stems& parts, std::string_view module) {
  HfTensorLayout layout;
  for (const std::string_view part : parts) {
    const TensorInfo* tensor = Find(name, part);
    if (tensor == nullptr)
      return NotFound("the tensor is missing from the model",
                      fmt::format("blk.{}.{}.{}", name.layer, part, name.kind));
    if (layout.shape.empty()) {
      layout = Plain(*tensor, fmt::format("{}.{}", InLayer(name, module), name.kind));
      continue;
    }
    layout.shape[0] += tensor->shape[0];
    layout.rows.push_back({tensor, 0, tensor->shape[0]});
  }
  if (family_.matrices == HfMatrices::kFusedHeads)
    RegroupByHead(layout);
  layouts_.push_back(std::move(layout));
  return {};
}

Status Layouter::PlaceExperts(const TensorInfo& tensor, const SourceName& name,
                              std::string_view stem) {
  const auto found = std::ranges::find(family_.expert_names, stem, &HfName::gguf);
  if (found == family_.expert_names.end() || tensor.shape.size() != 3)
    return Unsupported(fmt::format("{} has no place for it", family_.architecture), tensor.name);
  const int64_t rows = tensor.shape[1];
  for (int64_t expert = 0; expert < tensor.shape[0]; ++expert) {
    HfTensorLayout layout;
    layout.name = InLayer(
        name, fmt::format("{}{}.{}.{}", family_.expert_prefix, expert, found->hf, name.kind));
    layout.shape = {rows, tensor.shape[2]};
    layout.rows = {{&tensor, expert * rows, rows}};
    layout.linear = true;
    layouts_.push_back(std::move(layout));
  }
  return {};
}

Status Layouter::Place(const TensorInfo& tensor) {
  constexpr std::string_view kStack = "_exps";
  const SourceName name = ParseName(tensor.name);
  if (name.stem.ends_with(kStack))
    return PlaceExperts(tensor, name,
                        std::string_view(name.stem).substr(0, name.stem.size() - kStack.size()));
  if (name.stem == "exp_probs_b") {
    layouts_.push_back(Plain(tensor, InLayer(name, "mlp.gate.e_score_correction_bias")));
    return {};
  }
  const bool phi3 = family_.matrices == HfMatrices::kFusedPhi3;
  const bool fused = family_.matrices != HfMatrices::kAsTheyAre;
  if (fused && (name.stem == "attn_k" || name.stem == "attn_v" || (phi3 && name.stem == "ffn_up")))
    return {};
  if (phi3 && name.stem == "ffn_gate")
    return Join(name, {"ffn_gate", "ffn_up"}, "mlp.gate_up_proj");
  if (fused && name.stem == "attn_q") {
    const auto whole = std::ranges::find(family_.layer_names, "attn_qkv", &HfName::gguf);
    return Join(name, {"attn_q", "attn_k", "attn_v"}, whole->hf);
  }
  const std::string module = Module(name);
  if (module.empty())
    return Unsupported(fmt::format("{} has no place for it", family_.architecture), tensor.name);
  layouts_.push_back(Plain(tensor, fmt::format("{}.{}", module, name.kind)));
  if (IsPermuted(name))
    Unpermute(layouts_.back());
  return {};
}

Result<std::vector<HfTensorLayout>> Layouter::Run() {
  for (const TensorInfo& tensor : source_.tensors) {
    if (tensor.name != kFactors)
      TENON_RETURN_IF_ERROR(Place(tensor));
  }
  if (family_.matrices == HfMatrices::kFusedGpt2) {
    for (HfTensorLayout& layout : layouts_) {
      layout.transposed = layout.shape.size() == 2 && layout.name.find(".h.") != std::string::npos;
      if (layout.transposed)
        std::swap(layout.shape[0], layout.shape[1]);
    }
  }
  return std::move(layouts_);
}

}  // namespace

Result<std::vector<HfTensorLayout>> LayOutHfTensors(const ModelSource& source,
                                                    const HfFamily& family) {
  return Layouter(source, family).Run();
}

Result<const HfFamily*> FindHfFamilyOf(const ModelConfig& config) {
  const std::string& name = config.architecture;
  if (name == "llama" && config.experts.count > 0)
    return FindHfFamily("MixtralForCausalLM");
  if (name == "llama")
    return FindHfFamily(config.sliding_window > 0 ? "MistralForCausalLM" : "LlamaForCausalLM");
  if (name == "deepseek2")
    return FindHfFamily(config.experts.sigmoid ? "DeepseekV3ForCausalLM" : "DeepseekV2ForCausalLM");
  if (const HfFamily* found = FindHfFamilyNamed(name))
    return found;
  return Unsupported(fmt::format("a Hugging Face directory of the architecture '{}'", name));
}

}  // namespace tenon

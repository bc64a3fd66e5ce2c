#include "tiny_model.h"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <numbers>
#include <sstream>

#include "quant/quantize.h"
#include "tiny_families.h"

namespace tenon::testing {
namespace {

// splitmix64 (Steele et al., 2014) of `x`.
uint64_t SplitMix(uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

// FNV-1a.
uint64_t HashName(std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325U;
  for (const char c : name)
    hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3U;
  return hash;
}

// Rows of each head from (p, p + head_dim/2) to (2p, 2p + 1). values [heads * head_dim, columns]
std::vector<float> Interleaved(const std::vector<float>& values, int64_t head_dim,
                               int64_t columns) {
  std::vector<float> out(values.size());
  const int64_t rows = static_cast<int64_t>(values.size()) / columns;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t in_head = row % head_dim;
    const int64_t from = row - in_head + (in_head % 2) * (head_dim / 2) + in_head / 2;
    for (int64_t c = 0; c < columns; ++c)
      out[static_cast<size_t>(row * columns + c)] = values[static_cast<size_t>(from * columns + c)];
  }
  return out;
}

// What llama3's rule divides each frequency by (transformers' _compute_llama3_parameters).
std::vector<float> Llama3Factors(const TinyCase& tiny) {
  std::vector<float> factors;
  const int64_t dims = tiny.Int("head_dim");
  const double factor = tiny.Float("factor");
  const double context = tiny.Float("original");
  const double low = tiny.Float("low");
  const double high = tiny.Float("high");
  for (int64_t i = 0; i < dims; i += 2) {
    const double turn = std::pow(static_cast<double>(tiny.Float("theta")),
                                 static_cast<double>(i) / static_cast<double>(dims));
    const double turns = context / (2.0 * std::numbers::pi * turn);  // within the old context
    const double kept = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    factors.push_back(static_cast<float>(1.0 / (kept + (1.0 - kept) / factor)));
  }
  return factors;
}

bool IsGemma(std::string_view arch) {
  return arch.starts_with("gemma");
}

enum class TinyLayout : uint8_t { kGguf, kHf };

class TensorList {
 public:
  TensorList(const TinyCase& tiny, TinyLayout layout)
      : tiny_(tiny), arch_(tiny.Text("arch")), layout_(layout) {}

  void Norm(const std::string& name, int64_t size) {
    const float offset = layout_ == TinyLayout::kHf && IsGemma(arch_) ? 0.0F : 1.0F;
    tensors.push_back({name, {size}, MadeValues(name, size, offset)});
  }
  void Matrix(const std::string& name, int64_t rows, int64_t columns) {
    tensors.push_back({name, {rows, columns}, MadeValues(name, rows * columns, 0.0F)});
  }
  void Stack(const std::string& name, int64_t rows, int64_t columns) {
    const int64_t experts = tiny_.Int("experts");
    tensors.push_back(
        {name, {experts, rows, columns}, MadeValues(name, experts * rows * columns, 0.0F)});
  }
  enum class Bias : uint8_t { kNo, kYes };
  void Linear(const std::string& name, int64_t rows, int64_t columns, Bias bias) {
    Matrix(name + ".weight", rows, columns);
    if (bias == Bias::kYes)
      tensors.push_back({name + ".bias", {rows}, MadeValues(name + ".bias", rows, 0.0F)});
  }
  void Block(int64_t layer);

  std::vector<TinyTensor> tensors;

 private:
  void AttentionTensors(const std::string& block);
  void FeedForwardTensors(const std::string& block);
  void ExpertTensors(const std::string& block);

  const TinyCase& tiny_;
  std::string arch_;
  TinyLayout layout_;
};

void TensorList::AttentionTensors(const std::string& block) {
  const int64_t hidden = tiny_.Int("hidden");
  const int64_t head_dim = tiny_.Int("head_dim");
  const int64_t q_rows = tiny_.Int("heads") * head_dim;
  const int64_t kv_rows = tiny_.Int("kv_heads") * head_dim;
  const Bias all = tiny_.Has("linear_bias") ? Bias::kYes : Bias::kNo;
  const Bias qkv = arch_ == "qwen2" || arch_ == "qwen2moe" ? Bias::kYes : all;
  // Phi-3's three are one matrix.
  if (arch_ == "phi3") {
    Matrix(block + "attn_qkv.weight", q_rows + 2 * kv_rows, hidden);
    Matrix(block + "attn_output.weight", hidden, q_rows);
    return;
  }
  const size_t first = tensors.size();
  Linear(block + "attn_q", q_rows, hidden, qkv);
  Linear(block + "attn_k", kv_rows, hidden, qkv);
  if (layout_ == TinyLayout::kGguf &&
      (arch_ == "llama" || arch_ == "granite" || arch_ == "mixtral")) {
    for (size_t i = first; i < tensors.size(); ++i) {
      const int64_t columns = tensors[i].shape.size() == 2 ? hidden : 1;
      tensors[i].values = Interleaved(tensors[i].values, head_dim, columns);
    }
  }
  Linear(block + "attn_v", kv_rows, hidden, qkv);
  Linear(block + "attn_output", hidden, q_rows, all);
  if (arch_ == "qwen3" || arch_ == "gemma3" || arch_ == "qwen3moe") {
    Norm(block + "attn_q_norm.weight", head_dim);
    Norm(block + "attn_k_norm.weight", head_dim);
  }
  if (arch_ == "olmoe") {
    Norm(block + "attn_q_norm.weight", q_rows);
    Norm(block + "attn_k_norm.weight", kv_rows);
  }
}

void TensorList::ExpertTensors(const std::string& block) {
  const int64_t hidden = tiny_.Int("hidden");
  const int64_t ffn = tiny_.Int("expert_ffn");
  Matrix(block + "ffn_gate_inp.weight", tiny_.Int("experts"), hidden);
  Stack(block + "ffn_gate_exps.weight", ffn, hidden);
  Stack(block + "ffn_up_exps.weight", ffn, hidden);
  Stack(block + "ffn_down_exps.weight", hidden, ffn);
  if (!tiny_.Has("shared_ffn"))
    return;
  const int64_t shared = tiny_.Int("shared_ffn");
  Matrix(block + "ffn_gate_inp_shexp.weight", 1, hidden);
  Matrix(block + "ffn_gate_shexp.weight", shared, hidden);
  Matrix(block + "ffn_up_shexp.weight", shared, hidden);
  Matrix(block + "ffn_down_shexp.weight", hidden, shared);
}

void TensorList::FeedForwardTensors(const std::string& block) {
  const int64_t hidden = tiny_.Int("hidden");
  const int64_t ffn = tiny_.Int("ffn");
  const Bias bias = tiny_.Has("linear_bias") ? Bias::kYes : Bias::kNo;
  if (arch_ == "phi3") {
    Matrix(block + "ffn_up.weight", 2 * ffn, hidden);
  } else {
    Linear(block + "ffn_gate", ffn, hidden, bias);
    Linear(block + "ffn_up", ffn, hidden, bias);
  }
  Linear(block + "ffn_down", hidden, ffn, bias);
}

void TensorList::Block(int64_t layer) {
  const std::string block = fmt::format("blk.{}.", layer);
  const int64_t hidden = tiny_.Int("hidden");
  Norm(block + "attn_norm.weight", hidden);
  AttentionTensors(block);
  Norm(block + "ffn_norm.weight", hidden);
  if (tiny_.Has("experts"))
    ExpertTensors(block);
  else
    FeedForwardTensors(block);
  if (IsGemma(arch_)) {
    Norm(block + "post_attention_norm.weight", hidden);
    Norm(block + "post_ffw_norm.weight", hidden);
  }
}

// Keys of the expanded form, as older converters write them, but with a group's keys of newer ones.
void SetDeepseek(const TinyCase& tiny, const std::string& arch, GgufWriter& writer) {
  const bool v3 = tiny.Text("arch") == "deepseek3";
  const auto size = [&](const char* key, int64_t value) {
    writer.Set(arch + "." + key, static_cast<uint32_t>(value));
  };
  size("attention.key_length", tiny.Int("plain_dim") + tiny.Int("rotary_dim"));
  size("attention.value_length", tiny.Int("value_dim"));
  size("rope.dimension_count", tiny.Int("rotary_dim"));
  size("expert_gating_func", v3 ? 2 : 1);
  writer.Set(arch + ".expert_weights_norm", v3);
  writer.Set(arch + ".expert_weights_scale", tiny.Float("scale"));
  const std::pair<const char*, const char*> sizes[] = {
      {"attention.q_lora_rank", "query_rank"}, {"attention.kv_lora_rank", "kv_rank"},
      {"expert_shared_count", "shared"},       {"leading_dense_block_count", "dense"},
      {"expert_group_count", "groups"},        {"expert_group_used_count", "used_groups"}};
  for (const auto& [key, setting] : sizes) {
    if (tiny.Has(setting))
      size(key, tiny.Int(setting));
  }
}

void SetSizes(const TinyCase& tiny, const std::string& arch, GgufWriter& writer) {
  const std::pair<const char*, const char*> sizes[] = {
      {"block_count", "layers"},
      {"context_length", "context"},
      {"embedding_length", "hidden"},
      {"feed_forward_length", "ffn"},
      {"attention.head_count", "heads"},
      {"attention.head_count_kv", "kv_heads"},
      {"attention.key_length", "head_dim"},
      {"attention.value_length", "head_dim"},
      {"attention.sliding_window", "window"},
      {"expert_count", "experts"},
      {"expert_used_count", "used"},
      {"expert_feed_forward_length", "expert_ffn"},
      {"expert_shared_feed_forward_length", "shared_ffn"},
  };
  for (const auto& [key, setting] : sizes) {
    if (tiny.Has(setting))
      writer.Set(arch + "." + key, static_cast<uint32_t>(tiny.Int(setting)));
  }
  if (IsTinyDeepseek(tiny.Text("arch")))
    SetDeepseek(tiny, arch, writer);
  const std::string eps = IsTinyPlain(arch) ? "layer_norm_epsilon" : "layer_norm_rms_epsilon";
  writer.Set(arch + ".attention." + eps, tiny.Float("eps"));
  if (tiny.Has("parallel"))
    writer.Set(arch + ".use_parallel_residual", tiny.Int("parallel") != 0);
  const std::pair<const char*, const char*> factors[] = {
      {"attn_logit_softcapping", "attention_cap"}, {"final_logit_softcapping", "final_cap"},
      {"embedding_scale", "embedding_multiplier"}, {"residual_scale", "residual_multiplier"},
      {"attention.scale", "attention_multiplier"}, {"logit_scale", "logits_scaling"},
  };
  for (const auto& [key, setting] : factors) {
    if (tiny.Has(setting))
      writer.Set(arch + "." + key, tiny.Float(setting));
  }
}

void SetRope(const TinyCase& tiny, const std::string& arch, GgufWriter& writer) {
  if (tiny.Has("theta"))
    writer.Set(arch + ".rope.freq_base", tiny.Float("theta"));
  if (tiny.Has("partial")) {
    const float dims = tiny.Float("partial") * static_cast<float>(tiny.Int("head_dim"));
    writer.Set(arch + ".rope.dimension_count", static_cast<uint32_t>(dims));
  }
  if (!tiny.Has("rope") || tiny.Text("rope") == "llama3")
    return;
  writer.Set(arch + ".rope.scaling.type", tiny.Text("rope").c_str());
  writer.Set(arch + ".rope.scaling.factor", tiny.Float("factor"));
  if (tiny.Text("rope") != "yarn")
    return;
  writer.Set(arch + ".rope.scaling.original_context_length",
             static_cast<uint32_t>(tiny.Int("original")));
  writer.Set(arch + ".rope.scaling.yarn_beta_fast", tiny.Float("beta_fast"));
  writer.Set(arch + ".rope.scaling.yarn_beta_slow", tiny.Float("beta_slow"));
}

void ReadLine(std::istringstream& words, std::vector<TinyCase>& cases) {
  std::string kind;
  words >> kind;
  if (kind == "case") {
    words >> cases.emplace_back().name;
  } else if (kind == "set") {
    std::string key;
    words >> key;
    words >> cases.back().settings[key];
  } else if (kind == "config") {
    std::getline(words, cases.back().config);
  } else if (kind == "tensor") {
    TinyCase::Listed& tensor = cases.back().tensors.emplace_back();
    words >> tensor.gguf >> tensor.hf;
    for (int64_t extent = 0; words >> extent;)
      tensor.shape.push_back(extent);
  } else if (kind == "tokens") {
    for (int32_t id = 0; words >> id;)
      cases.back().tokens.push_back(id);
  } else if (kind == "position") {
    auto& [position, logits] = cases.back().positions.emplace_back();
    words >> position;
    for (float logit = 0.0F; words >> logit;)
      logits.push_back(logit);
  }
}

}  // namespace

std::vector<float> MadeValues(const std::string& name, int64_t count, float offset) {
  std::vector<float> values;
  const uint64_t seed = HashName(name);
  for (uint64_t i = 0; i < static_cast<uint64_t>(count); ++i) {
    const auto top = static_cast<int32_t>(SplitMix(seed + i) >> 54);
    values.push_back(static_cast<float>(top - 512) / 2048.0F + offset);
  }
  return values;
}

std::vector<TinyCase> ReadTinyCases() {
  std::vector<TinyCase> cases;
  std::ifstream file("tests/data/arch_golden.txt");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    ReadLine(words, cases);
  }
  return cases;
}

TinyCase FindTinyCase(std::string_view name) {
  for (TinyCase& tiny : ReadTinyCases()) {
    if (tiny.name == name)
      return std::move(tiny);
  }
  return {};
}

namespace {

std::vector<TinyTensor> FamilyTensors(const TinyCase& tiny, TinyLayout layout) {
  std::vector<TinyTensor> tensors =
      IsTinyPlain(tiny.Text("arch")) ? TinyPlainTensors(tiny) : TinyDeepseekTensors(tiny);
  for (TinyTensor& tensor : tensors) {
    if (layout == TinyLayout::kHf)
      ToHfLayout(tiny, tensor);
  }
  return tensors;
}

// Of a case whose tensors the file lists.
std::vector<TinyTensor> ListedTensors(const TinyCase& tiny, TinyLayout layout) {
  const bool permuted = layout == TinyLayout::kGguf && tiny.Has("pairs");
  std::vector<TinyTensor> tensors;
  for (const auto& [name, hf, shape] : tiny.tensors) {
    const int64_t columns = shape.size() == 1 ? 1 : shape[1];
    const float offset = name.ends_with("norm.weight") ? 1.0F : 0.0F;
    TinyTensor tensor{name, shape, MadeValues(name, shape[0] * columns, offset)};
    if (permuted &&
        (name.find(".attn_q.") != std::string::npos || name.find(".attn_k.") != std::string::npos))
      tensor.values = Interleaved(tensor.values, tiny.Int("head_dim"), columns);
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

std::vector<TinyTensor> MadeTensors(const TinyCase& tiny, TinyLayout layout) {
  if (!tiny.tensors.empty())
    return ListedTensors(tiny, layout);
  if (IsTinyPlain(tiny.Text("arch")) || IsTinyDeepseek(tiny.Text("arch")))
    return FamilyTensors(tiny, layout);
  TensorList list(tiny, layout);
  list.Matrix("token_embd.weight", tiny.Int("vocab"), tiny.Int("hidden"));
  for (int64_t layer = 0; layer < tiny.Int("layers"); ++layer)
    list.Block(layer);
  list.Norm("output_norm.weight", tiny.Int("hidden"));
  if (tiny.Int("tied") == 0)
    list.Matrix("output.weight", tiny.Int("vocab"), tiny.Int("hidden"));
  if (layout == TinyLayout::kGguf && tiny.Has("rope") && tiny.Text("rope") == "llama3")
    list.tensors.push_back({"rope_freqs.weight", {tiny.Int("head_dim") / 2}, Llama3Factors(tiny)});
  return list.tensors;
}

}  // namespace

std::vector<TinyTensor> TinyTensors(const TinyCase& tiny) {
  return MadeTensors(tiny, TinyLayout::kGguf);
}

std::vector<TinyTensor> TinyHfTensors(const TinyCase& tiny) {
  return MadeTensors(tiny, TinyLayout::kHf);
}

std::vector<TinyTensor> SplitExperts(const std::vector<TinyTensor>& tensors) {
  std::vector<TinyTensor> split;
  for (const TinyTensor& tensor : tensors) {
    const size_t suffix = tensor.name.find("_exps.weight");
    if (suffix == std::string::npos) {
      split.push_back(tensor);
      continue;
    }
    const auto size = static_cast<int64_t>(tensor.values.size()) / tensor.shape[0];
    for (int64_t expert = 0; expert < tensor.shape[0]; ++expert) {
      const auto begin = tensor.values.begin() + expert * size;
      split.push_back({fmt::format("{}.{}.weight", tensor.name.substr(0, suffix), expert),
                       {tensor.shape[1], tensor.shape[2]},
                       {begin, begin + size}});
    }
  }
  return split;
}

std::vector<TinyTensor> SplitLatents(const TinyCase& tiny, const std::vector<TinyTensor>& tensors) {
  const auto heads = tiny.Int("heads");
  const auto plain = static_cast<size_t>(tiny.Int("plain_dim"));
  const auto wide = static_cast<size_t>(tiny.Int("value_dim"));
  const auto rank = static_cast<size_t>(tiny.Int("kv_rank"));
  std::vector<TinyTensor> split;
  for (const TinyTensor& tensor : tensors) {
    const size_t at = tensor.name.find("attn_kv_b.weight");
    if (at == std::string::npos) {
      split.push_back(tensor);
      continue;
    }
    const std::string block = tensor.name.substr(0, at);
    TinyTensor k{
        block + "attn_k_b.weight", {heads, tiny.Int("kv_rank"), tiny.Int("plain_dim")}, {}};
    TinyTensor v{
        block + "attn_v_b.weight", {heads, tiny.Int("value_dim"), tiny.Int("kv_rank")}, {}};
    for (size_t head = 0; head < static_cast<size_t>(heads); ++head) {
      const auto first =
          tensor.values.begin() + static_cast<std::ptrdiff_t>(head * (plain + wide) * rank);
      for (size_t i = 0; i < rank; ++i) {
        for (size_t row = 0; row < plain; ++row)
          k.values.push_back(first[static_cast<std::ptrdiff_t>(row * rank + i)]);
      }
      v.values.insert(v.values.end(), first + static_cast<std::ptrdiff_t>(plain * rank),
                      first + static_cast<std::ptrdiff_t>((plain + wide) * rank));
    }
    split.push_back(std::move(k));
    split.push_back(std::move(v));
  }
  return split;
}

namespace {

uint32_t GgmlTypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 1;
    case DType::kQ4_0:
      return 2;
    case DType::kQ8_0:
      return 8;
    default:
      return 0;
  }
}

Bytes Encoded(const TinyTensor& tensor, DType dtype) {
  const auto columns = static_cast<size_t>(tensor.shape.back());
  const auto row_bytes = static_cast<size_t>(DTypeRowBytes(dtype, tensor.shape.back()));
  Bytes bytes(tensor.values.size() / columns * row_bytes);
  for (size_t row = 0; row < tensor.values.size() / columns; ++row) {
    QuantizeRow(dtype, std::span(tensor.values).subspan(row * columns, columns),
                std::span(bytes).subspan(row * row_bytes, row_bytes));
  }
  return bytes;
}

}  // namespace

Bytes TinyGguf(const TinyCase& tiny, const std::vector<TinyTensor>& tensors, DType matrices) {
  // GGUF has no name for Mixtral.
  std::string arch = tiny.Text("arch") == "mixtral" ? "llama" : tiny.Text("arch");
  if (IsTinyDeepseek(arch))
    arch = "deepseek2";
  GgufWriter writer;
  writer.Set("general.architecture", arch.c_str()).Set("general.name", tiny.name.c_str());
  SetSizes(tiny, arch, writer);
  SetRope(tiny, arch, writer);
  Bytes data;
  for (const TinyTensor& tensor : tensors) {
    const bool plain =
        tensor.shape.size() == 1 || tensor.name.find("ffn_gate_inp") != std::string::npos;
    const DType dtype = plain ? DType::kF32 : matrices;
    const Bytes bytes = Encoded(tensor, dtype);
    writer.Add({tensor.name,
                {tensor.shape.rbegin(), tensor.shape.rend()},
                GgmlTypeOf(dtype),
                bytes.size()});
    PutRaw(data, bytes.data(), bytes.size());
    data.resize((data.size() + writer.alignment - 1) / writer.alignment * writer.alignment);
  }
  // The writer's data section, made-up bytes of the same layout, is the end of the file.
  Bytes file = writer.Build();
  std::memcpy(file.data() + file.size() - data.size(), data.data(), data.size());
  return file;
}

}  // namespace tenon::testing

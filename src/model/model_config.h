// ModelConfig: the hyperparameters of a decoder, in one vocabulary for all file formats.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

enum class RopeScaling : uint8_t { kNone, kLinear, kLlama3, kYarn };

// Rotary position embedding (arXiv 2104.09864) and its context extensions (linear: 2306.15595,
// YaRN: 2309.00071; llama3: the "rope_type": "llama3" rule of Llama 3.1).
struct RopeConfig {
  float base = 10000.0F;     // theta
  int64_t rotary_dim = 0;    // leading values of a head that are rotated, even
  bool interleaved = false;  // pairs (2p, 2p+1) as GGUF's llama family; else (p, p + rotary_dim/2)
  RopeScaling scaling = RopeScaling::kNone;
  float factor = 1.0F;            // context extension: positions or frequencies divided by it
  int64_t original_context = 0;   // context the model was trained with (yarn, llama3)
  float low_freq_factor = 1.0F;   // llama3
  float high_freq_factor = 4.0F;  // llama3
  float beta_fast = 32.0F;        // yarn
  float beta_slow = 1.0F;         // yarn
  float ext_factor = 1.0F;        // yarn: share of extrapolation mixing
  float attention_factor = 0.0F;  // yarn: magnitude of cos and sin; 0: 1 + 0.1 ln(factor)

  bool operator==(const RopeConfig&) const = default;
};

// Of feed-forward networks. kGelu is the tanh form, kGeluErf the exact one.
enum class Activation : uint8_t { kSilu, kGelu, kGeluErf, kRelu };

// Mixture of experts: which layers have one, its sizes, and how its router chooses (RouteAttrs of
// graph/ops/attrs.h).
struct ExpertConfig {
  int64_t count = 0;  // experts of a layer; 0: the model has none
  int64_t used = 0;   // experts that each token is sent to
  int64_t ffn_size = 0;
  int64_t shared_ffn_size = 0;  // of the experts that every token goes through, together
  bool sigmoid = false;         // scores
  bool normalized = false;      // the chosen weights add up to 1
  float scale = 1.0F;
  int64_t groups = 1;
  int64_t used_groups = 1;
  int64_t group_best = 1;
  std::vector<bool> dense_layers;  // layers with a plain feed-forward network; empty: none

  bool operator==(const ExpertConfig&) const = default;
};

// Latent attention (DeepSeek-V2, arXiv 2405.04434): queries, and keys with values, go through a
// narrow latent; a head's query and key have a part with and a part without positions.
struct LatentConfig {
  int64_t query_rank = 0;  // 0: queries have no latent
  int64_t kv_rank = 0;
  int64_t plain_dim = 0;   // of a head's key, without positions
  int64_t rotary_dim = 0;  // of a head's key, rotated; one for all heads
  int64_t value_dim = 0;
};

// What the vector of a text is in an encoder (BERT): the hidden states of its tokens, or their
// mean, the first or the last of them.
enum class Pooling : uint8_t { kNone, kMean, kFirst, kLast };

struct ModelConfig {
  std::string architecture;  // GGUF's name: "llama", "qwen2", "gemma3", "phi3", ...
  std::string name;          // for people
  std::string licence;       // SPDX name or what the file says; may be empty
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t ffn_size = 0;
  int64_t layer_count = 0;
  int64_t head_count = 0;
  int64_t kv_head_count = 0;
  int64_t head_dim = 0;
  int64_t context_length = 0;  // tokens the model was trained for
  float norm_eps = 1e-5F;
  RopeConfig rope;
  int64_t sliding_window = 0;          // tokens; 0: every layer sees everything
  int64_t sliding_window_pattern = 0;  // every pattern-th layer is global, the others are sliding
  std::vector<int64_t> layer_windows;  // tokens each layer sees (0: all); empty: by the two above
  std::vector<bool> rope_free_layers;  // layers without rotary positions; empty: none
  float sliding_rope_base = 0.0F;      // theta of the sliding layers; 0: the same as rope.base
  float attention_scale = 0.0F;        // 0: 1/sqrt(head_dim)
  float attention_softcap = 0.0F;
  float final_logit_softcap = 0.0F;
  // Granite's factors of embeddings, of what each sublayer adds, and of the logits.
  float embedding_scale = 1.0F;
  float residual_scale = 1.0F;
  float logit_scale = 1.0F;
  ExpertConfig experts;
  LatentConfig latent;
  Activation activation = Activation::kSilu;
  bool parallel_residual = false;  // GPT-NeoX: both sublayers read the same input
  Pooling pooling = Pooling::kNone;
};

inline bool HasExperts(const ModelConfig& config, int64_t layer) {
  const std::vector<bool>& dense = config.experts.dense_layers;
  return config.experts.count > 0 && (dense.empty() || !dense[static_cast<size_t>(layer)]);
}

// Of `layers` layers, every n-th.
inline std::vector<bool> EveryNthLayer(int64_t layers, int64_t n) {
  std::vector<bool> chosen;
  for (int64_t layer = 1; layer <= layers; ++layer)
    chosen.push_back(layer % n == 0);
  return chosen;
}

inline bool HasRope(const ModelConfig& config, int64_t layer) {
  const std::vector<bool>& without = config.rope_free_layers;
  return without.empty() || !without[static_cast<size_t>(layer)];
}

// Tokens that the layer sees, itself included; 0: all.
inline int64_t LayerWindow(const ModelConfig& config, int64_t layer) {
  if (!config.layer_windows.empty())
    return config.layer_windows[static_cast<size_t>(layer)];
  const int64_t pattern = config.sliding_window_pattern;
  return pattern > 0 && (layer + 1) % pattern == 0 ? 0 : config.sliding_window;
}

}  // namespace tenon

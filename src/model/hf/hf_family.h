// The model families of Hugging Face directories, and how their config.json and tensors differ from
// what GGUF has.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "model/model_config.h"

namespace tenon {

// A module's name in a layer and GGUF's, both without ".weight" and ".bias".
struct HfName {
  std::string_view hf;
  std::string_view gguf;
};

// Names of the sizes in config.json.
struct HfSizeKeys {
  std::string_view hidden = "hidden_size";
  std::string_view ffn = "intermediate_size";
  std::string_view layers = "num_hidden_layers";
  std::string_view heads = "num_attention_heads";
  std::string_view context = "max_position_embeddings";
};

// Which layers see the last tokens only.
enum class HfWindow : uint8_t {
  kNone,
  kEveryLayer,        // sliding_window, null for none
  kEveryLayerIfUsed,  // the same, where use_sliding_window is true
  kLastLayers,        // use_sliding_window; layer_types, or those from max_window_layers on
  kPattern,           // layer_types, or all but every `pattern`-th
  kRopeFreeLayers,    // use_sliding_window; layer_types, or those without rotary positions
};

// How a family's matrices differ from GGUF's.
enum class HfMatrices : uint8_t {
  kAsTheyAre,
  kFusedPhi3,   // query, key, value in one; gate and up in one
  kFusedGpt2,   // query, key, value in one; all matrices of layers are [columns, rows]
  kFusedHeads,  // a head's query, key and value rows, then the next head's
};

struct HfFamily {
  std::string_view architecture;  // config.json's architectures[0]
  std::string_view name;          // ModelConfig::architecture
  std::string_view model_type;    // transformers' name; empty: no config.json is written for it
  std::span<const HfName> layer_names;
  // Modules outside of layers. Names have `root` before them, which some files leave out.
  std::span<const HfName> top_names;
  std::string_view root = "model.";
  std::string_view layer_prefix = "layers.";
  // Tensors that are not weights of the graph: in a layer, or outside.
  std::span<const std::string_view> ignored = {};
  // Names within "<expert_prefix>.<expert>."; none: the family has no experts.
  std::string_view expert_prefix = {};
  std::span<const HfName> expert_names = {};
  HfSizeKeys sizes = {};
  std::string_view eps_key = "rms_norm_eps";  // empty: 1e-5
  std::string_view activation_key = "hidden_act";
  Activation activation = Activation::kSilu;
  bool any_activation = false;   // the graph computes every one that is known
  float rope_base = 10000.0F;    // where the file has none
  float rotary_share = 1.0F;     // of each head, where the file has none; 0: learned positions
  int64_t rope_free_every = 0;   // n-th layer, where the file lists none; 0: all are rotated
  bool tied_by_default = false;  // output head and embedding
  bool norms_from_one = false;   // stored norm weights have 1 subtracted
  bool qkv_bias = false;         // query, key and value have biases unless the file denies it
  bool all_biases = false;       // every module has a bias
  HfMatrices matrices = HfMatrices::kAsTheyAre;
  HfWindow window = HfWindow::kNone;
  int64_t window_pattern = 0;
};

// Null when there is no such family.
const HfFamily* FindHfFamily(std::string_view architecture);
// The first of those whose `name` it is; llama and deepseek2 have several.
const HfFamily* FindHfFamilyNamed(std::string_view name);
// "LlamaForCausalLM, ..." for messages.
std::string HfFamilyNames();

}  // namespace tenon

// The model families of Hugging Face directories, and how their config.json and tensors differ from
// what GGUF has.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tenon {

// A module's name in a layer and GGUF's, both without ".weight" and ".bias".
struct HfName {
  std::string_view hf;
  std::string_view gguf;
};

// Which layers see the last tokens only.
enum class HfWindow : uint8_t {
  kNone,
  kEveryLayer,        // sliding_window, null for none
  kEveryLayerIfUsed,  // the same, where use_sliding_window is true
  kLastLayers,        // use_sliding_window; layer_types, or those from max_window_layers on
  kPattern,           // layer_types, or all but every `pattern`-th
};

struct HfFamily {
  std::string_view architecture;  // config.json's architectures[0]
  std::string_view name;          // ModelConfig::architecture
  std::span<const HfName> layer_names;
  // Names within "<expert_prefix>.<expert>."; none: the family has no experts.
  std::string_view expert_prefix = {};
  std::span<const HfName> expert_names = {};
  std::string_view activation = "silu";
  float rope_base = 10000.0F;    // where the file has none
  bool tied_by_default = false;  // output head and embedding
  bool norms_from_one = false;   // stored norm weights have 1 subtracted
  bool qkv_bias = false;         // query, key and value have biases unless the file denies it
  HfWindow window = HfWindow::kNone;
  int64_t window_pattern = 0;
};

// Null when there is no such family.
const HfFamily* FindHfFamily(std::string_view architecture);
// "LlamaForCausalLM, ..." for messages.
std::string HfFamilyNames();

}  // namespace tenon

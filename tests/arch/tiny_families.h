// Tiny models of the families whose blocks differ from Llama's: GPT-2, GPT-NeoX, OPT and BERT
// (layer norms, biases, fused matrices), and DeepSeek (latent attention). Weights, names in
// directories and config.json.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tiny_model.h"

namespace tenon::testing {

bool IsTinyPlain(const std::string& arch);  // GPT-2, GPT-NeoX, OPT, BERT
bool IsTinyDeepseek(const std::string& arch);

// In GGUF's names and layout.
std::vector<TinyTensor> TinyPlainTensors(const TinyCase& tiny);
std::vector<TinyTensor> TinyDeepseekTensors(const TinyCase& tiny);

// The same tensor's values and shape as transformers has them: GPT-2's matrices transposed,
// GPT-NeoX's query, key and value head by head.
void ToHfLayout(const TinyCase& tiny, TinyTensor& tensor);

// transformers' name of GGUF's "blk.1.ffn_up.bias".
std::string TinyFamilyHfName(const std::string& gguf, const std::string& arch);

nlohmann::json TinyFamilyConfig(const TinyCase& tiny);

}  // namespace tenon::testing

// Tiny models whose weights come from their names, and reference logits for them.
//
// tests/data/arch_golden.txt (scripts/make_arch_golden.py) has each case's hyperparameters, tokens
// and logits; the GGUF file is made here, as a converter would make it from the reference's
// weights.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gguf/gguf_writer.h"
#include "tensor/dtype.h"

namespace tenon::testing {

struct TinyCase {
  std::string name;
  std::map<std::string, std::string> settings;  // the file's "set" lines
  std::vector<int32_t> tokens;
  std::vector<std::pair<int64_t, std::vector<float>>> positions;  // position, logits [vocab]
  // What transformers says of newer cases; older ones' tensors and config.json are made in code.
  struct Listed {
    std::string gguf;
    std::string hf;
    std::vector<int64_t> shape;  // outermost first
  };
  std::vector<Listed> tensors;
  std::string config;  // of transformers 5

  bool Has(const std::string& key) const { return settings.contains(key); }
  const std::string& Text(const std::string& key) const { return settings.at(key); }
  int64_t Int(const std::string& key) const { return std::stoll(settings.at(key)); }
  float Float(const std::string& key) const { return std::stof(settings.at(key)); }
};

std::vector<TinyCase> ReadTinyCases();

// The case of that name. REQUIRES: there is one.
TinyCase FindTinyCase(std::string_view name);

struct TinyTensor {
  std::string name;
  std::vector<int64_t> shape;  // outermost first
  std::vector<float> values;   // [product of shape]
};

// In GGUF's names and layout: llama's query and key rows permuted for pairs (2p, 2p+1), Gemma's
// norm weights with 1 added, llama3's rotary scaling as the tensor rope_freqs.weight.
std::vector<TinyTensor> TinyTensors(const TinyCase& tiny);

// The same in GGUF's names, but with the values as transformers has them: rows not permuted,
// Gemma's norm weights without their 1, no tensor of scaling.
std::vector<TinyTensor> TinyHfTensors(const TinyCase& tiny);

// Multiples of 2^-11 in [-0.25, 0.25), plus `offset`: exact in float. From the tensor's name.
std::vector<float> MadeValues(const std::string& name, int64_t count, float offset);

// With each expert a tensor of its own, "blk.N.ffn_gate.E.weight", as old GGUF files and
// directories have them.
std::vector<TinyTensor> SplitExperts(const std::vector<TinyTensor>& tensors);

// DeepSeek's "attn_kv_b" as "attn_k_b", transposed, and "attn_v_b", as newer GGUF files have them.
std::vector<TinyTensor> SplitLatents(const TinyCase& tiny, const std::vector<TinyTensor>& tensors);

// Matrices but the routers' are stored as `matrices`, one of F32, F16, Q4_0 and Q8_0.
Bytes TinyGguf(const TinyCase& tiny, const std::vector<TinyTensor>& tensors,
               DType matrices = DType::kF32);

}  // namespace tenon::testing

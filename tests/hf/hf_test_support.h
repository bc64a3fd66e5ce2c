// What the Hugging Face tests share: folders, raw safetensors files, a small model in a directory.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "gguf/gguf_writer.h"
#include "model/model_source.h"

namespace tenon::testing {

using nlohmann::json;

// A folder of its own, removed at the end.
class Folder {
 public:
  Folder() : path_(folder_.Write("marker", {}).parent_path()) {
    std::filesystem::remove(path_ / "marker");
  }
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path Write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return path_ / name;
  }

 private:
  TempFolder folder_;
  std::filesystem::path path_;
};

inline std::string LengthBytes(uint64_t length) {
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, sizeof(length));
  return out;
}

// A file of this header, as text, and data.
inline std::string Container(const std::string& header, const std::string& data) {
  return LengthBytes(header.size()) + header + data;
}

inline std::span<const std::byte> AsBytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// One entry of a header.
inline json Entry(const std::string& dtype, std::vector<int64_t> shape, uint64_t begin,
                  uint64_t end) {
  return {{"dtype", dtype}, {"shape", std::move(shape)}, {"data_offsets", {begin, end}}};
}

// Tensors of F32 zeros: names and shapes.
struct ZeroTensor {
  std::string name;
  std::vector<int64_t> shape;
};
inline std::string ZeroFile(const std::vector<ZeroTensor>& tensors) {
  json header = json::object();
  uint64_t at = 0;
  for (const ZeroTensor& tensor : tensors) {
    uint64_t bytes = 4;
    for (const int64_t extent : tensor.shape)
      bytes *= static_cast<uint64_t>(extent);
    header[tensor.name] = Entry("F32", tensor.shape, at, at + bytes);
    at += bytes;
  }
  return Container(header.dump(), std::string(at, '\0'));
}

// A llama of one layer: width 8, 2 heads of 4, 1 KV head, 12 in the middle, 6 tokens.
inline json SmallConfig() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"vocab_size", 6},
          {"hidden_size", 8},
          {"intermediate_size", 12},
          {"num_hidden_layers", 1},
          {"num_attention_heads", 2},
          {"num_key_value_heads", 1},
          {"max_position_embeddings", 64},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 10000.0},
          {"rope_scaling", nullptr},
          {"tie_word_embeddings", true},
          {"eos_token_id", 5}};
}

inline std::vector<ZeroTensor> SmallTensors() {
  const std::string layer = "model.layers.0.";
  return {
      {"model.embed_tokens.weight", {6, 8}},       {"model.norm.weight", {8}},
      {layer + "input_layernorm.weight", {8}},     {layer + "post_attention_layernorm.weight", {8}},
      {layer + "self_attn.q_proj.weight", {8, 8}}, {layer + "self_attn.k_proj.weight", {4, 8}},
      {layer + "self_attn.v_proj.weight", {4, 8}}, {layer + "self_attn.o_proj.weight", {8, 8}},
      {layer + "mlp.gate_proj.weight", {12, 8}},   {layer + "mlp.up_proj.weight", {12, 8}},
      {layer + "mlp.down_proj.weight", {8, 12}}};
}

inline json SmallTokenizer() {
  return {{"added_tokens",
           {{{"id", 4}, {"content", "<s>"}, {"special", true}},
            {{"id", 5}, {"content", "</s>"}, {"special", true}}}},
          {"model",
           {{"type", "BPE"},
            {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}, {"c", 3}}},
            {"merges", {"a b"}}}}};
}

inline void WriteSmallModel(const Folder& folder, const json& config = SmallConfig()) {
  folder.Write("config.json", config.dump());
  folder.Write("model.safetensors", ZeroFile(SmallTensors()));
  folder.Write("tokenizer.json", SmallTokenizer().dump());
}

inline std::string OpenError(const std::filesystem::path& path) {
  const auto source = OpenModel(path);
  return source.ok() ? std::string() : source.error().ToString();
}

}  // namespace tenon::testing

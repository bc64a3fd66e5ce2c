// A tiny model as a GGUF file with a tokenizer of single characters, for quantizing from end to
// end.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "arch/tiny_model.h"
#include "model/gguf/gguf_reader.h"
#include "model/gguf/gguf_writer.h"

namespace tenon::testing {

// A folder that is gone at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tenon-quantize-XXXXXX");
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

inline std::vector<std::string> SingleCharacters(int64_t count) {
  std::vector<std::string> tokens = {"\xC4\xA0", "ab"};  // the byte alphabet's space
  for (char c = '!'; c <= '~'; ++c)
    tokens.emplace_back(1, c);
  for (int64_t i = static_cast<int64_t>(tokens.size()); i < count; ++i)
    tokens.push_back("<extra" + std::to_string(i) + ">");
  tokens.resize(static_cast<size_t>(count));
  return tokens;
}

inline void WriteTinyFile(const TinyCase& tiny, const std::filesystem::path& path) {
  const std::vector<TinyTensor> tensors = TinyTensors(tiny);
  const Bytes bytes = TinyGguf(tiny, tensors);
  const auto parsed = ParseGguf(bytes, "tiny");
  ASSERT_TRUE(parsed.ok());
  GgufMetadataBuilder metadata;
  for (const GgufEntry& entry : parsed->metadata.entries())
    metadata.SetCopy(entry);
  metadata.SetString("tokenizer.ggml.model", "gpt2");
  metadata.SetString("tokenizer.ggml.pre", "gpt-2");
  metadata.SetStrings("tokenizer.ggml.tokens", SingleCharacters(tiny.Int("vocab")));
  metadata.SetStrings("tokenizer.ggml.merges", {"a b"});
  std::vector<GgufTensorPlan> plans;
  for (const TinyTensor& tensor : tensors)
    plans.push_back({tensor.name, DType::kF32, tensor.shape});
  auto writer = ::tenon::GgufWriter::Create(path, metadata, plans);
  ASSERT_TRUE(writer.ok()) << writer.error().ToString();
  for (const TinyTensor& tensor : tensors)
    ASSERT_TRUE(writer->WriteTensor(std::as_bytes(std::span(tensor.values))).ok());
  ASSERT_TRUE(writer->Close().ok());
}

}  // namespace tenon::testing

// Tiny models as Hugging Face directories.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tiny_model.h"

namespace tenon::testing {

// How the directory is written, beyond what the case says.
struct TinyDirectoryOptions {
  enum class Transformers : uint8_t { k4, k5 };  // whose config.json
  Transformers version = Transformers::k5;
  // F32, F64, or F16 for matrices, all of which hold the values exactly; or BF16, which does not.
  std::string dtype = "F32";
  enum class Values : uint8_t { kExact, kRounded };  // as they are, or rounded to BF16
  Values values = Values::kExact;
  int shards = 1;
};

// Writes config.json, safetensors and a tokenizer of single letters to `directory`.
void WriteTinyDirectory(const TinyCase& tiny, const TinyDirectoryOptions& options,
                        const std::filesystem::path& directory);

// A tensor as a safetensors file holds it.
struct RawTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};
// In F32, under transformers' name. `tensor` is one of TinyHfTensors.
RawTensor ToRaw(const TinyCase& tiny, const TinyTensor& tensor);
std::string SafetensorsBytes(const std::vector<RawTensor>& tensors);

// A BPE tokenizer.json of `size` tokens without merges.
std::string TinyTokenizerJson(int64_t size);

}  // namespace tenon::testing

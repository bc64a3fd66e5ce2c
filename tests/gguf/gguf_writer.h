// GgufWriter: makes GGUF files for tests, good ones and, by its raw parts, malformed ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tenon::testing {

using Bytes = std::vector<std::byte>;

// Value types as the format numbers them.
enum WireType : uint32_t {
  kWireU8 = 0,
  kWireU16 = 2,
  kWireI16 = 3,
  kWireU32 = 4,
  kWireI32 = 5,
  kWireF32 = 6,
  kWireBool = 7,
  kWireString = 8,
  kWireArray = 9,
  kWireU64 = 10,
  kWireI64 = 11,
  kWireF64 = 12,
};

inline void PutRaw(Bytes& out, const void* data, size_t size) {
  const size_t at = out.size();
  out.resize(at + size);
  if (size > 0)
    std::memcpy(out.data() + at, data, size);
}

// Little-endian bytes, appended to `out`.
template <class T>
void Put(Bytes& out, T value) {
  static_assert(std::is_arithmetic_v<T>);
  PutRaw(out, &value, sizeof(T));
}

inline void PutText(Bytes& out, std::string_view text) {
  Put<uint64_t>(out, text.size());
  PutRaw(out, text.data(), text.size());
}

template <class T>
constexpr WireType WireTypeOf() {
  if constexpr (std::is_same_v<T, bool>)
    return kWireBool;
  else if constexpr (std::is_same_v<T, float>)
    return kWireF32;
  else if constexpr (std::is_same_v<T, double>)
    return kWireF64;
  else if constexpr (std::is_same_v<T, uint8_t>)
    return kWireU8;
  else if constexpr (std::is_same_v<T, uint16_t>)
    return kWireU16;
  else if constexpr (std::is_same_v<T, int32_t>)
    return kWireI32;
  else if constexpr (std::is_same_v<T, uint64_t>)
    return kWireU64;
  else if constexpr (std::is_same_v<T, int64_t>)
    return kWireI64;
  else
    return kWireU32;
}

class GgufWriter {
 public:
  uint32_t version = 3;
  uint64_t alignment = 32;  // of the data; written as metadata only by Set("general.alignment", ..)
  uint64_t extra_tensors = 0;  // added to the header's count
  uint64_t extra_entries = 0;

  // Adds an entry, or replaces the one with the same key.
  template <class T>
  GgufWriter& Set(const std::string& key, T value) {
    Bytes payload;
    Put(payload, value);
    return SetRaw(key, WireTypeOf<T>(), payload);
  }
  GgufWriter& Set(const std::string& key, const char* text) {
    Bytes payload;
    PutText(payload, text);
    return SetRaw(key, kWireString, payload);
  }
  template <class T>
  GgufWriter& SetArray(const std::string& key, const std::vector<T>& values) {
    Bytes payload;
    Put<uint32_t>(payload, WireTypeOf<T>());
    Put<uint64_t>(payload, values.size());
    for (const T value : values)
      Put(payload, value);
    return SetRaw(key, kWireArray, payload);
  }
  GgufWriter& SetStrings(const std::string& key, const std::vector<std::string>& values) {
    Bytes payload;
    Put<uint32_t>(payload, kWireString);
    Put<uint64_t>(payload, values.size());
    for (const std::string& value : values)
      PutText(payload, value);
    return SetRaw(key, kWireArray, payload);
  }
  GgufWriter& SetRaw(const std::string& key, uint32_t type, const Bytes& payload) {
    Remove(key);
    return Append(key, type, payload);
  }
  // Like SetRaw, but keeps an entry of the same key.
  GgufWriter& Append(const std::string& key, uint32_t type, const Bytes& payload) {
    Entry entry{key, {}};
    PutText(entry.bytes, key);
    Put(entry.bytes, type);
    PutRaw(entry.bytes, payload.data(), payload.size());
    entries_.push_back(entry);
    return *this;
  }
  GgufWriter& Remove(const std::string& key) {
    std::erase_if(entries_, [&key](const Entry& entry) { return entry.key == key; });
    return *this;
  }

  struct Tensor {
    std::string name;
    std::vector<uint64_t> dimensions;  // innermost first
    uint32_t type = 0;                 // GGML's number
    uint64_t bytes = 0;                // of data to write
    int64_t shift = 0;                 // added to the right offset
  };
  GgufWriter& Add(const Tensor& tensor) {
    tensors.push_back(tensor);
    return *this;
  }
  std::vector<Tensor> tensors;

  Bytes Build() const {
    Bytes out;
    for (const char c : std::string_view("GGUF"))
      Put(out, c);
    Put<uint32_t>(out, version);
    Put<uint64_t>(out, tensors.size() + extra_tensors);
    Put<uint64_t>(out, entries_.size() + extra_entries);
    for (const Entry& entry : entries_)
      PutRaw(out, entry.bytes.data(), entry.bytes.size());
    Bytes data = PutDirectory(out);
    Pad(out);
    PutRaw(out, data.data(), data.size());
    return out;
  }

 private:
  struct Entry {
    std::string key;
    Bytes bytes;
  };

  void Pad(Bytes& out) const {
    while (out.size() % alignment != 0)
      out.push_back(std::byte{0});
  }

  // Writes the directory to `out`; returns the data section, byte i of tensor t being i + t.
  Bytes PutDirectory(Bytes& out) const {
    Bytes data;
    for (size_t t = 0; t < tensors.size(); ++t) {
      const Tensor& tensor = tensors[t];
      PutText(out, tensor.name);
      Put(out, static_cast<uint32_t>(tensor.dimensions.size()));
      for (const uint64_t extent : tensor.dimensions)
        Put(out, extent);
      Put(out, tensor.type);
      Put(out, static_cast<uint64_t>(static_cast<int64_t>(data.size()) + tensor.shift));
      for (uint64_t i = 0; i < tensor.bytes; ++i)
        data.push_back(static_cast<std::byte>(i + t));
      Pad(data);
    }
    return data;
  }

  std::vector<Entry> entries_;
};

// A small model that loads: llama, 2 layers, width 32, 2 heads over 1, a vocabulary of 4.
inline GgufWriter TinyLlama() {
  GgufWriter writer;
  writer.Set("general.architecture", "llama").Set("general.name", "Tiny");
  writer.Set("llama.block_count", 2U).Set("llama.context_length", 128U);
  writer.Set("llama.embedding_length", 32U).Set("llama.feed_forward_length", 64U);
  writer.Set("llama.attention.head_count", 2U).Set("llama.attention.head_count_kv", 1U);
  writer.Set("llama.attention.layer_norm_rms_epsilon", 1e-5F);
  writer.Set("tokenizer.ggml.model", "gpt2");
  writer.SetStrings("tokenizer.ggml.tokens", {"a", "b", "ab", "<|im_end|>"});
  writer.SetArray<int32_t>("tokenizer.ggml.token_type", {1, 1, 1, 3});
  writer.SetStrings("tokenizer.ggml.merges", {"a b"});
  writer.Add({"token_embd.weight", {32, 4}, 0, 512});
  writer.Add({"blk.0.attn_q.weight", {32, 32}, 2, 576});
  writer.Add({"blk.1.attn_q.weight", {32, 32}, 2, 576});
  return writer;
}

// A folder of its own below the system's temporary folder, removed at the end.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tenon-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code code;
    std::filesystem::remove_all(path_, code);
  }

  std::filesystem::path Write(const std::string& name, const Bytes& bytes) const {
    const std::filesystem::path path = path_ / name;
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    return path;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace tenon::testing

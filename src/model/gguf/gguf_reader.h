// The container format GGUF, versions 2 and 3, little-endian: header, metadata, tensor directory.
//
// Layout: "GGUF", u32 version, u64 tensors, u64 entries; the entries; the directory; padding to
// general.alignment; tensor data, offsets relative to its start. Every count, length and offset is
// untrusted: it is compared with the bytes that are left before anything is reserved, so that
// memory stays proportional to the file and time linear in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_reader.h"
#include "base/result.h"
#include "model/gguf/gguf_metadata.h"
#include "model/model_source.h"

namespace tenon {

inline constexpr std::string_view kGgufMagic = "GGUF";

// Bounds of this program. Real files have some fifty entries and at most a few thousand tensors;
// the bounds keep the index of a hostile file below 64 MiB.
inline constexpr uint64_t kGgufMaxEntries = 16384;
inline constexpr uint64_t kGgufMaxTensors = 65536;
inline constexpr int kGgufMaxArrayDepth = 4;

struct GgufFile {
  uint32_t version = 0;
  GgufMetadata metadata;            // views into the parsed bytes
  std::vector<TensorInfo> tensors;  // in directory order; file 0, offsets from the file's start
};

// Parses and checks all but the tensors' contents. `name` is the file's name for messages. `bytes`
// must outlive the result.
Result<GgufFile> ParseGguf(std::span<const std::byte> bytes, const std::string& name);

// Whether `bytes` start with the format's magic.
bool IsGguf(std::span<const std::byte> bytes);

// Parts of ParseGguf.

// Keys and names go into messages and listings as they are.
bool HasControlCharacters(std::string_view text);

// Characters with their u64 length in front; `what` names them in the error.
Result<std::string_view> ReadGgufString(ByteReader& reader, std::string_view what);

struct GgufDirectory {
  uint64_t count = 0;      // of tensors, as the header says
  uint64_t alignment = 0;  // a power of two
};
// Reads the directory that `reader` stands at and checks every tensor's place in `file`.
Result<std::vector<TensorInfo>> ReadGgufTensors(ByteReader& reader, const GgufDirectory& directory,
                                                std::span<const std::byte> file);

}  // namespace tenon

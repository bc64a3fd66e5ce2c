// MalformedContainers (malformed_cases.h).
#include "gguf/malformed_cases.h"

namespace tenon::testing {
namespace {

constexpr uint64_t kHuge = uint64_t{1} << 60;

Bytes Text(std::string_view text) {
  Bytes out;
  for (const char c : text)
    Put(out, c);
  return out;
}

// `bytes` with a little-endian T at `offset`.
template <class T>
Bytes Patch(Bytes bytes, size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(T));
  return bytes;
}

Bytes Tiny() {
  return TinyLlama().Build();
}

Bytes WithVersion(uint32_t version) {
  return Patch(Tiny(), 4, version);
}

// One entry whose value is `payload`, and nothing else.
Bytes OneEntry(uint32_t type, const Bytes& payload) {
  return GgufWriter().SetRaw("key", type, payload).Build();
}

Bytes ArrayHead(uint32_t element, uint64_t count) {
  Bytes out;
  Put(out, element);
  Put(out, count);
  return out;
}

Bytes NestedArrays(int depth) {
  Bytes payload;
  for (int i = 0; i < depth; ++i) {
    const Bytes head = ArrayHead(i + 1 < depth ? kWireArray : kWireU8, 1);
    PutRaw(payload, head.data(), head.size());
  }
  payload.push_back(std::byte{0});
  return OneEntry(kWireArray, payload);
}

Bytes HugeString() {
  Bytes payload;
  Put(payload, kHuge);
  return OneEntry(kWireString, payload);
}

Bytes OneTensor(const GgufWriter::Tensor& tensor) {
  return TinyLlama().Add(tensor).Build();
}

Bytes Overlapping() {
  GgufWriter writer = TinyLlama();
  writer.tensors[2].shift = -64;
  return writer.Build();
}

Bytes Repeated(const std::string& key) {
  Bytes payload;
  Put<uint32_t>(payload, 1);
  return TinyLlama().Append(key, kWireU32, payload).Build();
}

Bytes Truncated(size_t percent) {
  Bytes bytes = Tiny();
  bytes.resize(bytes.size() * percent / 100);
  return bytes;
}

Bytes Joined() {
  Bytes bytes = Tiny();
  const Bytes second = bytes;
  PutRaw(bytes, second.data(), second.size());
  return bytes;
}

// Its data section would begin far beyond the end.
Bytes HugeAlignment() {
  GgufWriter writer = TinyLlama().Set("general.alignment", 0x80000000U);
  writer.tensors.resize(1);
  return writer.Build();
}

std::vector<MalformedCase> Headers() {
  return {
      {"empty", {}, "truncated header"},
      {"three-bytes", Text("GGU"), "truncated header"},
      {"magic-only", Text("GGUF"), "truncated header"},
      {"other-magic", Text("PK\x03\x04 and a zip's rest"), "starts with the bytes 50 4b 03 04"},
      {"version-0", WithVersion(0), "GGUF version 0: versions 2 and 3"},
      {"version-1", WithVersion(1), "GGUF version 1: versions 2 and 3"},
      {"version-4", WithVersion(4), "GGUF version 4: versions 2 and 3"},
      {"big-endian", WithVersion(0x03000000), "big-endian"},
      {"tensors-2-60", Patch(Tiny(), 8, kHuge), "promises 1152921504606846976 tensors"},
      {"entries-2-60", Patch(Tiny(), 16, kHuge), "promises 1152921504606846976 metadata entries"},
      {"tensors-minus-1", Patch(Tiny(), 8, ~uint64_t{0}), "promises 18446744073709551615 tensors"},
      {"truncated-10", Truncated(10), "truncated"},
      {"truncated-50", Truncated(50), "truncated"},
      {"truncated-99", Truncated(99), "truncated"},
      {"joined", Joined(), "a second GGUF file begins here"},
  };
}

std::vector<MalformedCase> Entries() {
  GgufWriter promised = TinyLlama();
  promised.extra_entries = 1;
  return {
      {"one-entry-too-few", promised.Build(), "truncated tensor name"},
      {"empty-key", GgufWriter().Set("", uint8_t{1}).Build(), "a metadata key of 0 bytes"},
      {"empty-key-array", GgufWriter().SetArray<uint8_t>("", {}).Build(), "key of 0 bytes"},
      {"long-key", GgufWriter().Set(std::string(65536, 'k'), 1U).Build(), "key of 65536 bytes"},
      {"newline-in-key", GgufWriter().Set("a\nb", 1U).Build(), "control characters"},
      {"same-key-twice", Repeated("general.name"), "'general.name' occurs twice"},
      {"unknown-value-type", OneEntry(13, Text("xxxx")), "unknown type 13"},
      {"unknown-element-type", OneEntry(kWireArray, ArrayHead(99, 0)), "unknown type 99"},
      {"string-2-60", HugeString(), "truncated value of 'key': 1152921504606846976 bytes"},
      {"bytes-2-60", OneEntry(kWireArray, ArrayHead(kWireU8, kHuge)), "1152921504606846976 u8"},
      // Times eight bytes, this count overflows to zero.
      {"f64s-2-61", OneEntry(kWireArray, ArrayHead(kWireF64, kHuge * 2)),
       "2305843009213693952 f64"},
      {"strings-2-60", OneEntry(kWireArray, ArrayHead(kWireString, kHuge)), "976 string"},
      {"arrays-2-60", OneEntry(kWireArray, ArrayHead(kWireArray, kHuge)), "976 array"},
      {"nested-5", NestedArrays(5), "nests arrays more than 4 deep"},
      {"nested-1000", NestedArrays(1000), "nests arrays more than 4 deep"},
      {"bool-2", OneEntry(kWireBool, {std::byte{2}}), "a bool of 2"},
      {"alignment-0", TinyLlama().Set("general.alignment", 0U).Build(), "a power of two"},
      {"alignment-24", TinyLlama().Set("general.alignment", 24U).Build(), "a power of two"},
      {"alignment-u64", TinyLlama().Set("general.alignment", uint64_t{32}).Build(),
       "general.alignment: u64 found, u32 expected"},
      {"alignment-text", TinyLlama().Set("general.alignment", "32").Build(), "string found"},
      {"alignment-2-31", HugeAlignment(), "truncated or the directory is wrong"},
  };
}

std::vector<MalformedCase> Directories() {
  const std::string long_name(2000, 'n');
  const uint64_t half = uint64_t{1} << 32;
  return {
      {"tensor-no-name", OneTensor({"", {32}, 0, 128}), "a tensor name of 0 bytes"},
      {"tensor-long-name", OneTensor({long_name, {32}, 0, 128}), "a tensor name of 2000 bytes"},
      {"tensor-escape-in-name", OneTensor({"\x1b[2J", {32}, 0, 128}), "control characters"},
      {"tensor-twice", OneTensor({"blk.0.attn_q.weight", {32}, 0, 128}), "occurs twice"},
      {"tensor-5-dimensions", OneTensor({"t", {1, 1, 1, 1, 1}, 0, 4}), "5 dimensions"},
      {"tensor-dimension-0", OneTensor({"t", {32, 0}, 0, 0}), "dimension 1 of tensor 't' is 0"},
      {"tensor-dimension-2-63", OneTensor({"t", {half << 31}, 0, 0}), "1 to 2^63-1 expected"},
      {"tensor-product-2-64", OneTensor({"t", {half, half}, 0, 0}), "overflow 63 bits"},
      {"tensor-bytes-2-65", OneTensor({"t", {half, half / 8}, 0, 0}), "overflow 63 bits"},
      {"tensor-partial-block", OneTensor({"t", {48, 2}, 2, 54}),
       "multiple of 32 expected for Q4_0"},
      {"tensor-partial-superblock", OneTensor({"t", {128}, 12, 72}), "multiple of 256"},
      {"tensor-type-unread", OneTensor({"t", {256}, 16, 66}), "type IQ2_XXS (16), which can't"},
      {"tensor-type-removed", OneTensor({"t", {32}, 4, 18}), "type Q4_2 (4), which can't"},
      {"tensor-type-unknown", OneTensor({"t", {32}, 1000, 18}), "the unknown type 1000"},
      {"tensor-offset-odd", OneTensor({"t", {32}, 0, 128, 4}), "a multiple of 32 expected"},
      {"tensor-past-end", OneTensor({"t", {32}, 0, 96}), "truncated or the directory is wrong"},
      {"tensor-offset-2-63", OneTensor({"t", {32}, 0, 128, int64_t(half << 30)}), "truncated or"},
      {"tensors-overlap", Overlapping(), "'blk.0.attn_q.weight' and 'blk.1.attn_q.weight' overlap"},
  };
}

}  // namespace

std::vector<MalformedCase> MalformedContainers() {
  std::vector<MalformedCase> cases = Headers();
  for (const auto& more : {Entries(), Directories()})
    cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}

}  // namespace tenon::testing

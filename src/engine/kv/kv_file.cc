#include "engine/kv/kv_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "base/byte_reader.h"
#include "base/file_io.h"
#include "engine/kv/siphash.h"

namespace tenon {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie");

constexpr std::string_view kMagic = "TENONKV2";
// 2: levels of nf4 in 127ths.
// Any fixed key.
constexpr SipKey kChecksumKey = {0x3156'4B4E'4F4E'4554U, 1};
constexpr uint64_t kMaxIdentityBytes = 4096;

uint64_t Checksum(std::string_view bytes) {
  return SipHash24(kChecksumKey, std::as_bytes(std::span(bytes)));
}

template <class T>
void Put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// The numbers that both sides must agree on, in the file's order.
struct LayoutField {
  std::string_view name;
  uint32_t value;
};
std::vector<LayoutField> LayoutFields(const KvConfig& config) {
  return {{"KV type", static_cast<uint32_t>(config.type)},
          {"layers", static_cast<uint32_t>(config.layers)},
          {"KV heads", static_cast<uint32_t>(config.kv_heads)},
          {"head size", static_cast<uint32_t>(config.head_dim)},
          {"tokens of a block", static_cast<uint32_t>(kKvBlockTokens)}};
}

// Zeroes the slots from `used` on in one block of one layer, of a float type.
void ClearUnused(const KvConfig& config, KvType type, int64_t used, char* block) {
  const auto element = static_cast<size_t>(KvTypeBytes(type));
  const auto slots = static_cast<size_t>(kKvBlockTokens);
  const auto first = static_cast<size_t>(used);
  const auto head_dim = static_cast<size_t>(config.head_dim);
  const size_t part = head_dim * slots * element;
  for (size_t head = 0; head < static_cast<size_t>(config.kv_heads); ++head) {
    char* keys = block + head * 2 * part;
    for (size_t d = 0; d < head_dim; ++d)  // keys [head_dim][slots]
      std::memset(keys + (d * slots + first) * element, 0, (slots - first) * element);
    char* values = keys + part;  // [slots][head_dim]
    std::memset(values + first * head_dim * element, 0, (slots - first) * head_dim * element);
  }
}

int64_t UsedSlots(const Sequence& sequence, int64_t index) {
  return std::min(kKvBlockTokens, sequence.length() - index * kKvBlockTokens);
}

void PutBlocks(const KvPool& pool, const Sequence& sequence, std::string& out) {
  const KvType type = pool.config().type;
  for (int64_t i = 0; i < BlocksFor(sequence.length()); ++i) {
    const int64_t used = UsedSlots(sequence, i);
    for (int32_t layer = 0; layer < pool.config().layers; ++layer) {
      const auto bytes = pool.BlockBytes(layer, sequence.block_table()[static_cast<size_t>(i)]);
      const size_t at = out.size();
      out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      if (used == kKvBlockTokens)
        continue;
      if (IsPackedKv(type))  // not packed yet
        std::memset(out.data() + at, 0, bytes.size());
      else
        ClearUnused(pool.config(), type, used, out.data() + at);
    }
  }
}

// Blocks whose float copies belong to a sequence: its first one, and its last one unless it is
// full.
std::vector<int64_t> CopiedBlocks(KvType type, int64_t length) {
  std::vector<int64_t> indices;
  if (!IsPackedKv(type))
    return indices;
  indices.push_back(0);
  if (length > kKvBlockTokens && length % kKvBlockTokens != 0)
    indices.push_back(length / kKvBlockTokens);
  return indices;
}

Status PutCopies(const KvPool& pool, const Sequence& sequence, std::string& out) {
  for (const int64_t i : CopiedBlocks(pool.config().type, sequence.length())) {
    const int32_t copy = pool.FloatCopy(sequence.block_table()[static_cast<size_t>(i)]);
    if (copy < 0)
      return InvalidArgument(fmt::format("block {} has no f16 form", i), "sequence");
    for (int32_t layer = 0; layer < pool.config().layers; ++layer) {
      const size_t at = out.size();
      out.append(reinterpret_cast<const char*>(pool.CopyBytes(layer, copy).data()),
                 pool.layout().copy_stride);
      ClearUnused(pool.config(), KvType::kF16, UsedSlots(sequence, i), out.data() + at);
    }
  }
  return {};
}

// Reads a file whose checksum is right.
class KvFileReader {
 public:
  KvFileReader(std::string_view bytes, const std::filesystem::path& path)
      : reader_(std::as_bytes(std::span(bytes)), path.string()) {}

  Status CheckIdentity(const KvFileIdentity& identity) {
    TENON_RETURN_IF_ERROR(reader_.ReadBytes(kMagic.size(), "magic"));
    TENON_ASSIGN_OR_RETURN(const auto length, reader_.Read<uint32_t>("identity length"));
    if (length > kMaxIdentityBytes)
      return Corrupt(fmt::format("an identity of {} bytes", length), reader_.Where());
    TENON_ASSIGN_OR_RETURN(const auto raw, reader_.ReadBytes(length, "identity"));
    const std::string_view model(reinterpret_cast<const char*>(raw.data()), raw.size());
    if (model != identity.model)
      return Mismatch("model", model, identity.model);
    TENON_ASSIGN_OR_RETURN(const auto adapter, reader_.Read<uint64_t>("adapter"));
    if (adapter != identity.adapter)
      return Mismatch("adapter", adapter, identity.adapter);
    return {};
  }

  Status CheckLayout(const KvConfig& config) {
    for (const LayoutField& field : LayoutFields(config)) {
      TENON_ASSIGN_OR_RETURN(const auto found, reader_.Read<uint32_t>(field.name));
      if (found != field.value)
        return Mismatch(field.name, found, field.value);
    }
    return {};
  }

  Result<std::vector<int32_t>> ReadTokens(int32_t vocab_size) {
    TENON_ASSIGN_OR_RETURN(const auto count, reader_.Read<uint64_t>("token count"));
    if (count == 0 || count > reader_.remaining() / sizeof(int32_t))
      return Corrupt(fmt::format("{} tokens, {} bytes left", count, reader_.remaining()),
                     reader_.Where());
    std::vector<int32_t> tokens(count);
    TENON_ASSIGN_OR_RETURN(const auto raw, reader_.ReadBytes(count * sizeof(int32_t), "tokens"));
    std::memcpy(tokens.data(), raw.data(), raw.size());
    for (const int32_t token : tokens) {
      if (token < 0 || token >= vocab_size)
        return Corrupt(fmt::format("found token {}, expected 0 to {}", token, vocab_size - 1),
                       reader_.Where());
    }
    return tokens;
  }

  Status CopyBlocks(KvPool& pool, const Sequence& sequence, int64_t length) {
    const std::vector<int64_t> copied = CopiedBlocks(pool.config().type, length);
    const KvLayout& layout = pool.layout();
    const uint64_t expected = (static_cast<uint64_t>(BlocksFor(length)) * layout.block_stride +
                               static_cast<uint64_t>(copied.size()) * layout.copy_stride) *
                              static_cast<uint64_t>(pool.config().layers);
    if (reader_.remaining() != expected) {
      return Corrupt(
          fmt::format("found {} bytes of blocks, expected {}", reader_.remaining(), expected),
          reader_.Where());
    }
    for (int64_t i = 0; i < BlocksFor(length); ++i) {
      const BlockIndex block = sequence.block_table()[static_cast<size_t>(i)];
      for (int32_t layer = 0; layer < pool.config().layers; ++layer)
        TENON_RETURN_IF_ERROR(ReadInto(pool.BlockBytes(layer, block)));
    }
    for (const int64_t i : copied) {
      const BlockIndex block = sequence.block_table()[static_cast<size_t>(i)];
      if (!pool.TakeFloatCopy(block))
        return MakeError(ErrorCode::kResourceExhausted, "all float copies of blocks are in use",
                         "KV cache");
      for (int32_t layer = 0; layer < pool.config().layers; ++layer)
        TENON_RETURN_IF_ERROR(ReadInto(pool.CopyBytes(layer, pool.FloatCopy(block))));
    }
    return {};
  }

 private:
  Status ReadInto(std::span<std::byte> bytes) {
    TENON_ASSIGN_OR_RETURN(const auto raw, reader_.ReadBytes(bytes.size(), "block"));
    std::memcpy(bytes.data(), raw.data(), raw.size());
    return {};
  }

  template <class T>
  Error Mismatch(std::string_view field, const T& found, const T& expected) const {
    return InvalidArgument(fmt::format("the saved KV is for another {}: found {}, expected {}",
                                       field, found, expected),
                           reader_.Where());
  }
  Error Mismatch(std::string_view field, std::string_view found,
                 const std::string& expected) const {
    return Mismatch(field, found, std::string_view(expected));
  }

  ByteReader reader_;
};

// Without the checksum, which was right.
Result<std::string> ReadChecked(const std::filesystem::path& path, uint64_t max_bytes) {
  TENON_ASSIGN_OR_RETURN(std::string bytes, ReadWholeFile(path, max_bytes));
  uint64_t found = 0;
  if (bytes.size() < kMagic.size() + sizeof(found) || !bytes.starts_with(kMagic))
    return Corrupt("no saved KV: it does not begin with TENONKV2", path.string());
  std::memcpy(&found, bytes.data() + bytes.size() - sizeof(found), sizeof(found));
  bytes.resize(bytes.size() - sizeof(found));
  const uint64_t expected = Checksum(bytes);
  if (found != expected) {
    return Corrupt(fmt::format("found checksum {:016x}, expected {:016x}", found, expected),
                   path.string());
  }
  return bytes;
}

}  // namespace

Status SaveSequence(const std::filesystem::path& path, const KvPool& pool, const Sequence& sequence,
                    const KvFileIdentity& identity) {
  if (sequence.length() == 0)
    return InvalidArgument("the sequence has no tokens", "sequence");
  if (identity.model.size() > kMaxIdentityBytes)
    return InvalidArgument(fmt::format("found {} bytes, expected at most {}", identity.model.size(),
                                       kMaxIdentityBytes),
                           "identity.model");
  std::string out(kMagic);
  Put(out, static_cast<uint32_t>(identity.model.size()));
  out += identity.model;
  Put(out, identity.adapter);
  for (const LayoutField& field : LayoutFields(pool.config()))
    Put(out, field.value);
  Put(out, static_cast<uint64_t>(sequence.length()));
  for (const int32_t token : sequence.tokens())
    Put(out, token);
  PutBlocks(pool, sequence, out);
  TENON_RETURN_IF_ERROR(PutCopies(pool, sequence, out));
  Put(out, Checksum(out));
  return WriteFileAtomic(path, out);
}

Result<Sequence> RestoreSequence(const std::filesystem::path& path, KvPool& pool,
                                 const CacheScope& scope, const KvFileIdentity& identity) {
  // The pool's own size, a token for each slot, and the header.
  const uint64_t max_bytes = pool.layout().total_bytes +
                             uint64_t{4} * static_cast<uint64_t>(kKvBlockTokens) *
                                 static_cast<uint64_t>(pool.config().blocks) +
                             2 * kMaxIdentityBytes;
  TENON_ASSIGN_OR_RETURN(const std::string bytes, ReadChecked(path, max_bytes));
  KvFileReader reader(bytes, path);
  TENON_RETURN_IF_ERROR(reader.CheckIdentity(identity));
  TENON_RETURN_IF_ERROR(reader.CheckLayout(pool.config()));
  TENON_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, reader.ReadTokens(identity.vocab_size));
  Sequence sequence(pool, scope);
  const auto count = static_cast<int64_t>(tokens.size());
  TENON_RETURN_IF_ERROR(ReserveNow(sequence, count));
  TENON_RETURN_IF_ERROR(reader.CopyBlocks(pool, sequence, count));
  sequence.Append(tokens);
  sequence.Commit();
  return sequence;
}

}  // namespace tenon

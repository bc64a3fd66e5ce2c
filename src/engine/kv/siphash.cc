#include "engine/kv/siphash.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <bit>
#include <cerrno>
#include <cstring>

namespace tenon {
namespace {

struct SipState {
  uint64_t v0, v1, v2, v3;

  void Round() {
    v0 += v1;
    v2 += v3;
    v1 = std::rotl(v1, 13) ^ v0;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 = std::rotl(v0, 32);
    v2 += v1;
    v0 += v3;
    v1 = std::rotl(v1, 17) ^ v2;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 = std::rotl(v2, 32);
  }

  void Absorb(uint64_t word) {
    v3 ^= word;
    Round();
    Round();
    v0 ^= word;
  }

  uint64_t Finish() {
    v2 ^= 0xff;
    for (int i = 0; i < 4; ++i)
      Round();
    return v0 ^ v1 ^ v2 ^ v3;
  }
};

// Up to eight bytes, little-endian, on any machine.
uint64_t LoadWord(std::span<const std::byte> bytes) {
  uint64_t word = 0;
  for (size_t i = 0; i < bytes.size(); ++i)
    word |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  return word;
}

}  // namespace

uint64_t SipHash24(const SipKey& key, std::span<const std::byte> bytes) {
  // The ASCII text "somepseudorandomlygeneratedbytes" (section 2.1 of the paper).
  SipState state{key.low ^ 0x736f6d6570736575, key.high ^ 0x646f72616e646f6d,
                 key.low ^ 0x6c7967656e657261, key.high ^ 0x7465646279746573};
  const uint64_t length = static_cast<uint64_t>(bytes.size()) << 56;
  for (; bytes.size() >= 8; bytes = bytes.subspan(8))
    state.Absorb(LoadWord(bytes.first(8)));
  state.Absorb(length | LoadWord(bytes));
  return state.Finish();
}

Result<SipKey> RandomSipKey() {
  SipKey key;
  // Reads of up to 256 bytes are not cut short (getrandom(2)).
  if (::getrandom(&key, sizeof(key), 0) != static_cast<ssize_t>(sizeof(key))) {
    return MakeError(ErrorCode::kIo,
                     fmt::format("the system gave no random bytes: {}", std::strerror(errno)),
                     "getrandom");
  }
  return key;
}

}  // namespace tenon

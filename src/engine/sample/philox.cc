#include "engine/sample/philox.h"

namespace tenon {
namespace {

// Multipliers and key increments of the paper (table 2 and section 3.3 of Salmon et al.); the
// increments are the fractions of the golden ratio and of sqrt(3).
constexpr uint64_t kMultiplier0 = 0xD2511F53;
constexpr uint64_t kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kIncrement0 = 0x9E3779B9;
constexpr uint32_t kIncrement1 = 0xBB67AE85;
constexpr int kRounds = 10;

constexpr uint32_t High(uint64_t value) {
  return static_cast<uint32_t>(value >> 32);
}
constexpr uint32_t Low(uint64_t value) {
  return static_cast<uint32_t>(value);
}

}  // namespace

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = kMultiplier0 * counter[0];
    const uint64_t product1 = kMultiplier1 * counter[2];
    counter = {High(product1) ^ counter[1] ^ key[0], Low(product1),
               High(product0) ^ counter[3] ^ key[1], Low(product0)};
    key[0] += kIncrement0;
    key[1] += kIncrement1;
  }
  return counter;
}

double UniformAt(uint64_t seed, uint64_t position, DrawPurpose purpose) {
  const auto words = Philox4x32({Low(position), High(position), static_cast<uint32_t>(purpose), 0},
                                {Low(seed), High(seed)});
  const uint64_t bits = (static_cast<uint64_t>(words[0]) << 32) | words[1];
  return static_cast<double>(bits >> 11) * 0x1.0p-53;  // a double holds 53 bits exactly
}

}  // namespace tenon

// Philox4x32-10: the random numbers of the draw.
//
// Counter-based (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11):
// a number is a pure function of the seed, the position in the generated text and the purpose. So a
// request that is preempted, replayed or verified after speculation meets the same numbers again,
// and integer arithmetic alone makes them equal on every machine. Threading: pure functions.
#pragma once

#include <array>
#include <cstdint>

namespace tenon {

// One block of four random words.
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// What a number is for; different purposes at one position are independent.
enum class DrawPurpose : uint32_t {
  kToken = 0,
  kXtc = 1,
  // Speculation by rejection: the draft's draw, whether it is accepted, what takes its place.
  kGuess = 2,
  kAccept = 3,
  kResidual = 4,
};

// A number in [0, 1) with 53 random bits.
double UniformAt(uint64_t seed, uint64_t position, DrawPurpose purpose);

}  // namespace tenon

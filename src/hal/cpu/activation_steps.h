// The scale and the steps of a block of activations (hal/kernel_set.h) from the ranges of its
// groups, in plain floats. Internal linkage throughout (hal/cpu/panel_layout.h).
#pragma once

#include "hal/kernel_set.h"

namespace tenon {

// Both forms of a block, as the rows of kActI8 hold them.
struct ActivationBlock {
  WholeBlock* whole;
  GroupsBlock* groups;
};

// Block `index` of a row of k values at `row`.
static inline ActivationBlock BlockAt(std::byte* row, int64_t k, int64_t index) {
  return {reinterpret_cast<WholeBlock*>(row) + index,
          reinterpret_cast<GroupsBlock*>(row + GroupsBlocksOffset(k)) + index};
}

// A group's range in multiples of the block's scale, rounded up.
static inline int16_t MultiplierOf(float group_range, float inverse_range) {
  const float exact = group_range * inverse_range * static_cast<float>(kMaxMultiplier);
  auto whole = static_cast<int32_t>(exact);
  whole += static_cast<float>(whole) < exact ? 1 : 0;
  return static_cast<int16_t>(whole < kMaxMultiplier ? whole : kMaxMultiplier);
}

static inline void SetSteps(float scale, int16_t first, int16_t second,
                            const ActivationBlock& block) {
  block.whole->scale = scale;
  block.whole->multiplier[0] = first;
  block.whole->multiplier[1] = second;
  block.groups->step[0] = scale * static_cast<float>(first);
  block.groups->step[1] = scale * static_cast<float>(second);
}

// The sums, of groups whose levels add up to `first` and `second`.
static inline void SetSums(int32_t first, int32_t second, const ActivationBlock& block) {
  WholeBlock* whole = block.whole;
  whole->sum = whole->scale *
               static_cast<float>(whole->multiplier[0] * first + whole->multiplier[1] * second);
  block.groups->sum[0] = block.groups->step[0] * static_cast<float>(first);
  block.groups->sum[1] = block.groups->step[1] * static_cast<float>(second);
}

// Whether a block of this range has levels. Otherwise, all zero or with an infinity or a NaN, it is
// finished here.
static inline bool HasLevels(float range, const ActivationBlock& block) {
  if (range >= kLeastBlockRange && range <= __FLT_MAX__)
    return true;
  *block.whole = {};
  *block.groups = {};
  if (!(range < kLeastBlockRange)) {
    SetSteps(__builtin_nanf(""), 0, 0, block);
    SetSums(0, 0, block);
  }
  return false;
}

static inline float InverseStep(float step) {
  return step == 0.0f ? 0.0f : 1.0f / step;
}

// A block of 16 bits, by the bits of its largest |x| and round(x, inverse, q), which sets levels.
template <class Round>
static inline void QuantizeWide(const float* x, uint32_t magnitude, WideBlock* block, Round round) {
  const auto range = __builtin_bit_cast(float, magnitude);
  if (!(range >= kLeastBlockRange && range <= __FLT_MAX__)) {
    *block = {};
    block->scale = range < kLeastBlockRange ? 0.0f : __builtin_nanf("");
    return;
  }
  constexpr auto kMost = static_cast<float>(kMostWideLevel);
  block->scale = range * (1.0f / kMost);
  round(x, kMost / range, block->q);
}

static inline WideBlock* WideBlockAt(std::byte* row, int64_t index) {
  return reinterpret_cast<WideBlock*>(row) + index;
}

// Sets that go group by group differ in two functions: magnitude(x) gives the bits of a group's
// largest |x|, and round(x, first_inverse, second_inverse, block) sets levels and sums.
template <class Magnitude, class Round>
static inline void QuantizeByGroups(const float* x, const ActivationBlock& block,
                                    Magnitude magnitude, Round round) {
  const uint32_t first = magnitude(x);
  const uint32_t second = magnitude(x + kActivationGroup);
  const auto range = __builtin_bit_cast(float, first > second ? first : second);
  if (!HasLevels(range, block))
    return;
  const float inverse = 1.0f / range;
  SetSteps(range * kScaleOfRange, MultiplierOf(__builtin_bit_cast(float, first), inverse),
           MultiplierOf(__builtin_bit_cast(float, second), inverse), block);
  round(x, InverseStep(block.groups->step[0]), InverseStep(block.groups->step[1]), block);
}

// Levels of both groups, by round(x, inverse_step, q), which gives their sum; and the sums.
template <class Round>
static inline void RoundGroups(const float* x, float first_inverse, float second_inverse,
                               const ActivationBlock& block, Round round) {
  int8_t* q = block.groups->q;
  const int32_t first = round(x, first_inverse, q);
  const int32_t second = round(x + kActivationGroup, second_inverse, q + kActivationGroup);
  SetSums(first, second, block);
}

// A row with one scale, that of `range`.
template <class Round>
static inline void RoundRow(const float* x, int64_t k, float range, std::byte* out, Round round) {
  const float inverse = 127.0f / range;
  for (int64_t b = 0; b < k / kActivationBlockValues; ++b) {
    const ActivationBlock block = BlockAt(out, k, b);
    SetSteps(range / 127.0f, 1, 1, block);
    round(x + b * kActivationBlockValues, inverse, inverse, block);
  }
}

// A row of k values, block after block, by a set's function for one (QuantizeBlockFn).
template <class Block>
static inline void QuantizeBlocks(const float* x, int64_t k, std::byte* out, Block quantize) {
  for (int64_t b = 0; b < k / kActivationBlockValues; ++b)
    quantize(x + b * kActivationBlockValues, out, k, b);
}

}  // namespace tenon

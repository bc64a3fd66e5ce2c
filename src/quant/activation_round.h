// The activation quantizer of W8A8 and W4A8: one dynamic scale for each token.
//
// Source: SmoothQuant (arXiv 2211.10438): scale = max(max|x|, 1e-5) / 127 of the row, levels -127
// to 127, halves to even. Threading: free functions over disjoint outputs.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

namespace tenon {

// Replaces each value by the one that its level stands for.
inline void RoundActivationRow(std::span<float> row) {
  constexpr float kLevels = 127.0F;
  constexpr float kLeastRange = 1e-5F;
  float largest = kLeastRange;
  for (const float value : row)
    largest = std::max(largest, std::fabs(value));
  const float scale = largest / kLevels;
  const float inverse = kLevels / largest;
  for (float& value : row)
    value = scale * std::clamp(std::nearbyint(value * inverse), -kLevels, kLevels);
}

}  // namespace tenon

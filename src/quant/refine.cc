#include "quant/refine.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace tenon {
namespace {

// Both triangles: rows of H are read whole.
Matrix Symmetric(const Matrix& lower) {
  Matrix h = lower;
  for (int64_t i = 0; i < h.rows(); ++i) {
    for (int64_t j = 0; j < i; ++j)
      h.At(j, i) = h.At(i, j);
  }
  return h;
}

// Scales of all rows: what moves, and what was best.
struct Scales {
  std::vector<GroupScale> now;   // [rows, groups]
  std::vector<GroupScale> best;  // [rows, groups]
  std::vector<double> error;     // [rows] of the best
};

class Refiner {
 public:
  Refiner(const Matrix& weights, const Matrix& h, QuantizedMatrix& levels, MatrixEngine& engine)
      : weights_(weights),
        h_(Symmetric(h)),
        levels_(levels),
        engine_(engine),
        groups_(levels.columns() / levels.group()),
        errors_(weights.rows(), weights.columns()),
        gradients_(weights.rows(), weights.columns()) {
    for (int64_t row = 0; row < weights.rows(); ++row) {
      for (int64_t g = 0; g < groups_; ++g)
        scales_.now.push_back(levels.ScaleAt(row, g * levels.group()));
    }
    scales_.best = scales_.now;
    scales_.error.assign(static_cast<size_t>(weights.rows()),
                         std::numeric_limits<double>::infinity());
  }

  void Run(const RefineOptions& options) {
    for (int step = 0; step <= options.steps; ++step) {
      Evaluate();
      if (step == options.steps)
        break;
      const float at = options.steps < 2
                           ? 0.0F
                           : static_cast<float>(step) / static_cast<float>(options.steps - 1);
      Move(options.from * std::pow(options.to / options.from, at));
    }
    for (int64_t row = 0; row < weights_.rows(); ++row) {
      for (int64_t g = 0; g < groups_; ++g) {
        levels_.SetScale(row, g * levels_.group(),
                         scales_.best[static_cast<size_t>(row * groups_ + g)]);
      }
    }
  }

 private:
  // e and H e of all rows with the scales as the file would hold them; remembers the best.
  void Evaluate() {
    for (int64_t row = 0; row < weights_.rows(); ++row) {
      for (int64_t g = 0; g < groups_; ++g) {
        const auto index = static_cast<size_t>(row * groups_ + g);
        levels_.SetScale(row, g * levels_.group(), scales_.now[index]);
      }
      for (int64_t j = 0; j < weights_.columns(); ++j)
        errors_.At(row, j) = weights_.At(row, j) - levels_.ValueAt(row, j);
    }
    std::fill(gradients_.values().begin(), gradients_.values().end(), 0.0F);
    engine_.AddProduct(1.0F, std::as_const(errors_).view(), h_.view(), gradients_.view());
    for (int64_t row = 0; row < weights_.rows(); ++row) {
      double error = 0.0;
      for (int64_t j = 0; j < weights_.columns(); ++j) {
        error +=
            static_cast<double>(errors_.At(row, j)) * static_cast<double>(gradients_.At(row, j));
      }
      if (!(error < scales_.error[static_cast<size_t>(row)]))
        continue;
      scales_.error[static_cast<size_t>(row)] = error;
      const auto first = static_cast<int64_t>(row * groups_);
      std::copy_n(scales_.now.begin() + first, groups_, scales_.best.begin() + first);
    }
  }

  // Each group's scale by `size` of itself, against the gradient, in proportion to the row's
  // largest relative gradient.
  void Move(float size) {
    std::vector<float> slopes(static_cast<size_t>(groups_));
    for (int64_t row = 0; row < weights_.rows(); ++row) {
      float largest = 0.0F;
      for (int64_t g = 0; g < groups_; ++g) {
        float slope = 0.0F;
        for (int64_t j = g * levels_.group(); j < (g + 1) * levels_.group(); ++j)
          slope += static_cast<float>(levels_.LevelAt(row, j)) * gradients_.At(row, j);
        slope *= scales_.now[static_cast<size_t>(row * groups_ + g)].scale;
        slopes[static_cast<size_t>(g)] = slope;
        largest = std::max(largest, std::fabs(slope));
      }
      for (int64_t g = 0; largest > 0.0F && g < groups_; ++g) {
        scales_.now[static_cast<size_t>(row * groups_ + g)].scale *=
            1.0F + size * slopes[static_cast<size_t>(g)] / largest;
      }
    }
  }

  const Matrix& weights_;
  Matrix h_;
  QuantizedMatrix& levels_;
  MatrixEngine& engine_;
  int64_t groups_;
  Matrix errors_;
  Matrix gradients_;
  Scales scales_;
};

}  // namespace

void RefineScales(const Matrix& weights, const Matrix& h, const RefineOptions& options,
                  QuantizedMatrix& levels, MatrixEngine& engine) {
  if (levels.grid().super_block == 0 && options.steps > 0)
    Refiner(weights, h, levels, engine).Run(options);
}

}  // namespace tenon

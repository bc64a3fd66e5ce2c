#include "engine/exec/steps/route_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "hal/cpu/exp_poly.h"

namespace tenon {
namespace {

// Rows that one task takes: with 64 to 256 experts some tens of microseconds.
constexpr int64_t kRowGrain = 8;

constexpr float kNever = -std::numeric_limits<float>::infinity();

float Sigmoid(float x) {
  return 1.0F / (1.0F + ExpScalar(-x));
}

// Index of the largest value, the first of equals; also where values are NaN.
size_t IndexOfBest(std::span<const float> values) {
  size_t best = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    if (values[i] > values[best])
      best = i;
  }
  return best;
}

// The sum of the `count` largest values, largest first; values are overwritten.
float TakeSumOfBest(std::span<float> values, int64_t count) {
  float sum = 0.0F;
  for (int64_t i = 0; i < count; ++i) {
    float& best = values[IndexOfBest(values)];
    sum += best;
    best = kNever;
  }
  return sum;
}

}  // namespace

std::string RouteStep::Describe() const {
  return fmt::format(
      "route to {} of {} experts by {}{}", args_.attrs.used, args_.x.columns,
      args_.attrs.sigmoid ? "sigmoid" : "softmax",
      args_.attrs.groups > 1
          ? fmt::format(", in {} of {} groups", args_.attrs.used_groups, args_.attrs.groups)
          : "");
}

int64_t RouteStep::WorkerScratchBytes() const {
  return (3 * args_.x.columns + args_.attrs.groups) * static_cast<int64_t>(sizeof(float));
}

RouteStep::Row RouteStep::RowOf(float* scratch) const {
  const auto experts = static_cast<size_t>(args_.x.columns);
  return {{scratch, experts},
          {scratch + experts, experts},
          {scratch + 2 * experts, experts},
          {scratch + 3 * experts, static_cast<size_t>(args_.attrs.groups)}};
}

void RouteStep::Score(const float* logits, const Row& row) const {
  const size_t experts = row.scores.size();
  if (args_.attrs.sigmoid) {
    for (size_t i = 0; i < experts; ++i)
      row.scores[i] = Sigmoid(logits[i]);
  } else {
    const float max = *std::max_element(logits, logits + experts);
    float sum = 0.0F;
    for (size_t i = 0; i < experts; ++i) {
      row.scores[i] = ExpScalar(logits[i] - max);
      sum += row.scores[i];
    }
    for (float& score : row.scores)
      score /= sum;
  }
  for (size_t i = 0; i < experts; ++i)
    row.choice[i] = args_.bias == nullptr ? row.scores[i] : row.scores[i] + args_.bias[i];
}

// Takes the experts of all but the best groups out of the choice.
void RouteStep::KeepBestGroups(const Row& row) const {
  const size_t size = row.choice.size() / row.groups.size();
  std::copy(row.choice.begin(), row.choice.end(), row.work.begin());
  for (size_t g = 0; g < row.groups.size(); ++g)
    row.groups[g] = TakeSumOfBest(row.work.subspan(g * size, size), args_.attrs.group_best);
  std::fill(row.work.begin(), row.work.end(), kNever);
  for (int64_t i = 0; i < args_.attrs.used_groups; ++i) {
    const size_t best = IndexOfBest(row.groups);
    row.groups[best] = kNever;
    std::copy_n(&row.choice[best * size], size, &row.work[best * size]);
  }
  std::copy(row.work.begin(), row.work.end(), row.choice.begin());
}

void RouteStep::Choose(const Row& row, float* out) const {
  std::fill_n(out, row.scores.size(), 0.0F);
  float sum = 0.0F;
  for (int64_t i = 0; i < args_.attrs.used; ++i) {
    const size_t best = IndexOfBest(row.choice);
    row.choice[best] = kNever;
    out[best] = row.scores[best];
    sum += row.scores[best];
  }
  const float factor = args_.attrs.normalized ? args_.attrs.scale / sum : args_.attrs.scale;
  // All chosen scores 0: nothing to divide by, and nothing is added.
  for (size_t i = 0; sum != 0.0F && i < row.scores.size(); ++i)
    out[i] *= factor;
}

Status RouteStep::Run(const StepContext& context) const {
  context.pool.ParallelFor(
      context.RowCount(args_.x.rows), kRowGrain, [&](int64_t begin, int64_t end, int worker) {
        const Row row = RowOf(reinterpret_cast<float*>(context.Scratch(worker)));
        for (int64_t i = begin; i < end; ++i) {
          Score(context.FloatRow(args_.x, i), row);
          if (args_.attrs.groups > 1)
            KeepBestGroups(row);
          Choose(row, context.FloatRow(args_.out, i));
        }
      });
  return {};
}

Status GateRowsStep::Run(const StepContext& context) const {
  context.pool.ParallelFor(
      context.RowCount(args_.x.rows), kRowGrain, [&](int64_t begin, int64_t end, int) {
        for (int64_t row = begin; row < end; ++row) {
          args_.scale(context.FloatRow(args_.x, row), Sigmoid(*context.FloatRow(args_.gate, row)),
                      args_.x.columns, context.FloatRow(args_.out, row));
        }
      });
  return {};
}

}  // namespace tenon

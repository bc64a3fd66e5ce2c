#include "engine/exec/steps/head_steps.h"

#include <algorithm>

namespace tenon {
namespace {

// Rows that one task takes: some microseconds of copying.
constexpr int64_t kRowGrain = 16;

template <class F>
void ForEachRow(const StepContext& context, Symbol rows, F&& body) {
  context.pool.ParallelFor(context.RowCount(rows), kRowGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row)
      body(row);
  });
}

}  // namespace

Status SliceHeadsStep::Run(const StepContext& context) const {
  const int64_t head_dim = args_.x.columns / args_.attrs.heads;
  ForEachRow(context, args_.x.rows, [&](int64_t row) {
    const float* from = context.FloatRow(args_.x, row) + args_.attrs.begin;
    float* to = context.FloatRow(args_.out, row);
    for (int64_t head = 0; head < args_.attrs.heads; ++head)
      std::copy_n(from + head * head_dim, args_.attrs.count, to + head * args_.attrs.count);
  });
  return {};
}

Status JoinHeadsStep::Run(const StepContext& context) const {
  const int64_t heads = args_.attrs.heads;
  const int64_t first = args_.a.columns / heads;
  const int64_t second = args_.attrs.shared ? args_.b.columns : args_.b.columns / heads;
  const int64_t step = args_.attrs.shared ? 0 : second;
  ForEachRow(context, args_.a.rows, [&](int64_t row) {
    const float* a = context.FloatRow(args_.a, row);
    const float* b = second > 0 ? context.FloatRow(args_.b, row) : nullptr;
    float* out = context.FloatRow(args_.out, row);
    for (int64_t head = 0; head < heads; ++head) {
      out = std::copy_n(a + head * first, first, out);
      if (second > 0)
        out = std::copy_n(b + head * step, second, out);
      out = std::fill_n(out, args_.attrs.zeros, 0.0F);
    }
  });
  return {};
}

}  // namespace tenon

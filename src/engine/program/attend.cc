#include "engine/program/attend.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "graph/program/no_key.h"

namespace tenon {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

float Dot(const float* a, const float* b, int64_t n) {
  // Eight sums, so that the compiler may keep them in a vector.
  float sums[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int64_t lane = 0; lane < 8; ++lane)
      sums[lane] += a[i + lane] * b[i + lane];
  }
  for (; i < n; ++i)
    sums[0] += a[i] * b[i];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

struct Range {
  int64_t begin;
  int64_t end;
};

Range Visible(const AttendArgs& args, int64_t batch, int64_t query) {
  const auto b = static_cast<size_t>(batch);
  const int64_t p = query + (args.offset.empty() ? 0 : args.offset[b]);
  Range range{0, args.keys};
  if (!args.valid.empty())
    range.end = std::min(range.end, args.valid[b]);
  if (args.causal)
    range.end = std::min(range.end, p + 1);
  if (args.right >= 0)
    range.end = std::min(range.end, p + args.right + 1);
  if (args.left >= 0)
    range.begin = std::max(range.begin, p - args.left);
  range.end = std::max<int64_t>(range.end, 0);
  range.begin = std::min(range.begin, range.end);
  return range;
}

struct Query {
  int64_t batch;
  int64_t head;
  int64_t row;
};

// What the mask adds to the scores of one query, in key order; null: nothing.
struct MaskRow {
  const float* data = nullptr;
  int64_t stride = 0;
  float At(int64_t key) const { return data == nullptr ? 0.0F : data[key * stride]; }
};

MaskRow MaskOf(const AttendArgs& args, const Query& query) {
  if (args.mask == nullptr)
    return {};
  return {args.mask + query.batch * args.mask_strides[0] + query.head * args.mask_strides[1] +
              query.row * args.mask_strides[2],
          args.mask_strides[3]};
}

// Whether a key of the range is left by the mask: then those that are not have no share at all.
bool LeavesKey(const MaskRow& mask, const Range& range) {
  for (int64_t j = range.begin; j < range.end; ++j) {
    if (mask.At(j) > kNoKey)
      return true;
  }
  return false;
}

// Scores of one query, masked keys minus infinity. Returns how many were computed; 0 also when it
// sees none.
int64_t Scores(const AttendArgs& args, const Query& query, float* scores, float* kept) {
  const auto [b, h, i] = query;
  const Range range = Visible(args, b, i);
  const MaskRow mask = MaskOf(args, query);
  const float* q = args.q.At(b, h, i);
  const int64_t kv_head = h / (args.heads / args.kv_heads);
  const bool all = kept != nullptr;
  const bool skips = !all && LeavesKey(mask, range);
  bool any = false;
  int64_t computed = 0;
  for (int64_t j = 0; j < args.keys; ++j) {
    const bool visible = j >= range.begin && j < range.end;
    scores[j] = kMinusInfinity;
    if ((!visible && !all) || (skips && mask.At(j) <= kNoKey))
      continue;
    ++computed;
    float score = args.scale * Dot(q, args.k.At(b, kv_head, j), args.head_dim);
    if (all && args.wanted == ScoresWanted::kProducts)
      kept[j] = score;
    if (args.softcap > 0.0F)
      score = args.softcap * std::tanh(score / args.softcap);
    if (all && args.wanted == ScoresWanted::kCapped)
      kept[j] = score;
    const float bias = (visible ? 0.0F : kMinusInfinity) + mask.At(j);
    any = any || bias != kMinusInfinity;
    scores[j] = score + bias;
    if (all && args.wanted == ScoresWanted::kMasked)
      kept[j] = scores[j];
  }
  return any ? computed : 0;
}

void Softmax(float* scores, int64_t n) {
  const float largest = *std::max_element(scores, scores + n);
  float sum = 0.0F;
  for (int64_t j = 0; j < n; ++j) {
    scores[j] = std::exp(scores[j] - largest);
    sum += scores[j];
  }
  for (int64_t j = 0; j < n; ++j)
    scores[j] /= sum;
}

// The number of keys that were multiplied.
int64_t OneQuery(const AttendArgs& args, const Query& query, std::vector<float>& scores) {
  const auto [b, h, i] = query;
  float* kept = args.scores == nullptr
                    ? nullptr
                    : args.scores + ((b * args.heads + h) * args.queries + i) * args.keys;
  const int64_t computed = Scores(args, query, scores.data(), kept);
  if (computed > 0)
    Softmax(scores.data(), args.keys);
  else
    std::fill(scores.begin(), scores.end(), 0.0F);
  if (kept != nullptr && args.wanted == ScoresWanted::kProbabilities)
    std::copy(scores.begin(), scores.end(), kept);
  float* out =
      args.out + b * args.out_batch_stride + h * args.out_head_stride + i * args.out_row_stride;
  std::fill(out, out + args.value_dim, 0.0F);
  const int64_t kv_head = h / (args.heads / args.kv_heads);
  for (int64_t j = 0; j < args.keys; ++j) {
    const float p = scores[static_cast<size_t>(j)];
    if (p == 0.0F)
      continue;
    const float* v = args.v.At(b, kv_head, j);
    for (int64_t d = 0; d < args.value_dim; ++d)
      out[d] += p * v[d];
  }
  return computed;
}

}  // namespace

int64_t Attend(const AttendArgs& args, ThreadPool& pool) {
  std::atomic<int64_t> computed = 0;
  pool.ParallelFor(args.batch * args.heads, 1, [&](int64_t begin, int64_t end, int) {
    std::vector<float> scores(static_cast<size_t>(args.keys));
    int64_t count = 0;
    for (int64_t at = begin; at < end; ++at) {
      for (int64_t i = 0; i < args.queries; ++i)
        count += OneQuery(args, {at / args.heads, at % args.heads, i}, scores);
    }
    computed += count;
  });
  return computed;
}

}  // namespace tenon

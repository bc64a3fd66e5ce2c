#include "engine/program/attend.h"

#include <algorithm>
#include <cmath>
#include <limits>

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

// Scores of one query, masked keys minus infinity; false when it sees none.
bool Scores(const AttendArgs& args, const Query& query, float* scores, float* kept) {
  const auto [b, h, i] = query;
  const Range range = Visible(args, b, i);
  const float* q = args.q.At(b, h, i);
  const int64_t kv_head = h / (args.heads / args.kv_heads);
  const bool all = kept != nullptr;
  bool any = false;
  for (int64_t j = 0; j < args.keys; ++j) {
    const bool visible = j >= range.begin && j < range.end;
    scores[j] = kMinusInfinity;
    if (!visible && !all)
      continue;
    float score = args.scale * Dot(q, args.k.At(b, kv_head, j), args.head_dim);
    if (all && args.wanted == ScoresWanted::kProducts)
      kept[j] = score;
    if (args.softcap > 0.0F)
      score = args.softcap * std::tanh(score / args.softcap);
    if (all && args.wanted == ScoresWanted::kCapped)
      kept[j] = score;
    float bias = visible ? 0.0F : kMinusInfinity;
    if (args.mask != nullptr)
      bias += args.mask[b * args.mask_strides[0] + h * args.mask_strides[1] +
                        i * args.mask_strides[2] + j * args.mask_strides[3]];
    any = any || bias != kMinusInfinity;
    scores[j] = score + bias;
    if (all && args.wanted == ScoresWanted::kMasked)
      kept[j] = scores[j];
  }
  return any;
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

void OneQuery(const AttendArgs& args, int64_t b, int64_t h, int64_t i, std::vector<float>& scores) {
  float* kept = args.scores == nullptr
                    ? nullptr
                    : args.scores + ((b * args.heads + h) * args.queries + i) * args.keys;
  if (Scores(args, {b, h, i}, scores.data(), kept))
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
}

}  // namespace

void Attend(const AttendArgs& args, ThreadPool& pool) {
  pool.ParallelFor(args.batch * args.heads, 1, [&](int64_t begin, int64_t end, int) {
    std::vector<float> scores(static_cast<size_t>(args.keys));
    for (int64_t at = begin; at < end; ++at) {
      for (int64_t i = 0; i < args.queries; ++i)
        OneQuery(args, at / args.heads, at % args.heads, i, scores);
    }
  });
}

}  // namespace tenon

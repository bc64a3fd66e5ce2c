#include <functional>
#include <numeric>

#include "hal/kernel_test_support.h"

namespace tenon::kernel_test {
namespace {

struct AttentionCase {
  KvType type = KvType::kF32;
  int64_t heads = 1;
  int64_t head_dim = 64;
  int64_t begin = 0;
  int64_t end = 1;
  float softcap = 0;
};

std::string Describe(const AttentionCase& c) {
  return "type " + std::to_string(static_cast<int>(c.type)) + " heads " + std::to_string(c.heads) +
         " head_dim " + std::to_string(c.head_dim) + " keys " + std::to_string(c.begin) + ".." +
         std::to_string(c.end) + " softcap " + std::to_string(c.softcap);
}

// One sequence's cache for one layer and KV head: blocks in a shuffled order within a pool of more
// blocks, every slot that is never written full of NaN.
class Cache {
 public:
  Cache(const AttentionCase& c, KvStoreFn store, Random* random)
      : keys_(random->Normals(c.end * c.head_dim)), values_(random->Normals(c.end * c.head_dim)) {
    const int64_t blocks = (c.end + kKvBlockTokens - 1) / kKvBlockTokens;
    table_.resize(static_cast<size_t>(blocks) + 3);
    std::iota(table_.begin(), table_.end(), 0);
    for (size_t i = table_.size() - 1; i > 0; --i)
      std::swap(table_[i],
                table_[static_cast<size_t>(random->Integer(0, static_cast<int64_t>(i)))]);
    value_offset_ = kKvBlockTokens * c.head_dim * KvTypeBytes(c.type);
    stride_ = 2 * value_offset_ + 64;
    // All bits set is a NaN in each of the types.
    pool_.assign(table_.size() * static_cast<size_t>(stride_), std::byte{0xff});
    // Keys before the window are left out: their slots are never to be read.
    for (int64_t token = c.begin; token < c.end; ++token)
      Store(c, store, token);
  }

  AttentionArgs Args(const AttentionCase& c, const Floats& query, float* out) const {
    return {.query = query.data(),
            .heads = c.heads,
            .head_dim = c.head_dim,
            .keys = pool_.data(),
            .values = pool_.data() + value_offset_,
            .block_stride = stride_,
            .block_table = table_.data(),
            .begin = c.begin,
            .end = c.end,
            .scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim)),
            .softcap = c.softcap,
            .out = out};
  }
  const Floats& keys() const { return keys_; }
  const Floats& values() const { return values_; }
  const Bytes& pool() const { return pool_; }

 private:
  void Store(const AttentionCase& c, KvStoreFn store, int64_t token) {
    std::byte* block = pool_.data() + table_[static_cast<size_t>(token / kKvBlockTokens)] * stride_;
    store({.key = keys_.data() + token * c.head_dim,
           .value = values_.data() + token * c.head_dim,
           .head_dim = c.head_dim,
           .slot = token % kKvBlockTokens,
           .key_block = block,
           .value_block = block + value_offset_});
  }

  Floats keys_;  // [end, head_dim], as they were before rounding to the cache's type
  Floats values_;
  std::vector<int32_t> table_;
  int64_t value_offset_ = 0;
  int64_t stride_ = 0;
  Bytes pool_;
};

double Rounded(float value, KvType type) {
  switch (type) {
    case KvType::kF16:
      return F16ToF32(F32ToF16(value));
    case KvType::kBF16:
      return BF16ToF32(F32ToBF16(value));
    default:
      return value;
  }
}

struct NaiveResult {
  std::vector<double> out;  // [head_dim]
  double bound = 0;         // largest error that the float kernel may have
};

// Softmax over all keys at once, in double. Errors of the kernel: a score carries head_dim + 2
// roundings of sum|q k|, a capped one a few of the cap's size; a probability's relative error is
// twice the largest of these (numerator and denominator) and a few units a block and a key.
NaiveResult Naive(const AttentionCase& c, const Cache& cache, const float* query) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(c.head_dim));
  std::vector<double> scores;
  double score_error = 0;
  for (int64_t j = c.begin; j < c.end; ++j) {
    double dot = 0;
    double magnitude = 0;
    for (int64_t d = 0; d < c.head_dim; ++d) {
      const float key = cache.keys()[static_cast<size_t>(j * c.head_dim + d)];
      const double product = static_cast<double>(query[d]) * Rounded(key, c.type);
      dot += product;
      magnitude += std::abs(product);
    }
    const double score = scale * dot;
    scores.push_back(c.softcap == 0 ? score : c.softcap * std::tanh(score / c.softcap));
    const double roundings = static_cast<double>(c.head_dim + 2) * magnitude * scale;
    score_error = std::max(score_error, 0x1p-24 * (roundings + 8 * c.softcap));
  }
  const double max = *std::max_element(scores.begin(), scores.end());
  NaiveResult result{std::vector<double>(static_cast<size_t>(c.head_dim)), 0};
  double total = 0;
  double largest = 0;
  for (int64_t j = c.begin; j < c.end; ++j) {
    const double p = std::exp(scores[static_cast<size_t>(j - c.begin)] - max);
    total += p;
    for (int64_t d = 0; d < c.head_dim; ++d) {
      const double v = Rounded(cache.values()[static_cast<size_t>(j * c.head_dim + d)], c.type);
      result.out[static_cast<size_t>(d)] += p * v;
      largest = std::max(largest, std::abs(v));
    }
  }
  for (double& value : result.out)
    value /= total;
  const auto keys = static_cast<double>(c.end - c.begin);
  result.bound = largest * (2 * score_error + (keys + 16) * 0x1p-24);
  return result;
}

Floats RunAttention(const KernelSet& set, const AttentionCase& c, const Cache& cache,
                    const Floats& query) {
  Floats out(query.size() + 1, 99.0f);
  set.attention[static_cast<int>(c.type)](cache.Args(c, query, out.data()));
  EXPECT_EQ(out.back(), 99.0f) << "written past the output";
  out.pop_back();
  return out;
}

Floats Query(const AttentionCase& c, Random* random) {
  Floats query = random->Normals(c.heads * c.head_dim);
  for (float& value : query)
    value *= 2.0f;
  return query;
}

// Windows that begin and end within a block, on its edge, and that hold one key.
std::vector<AttentionCase> Cases() {
  constexpr int64_t kWindows[][2] = {{0, 1},   {0, 31},  {0, 32},   {0, 33},  {0, 200},
                                     {5, 6},   {31, 33}, {32, 64},  {63, 64}, {64, 65},
                                     {70, 90}, {3, 129}, {100, 257}};
  std::vector<AttentionCase> cases;
  int64_t heads = 0;
  for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kBF16}) {
    for (const int64_t head_dim : {8, 40, 64, 128, 256}) {
      for (const auto& window : kWindows) {
        const float softcap = heads % 3 == 1 ? 5.0f : 0.0f;
        cases.push_back({type, heads++ % 8 + 1, head_dim, window[0], window[1], softcap});
      }
    }
  }
  return cases;
}

TEST(Attention, ReferenceMatchesNaiveSoftmax) {
  Random random(1);
  for (const AttentionCase& c : Cases()) {
    const Cache cache(c, kRefKernelSet.kv_store[static_cast<int>(c.type)], &random);
    const Floats query = Query(c, &random);
    const Floats out = RunAttention(kRefKernelSet, c, cache, query);
    for (int64_t h = 0; h < c.heads; ++h) {
      const NaiveResult expected = Naive(c, cache, query.data() + h * c.head_dim);
      for (int64_t d = 0; d < c.head_dim; ++d) {
        ASSERT_NEAR(out[static_cast<size_t>(h * c.head_dim + d)],
                    expected.out[static_cast<size_t>(d)], expected.bound)
            << Describe(c) << " head " << h << " element " << d;
      }
    }
  }
}

TEST(Attention, EverySetEqualsReferenceBitForBit) {
  Random random(2);
  for (const AttentionCase& c : Cases()) {
    const Cache cache(c, kRefKernelSet.kv_store[static_cast<int>(c.type)], &random);
    const Floats query = Query(c, &random);
    const Floats expected = RunAttention(kRefKernelSet, c, cache, query);
    for (const KernelSet* set : RunnableKernelSets()) {
      if (set->attention[static_cast<int>(c.type)] == nullptr)
        continue;
      EXPECT_EQ(FirstDifference(expected, RunAttention(*set, c, cache, query)), "")
          << set->name << " " << Describe(c);
    }
  }
}

// A head's result is the same alone and among others.
TEST(Attention, HeadsDoNotDependOnEachOther) {
  Random random(3);
  AttentionCase c{KvType::kF16, 7, 64, 10, 100, 0.0f};
  const Cache cache(c, kRefKernelSet.kv_store[1], &random);
  const Floats query = Query(c, &random);
  for (const KernelSet* set : RunnableKernelSets()) {
    if (set->attention[1] == nullptr)
      continue;
    const Floats all = RunAttention(*set, c, cache, query);
    for (size_t h = 0; h < 7; ++h) {
      AttentionCase one = c;
      one.heads = 1;
      const auto at = static_cast<int64_t>(h * 64);
      const Floats head(query.begin() + at, query.begin() + at + 64);
      const Floats expected(all.begin() + at, all.begin() + at + 64);
      EXPECT_EQ(FirstDifference(expected, RunAttention(*set, one, cache, head)), "") << set->name;
    }
  }
}

// Scores that differ by more than exp can express: the largest takes all, without a NaN.
TEST(Attention, DominantKey) {
  Random random(4);
  const AttentionCase c{KvType::kF32, 2, 16, 0, 70, 0.0f};
  const Cache cache(c, kRefKernelSet.kv_store[0], &random);
  Floats query(32);
  for (size_t i = 0; i < 32; ++i)
    query[i] = cache.keys()[40 * 16 + i % 16] * 1000.0f;
  for (const KernelSet* set : RunnableKernelSets()) {
    if (set->attention[0] == nullptr)
      continue;
    const Floats out = RunAttention(*set, c, cache, query);
    const NaiveResult expected = Naive(c, cache, query.data());
    for (size_t d = 0; d < 16; ++d)
      EXPECT_NEAR(out[d], expected.out[d], expected.bound) << set->name;
  }
}

// NaN, infinities, subnormals and ties, besides ordinary numbers.
Floats StoredNumbers(int64_t n, Random* random) {
  Floats values = random->Normals(n);
  const float special[] = {std::numeric_limits<float>::quiet_NaN(),
                           std::numeric_limits<float>::infinity(),
                           1e-7f,
                           -0.0f,
                           1.0f + 0x1p-11f,
                           1.0f + 0x1p-8f,
                           70000.0f,
                           65519.0f};
  std::copy(std::begin(special), std::end(special), values.begin());
  return values;
}

// The layout, and rounding as quant/half.h defines it.
TEST(KvStore, TransposesKeysAndRounds) {
  Random random(5);
  constexpr int64_t kHeadDim = 24;
  const Floats key = StoredNumbers(kHeadDim, &random);
  const Floats value = StoredNumbers(kHeadDim, &random);
  for (const KernelSet* set : RunnableKernelSets()) {
    for (const int type : {1, 2}) {
      if (set->kv_store[type] == nullptr)
        continue;
      const auto convert = type == 1 ? F32ToF16 : F32ToBF16;
      Bytes keys(kKvBlockTokens * kHeadDim * 2);
      Bytes values(kKvBlockTokens * kHeadDim * 2);
      set->kv_store[type]({key.data(), value.data(), kHeadDim, 13, keys.data(), values.data()});
      for (int64_t i = 0; i < kKvBlockTokens * kHeadDim; ++i) {
        const auto k = static_cast<size_t>(i / kKvBlockTokens);
        const auto v = static_cast<size_t>(i % kHeadDim);
        EXPECT_EQ(LoadAs<uint16_t>(keys.data() + i * 2),
                  i % kKvBlockTokens == 13 ? convert(key[k]) : 0);
        EXPECT_EQ(LoadAs<uint16_t>(values.data() + i * 2),
                  i / kHeadDim == 13 ? convert(value[v]) : 0);
      }
    }
  }
}

TEST(KvStore, EverySetStoresWhatTheReferenceStores) {
  for (const int64_t head_dim : {8, 64, 256}) {
    for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kBF16}) {
      const AttentionCase c{type, 1, head_dim, 3, 45, 0.0f};
      Random random(6);
      const Cache expected(c, kRefKernelSet.kv_store[static_cast<int>(type)], &random);
      for (const KernelSet* set : RunnableKernelSets()) {
        if (set->kv_store[static_cast<int>(type)] == nullptr)
          continue;
        Random again(6);
        const Cache cache(c, set->kv_store[static_cast<int>(type)], &again);
        EXPECT_EQ(cache.pool(), expected.pool()) << set->name << " head_dim " << head_dim;
      }
    }
  }
}

}  // namespace
}  // namespace tenon::kernel_test

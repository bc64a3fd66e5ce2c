// Packed blocks of the KV cache: what packing keeps, what is read back, and attention over it. The
// blocks are decoded here from the layout that hal/kv_block.h describes, in double.
#include <functional>
#include <numeric>

#include "hal/kernel_test_support.h"
#include "hal/kv_type.h"

namespace tenon::kernel_test {
namespace {

constexpr KvType kPackedTypes[] = {KvType::kQ8, KvType::kQ4, KvType::kNf4, KvType::kHier};
// One group, a short second group, an even split, a last group of 8.
constexpr int64_t kHeadDims[] = {8, 40, 64, 72, 128, 256};

size_t Index(KvType type) {
  return static_cast<size_t>(type);
}

// [tokens, head_dim] keys and values, and the same as f16 blocks and as packed blocks.
struct PackedCache {
  int64_t head_dim = 0;
  int64_t blocks = 0;
  Floats keys;  // as f16 keeps them
  Floats values;
  std::vector<Bytes> key_blocks;
  std::vector<Bytes> value_blocks;
};

void SealInto(const KernelSet& set, KvType type, PackedCache& cache) {
  cache.key_blocks.clear();
  cache.value_blocks.clear();
  const int64_t head_dim = cache.head_dim;
  for (int64_t b = 0; b < cache.blocks; ++b) {
    Bytes keys(static_cast<size_t>(KvKeyBytes(KvType::kF16, head_dim)));
    Bytes values(keys.size());
    for (int64_t slot = 0; slot < kKvBlockTokens; ++slot) {
      const int64_t at = (b * kKvBlockTokens + slot) * head_dim;
      kRefKernelSet.kv_store[Index(KvType::kF16)]({cache.keys.data() + at, cache.values.data() + at,
                                                   head_dim, slot, keys.data(), values.data()});
    }
    cache.key_blocks.emplace_back(static_cast<size_t>(KvKeyBytes(type, head_dim)), std::byte{0xee});
    cache.value_blocks.emplace_back(static_cast<size_t>(KvValueBytes(type, head_dim)),
                                    std::byte{0xee});
    set.kv_seal[Index(type)]({keys.data(), values.data(), head_dim, cache.key_blocks.back().data(),
                              cache.value_blocks.back().data()});
  }
}

PackedCache MakeCache(KvType type, int64_t head_dim, int64_t blocks, Random* random) {
  PackedCache cache{head_dim,
                    blocks,
                    random->Normals(blocks * kKvBlockTokens * head_dim),
                    random->Normals(blocks * kKvBlockTokens * head_dim),
                    {},
                    {}};
  // Channels of keys with offsets and sizes of their own, as models have them.
  for (size_t i = 0; i < cache.keys.size(); ++i) {
    const auto d = static_cast<int64_t>(i) % head_dim;
    cache.keys[i] = cache.keys[i] * (d % 5 == 0 ? 4.0f : 0.5f) + (d % 7 == 3 ? 9.0f : 0.0f);
  }
  for (Floats* floats : {&cache.keys, &cache.values}) {
    for (float& value : *floats)
      value = F16ToF32(F32ToF16(value));
  }
  SealInto(kRefKernelSet, type, cache);
  return cache;
}

// The code in row `row` (channels of keys, tokens of values) and lane `lane` of `lanes`.
uint32_t CodeBits(const std::byte* words, int bits, int64_t row, int64_t lanes, int64_t lane) {
  const int64_t in_word = 32 / bits;
  const auto word = LoadAs<uint32_t>(words + 4 * (row / in_word * lanes + lane));
  return (word >> (row % in_word * bits)) % (1u << bits);
}

// Which codes are read: all, or those of the first plane.
enum class Planes { kAll, kUpper };

struct Place {
  int64_t row;
  int64_t lanes;
  int64_t lane;
  int64_t low;  // from the first plane to the second
};

double Decode(KvType type, Planes planes, const std::byte* part, const Place& place,
              uint16_t header) {
  const auto code = [&](int bits, int64_t offset) {
    return CodeBits(part + offset, bits, place.row, place.lanes, place.lane);
  };
  const double scale = F16ToF32(static_cast<uint16_t>((header & 0xffu) << 7));
  const double zero = static_cast<int8_t>(header >> 8);
  if (type == KvType::kQ8)
    return scale * (code(8, 0) + 8 * zero - 128);
  if (type == KvType::kNf4)
    return scale / 128 * (kNf4Levels[code(4, 0)] - 128 + 16 * zero);
  const double upper = scale * (code(4, 0) + zero);
  if (type == KvType::kQ4 || planes == Planes::kUpper)
    return upper;
  return upper + scale / 16 * (static_cast<double>(code(4, place.low)) - 8);
}

double KeyAt(KvType type, Planes planes, const PackedCache& cache, int64_t token, int64_t d) {
  const std::byte* part = cache.key_blocks[static_cast<size_t>(token / kKvBlockTokens)].data();
  const Place place = {d, kKvBlockTokens, token % kKvBlockTokens, KvLowKeysOffset(cache.head_dim)};
  const std::byte* headers = part + KvHeaderOffset(type, cache.head_dim);
  return Decode(type, planes, part, place, LoadAs<uint16_t>(headers + 2 * d));
}

double ValueAt(KvType type, Planes planes, const PackedCache& cache, int64_t token, int64_t d) {
  const std::byte* part = cache.value_blocks[static_cast<size_t>(token / kKvBlockTokens)].data();
  const int64_t slot = token % kKvBlockTokens;
  const Place place = {slot, cache.head_dim, d, KvLowValuesOffset(cache.head_dim)};
  const std::byte* headers = part + KvHeaderOffset(type, cache.head_dim);
  const int64_t group = d / kKvValueGroup * kKvBlockTokens + slot;
  return Decode(type, planes, part, place, LoadAs<uint16_t>(headers + 2 * group));
}

// Relative root-mean-square error over keys without offsets (values are so anyway).
double RelativeError(KvType type, Planes planes, int64_t head_dim) {
  Random random(3);
  PackedCache cache{head_dim,
                    8,
                    random.Normals(8 * kKvBlockTokens * head_dim),
                    random.Normals(8 * kKvBlockTokens * head_dim),
                    {},
                    {}};
  SealInto(kRefKernelSet, type, cache);
  double errors = 0;
  double squares = 0;
  for (int64_t j = 0; j < 8 * kKvBlockTokens; ++j) {
    for (int64_t d = 0; d < head_dim; ++d) {
      const double key = cache.keys[static_cast<size_t>(j * head_dim + d)];
      const double value = cache.values[static_cast<size_t>(j * head_dim + d)];
      errors += std::pow(KeyAt(type, planes, cache, j, d) - key, 2);
      errors += std::pow(ValueAt(type, planes, cache, j, d) - value, 2);
      squares += key * key + value * value;
    }
  }
  return std::sqrt(errors / squares);
}

// Of Gaussian numbers in groups of 32 and 64: 0.0054 to 0.0059 for symmetric int8, 0.078 to 0.090
// for asymmetric int4, 0.087 to 0.092 for NF4 (computed); scales of 4 bits of precision add up to a
// sixteenth on average. QuantSpec's two planes at 128: 0.0068 and 0.099.
TEST(PackedKv, ErrorsAreThoseOfTheirBits) {
  EXPECT_NEAR(RelativeError(KvType::kQ8, Planes::kAll, 128), 0.0057, 0.0004);
  EXPECT_NEAR(RelativeError(KvType::kQ4, Planes::kAll, 128), 0.089, 0.006);
  EXPECT_NEAR(RelativeError(KvType::kNf4, Planes::kAll, 128), 0.090, 0.008);
  EXPECT_NEAR(RelativeError(KvType::kHier, Planes::kAll, 128), 0.0056, 0.0006);
  EXPECT_NEAR(RelativeError(KvType::kHier, Planes::kUpper, 128), 0.090, 0.007);
}

// By hand: a channel with the keys 0, 1, ..., 31 and one with the keys 7 and 7.5 only.
TEST(PackedKv, HandComputedGroups) {
  PackedCache cache{8, 1, Floats(256), Floats(256), {}, {}};
  for (size_t j = 0; j < 32; ++j) {
    cache.keys[j * 8] = static_cast<float>(j);
    cache.keys[j * 8 + 1] = j < 16 ? 7.0f : 7.5f;
  }
  SealInto(kRefKernelSet, KvType::kQ8, cache);
  // 15.5 / 123 = 0.126; the next scale is 0.140625. 8 * round(15.5 / 0.140625 / 8) = 112.
  // The first word of token 31 has its channels 0 to 3, of which channel 0 lies lowest.
  EXPECT_EQ(std::to_integer<int>(cache.key_blocks[0][31 * 4]), 220 - 112 + 128);
  EXPECT_EQ(std::to_integer<int>(cache.key_blocks[0][1 * 4]), 7 - 112 + 128);
  SealInto(kRefKernelSet, KvType::kQ4, cache);
  // 31 / 15 = 2.07; the next scale is 2.25, the zero round(15.5 / 2.25 - 7.5) = -1.
  const auto headers = cache.key_blocks[0].data() + KvHeaderOffset(KvType::kQ4, 8);
  EXPECT_EQ(F16ToF32(static_cast<uint16_t>((LoadAs<uint16_t>(headers) & 0xffu) << 7)), 2.25f);
  EXPECT_EQ(static_cast<int8_t>(LoadAs<uint16_t>(headers) >> 8), -1);
  // 31 / 2.25 + 1 is 14.8: code 15.
  EXPECT_EQ(KeyAt(KvType::kQ4, Planes::kAll, cache, 31, 0), 2.25 * (15 - 1));
  // 7.25 / 119.5 = 0.0607 is more than 0.5 / 15: from 0.0625 on a zero of 8 bits reaches it.
  EXPECT_EQ(KeyAt(KvType::kQ4, Planes::kAll, cache, 0, 1), 7.0);
  EXPECT_EQ(KeyAt(KvType::kQ4, Planes::kAll, cache, 31, 1), 7.5);
  for (const KvType type : kPackedTypes) {
    SealInto(kRefKernelSet, type, cache);
    EXPECT_EQ(ValueAt(type, Planes::kAll, cache, 5, 3), 0.0) << KvTypeName(type);
  }
}

// Every element lies within half a step of its group, offsets or not.
TEST(PackedKv, NoElementIsFartherThanItsStep) {
  Random random(5);
  for (const KvType type : {KvType::kQ8, KvType::kHier, KvType::kQ4}) {
    const PackedCache cache = MakeCache(type, 72, 3, &random);
    for (int64_t d = 0; d < 72; ++d) {
      for (int64_t b = 0; b < 3; ++b) {
        float low = 1e9f;
        float high = -1e9f;
        for (int64_t j = b * 32; j < b * 32 + 32; ++j) {
          low = std::min(low, cache.keys[static_cast<size_t>(j * 72 + d)]);
          high = std::max(high, cache.keys[static_cast<size_t>(j * 72 + d)]);
        }
        const double largest = std::max(std::abs(low), std::abs(high));
        // The byte above the scale that is needed can be an eighth more; kQ4's rounded zero can
        // leave half a step more at the ends.
        const double q4 = std::max((high - low) / 15.0, largest / 119.0) * 1.13;
        // kQ8's offset reaches eight times its range.
        const double q8 = std::max((high - low) / 246.0, largest / 1016.0) / 2 * 1.13;
        const double step = type == KvType::kQ8 ? q8 : q4 / 16;
        const double bound = type == KvType::kQ4 ? q4 : step * 1.2;
        for (int64_t j = b * 32; j < b * 32 + 32; ++j) {
          const double key = cache.keys[static_cast<size_t>(j * 72 + d)];
          ASSERT_NEAR(KeyAt(type, Planes::kAll, cache, j, d), key, bound)
              << KvTypeName(type) << " token " << j << " channel " << d;
        }
      }
    }
  }
}

struct AttentionCase {
  KvType type;
  Planes planes;
  int64_t heads;
  int64_t head_dim;
  int64_t begin;
  int64_t end;
  float softcap;
};

std::string Describe(const AttentionCase& c) {
  return std::string(KvTypeName(c.type)) + (c.planes == Planes::kUpper ? " draft" : "") +
         " heads " + std::to_string(c.heads) + " head_dim " + std::to_string(c.head_dim) +
         " keys " + std::to_string(c.begin) + ".." + std::to_string(c.end);
}

std::vector<AttentionCase> Cases() {
  std::vector<AttentionCase> cases;
  int64_t heads = 0;
  for (const KvType type : kPackedTypes) {
    for (const int64_t head_dim : kHeadDims) {
      for (const auto& [begin, end] :
           {std::pair<int64_t, int64_t>{0, 32}, {0, 256}, {5, 64}, {31, 96}, {64, 128}}) {
        const float softcap = heads % 3 == 1 ? 5.0f : 0.0f;
        cases.push_back({type, Planes::kAll, heads % 8 + 1, head_dim, begin, end, softcap});
        if (type == KvType::kHier)
          cases.push_back({type, Planes::kUpper, heads % 8 + 1, head_dim, begin, end, softcap});
        ++heads;
      }
    }
  }
  return cases;
}

Floats RunAttention(const KernelSet& set, const AttentionCase& c, const PackedCache& cache,
                    const Floats& query) {
  // Blocks in descending order in a pool with gaps of 0xff.
  const int64_t key_bytes = KvKeyBytes(c.type, c.head_dim);
  const int64_t stride = key_bytes + KvValueBytes(c.type, c.head_dim) + 16;
  Bytes pool(static_cast<size_t>(stride * (cache.blocks + 1)), std::byte{0xff});
  std::vector<int32_t> table;
  for (int64_t b = 0; b < cache.blocks; ++b) {
    table.push_back(static_cast<int32_t>(cache.blocks - b));
    std::byte* block = pool.data() + table.back() * stride;
    std::ranges::copy(cache.key_blocks[static_cast<size_t>(b)], block);
    std::ranges::copy(cache.value_blocks[static_cast<size_t>(b)], block + key_bytes);
  }
  Floats out(query.size() + 1, 99.0f);
  const KvType kernel = c.planes == Planes::kUpper ? KvType::kQ4 : c.type;
  set.attention[Index(kernel)]({.query = query.data(),
                                .heads = c.heads,
                                .head_dim = c.head_dim,
                                .keys = pool.data(),
                                .values = pool.data() + key_bytes,
                                .block_stride = stride,
                                .block_table = table.data(),
                                .begin = c.begin,
                                .end = c.end,
                                .scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim)),
                                .softcap = c.softcap,
                                .out = out.data()});
  EXPECT_EQ(out.back(), 99.0f) << "written past the output";
  out.pop_back();
  return out;
}

std::vector<double> Naive(const AttentionCase& c, const PackedCache& cache, const float* query) {
  std::vector<double> scores;
  for (int64_t j = c.begin; j < c.end; ++j) {
    double dot = 0;
    for (int64_t d = 0; d < c.head_dim; ++d)
      dot += static_cast<double>(query[d]) * KeyAt(c.type, c.planes, cache, j, d);
    const double score = dot / std::sqrt(static_cast<double>(c.head_dim));
    scores.push_back(c.softcap == 0 ? score : c.softcap * std::tanh(score / c.softcap));
  }
  const double max = *std::max_element(scores.begin(), scores.end());
  std::vector<double> out(static_cast<size_t>(c.head_dim));
  double total = 0;
  for (int64_t j = c.begin; j < c.end; ++j) {
    const double p = std::exp(scores[static_cast<size_t>(j - c.begin)] - max);
    total += p;
    for (int64_t d = 0; d < c.head_dim; ++d)
      out[static_cast<size_t>(d)] += p * ValueAt(c.type, c.planes, cache, j, d);
  }
  for (double& value : out)
    value /= total;
  return out;
}

// Factors are off by up to half of 1 in L of the largest one (hal/cpu/packed_kv.h). A score is the
// sum of head_dim products with codes: of one largest factor of about 4 * 1.1 (queries of up to 4
// deviations, keys of range 16 with 15 steps) times sqrt(head_dim / 12) * 4.6 (their deviation)
// over sqrt(head_dim). Kept to 4 deviations, and as much again for the weights of values of about
// 1. With 15 bits what cancels in float dominates: terms of 20 to 100, some hundred roundings.
double Tolerance(const AttentionCase& c) {
  const bool bytes = c.type == KvType::kQ4 || c.planes == Planes::kUpper;
  return bytes ? 2 * 4 * (4.4 / 127) * 4.6 / std::sqrt(12.0) / 4 : 2e-3;
}

TEST(PackedKv, ReferenceMatchesNaiveSoftmax) {
  Random random(1);
  for (const AttentionCase& c : Cases()) {
    const PackedCache cache = MakeCache(c.type, c.head_dim, (c.end + 31) / 32, &random);
    const Floats query = random.Normals(c.heads * c.head_dim);
    const Floats out = RunAttention(kRefKernelSet, c, cache, query);
    for (int64_t h = 0; h < c.heads; ++h) {
      const std::vector<double> expected = Naive(c, cache, query.data() + h * c.head_dim);
      for (int64_t d = 0; d < c.head_dim; ++d) {
        ASSERT_NEAR(out[static_cast<size_t>(h * c.head_dim + d)], expected[static_cast<size_t>(d)],
                    Tolerance(c))
            << Describe(c) << " head " << h << " element " << d;
      }
    }
  }
}

TEST(PackedKv, EverySetEqualsReferenceBitForBit) {
  Random random(2);
  for (const AttentionCase& c : Cases()) {
    const PackedCache cache = MakeCache(c.type, c.head_dim, (c.end + 31) / 32, &random);
    const Floats query = random.Normals(c.heads * c.head_dim);
    const Floats expected = RunAttention(kRefKernelSet, c, cache, query);
    for (const KernelSet* set : RunnableKernelSets()) {
      if (set->attention[Index(c.type)] == nullptr)
        continue;
      EXPECT_EQ(FirstDifference(expected, RunAttention(*set, c, cache, query)), "")
          << set->name << " " << Describe(c);
    }
  }
}

// Numbers at the edges: an infinity and a NaN in one group each, zeros, one huge, tiny ones.
TEST(PackedKv, EverySetPacksAlike) {
  for (const KvType type : kPackedTypes) {
    for (const int64_t head_dim : kHeadDims) {
      Random random(7);
      PackedCache cache = MakeCache(type, head_dim, 2, &random);
      cache.keys[3] = std::numeric_limits<float>::infinity();
      cache.values[5] = std::numeric_limits<float>::quiet_NaN();
      cache.keys[6] = 65504.0f;
      for (int64_t d = 0; d < head_dim; ++d) {
        cache.values[static_cast<size_t>(head_dim + d)] = 0.0f;
        cache.values[static_cast<size_t>(2 * head_dim + d)] = static_cast<float>(d) * 0x1p-24f;
        cache.values[static_cast<size_t>(3 * head_dim + d)] = d % 2 == 0 ? 65504.0f : -65504.0f;
        cache.values[static_cast<size_t>(4 * head_dim + d)] = 65504.0f;
      }
      SealInto(kRefKernelSet, type, cache);
      EXPECT_TRUE(std::isnan(KeyAt(type, Planes::kAll, cache, 9, 3)));
      EXPECT_TRUE(std::isnan(ValueAt(type, Planes::kAll, cache, 0, 7)));
      EXPECT_EQ(ValueAt(type, Planes::kAll, cache, 1, 0), 0.0);
      EXPECT_NEAR(ValueAt(type, Planes::kAll, cache, 4, 1), 65504.0, 4500.0);
      EXPECT_NEAR(ValueAt(type, Planes::kAll, cache, 3, 1), -65504.0, 6000.0);
      for (const KernelSet* set : RunnableKernelSets()) {
        if (set->kv_seal[Index(type)] == nullptr)
          continue;
        PackedCache other = cache;
        SealInto(*set, type, other);
        EXPECT_EQ(other.key_blocks, cache.key_blocks) << set->name << " " << KvTypeName(type);
        EXPECT_EQ(other.value_blocks, cache.value_blocks) << set->name << " " << KvTypeName(type);
      }
    }
  }
}

TEST(KvType, NamesAndSpellings) {
  for (int i = 0; i < kKvTypeCount; ++i) {
    const auto type = static_cast<KvType>(i);
    const auto parsed = ParseKvType(KvTypeName(type));
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(*parsed, type);
  }
  EXPECT_EQ(*ParseKvType("q8_0"), KvType::kQ8);
  EXPECT_EQ(*ParseKvType("4bit_nf4"), KvType::kNf4);
  EXPECT_EQ(*ParseKvType("8bit"), KvType::kQ8);
  EXPECT_EQ(*ParseKvType("4bit"), KvType::kQ4);
  EXPECT_EQ(*ParseKvType("hierarchical"), KvType::kHier);
  EXPECT_FALSE(ParseKvType("q5_0").ok());
  EXPECT_FALSE(ParseKvType("").ok());
}

}  // namespace
}  // namespace tenon::kernel_test

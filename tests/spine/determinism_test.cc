// The same prompt gives the same logits, bit for bit, however it is computed.
#include <fmt/format.h>

#include <cstring>

#include "test_model.h"

namespace tenon {
namespace {

using Outputs = BatchBuilder::Outputs;

LoadOptions Options(int threads, int64_t batch = 512) {
  LoadOptions options;
  options.threads = threads;
  options.context_tokens = 8192;
  options.batch_tokens = batch;
  return options;
}

// Logits of the prompt's last token, computed in chunks.
std::vector<float> LastLogits(Model& model, std::span<const int32_t> prompt, size_t chunk) {
  Sequence sequence(model.runner().kv(), CacheScope{}, PrefixCache::kOff);
  EXPECT_TRUE(ReserveNow(sequence, static_cast<int64_t>(prompt.size())).ok());
  BatchBuilder builder;
  std::vector<float> logits;
  for (size_t done = 0; done < prompt.size(); done += chunk) {
    const auto piece = prompt.subspan(done, std::min(chunk, prompt.size() - done));
    const bool last = done + piece.size() == prompt.size();
    builder.Clear();
    builder.AddTokens(builder.AddSequence(sequence.block_table()), piece,
                      static_cast<int64_t>(done), last ? Outputs::kLast : Outputs::kNone);
    logits = RunStep(model, builder);
  }
  return logits;
}

// Equal as bits; the first difference is named.
void ExpectSameBits(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  ASSERT_FALSE(a.empty());
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_EQ(std::memcmp(&a[i], &b[i], sizeof(float)), 0)
        << "logit " << i << ": " << a[i] << " and " << b[i];
}

class DeterminismTest : public testing::TestWithParam<const char*> {};

TEST_P(DeterminismTest, ChunksAndThreads) {
  TENON_LOAD_OR_SKIP(model, GetParam(), Options(2));
  const std::vector<int32_t> prompt = MadeUpTokens(UnlessTraced(150, 20), 1);
  const std::vector<float> expected = LastLogits(*model, prompt, 512);
  for (const int threads : {2, 1}) {
    if (threads == 1) {
      model.reset();  // one in memory at a time
      model = LoadTestModel(GetParam(), Options(1));
    }
    for (size_t chunk : {size_t{1}, size_t{7}, size_t{64}, size_t{512}}) {
      SCOPED_TRACE(fmt::format("{} threads, chunks of {}", threads, chunk));
      ExpectSameBits(expected, LastLogits(*model, prompt, chunk));
    }
  }
}

TEST_P(DeterminismTest, BesideFifteenOthers) {
  TENON_LOAD_OR_SKIP(model, GetParam(), Options(2, 2048));
  const std::vector<int32_t> prompt = MadeUpTokens(UnlessTraced(90, 18), 2);
  const std::vector<float> expected = LastLogits(*model, prompt, 512);
  std::vector<Sequence> sequences;
  std::vector<std::vector<int32_t>> prompts;
  for (uint32_t i = 0; i < 16; ++i) {
    prompts.push_back(i == 9 ? prompt : MadeUpTokens(UnlessTraced(20 + i * 9, 6 + i), 100 + i));
    sequences.emplace_back(model->runner().kv(), CacheScope{}, PrefixCache::kOff);
    ASSERT_TRUE(ReserveNow(sequences.back(), static_cast<int64_t>(prompts.back().size())).ok());
  }
  // Three ragged steps: a third of every prompt each, so that sequences are at different places.
  BatchBuilder builder;
  std::vector<float> logits;
  for (size_t part = 0; part < 3; ++part) {
    builder.Clear();
    for (size_t i = 0; i < 16; ++i) {
      const size_t begin = prompts[i].size() * part / 3;
      const size_t end = prompts[i].size() * (part + 1) / 3;
      builder.AddTokens(builder.AddSequence(sequences[i].block_table()),
                        std::span(prompts[i]).subspan(begin, end - begin),
                        static_cast<int64_t>(begin), part == 2 ? Outputs::kLast : Outputs::kNone);
    }
    logits = RunStep(*model, builder);
  }
  const auto vocabulary = static_cast<size_t>(model->runner().vocab_size());
  ASSERT_EQ(logits.size(), 16 * vocabulary);
  const auto row = logits.begin() + static_cast<int64_t>(9 * vocabulary);
  ExpectSameBits(expected, std::vector<float>(row, row + static_cast<int64_t>(vocabulary)));
}

TEST_P(DeterminismTest, WithAReusedPrefix) {
  TENON_LOAD_OR_SKIP(model, GetParam(), Options(2));
  const std::vector<int32_t> prompt = MadeUpTokens(UnlessTraced(133, 37), 3);
  const std::vector<float> expected = LastLogits(*model, prompt, 512);
  BatchBuilder builder;
  for (int64_t expected_hit : {int64_t{0}, UnlessTraced<int64_t>(128, 32)}) {
    Sequence sequence(model->runner().kv(), CacheScope{});
    const int64_t cached = sequence.MatchPrefix(prompt);
    ASSERT_EQ(cached, expected_hit);
    const auto rest = std::span(prompt).subspan(static_cast<size_t>(cached));
    ASSERT_TRUE(ReserveNow(sequence, static_cast<int64_t>(rest.size())).ok());
    builder.Clear();
    builder.AddTokens(builder.AddSequence(sequence.block_table()), rest, cached, Outputs::kLast);
    ExpectSameBits(expected, RunStep(*model, builder));
    sequence.Append(rest);
    sequence.Commit();
  }
}

TEST_P(DeterminismTest, PassesDoNotChangeTokens) {
  LoadOptions unoptimized = Options(2);
  unoptimized.level = OptimizeLevel::kO0;
  TENON_LOAD_OR_SKIP(plain, GetParam(), unoptimized);
  auto optimized = LoadTestModel(GetParam(), Options(2));
  const std::vector<int32_t> prompt = MadeUpTokens(UnlessTraced(70, 10), 4);
  ExpectSameBits(LastLogits(*plain, prompt, 512), LastLogits(*optimized, prompt, 512));
}

std::string ModelLabel(const testing::TestParamInfo<const char*>& parameter) {
  const std::string_view name = parameter.param;
  return name == kGemma ? "Gemma3" : name == kSmolMoe ? "SmolMoE" : "SmolLM2";
}

INSTANTIATE_TEST_SUITE_P(Models, DeterminismTest, testing::Values(kSmolLm, kGemma, kSmolMoe),
                         ModelLabel);

}  // namespace
}  // namespace tenon

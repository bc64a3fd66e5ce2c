// Layer checkpoints: the KV comes back with the same bits, takes the memory it should, and requests
// that were preempted by checkpoint say what they would have said.
#include <cstring>
#include <deque>

#include "engine/exec/layer_checkpoints.h"
#include "engine_fixture.h"

namespace tenon {
namespace {

LoadOptions Options(int64_t context) {
  LoadOptions options;
  options.context_tokens = context;
  options.batch_tokens = 64;
  return options;
}

// Computes `tokens` in pieces of `chunk`.
void Compute(Model& model, Sequence& sequence, std::span<const int32_t> tokens, size_t chunk) {
  BatchBuilder builder;
  for (size_t done = 0; done < tokens.size(); done += chunk) {
    const auto piece = tokens.subspan(done, std::min(chunk, tokens.size() - done));
    ASSERT_TRUE(ReserveNow(sequence, static_cast<int64_t>(piece.size())).ok());
    builder.Clear();
    builder.AddTokens(builder.AddSequence(sequence.block_table()), piece,
                      static_cast<int64_t>(done), BatchBuilder::Outputs::kLast);
    ASSERT_TRUE(model.runner().Step(builder.batch()).ok());
    sequence.Append(piece);
  }
}

// The bytes of the sequence's whole blocks, layer by layer.
std::vector<std::byte> KvBytes(const KvPool& pool, const Sequence& sequence) {
  std::vector<std::byte> bytes;
  for (int32_t layer = 0; layer < pool.config().layers; ++layer) {
    for (int64_t i = 0; i < sequence.length() / kKvBlockTokens; ++i) {
      const auto block = pool.BlockBytes(layer, sequence.block_table()[static_cast<size_t>(i)]);
      bytes.insert(bytes.end(), block.begin(), block.end());
    }
  }
  return bytes;
}

TEST(LayerCheckpointsTest, RebuildsTheSameBitsWithLessMemory) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, Options(1024));
  ModelRunner& runner = model->runner();
  const auto prompt = MadeUpTokens(160, 5);
  const int64_t layers = runner.kv_config().layers;
  int64_t all_bytes = 0;  // with the states of every layer
  for (const int64_t interval : {int64_t{1}, int64_t{2}, int64_t{5}, int64_t{7}, layers}) {
    auto checkpoints = LayerCheckpoints::Create(runner, interval);
    ASSERT_TRUE(checkpoints.ok()) << checkpoints.error().ToString();
    StateLog log;
    Sequence sequence(runner.kv(), CacheScope{}, PrefixCache::kOff);
    (*checkpoints)->Watch(sequence, log);
    Compute(*model, sequence, prompt, 48);
    ASSERT_EQ(log.end(), 160);
    const auto expected = KvBytes(runner.kv(), sequence);
    sequence.Truncate(0);
    std::ranges::fill(runner.kv().bytes(), std::byte{0x5A});

    Sequence again(runner.kv(), CacheScope{}, PrefixCache::kOff);
    ASSERT_TRUE(ReserveNow(again, 160).ok());
    for (const auto& [first, count] : {std::pair<size_t, size_t>{0, 64}, {64, 33}, {97, 63}})
      ASSERT_TRUE(
          (*checkpoints)->Rebuild(again, std::span(prompt).subspan(first, count), log).ok());
    EXPECT_EQ(KvBytes(runner.kv(), again), expected) << interval;

    if (interval == 1)
      all_bytes = log.bytes();
    const double saved = 1.0 - static_cast<double>(log.bytes()) / static_cast<double>(all_bytes);
    const double predicted = 1.0 - 1.0 / static_cast<double>(interval);
    EXPECT_EQ((*checkpoints)->checkpoints(), (layers + interval - 1) / interval);
    if (layers % interval == 0) {
      EXPECT_NEAR(saved, predicted, 1e-9) << interval;
    }
  }
  EXPECT_FALSE(LayerCheckpoints::Create(runner, 0).ok());
  EXPECT_FALSE(LayerCheckpoints::Create(runner, layers + 1).ok());
}

TEST(LayerCheckpointsTest, ALogBeginsAnewAtAGap) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, Options(512));
  auto checkpoints = LayerCheckpoints::Create(model->runner(), 4);
  ASSERT_TRUE(checkpoints.ok());
  const auto prompt = MadeUpTokens(80, 6);
  Sequence sequence(model->runner().kv(), CacheScope{}, PrefixCache::kOff);
  Compute(*model, sequence, std::span(prompt).first(40), 40);  // not watched
  StateLog log;
  (*checkpoints)->Watch(sequence, log);
  BatchBuilder builder;
  ASSERT_TRUE(ReserveNow(sequence, 40).ok());
  builder.AddTokens(builder.AddSequence(sequence.block_table()), std::span(prompt).subspan(40), 40,
                    BatchBuilder::Outputs::kLast);
  ASSERT_TRUE(model->runner().Step(builder.batch()).ok());
  EXPECT_EQ(log.base(), 40);
  EXPECT_EQ(log.end(), 80);
  log.Truncate(60);
  EXPECT_EQ(log.end(), 60);
  log.Truncate(30);
  EXPECT_EQ(log.bytes(), 0);
}

TEST(ServingCheckpointTest, PreemptionByCheckpointChangesNothing) {
  LoadOptions options = Options(256);  // 8 blocks
  TENON_LOAD_OR_SKIP(model, kSmolLm, options);
  std::vector<ServingRequest> requests;
  std::vector<GenerationResult> expected;
  for (uint32_t i = 0; i < 4; ++i) {
    requests.push_back(GreedyRequest(MadeUpTokens(30, i + 1), 90));
    requests.back().sampling.temperature = i % 2 == 0 ? 0.0F : 1.0F;
    requests.back().sampling.seed = i;
    requests.back().prefix_cache = i == 3 ? PrefixCache::kOn : PrefixCache::kOff;
    expected.push_back(Reference(*model, requests.back()));
  }
  for (const Preemption preemption : {Preemption::kCheckpoint, Preemption::kCheapest}) {
    ServingOptions serving;
    serving.preemption = preemption;
    serving.checkpoint_interval = 6;
    const auto engine = MustStart(*model, serving);
    std::deque<Client> clients;
    for (const ServingRequest& request : requests)
      MustSubmit(*engine, request, clients.emplace_back());
    for (size_t i = 0; i < clients.size(); ++i)
      EXPECT_EQ(clients[i].Wait().tokens.at(0), expected[i].token_ids) << i;
    engine->Drain(std::chrono::seconds(10));
    const ServingStats stats = engine->stats();
    EXPECT_GT(stats.checkpointed_preemptions, 0U);
    EXPECT_GT(stats.rebuilt_tokens, 0U);
    EXPECT_EQ(stats.checkpoint_bytes, 0);
    EXPECT_EQ(stats.kv.used, 0);
  }
}

}  // namespace
}  // namespace tenon

// What requests say does not depend on what runs beside them, on caches or on preemption.
#include <algorithm>
#include <cmath>
#include <deque>
#include <future>

#include "engine_fixture.h"

namespace tenon {
namespace {

LoadOptions Options(int64_t context) {
  LoadOptions options;
  options.context_tokens = context;
  return options;
}

// Prompts of different lengths, half of which begin alike.
std::vector<ServingRequest> MixedRequests(int64_t count, int64_t tokens) {
  std::vector<ServingRequest> requests;
  for (int64_t i = 0; i < count; ++i) {
    auto prompt = MadeUpTokens(40 + 7 * i, static_cast<uint32_t>(i + 1));
    if (i % 2 == 0)
      std::ranges::copy(MadeUpTokens(36, 99), prompt.begin());
    requests.push_back(GreedyRequest(std::move(prompt), tokens));
  }
  return requests;
}

void RunAll(ServingEngine& engine, const std::vector<ServingRequest>& requests,
            std::deque<Client>& clients) {
  for (const ServingRequest& request : requests)
    MustSubmit(engine, request, clients.emplace_back());
  for (Client& client : clients)
    client.Wait();
}

void ExpectTexts(std::deque<Client>& clients, const std::vector<GenerationResult>& expected) {
  for (size_t i = 0; i < expected.size(); ++i) {
    const Outcome& outcome = clients[i].Wait();
    EXPECT_TRUE(outcome.is_finished) << i << ": " << outcome.error.ToString();
    EXPECT_EQ(outcome.tokens.at(0), expected[i].token_ids) << i;
    EXPECT_EQ(outcome.text.at(0), expected[i].text) << i;
    EXPECT_EQ(outcome.finish.at(0), expected[i].finish_reason) << i;
  }
}

std::vector<GenerationResult> References(Model& model,
                                         const std::vector<ServingRequest>& requests) {
  std::vector<GenerationResult> expected;
  for (const ServingRequest& request : requests)
    expected.push_back(Reference(model, request));
  return expected;
}

TEST(ServingTextTest, IsTheSameAloneBesideOthersAndFromTheCache) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, Options(4096));
  const auto requests = MixedRequests(16, 10);
  const auto expected = References(*model, requests);
  for (const BatchingPolicy policy : {BatchingPolicy::kContinuous, BatchingPolicy::kStatic}) {
    model->runner().kv().DropCached();
    ServingOptions options;
    options.policy = policy;
    options.max_batch = 16;
    const auto engine = MustStart(*model, options);
    for (int round = 0; round < 2; ++round) {
      std::deque<Client> clients;
      RunAll(*engine, requests, clients);
      ExpectTexts(clients, expected);
      if (round == 1) {  // all whole blocks of the prompt but its last token's
        for (size_t i = 0; i < requests.size(); ++i) {
          const auto tokens = static_cast<int64_t>(requests[i].prompt.size());
          EXPECT_GE(clients[i].Wait().cached_tokens, (tokens - 1) / 32 * 32);
        }
      }
    }
    EXPECT_GT(engine->stats().step_sequences, 2 * engine->stats().steps) << "nothing ran together";
  }
}

// One prompt, then three answers of six tokens to it: a step of one sequence, five of three.
TEST(ServingTextTest, OccupancyIsCountedInSequencesOfSteps) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, Options(2048));
  const auto engine = MustStart(*model, {});
  const ServingStats before = engine->stats();
  ServingRequest request = GreedyRequest(MadeUpTokens(20, 8), 6);
  request.choices = 3;
  Client client;
  MustSubmit(*engine, request, client);
  ASSERT_TRUE(client.Wait().is_finished);
  engine->Drain(std::chrono::seconds(10));
  EXPECT_EQ(engine->stats().steps - before.steps, 6U);
  EXPECT_EQ(engine->stats().step_sequences - before.step_sequences, 1U + 5U * 3U);
}

TEST(ServingTextTest, ABeginningThatIsBeingComputedIsComputedOnce) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, Options(2048));
  std::vector<ServingRequest> requests;
  for (uint32_t i = 0; i < 4; ++i) {
    auto prompt = MadeUpTokens(200, 7);
    prompt.push_back(static_cast<int32_t>(1000 + i));
    requests.push_back(GreedyRequest(std::move(prompt), 4));
  }
  const auto expected = References(*model, requests);
  const auto engine = MustStart(*model, {});
  std::deque<Client> clients;
  RunAll(*engine, requests, clients);
  ExpectTexts(clients, expected);
  for (size_t i = 1; i < clients.size(); ++i)
    EXPECT_EQ(clients[i].Wait().cached_tokens, 192) << i;
}

TEST(ServingTextTest, SurvivesPreemption) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, Options(256));  // 8 blocks
  std::vector<ServingRequest> requests;
  for (uint32_t i = 0; i < 4; ++i) {
    requests.push_back(GreedyRequest(MadeUpTokens(30, i + 1), 90));
    requests.back().sampling.temperature = i % 2 == 0 ? 0.0F : 1.0F;
    requests.back().sampling.seed = i;
    requests.back().sampling.repetition_penalty = 1.1F;
  }
  const auto expected = References(*model, requests);
  const auto engine = MustStart(*model, {});
  std::deque<Client> clients;
  RunAll(*engine, requests, clients);
  ExpectTexts(clients, expected);
  engine->Drain(std::chrono::seconds(10));
  EXPECT_GT(engine->stats().preemptions, 0U);
  EXPECT_EQ(engine->stats().kv.used, 0);
}

TEST(ServingTextTest, ChoicesShareThePromptAndDiffer) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, Options(1024));
  ServingRequest request = GreedyRequest(MadeUpTokens(45, 3), 12);
  request.sampling.temperature = 1.0F;
  request.sampling.seed = 5;
  std::vector<GenerationResult> expected;
  for (uint64_t i = 0; i < 3; ++i) {
    ServingRequest single = request;
    single.sampling.seed = request.sampling.seed + i;
    expected.push_back(Reference(*model, single));
  }
  const auto engine = MustStart(*model, {});
  request.choices = 3;
  Client client;
  MustSubmit(*engine, request, client);
  const Outcome& outcome = client.Wait();
  ASSERT_TRUE(outcome.is_finished) << outcome.error.ToString();
  for (int32_t i = 0; i < 3; ++i)
    EXPECT_EQ(outcome.text.at(i), expected[static_cast<size_t>(i)].text) << i;
  EXPECT_NE(outcome.text.at(0), outcome.text.at(1));
  EXPECT_EQ(outcome.completion_tokens, 36);
  EXPECT_EQ(engine->stats().prompt_tokens, 45U);
  EXPECT_GE(engine->stats().kv.copies, 2U);
}

TEST(ServingTextTest, StopStringsAndEndTokensAreThoseOfGenerate) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, Options(1024));
  ServingRequest request =
      GreedyRequest(model->tokenizer().Encode("A B C D E F G H I J K", SpecialText::kPlain,
                                              AddSpecial::kModelDefault),
                    30);
  request.end_tokens = EndTokens::kStop;
  const std::string whole = Reference(*model, request).text;
  ASSERT_GT(whole.size(), 12U);
  request.stop = {whole.substr(5, 4)};
  const GenerationResult expected = Reference(*model, request);
  const auto engine = MustStart(*model, {});
  Client client;
  MustSubmit(*engine, request, client);
  const Outcome& outcome = client.Wait();
  EXPECT_EQ(outcome.text.at(0), expected.text);
  EXPECT_EQ(outcome.finish.at(0), FinishReason::kStop);
  const auto done =
      std::ranges::find(outcome.events, ServingEvent::Kind::kDone, &ServingEvent::kind);
  EXPECT_EQ(done->stop_text, request.stop.front());
}

// Logprobs of a prompt against single steps of the runner: log softmax by hand.
TEST(ServingTextTest, PromptLogprobsAreThoseOfTheModel) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, Options(1024));
  const auto prompt = MadeUpTokens(70, 11);  // more than the rows of one step
  std::vector<float> expected;
  {
    Sequence sequence(model->runner().kv(), CacheScope{}, PrefixCache::kOff);
    ASSERT_TRUE(ReserveNow(sequence, 70).ok());
    for (size_t i = 0; i + 1 < prompt.size(); ++i) {
      BatchBuilder builder;
      builder.AddToken(builder.AddSequence(sequence.block_table()), prompt[i],
                       static_cast<int64_t>(i), Logits::kYes);
      const auto logits = RunStep(*model, builder);
      const float highest = *std::ranges::max_element(logits);
      double sum = 0.0;
      for (const float logit : logits)
        sum += std::exp(static_cast<double>(logit - highest));
      expected.push_back(static_cast<float>(
          static_cast<double>(logits[static_cast<size_t>(prompt[i + 1])] - highest) -
          std::log(sum)));
    }
  }
  const auto engine = MustStart(*model, {});
  ServingRequest request = GreedyRequest(prompt, 0);
  request.prompt_logprobs = PromptLogprobs::kYes;
  request.sampling.logprobs = 2;
  Client client;
  MustSubmit(*engine, request, client);
  const Outcome& outcome = client.Wait();
  ASSERT_TRUE(outcome.is_finished) << outcome.error.ToString();
  EXPECT_EQ(outcome.finish.at(0), FinishReason::kLength);
  EXPECT_TRUE(outcome.tokens.at(0).empty());
  ASSERT_EQ(outcome.prompt_logprobs.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(outcome.prompt_logprobs[i].token, prompt[i + 1]);
    EXPECT_NEAR(outcome.prompt_logprobs[i].logprob, expected[i], 1e-4F) << i;
    EXPECT_EQ(outcome.prompt_logprobs[i].top.size(), 2U);
  }
}

TEST(ServingTextTest, EmbeddingsAreTheMeanOfTheHiddenStates) {
  TENON_LOAD_OR_SKIP(model, kSmolLm, Options(1024));
  const auto tokens = MadeUpTokens(50, 4);
  std::vector<double> sum(static_cast<size_t>(model->runner().hidden_size()), 0.0);
  {
    Sequence sequence(model->runner().kv(), CacheScope{}, PrefixCache::kOff);
    ASSERT_TRUE(ReserveNow(sequence, 50).ok());
    for (size_t i = 0; i < tokens.size(); ++i) {
      BatchBuilder builder;
      builder.AddToken(builder.AddSequence(sequence.block_table()), tokens[i],
                       static_cast<int64_t>(i), Logits::kYes);
      RunStep(*model, builder);
      for (size_t c = 0; c < sum.size(); ++c)
        sum[c] += static_cast<double>(model->runner().hidden()[c]);
    }
  }
  const auto engine = MustStart(*model, {});
  for (const bool is_alone : {true, false}) {
    Client beside;
    if (!is_alone)
      MustSubmit(*engine, GreedyRequest(MadeUpTokens(20, 8), 40), beside);
    std::promise<Result<std::vector<float>>> promise;
    const auto id = engine->SubmitEmbedding(
        {tokens, {}}, [&](Result<std::vector<float>> mean) { promise.set_value(std::move(mean)); });
    ASSERT_TRUE(id.ok());
    const auto mean = promise.get_future().get();
    ASSERT_TRUE(mean.ok()) << mean.error().ToString();
    ASSERT_EQ(mean->size(), sum.size());
    for (size_t c = 0; c < sum.size(); ++c)
      ASSERT_NEAR((*mean)[c], sum[c] / 50.0, 1e-5) << c;
    if (!is_alone) {
      EXPECT_TRUE(beside.Wait().is_finished);
    }
  }
}

}  // namespace
}  // namespace tenon

// serving_bench MODEL.gguf [rates | latency | policies] [TOKENS]: tokens per second of the serving
// engine at 1, 4, 8 and 16 requests against RunBench's batch with as many sequences; the latency
// between tokens beside a prefill of TOKENS (4000) against the idle one; continuous against static
// batching. One process, no network.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "frontend/serving/serving_engine.h"
#include "frontend/session/bench.h"

namespace tenon {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kPromptTokens = 32;
constexpr int64_t kAnswerTokens = 64;

std::vector<int32_t> MadeUpPrompt(int64_t tokens, int64_t seed) {
  std::vector<int32_t> prompt;
  for (int64_t i = 0; i < tokens; ++i)
    prompt.push_back(static_cast<int32_t>((i * 7919 + seed * 104729 + 13) % 40000 + 100));
  return prompt;
}

ServingRequest MakeRequest(int64_t prompt, int64_t seed, int64_t answer) {
  ServingRequest request;
  request.prompt = MadeUpPrompt(prompt, seed);
  request.max_tokens = answer;
  request.end_tokens = EndTokens::kIgnore;
  request.prefix_cache = PrefixCache::kOff;
  return request;
}

// Counts ends and notes when tokens come.
class Watch {
 public:
  EventSink Sink() {
    return [this](const ServingEvent& event) {
      const std::lock_guard lock(mutex_);
      if (event.kind == ServingEvent::Kind::kText)
        times_.push_back(Clock::now());
      if (event.kind == ServingEvent::Kind::kFinished || event.kind == ServingEvent::Kind::kError)
        ++ends_;
      changed_.notify_all();
    };
  }
  void WaitForEnds(int64_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ends_ >= count; });
  }
  std::vector<Clock::time_point> Times() {
    const std::lock_guard lock(mutex_);
    return times_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Clock::time_point> times_;
  int64_t ends_ = 0;
};

// Tokens per second while all requests decode: from the last one's first token to the first end.
double DecodeRate(ServingEngine& engine, int64_t requests) {
  std::vector<Watch> watches(static_cast<size_t>(requests));
  for (int64_t i = 0; i < requests; ++i)
    (void)engine.Submit(MakeRequest(kPromptTokens, i, kAnswerTokens),
                        watches[static_cast<size_t>(i)].Sink());
  Clock::time_point begin = Clock::time_point::min();
  Clock::time_point end = Clock::time_point::max();
  for (Watch& watch : watches) {
    watch.WaitForEnds(1);
    const auto times = watch.Times();
    begin = std::max(begin, times.front());
    end = std::min(end, times.back());
  }
  int64_t tokens = 0;
  for (Watch& watch : watches) {
    for (const auto time : watch.Times())
      tokens += time > begin && time <= end ? 1 : 0;
  }
  return static_cast<double>(tokens) / std::chrono::duration<double>(end - begin).count();
}

double TotalRate(ServingEngine& engine, int64_t requests) {
  Watch watch;
  const auto start = Clock::now();
  for (int64_t i = 0; i < requests; ++i)
    (void)engine.Submit(MakeRequest(kPromptTokens, i, kAnswerTokens), watch.Sink());
  watch.WaitForEnds(requests);
  return static_cast<double>(requests * kAnswerTokens) /
         std::chrono::duration<double>(Clock::now() - start).count();
}

// Seconds between tokens that came in (begin, end], sorted.
std::vector<double> Gaps(const std::vector<Clock::time_point>& times, Clock::time_point begin,
                         Clock::time_point end) {
  std::vector<double> gaps;
  for (size_t i = 1; i < times.size(); ++i) {
    if (times[i - 1] > begin && times[i] <= end)
      gaps.push_back(std::chrono::duration<double>(times[i] - times[i - 1]).count());
  }
  std::ranges::sort(gaps);
  return gaps;
}

double At(const std::vector<double>& sorted, size_t percent) {
  return sorted.empty() ? 0.0 : sorted[(sorted.size() - 1) * percent / 100];
}

void PrintGaps(const std::vector<double>& idle, const std::vector<double>& beside) {
  for (const auto& [name, gaps] : {std::pair("idle", &idle), std::pair("beside", &beside)}) {
    fmt::print("  {:<8} p50 {:6.1f} ms   p99 {:6.1f} ms   {} gaps\n", name, 1e3 * At(*gaps, 50),
               1e3 * At(*gaps, 99), gaps->size());
  }
  fmt::print("  p99 beside the prefill is {:.2f} times the idle one\n",
             At(beside, 99) / At(idle, 99));
}

// Of all streams.
std::vector<double> AllGaps(std::vector<Watch>& watches, Clock::time_point begin,
                            Clock::time_point end) {
  std::vector<double> all;
  for (Watch& watch : watches) {
    const auto gaps = Gaps(watch.Times(), begin, end);
    all.insert(all.end(), gaps.begin(), gaps.end());
  }
  std::ranges::sort(all);
  return all;
}

void PrintLatencyBesidePrefill(ServingEngine& engine, int64_t streams, int64_t long_prompt) {
  std::vector<Watch> watches(static_cast<size_t>(streams));
  std::vector<RequestId> ids;
  for (int64_t i = 0; i < streams; ++i) {
    const auto id =
        engine.Submit(MakeRequest(kPromptTokens, i, 8000), watches[static_cast<size_t>(i)].Sink());
    ids.push_back(id.ok() ? *id : 0);
  }
  while (watches.back().Times().size() < 4)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const auto idle_begin = Clock::now();
  std::this_thread::sleep_for(std::chrono::seconds(2));
  const auto begin = Clock::now();
  Watch prefill;
  (void)engine.Submit(MakeRequest(long_prompt, 77, 1), prefill.Sink());
  prefill.WaitForEnds(1);
  const auto end = Clock::now();
  for (const RequestId id : ids)
    engine.Cancel(id);
  for (Watch& watch : watches)
    watch.WaitForEnds(1);
  fmt::print("{} streams beside a prefill of {} tokens, which took {:.2f} s\n", streams,
             long_prompt, std::chrono::duration<double>(end - begin).count());
  PrintGaps(AllGaps(watches, idle_begin, begin), AllGaps(watches, begin, end));
}

void PrintRates(Model& model) {
  const std::vector<int64_t> counts = {1, 4, 8, 16};
  std::vector<BenchCase> cases;
  for (const int64_t count : counts)
    cases.push_back({BenchCase::Test::kBatch, kAnswerTokens, count, kPromptTokens});
  const auto rates = RunBench(model, cases, 3, nullptr);
  const auto engine = ServingEngine::Start(model, {}, nullptr);
  for (size_t i = 0; rates.ok() && engine.ok() && i < counts.size(); ++i) {
    std::vector<double> decode;
    std::vector<double> total;
    for (int repeat = 0; repeat < 3; ++repeat) {
      decode.push_back(DecodeRate(**engine, counts[i]));
      total.push_back(TotalRate(**engine, counts[i]));
    }
    std::ranges::sort(decode);
    std::ranges::sort(total);
    const double bench = (*rates)[i].median;
    fmt::print(
        "{:>2} requests: bench {:7.1f}, engine {:7.1f} ({:.0f}%) while decoding, {:7.1f} "
        "tok/s with prefill of {} tokens\n",
        counts[i], bench, decode[1], 100.0 * decode[1] / bench, total[1], kPromptTokens);
  }
}

// How a load's answers differ in length.
struct Mix {
  const char* name;
  std::vector<int64_t> answers;  // tokens of each request
};

constexpr int64_t kRequests = 96;

// The usual model of answers' lengths in logs of chat services: many short, few long, the logarithm
// with a standard deviation near 1. Scaled down, so that the longest of a batch takes seconds.
Mix LogNormal() {
  std::mt19937 random(5);
  std::lognormal_distribution<double> length(std::log(14.0), 1.1);
  Mix mix{"log-normal", {}};
  for (int64_t i = 0; i < kRequests; ++i)
    mix.answers.push_back(std::clamp<int64_t>(std::llround(length(random)), 2, 160));
  return mix;
}
// One in 16 is long, the others are short.
Mix FewLong() {
  Mix mix{"few long", {}};
  for (int64_t i = 0; i < kRequests; ++i)
    mix.answers.push_back(i % 16 == 7 ? 128 : 4 + i * 7 % 16);
  return mix;
}
Mix Even() {
  Mix mix{"even", {}};
  for (int64_t i = 0; i < kRequests; ++i)
    mix.answers.push_back(4 + i * 37 % 61);
  return mix;
}

enum class Batching : uint8_t {
  kPadded,  // static as most engines have it: every row of a batch is computed until its longest
            // ends
  kStatic,  // static, but rows that are done leave the batch
  kContinuous,
};

struct Served {
  double requests_s = 0.0;
  double occupancy = 0.0;  // sequences in a step, mean
};

// All requests are there from the start. A padded batch is made of requests that are as long as the
// longest of their 32; its occupancy counts the rows that are over, too.
Served Serve(Model& model, const Mix& mix, Batching batching) {
  ServingOptions options;
  options.policy =
      batching == Batching::kContinuous ? BatchingPolicy::kContinuous : BatchingPolicy::kStatic;
  const auto engine = ServingEngine::Start(model, options, nullptr);
  if (!engine.ok())
    return {};
  Watch watch;
  const auto start = Clock::now();
  for (int64_t i = 0; i < kRequests; ++i) {
    const int64_t first = i / options.max_batch * options.max_batch;
    const auto begin = mix.answers.begin() + first;
    const int64_t answer = batching == Batching::kPadded
                               ? *std::max_element(begin, begin + options.max_batch)
                               : mix.answers[static_cast<size_t>(i)];
    (void)(*engine)->Submit(MakeRequest(kPromptTokens, i, answer), watch.Sink());
  }
  watch.WaitForEnds(kRequests);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const ServingStats stats = (*engine)->stats();
  return {static_cast<double>(kRequests) / seconds,
          static_cast<double>(stats.step_sequences) / static_cast<double>(stats.steps)};
}

void PrintPolicies(Model& model) {
  for (const Mix& mix : {LogNormal(), FewLong(), Even()}) {
    Served served[3];
    for (const Batching batching : {Batching::kPadded, Batching::kStatic, Batching::kContinuous})
      served[static_cast<size_t>(batching)] = Serve(model, mix, batching);
    const auto& [padded, leaving, continuous] = served;
    const int64_t longest = *std::ranges::max_element(mix.answers);
    const double mean =
        static_cast<double>(std::accumulate(mix.answers.begin(), mix.answers.end(), int64_t{0})) /
        static_cast<double>(kRequests);
    fmt::print("{}: answers of {:.0f} tokens in the mean, {} at most\n", mix.name, mean, longest);
    for (const auto& [name, one] :
         {std::pair("static, padded", &padded), std::pair("static, rows leave", &leaving),
          std::pair("continuous", &continuous)}) {
      fmt::print("  {:<19} {:6.2f} requests/s   {:4.1f} sequences in a step\n", name,
                 one->requests_s, one->occupancy);
    }
    fmt::print("  continuous is {:+.0f}% over padded, {:+.0f}% over leaving rows\n",
               100.0 * (continuous.requests_s / padded.requests_s - 1.0),
               100.0 * (continuous.requests_s / leaving.requests_s - 1.0));
  }
}

void PrintLatencies(Model& model, int64_t long_prompt) {
  const auto engine = ServingEngine::Start(model, {}, nullptr);
  Watch alone;
  const auto start = Clock::now();
  if (engine.ok())
    (void)(*engine)->Submit(MakeRequest(long_prompt, 78, 1), alone.Sink());
  alone.WaitForEnds(engine.ok() ? 1 : 0);
  fmt::print("a prefill of {} tokens alone takes {:.2f} s\n", long_prompt,
             std::chrono::duration<double>(Clock::now() - start).count());
  for (const int64_t streams : {1, 4, 8}) {
    if (engine.ok())
      PrintLatencyBesidePrefill(**engine, streams, long_prompt);
  }
}

int Main(const char* path, std::string_view what, int64_t long_prompt) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a line is seen when it is known
  auto model = Model::Open(path);
  LoadOptions options;
  options.context_tokens = 16384;
  if (!model.ok() || !(*model)->Load(options).ok()) {
    fmt::print(stderr, "cannot load {}\n", path);
    return 1;
  }
  if (what.empty() || what == "rates")
    PrintRates(**model);
  if (what.empty() || what == "latency")
    PrintLatencies(**model, long_prompt);
  if (what.empty() || what == "policies")
    PrintPolicies(**model);
  return 0;
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  if (argc < 2 || argc > 4) {
    fmt::print(stderr, "usage: serving_bench MODEL.gguf [rates | latency | policies] [TOKENS]\n");
    return 2;
  }
  constexpr int64_t kLongPrompt = 4000;
  const int64_t long_prompt = argc == 4 ? std::max(1, std::atoi(argv[3])) : kLongPrompt;
  return tenon::Main(argv[1], argc >= 3 ? argv[2] : "", long_prompt);
}

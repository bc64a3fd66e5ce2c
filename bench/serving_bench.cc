// serving_bench MODEL.gguf [rates | latency | policies]: tokens per second of the serving engine at
// 1, 4, 8 and 16 requests against RunBench's batch with as many sequences, and the latency between
// tokens beside a long prefill against the idle one; "policies" compares continuous with static
// batching. One process, no network.
#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "frontend/serving/serving_engine.h"
#include "frontend/session/bench.h"

namespace tenon {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kPromptTokens = 32;
constexpr int64_t kAnswerTokens = 64;
constexpr int64_t kLongPrompt = 4000;

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

void PrintGaps(const char* name, const std::vector<double>& gaps) {
  if (gaps.empty())
    return;
  fmt::print("  {:<8} p50 {:6.1f} ms   p99 {:6.1f} ms   {} gaps\n", name,
             1e3 * gaps[gaps.size() / 2], 1e3 * gaps[gaps.size() * 99 / 100], gaps.size());
}

void PrintLatencyBesidePrefill(ServingEngine& engine, int64_t streams) {
  std::vector<Watch> watches(static_cast<size_t>(streams));
  std::vector<RequestId> ids;
  for (int64_t i = 0; i < streams; ++i) {
    const auto id =
        engine.Submit(MakeRequest(kPromptTokens, i, 2000), watches[static_cast<size_t>(i)].Sink());
    ids.push_back(id.ok() ? *id : 0);
  }
  while (watches.back().Times().size() < 4)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const auto idle_begin = Clock::now();
  std::this_thread::sleep_for(std::chrono::seconds(2));
  const auto begin = Clock::now();
  Watch prefill;
  (void)engine.Submit(MakeRequest(kLongPrompt, 77, 1), prefill.Sink());
  prefill.WaitForEnds(1);
  const auto end = Clock::now();
  for (const RequestId id : ids)
    engine.Cancel(id);
  for (Watch& watch : watches)
    watch.WaitForEnds(1);
  fmt::print("{} streams beside a prefill of {} tokens, which took {:.2f} s\n", streams,
             kLongPrompt, std::chrono::duration<double>(end - begin).count());
  PrintGaps("idle", Gaps(watches.front().Times(), idle_begin, begin));
  PrintGaps("beside", Gaps(watches.front().Times(), begin, end));
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
  int64_t (*answer)(int64_t request);  // tokens
};

// Most answers are short and few are long, or they are spread evenly.
int64_t HeavyTail(int64_t request) {
  return request % 16 == 7 ? 256 : 4 + request * 7 % 24;
}
int64_t Even(int64_t request) {
  return 8 + request * 37 % 121;
}

enum class Batching : uint8_t {
  kPadded,  // static as most engines have it: every row of a batch is computed until its longest
            // ends
  kStatic,  // static, but rows that are done leave the batch
  kContinuous,
};

// Requests per second when all are there from the start. A padded batch is made of requests that
// are as long as the longest of their 32.
double RequestRate(Model& model, const Mix& mix, Batching batching) {
  constexpr int64_t kRequests = 96;
  ServingOptions options;
  options.policy =
      batching == Batching::kContinuous ? BatchingPolicy::kContinuous : BatchingPolicy::kStatic;
  const auto engine = ServingEngine::Start(model, options, nullptr);
  if (!engine.ok())
    return 0.0;
  Watch watch;
  const auto start = Clock::now();
  for (int64_t i = 0; i < kRequests; ++i) {
    int64_t answer = mix.answer(i);
    const int64_t first = i / options.max_batch * options.max_batch;
    for (int64_t j = first; batching == Batching::kPadded && j < first + options.max_batch; ++j)
      answer = std::max(answer, mix.answer(j));
    (void)(*engine)->Submit(MakeRequest(kPromptTokens, i, answer), watch.Sink());
  }
  watch.WaitForEnds(kRequests);
  return static_cast<double>(kRequests) /
         std::chrono::duration<double>(Clock::now() - start).count();
}

// Medians of interleaved rounds.
void PrintPolicies(Model& model) {
  constexpr int kRounds = 3;
  for (const Mix& mix : {Mix{"heavy tail", HeavyTail}, Mix{"even", Even}}) {
    std::vector<double> rates[3];
    for (int round = 0; round < kRounds; ++round) {
      for (const Batching batching : {Batching::kPadded, Batching::kStatic, Batching::kContinuous})
        rates[static_cast<size_t>(batching)].push_back(RequestRate(model, mix, batching));
    }
    for (auto& list : rates)
      std::ranges::sort(list);
    const double padded = rates[0][kRounds / 2];
    const double leaving = rates[1][kRounds / 2];
    const double continuous = rates[2][kRounds / 2];
    fmt::print(
        "{:<10} static, padded {:6.2f}, static {:6.2f}, continuous {:6.2f} requests/s: {:+.0f}% "
        "over padded, {:+.0f}% over static\n",
        mix.name, padded, leaving, continuous, 100.0 * (continuous / padded - 1.0),
        100.0 * (continuous / leaving - 1.0));
  }
}

void PrintLatencies(Model& model) {
  const auto engine = ServingEngine::Start(model, {}, nullptr);
  for (const int64_t streams : {1, 4, 8}) {
    if (engine.ok())
      PrintLatencyBesidePrefill(**engine, streams);
  }
}

int Main(const char* path, std::string_view what) {
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
    PrintLatencies(**model);
  if (what == "policies")
    PrintPolicies(**model);
  return 0;
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    fmt::print(stderr, "usage: serving_bench MODEL.gguf [rates | latency | policies]\n");
    return 2;
  }
  return tenon::Main(argv[1], argc == 3 ? argv[2] : "");
}

#include "frontend/server/api/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>

#include "frontend/server/api/metrics_aliases.h"
#include "frontend/server/api/module_metrics.h"
#include "frontend/serving/module_control.h"

namespace tenon {
namespace {

using prometheus::Histogram;
using Buckets = Histogram::BucketBoundaries;
using prometheus::MetricFamily;
using prometheus::MetricType;

// Seconds. Tokens of a small model come every few milliseconds, prefills of a long prompt take
// minutes: each range has about a bucket for each doubling.
const Buckets kLatencyBuckets = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
                                 2.5,   5,    10,    30,   60,  120,  300};
const Buckets kTokenBuckets = {0.001, 0.0025, 0.005, 0.0075, 0.01, 0.025, 0.05,
                               0.075, 0.1,    0.25,  0.5,    1,    2.5};
// Coarse: four bounds for alerts. tenon_request_seconds has the same times in finer buckets.
const Buckets kInferenceLatencyBuckets = {0.1, 0.5, 1, 2};
const Buckets kBatchBuckets = {1, 2, 4, 8, 16, 32, 64, 128};
const Buckets kStepTokenBuckets = {1, 4, 16, 32, 64, 128, 256, 512, 1024, 2048};

// A window of utilisation is at least so long; a scrape within it sees the window so far.
constexpr double kWindowSeconds = 5.0;

// Endpoints that are counted by their path; everything else is "other", so that clients can't make
// new series.
constexpr std::string_view kPaths[] = {"/v1/chat/completions",
                                       "/v1/completions",
                                       "/v1/embeddings",
                                       "/v1/models",
                                       "/v1/responses",
                                       "/v1/messages",
                                       "/completion",
                                       "/completions",
                                       "/infill",
                                       "/embedding",
                                       "/v1/rerank",
                                       "/v1/messages/count_tokens",
                                       "/tokenize",
                                       "/detokenize",
                                       "/health",
                                       "/v1/health",
                                       "/metrics",
                                       "/props",
                                       "/slots",
                                       "/apply-template",
                                       "/api/generate",
                                       "/api/chat",
                                       "/api/embed",
                                       "/api/embeddings",
                                       "/api/tags",
                                       "/api/show",
                                       "/api/ps",
                                       "/v1/ws",
                                       "/chat/completions",
                                       "/rerank",
                                       "/v1/reranking",
                                       "/reranking",
                                       "/models",
                                       "/v1/modules",
                                       "/api/version",
                                       "/version",
                                       "/tokenizer_info",
                                       "/embeddings",
                                       "/lora-adapters",
                                       "/tenon.v1.Tenon/Generate",
                                       "/tenon.v1.Tenon/Chat",
                                       "/tenon.v1.Tenon/Embed",
                                       "/tenon.v1.Tenon/Tokenize",
                                       "/tenon.v1.Tenon/Detokenize",
                                       "/tenon.v1.Tenon/Models"};

std::string PathLabel(std::string_view path) {
  for (const std::string_view parent : {"/slots", "/v1/models"}) {
    if (path.starts_with(parent) && path.substr(parent.size()).starts_with('/'))
      return std::string(parent);
  }
  return std::ranges::find(kPaths, path) == std::end(kPaths) ? "other" : std::string(path);
}

struct Value {
  const char* name;
  const char* help;
  MetricType type;
  double value;
};

MetricFamily ToFamily(const Value& value) {
  MetricFamily family;
  family.name = value.name;
  family.help = value.help;
  family.type = value.type;
  prometheus::ClientMetric metric;
  if (value.type == MetricType::Counter)
    metric.counter.value = value.value;
  else
    metric.gauge.value = value.value;
  family.metric.push_back(std::move(metric));
  return family;
}

double Number(uint64_t value) {
  return static_cast<double>(value);
}
double Number(int64_t value) {
  return static_cast<double>(value);
}

double KvUse(const KvStats& kv) {
  return kv.total == 0 ? 0.0 : static_cast<double>(kv.used) / static_cast<double>(kv.total);
}

std::vector<MetricFamily> StatsFamilies(const ServingStats& stats, double utilisation) {
  constexpr MetricType kCounter = MetricType::Counter;
  constexpr MetricType kGauge = MetricType::Gauge;
  const Value values[] = {
      {"tenon_sequences_running", "Sequences in the batch.", kGauge, Number(stats.running)},
      {"tenon_requests_waiting", "Requests in the queue.", kGauge, Number(stats.waiting)},
      {"tenon_steps_total", "Steps of the model.", kCounter, Number(stats.steps)},
      {"tenon_step_tokens_total", "Tokens over all steps.", kCounter, Number(stats.step_tokens)},
      {"tenon_step_sequences_total", "Sequences over all steps; divided by the steps: occupancy.",
       kCounter, Number(stats.step_sequences)},
      {"tenon_prompt_tokens_total", "Prompt tokens, computed or from the cache.", kCounter,
       Number(stats.prompt_tokens)},
      {"tenon_cached_prompt_tokens_total", "Prompt tokens found in the KV cache.", kCounter,
       Number(stats.cached_tokens)},
      {"tenon_completion_tokens_total", "Generated tokens.", kCounter,
       Number(stats.completion_tokens)},
      {"tenon_preemptions_total", "Sequences that had to give up their KV blocks.", kCounter,
       Number(stats.preemptions)},
      {"tenon_checkpointed_preemptions_total",
       "Preemptions after which the KV is rebuilt from hidden states.", kCounter,
       Number(stats.checkpointed_preemptions)},
      {"tenon_rebuilt_tokens_total", "Tokens whose KV was rebuilt from hidden states.", kCounter,
       Number(stats.rebuilt_tokens)},
      {"tenon_rebuild_seconds_total", "Time of these rebuilds.", kCounter, stats.rebuild_s},
      {"tenon_checkpoint_bytes", "Hidden states kept now.", kGauge,
       static_cast<double>(stats.checkpoint_bytes)},
      {"tenon_busy_seconds_total", "Time inside steps.", kCounter, stats.busy_s},
      {"tenon_uptime_seconds", "Time since the engine started.", kGauge, stats.uptime_s},
      {"tenon_kv_blocks", "KV blocks in the pool.", kGauge, static_cast<double>(stats.kv.total)},
      {"tenon_kv_blocks_used", "KV blocks of running sequences.", kGauge,
       static_cast<double>(stats.kv.used)},
      {"tenon_kv_blocks_cached", "KV blocks kept for later requests.", kGauge,
       static_cast<double>(stats.kv.cached)},
      {"tenon_kv_blocks_free", "KV blocks that hold nothing.", kGauge,
       static_cast<double>(stats.kv.free)},
      {"tenon_kv_use_ratio", "Share of the KV blocks that running sequences hold.", kGauge,
       KvUse(stats.kv)},
      {"tenon_prefix_query_tokens_total", "Tokens looked up in the prefix index.", kCounter,
       Number(stats.kv.query_tokens)},
      {"tenon_prefix_hit_tokens_total", "Tokens found in the prefix index.", kCounter,
       Number(stats.kv.hit_tokens)},
      {"tenon_kv_evictions_total", "Cached KV blocks that made room.", kCounter,
       Number(stats.kv.evictions)},
      {"tenon_kv_copies_total", "KV blocks copied on write.", kCounter, Number(stats.kv.copies)},
      {"gpu_utilization",
       "Busy share of the device that computes, 0 to 1; of the engine where there is no GPU.",
       kGauge, utilisation},
  };
  std::vector<MetricFamily> families;
  for (const Value& value : values)
    families.push_back(ToFamily(value));
  return families;
}

Histogram& AddHistogram(prometheus::Registry& registry, const char* name, const char* help,
                        const Buckets& buckets) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({}, buckets);
}

}  // namespace

struct Metrics::Families {
  prometheus::Registry registry;
  Histogram& inference =
      AddHistogram(registry, "inference_latency",
                   "Time from a request to its last token, in seconds.", kInferenceLatencyBuckets);
  Histogram& first_token = AddHistogram(registry, "tenon_time_to_first_token_seconds",
                                        "Time from a request to its first token.", kLatencyBuckets);
  Histogram& inter_token = AddHistogram(registry, "tenon_inter_token_seconds",
                                        "Time between two tokens of one answer.", kTokenBuckets);
  Histogram& queue = AddHistogram(registry, "tenon_queue_seconds",
                                  "Time from a request to its first step.", kLatencyBuckets);
  Histogram& prefill =
      AddHistogram(registry, "tenon_prefill_seconds",
                   "Time from the first step to the first token.", kLatencyBuckets);
  Histogram& decode = AddHistogram(registry, "tenon_decode_seconds",
                                   "Time from the first token to the last.", kLatencyBuckets);
  Histogram& total = AddHistogram(registry, "tenon_request_seconds",
                                  "Time from a request to its end.", kLatencyBuckets);
  Histogram& step =
      AddHistogram(registry, "tenon_step_seconds", "Time of one step.", kTokenBuckets);
  Histogram& step_tokens =
      AddHistogram(registry, "tenon_step_tokens", "Tokens in one step.", kStepTokenBuckets);
  Histogram& batch =
      AddHistogram(registry, "tenon_batch_sequences", "Sequences in one step.", kBatchBuckets);
  prometheus::Gauge& longest =
      prometheus::BuildGauge()
          .Name("tenon_request_tokens_max")
          .Help("Tokens of the longest request that ended, prompt and answers together.")
          .Register(registry)
          .Add({});
  prometheus::Family<prometheus::Counter>& ended =
      prometheus::BuildCounter()
          .Name("tenon_requests_total")
          .Help("Requests to the engine that ended, by outcome.")
          .Register(registry);
  prometheus::Family<prometheus::Counter>& http =
      prometheus::BuildCounter()
          .Name("tenon_http_requests_total")
          .Help("Answers to clients, by endpoint and status.")
          .Register(registry);
};

Metrics::Metrics(std::string model_name, MetricsAliases aliases)
    : model_name_(std::move(model_name)),
      aliases_(aliases),
      families_(std::make_unique<Families>()) {}

Metrics::~Metrics() = default;

void Metrics::OnStep(double seconds, int64_t tokens, int64_t sequences) {
  families_->step.Observe(seconds);
  families_->step_tokens.Observe(static_cast<double>(tokens));
  families_->batch.Observe(static_cast<double>(sequences));
}

void Metrics::OnInterToken(double seconds) {
  families_->inter_token.Observe(seconds);
}

void Metrics::OnFirstToken(const RequestTimings& timings) {
  families_->first_token.Observe(timings.first_token_s);
  families_->queue.Observe(timings.queue_s);
  families_->prefill.Observe(timings.prefill_s);
}

void Metrics::OnEnd(std::string_view outcome, const RequestTimings& timings, int64_t prompt_tokens,
                    int64_t completion_tokens) {
  const auto tokens = static_cast<double>(prompt_tokens + completion_tokens);
  families_->longest.Set(std::max(families_->longest.Value(), tokens));
  families_->ended.Add({{"outcome", std::string(outcome)}}).Increment();
  families_->total.Observe(timings.total_s);
  families_->decode.Observe(timings.decode_s);
  families_->inference.Observe(timings.total_s);
}

void Metrics::OnHttpRequest(std::string_view path, int status) {
  families_->http.Add({{"path", PathLabel(path)}, {"status", std::to_string(status)}}).Increment();
}

double Metrics::Utilisation(const ServingStats& stats) {
  const std::lock_guard lock(utilisation_mutex_);
  const double elapsed = stats.uptime_s - since_uptime_s_;
  const double busy = stats.busy_s - since_busy_s_;
  if (elapsed >= kWindowSeconds) {
    since_uptime_s_ = stats.uptime_s;
    since_busy_s_ = stats.busy_s;
  }
  return elapsed > 0.0 ? std::clamp(busy / elapsed, 0.0, 1.0) : 0.0;
}

std::string Metrics::Text(const ServingEngine* engine) {
  std::vector<MetricFamily> families = families_->registry.Collect();
  const ServingStats stats = engine == nullptr ? ServingStats{} : engine->stats();
  for (MetricFamily& family : StatsFamilies(stats, Utilisation(stats)))
    families.push_back(std::move(family));
  if (const ModuleControl* const modules = modules_.load(); modules != nullptr) {
    for (MetricFamily& family : ModuleFamilies(modules->report()))
      families.push_back(std::move(family));
  }
  if (aliases_ == MetricsAliases::kOn) {
    for (MetricFamily& family : AliasFamilies(families, model_name_))
      families.push_back(std::move(family));
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace tenon

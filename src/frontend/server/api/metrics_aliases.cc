#include "frontend/server/api/metrics_aliases.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace tenon {
namespace {

using prometheus::MetricFamily;

struct Alias {
  std::string_view alias;
  std::string_view source;
};

// vLLM's carry the model's name as a label.
constexpr std::array<Alias, 14> kVllm = {{
    {"vllm:num_requests_running", "tenon_sequences_running"},
    {"vllm:num_requests_waiting", "tenon_requests_waiting"},
    {"vllm:kv_cache_usage_perc", "tenon_kv_use_ratio"},
    {"vllm:num_preemptions_total", "tenon_preemptions_total"},
    {"vllm:prefix_cache_queries_total", "tenon_prefix_query_tokens_total"},
    {"vllm:prefix_cache_hits_total", "tenon_prefix_hit_tokens_total"},
    {"vllm:prompt_tokens_total", "tenon_prompt_tokens_total"},
    {"vllm:generation_tokens_total", "tenon_completion_tokens_total"},
    {"vllm:time_to_first_token_seconds", "tenon_time_to_first_token_seconds"},
    {"vllm:inter_token_latency_seconds", "tenon_inter_token_seconds"},
    {"vllm:e2e_request_latency_seconds", "tenon_request_seconds"},
    {"vllm:request_queue_time_seconds", "tenon_queue_seconds"},
    {"vllm:request_prefill_time_seconds", "tenon_prefill_seconds"},
    {"vllm:request_decode_time_seconds", "tenon_decode_seconds"},
}};

constexpr std::array<Alias, 6> kLlama = {{
    {"llamacpp:prompt_tokens_total", "tenon_prompt_tokens_total"},
    {"llamacpp:tokens_predicted_total", "tenon_completion_tokens_total"},
    {"llamacpp:requests_processing", "tenon_sequences_running"},
    {"llamacpp:requests_deferred", "tenon_requests_waiting"},
    {"llamacpp:n_decode_total", "tenon_steps_total"},
    {"llamacpp:n_tokens_max", "tenon_request_tokens_max"},
}};

const MetricFamily* Find(const std::vector<MetricFamily>& families, std::string_view name) {
  const auto found = std::ranges::find_if(
      families, [&](const MetricFamily& family) { return family.name == name; });
  return found == families.end() ? nullptr : &*found;
}

void AddAlias(const std::vector<MetricFamily>& families, const Alias& alias,
              const prometheus::ClientMetric::Label* label, std::vector<MetricFamily>& out) {
  const MetricFamily* source = Find(families, alias.source);
  if (source == nullptr)
    return;
  MetricFamily copy = *source;
  copy.name = alias.alias;
  for (prometheus::ClientMetric& metric : copy.metric) {
    if (label != nullptr)
      metric.label.push_back(*label);
  }
  out.push_back(std::move(copy));
}

// Requests that ended well, by vLLM's name for the outcome.
void AddVllmSuccess(const std::vector<MetricFamily>& families,
                    const prometheus::ClientMetric::Label& model, std::vector<MetricFamily>& out) {
  const MetricFamily* source = Find(families, "tenon_requests_total");
  if (source == nullptr)
    return;
  MetricFamily copy = *source;
  copy.name = "vllm:request_success_total";
  std::erase_if(copy.metric, [](const prometheus::ClientMetric& metric) {
    const std::string& outcome = metric.label.front().value;
    return outcome != "stop" && outcome != "length";
  });
  for (prometheus::ClientMetric& metric : copy.metric) {
    metric.label.front().name = "finished_reason";
    metric.label.push_back(model);
  }
  if (!copy.metric.empty())
    out.push_back(std::move(copy));
}

double ValueOf(const std::vector<MetricFamily>& families, std::string_view name) {
  const MetricFamily* family = Find(families, name);
  return family == nullptr ? 0.0 : family->metric.front().counter.value;
}

// The sum of all that a histogram has seen: seconds.
double SumOf(const std::vector<MetricFamily>& families, std::string_view name) {
  const MetricFamily* family = Find(families, name);
  return family == nullptr || family->metric.empty() ? 0.0
                                                     : family->metric.front().histogram.sample_sum;
}

struct Derived {
  const char* name;
  const char* help;
  prometheus::MetricType type;
  double value;
};

MetricFamily ToFamily(const Derived& derived) {
  MetricFamily family;
  family.name = derived.name;
  family.help = derived.help;
  family.type = derived.type;
  prometheus::ClientMetric metric;
  if (derived.type == prometheus::MetricType::Counter)
    metric.counter.value = derived.value;
  else
    metric.gauge.value = derived.value;
  family.metric.push_back(metric);
  return family;
}

// llama-server's times are sums, and its rates averages since the start.
void AddTimes(const std::vector<MetricFamily>& families, std::vector<MetricFamily>& out) {
  using prometheus::MetricType;
  const double prompt_s = SumOf(families, "tenon_prefill_seconds");
  const double decode_s = SumOf(families, "tenon_decode_seconds");
  const double computed = ValueOf(families, "tenon_prompt_tokens_total") -
                          ValueOf(families, "tenon_cached_prompt_tokens_total");
  const double predicted = ValueOf(families, "tenon_completion_tokens_total");
  const auto rate = [](double count, double seconds) {
    return seconds > 0.0 ? count / seconds : 0.0;
  };
  const Derived all[] = {
      {"llamacpp:prompt_seconds_total", "Time from the first step to the first token.",
       MetricType::Counter, prompt_s},
      {"llamacpp:tokens_predicted_seconds_total", "Time from the first token to the last.",
       MetricType::Counter, decode_s},
      {"llamacpp:prompt_tokens_seconds", "Computed prompt tokens per second, on average.",
       MetricType::Gauge, rate(computed, prompt_s)},
      {"llamacpp:predicted_tokens_seconds", "Generated tokens per second, on average.",
       MetricType::Gauge, rate(predicted, decode_s)},
  };
  for (const Derived& derived : all)
    out.push_back(ToFamily(derived));
}

// Sequences in a step, on average.
void AddBusySlots(const std::vector<MetricFamily>& families, std::vector<MetricFamily>& out) {
  const double steps = ValueOf(families, "tenon_steps_total");
  const double sequences = ValueOf(families, "tenon_step_sequences_total");
  out.push_back(ToFamily({"llamacpp:n_busy_slots_per_decode", "Sequences in a step, on average.",
                          prometheus::MetricType::Gauge, steps > 0.0 ? sequences / steps : 0.0}));
}

}  // namespace

std::vector<MetricFamily> AliasFamilies(const std::vector<MetricFamily>& families,
                                        const std::string& model_name) {
  std::vector<MetricFamily> out;
  prometheus::ClientMetric::Label model;
  model.name = "model_name";
  model.value = model_name;
  for (const Alias& alias : kVllm)
    AddAlias(families, alias, &model, out);
  AddVllmSuccess(families, model, out);
  for (const Alias& alias : kLlama)
    AddAlias(families, alias, nullptr, out);
  AddTimes(families, out);
  AddBusySlots(families, out);
  return out;
}

}  // namespace tenon

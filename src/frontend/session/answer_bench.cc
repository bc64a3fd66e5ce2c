#include "frontend/session/answer_bench.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "accel/routing/routing_trace.h"
#include "frontend/session/generation.h"
#include "frontend/session/routing_curve.h"

namespace tenon {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

// What one setting did so far.
struct Measured {
  std::vector<double> round_seconds;
  std::vector<int64_t> round_tokens;
  std::vector<double> first_token_s;
  std::vector<double> gaps;
  double agreement = 0.0;
  double nll = 0.0;
};

template <class Number>
Number Sum(const std::vector<Number>& values) {
  return std::accumulate(values.begin(), values.end(), Number{0});
}

double Quantile(std::vector<double> values, double q) {
  if (values.empty())
    return 0.0;
  const auto place = static_cast<size_t>(q * static_cast<double>(values.size() - 1));
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(place));
  return values[place];
}

// Tokens of the answer that are the reference's best, and its surprise.
Status Judge(Model& reference, const std::vector<int32_t>& prompt,
             const std::vector<int32_t>& answer, Measured& out) {
  TraceWindow window;
  window.tokens = prompt;
  window.first = static_cast<int64_t>(prompt.size());
  window.tokens.insert(window.tokens.end(), answer.begin(), answer.end());
  TENON_ASSIGN_OR_RETURN(
      const RoutingTrace trace,
      TraceModels(reference.runner(), reference.runner(), reference.pool(), {&window, 1}, {}));
  for (const TraceRow& row : trace.rows) {
    out.agreement += row.large.best == row.truth ? 1.0 : 0.0;
    out.nll -= row.large_truth_logprob;
  }
  return {};
}

Status SwitchTo(const BenchSetting& setting) {
  for (const ModuleReport& report : setting.chain->Report()) {
    const bool is_on =
        std::ranges::find(setting.modules, report.info.name) != setting.modules.end();
    TENON_RETURN_IF_ERROR(
        setting.chain->Switch(report.info.name, is_on ? ModuleState::kOn : ModuleState::kOff));
  }
  return {};
}

Status AnswerOne(const BenchSetting& setting, const std::vector<int32_t>& prompt, Model& reference,
                 int64_t answer_tokens, Measured& out) {
  setting.model->runner().kv().DropCached();
  GenerationRequest request;
  request.prompt = prompt;
  request.sampling.temperature = 0.0F;
  request.max_tokens = answer_tokens;
  request.end_tokens = EndTokens::kIgnore;
  request.steps = setting.chain;
  std::vector<Clock::time_point> times;
  const auto start = Clock::now();
  TENON_ASSIGN_OR_RETURN(const GenerationResult result,
                         Generate(*setting.model, request, [&](std::string_view) {
                           times.push_back(Clock::now());
                           return true;
                         }));
  out.round_seconds.back() += std::chrono::duration<double>(Clock::now() - start).count();
  out.round_tokens.back() += static_cast<int64_t>(result.token_ids.size());
  out.first_token_s.push_back(result.first_token_s);
  for (size_t i = 1; i < times.size(); ++i)
    out.gaps.push_back(std::chrono::duration<double>(times[i] - times[i - 1]).count());
  return Judge(reference, prompt, result.token_ids, out);
}

AnswerRates ToRates(const BenchSetting& setting, const Measured& m) {
  AnswerRates rates;
  rates.setting = setting.name;
  rates.tokens = Sum(m.round_tokens);
  const auto tokens = static_cast<double>(std::max<int64_t>(rates.tokens, 1));
  rates.tok_s = static_cast<double>(rates.tokens) / Sum(m.round_seconds);
  rates.tok_s_min = rates.tok_s;
  rates.tok_s_max = rates.tok_s;
  for (size_t i = 0; i < m.round_seconds.size(); ++i) {
    const double round = static_cast<double>(m.round_tokens[i]) / m.round_seconds[i];
    rates.tok_s_min = std::min(rates.tok_s_min, round);
    rates.tok_s_max = std::max(rates.tok_s_max, round);
  }
  rates.first_token_s =
      Sum(m.first_token_s) / static_cast<double>(std::max<size_t>(m.first_token_s.size(), 1));
  rates.gap_p50_s = Quantile(m.gaps, 0.5);
  rates.gap_p99_s = Quantile(m.gaps, 0.99);
  rates.agreement = m.agreement / tokens;
  rates.nll = m.nll / tokens;
  return rates;
}

// Counts since the chain was made: settings of one chain share them.
Json ModuleCounts(const BenchSetting& setting) {
  Json json = Json::object();
  for (const ModuleReport& report : setting.chain->Report()) {
    if (std::ranges::find(setting.modules, report.info.name) == setting.modules.end())
      continue;
    Json& entry = json[report.info.name];
    entry["proposed"] = report.stats.proposed;
    entry["accepted"] = report.stats.accepted;
    entry["integrity_checks"] = report.stats.integrity_checks;
    entry["integrity_failures"] = report.stats.integrity_failures;
    for (const Module::Gauge& gauge : report.gauges)
      entry[gauge.name] = gauge.value;
  }
  return json;
}

Status SwitchAllOn(std::span<const BenchSetting> settings) {
  for (const BenchSetting& setting : settings) {
    for (const ModuleReport& report : setting.chain->Report())
      TENON_RETURN_IF_ERROR(setting.chain->Switch(report.info.name, ModuleState::kOn));
  }
  return {};
}

}  // namespace

int64_t BenchWorkload::longest() const {
  size_t most = 0;
  for (const auto& prompt : prompts)
    most = std::max(most, prompt.size());
  return static_cast<int64_t>(most);
}

Result<BenchWorkload> ReadWorkload(const Model& model, std::string_view argument, int64_t prompts) {
  const size_t equals = argument.find('=');
  if (equals == std::string_view::npos || equals == 0 || equals + 1 == argument.size())
    return InvalidArgument("found \"" + std::string(argument) + "\", expected NAME=FILE",
                           "--workload");
  BenchWorkload workload{std::string(argument.substr(0, equals)), {}};
  TENON_ASSIGN_OR_RETURN(const auto documents, ReadDocuments(argument.substr(equals + 1)));
  for (const std::string& document : documents) {
    if (static_cast<int64_t>(workload.prompts.size()) == prompts)
      break;
    auto tokens =
        model.tokenizer().Encode(document, SpecialText::kPlain, AddSpecial::kModelDefault);
    if (!tokens.empty())
      workload.prompts.push_back(std::move(tokens));
  }
  if (workload.prompts.empty())
    return InvalidArgument("found no prompt", std::string(argument.substr(equals + 1)));
  return workload;
}

std::vector<BenchSetting> AloneAndStacked(Model& model, ModuleChain& chain,
                                          const std::string& prefix) {
  std::vector<BenchSetting> settings = {{prefix + "plain", &model, &chain, {}}};
  std::vector<std::string> names;
  for (const ModuleReport& report : chain.Report())
    names.push_back(report.info.name);
  for (const std::string& name : names)
    settings.push_back({prefix + name, &model, &chain, {name}});
  std::vector<std::string> stack = {};
  std::string title;
  for (const std::string& name : names) {
    stack.push_back(name);
    title += (title.empty() ? "" : " + ") + name;
    if (stack.size() > 1)
      settings.push_back({prefix + title, &model, &chain, stack});
  }
  return settings;
}

Result<std::vector<AnswerRates>> RunAnswerBench(std::span<const BenchSetting> settings,
                                                const BenchWorkload& workload, Model& reference,
                                                const AnswerBenchOptions& options) {
  std::vector<Measured> measured(settings.size());
  for (int64_t round = 0; round < options.rounds; ++round) {
    for (Measured& m : measured) {
      m.round_seconds.push_back(0.0);
      m.round_tokens.push_back(0);
    }
    for (const auto& prompt : workload.prompts) {
      for (size_t i = 0; i < settings.size(); ++i) {
        TENON_RETURN_IF_ERROR(SwitchTo(settings[i]));
        TENON_RETURN_IF_ERROR(
            AnswerOne(settings[i], prompt, reference, options.answer_tokens, measured[i]));
      }
    }
  }
  std::vector<AnswerRates> result;
  for (size_t i = 0; i < settings.size(); ++i) {
    result.push_back(ToRates(settings[i], measured[i]));
    result.back().workload = workload.name;
    result.back().modules = ModuleCounts(settings[i]);
  }
  TENON_RETURN_IF_ERROR(SwitchAllOn(settings));
  return result;
}

Json ToJson(const AnswerRates& rates) {
  return {{"kind", "speed"},
          {"workload", rates.workload},
          {"setting", rates.setting},
          {"tokens", rates.tokens},
          {"tok_s", rates.tok_s},
          {"tok_s_min", rates.tok_s_min},
          {"tok_s_max", rates.tok_s_max},
          {"first_token_s", rates.first_token_s},
          {"gap_p50_ms", 1e3 * rates.gap_p50_s},
          {"gap_p99_ms", 1e3 * rates.gap_p99_s},
          {"agreement", rates.agreement},
          {"nll", rates.nll},
          {"modules", rates.modules}};
}

}  // namespace tenon

// Speculation beside plain decoding, in one process: rounds of all cases in turn, so that what else
// the machine does meets all of them alike, and the prompt of each case computed once.
//
//   speculation_bench MODEL TEXT --context 4096 --tokens 128 --rounds 5 --temp 0
//       --case f16 --case q8 --case 'hier;self_spec' --case 'hier;ngram:max_guesses=8'
//
// A case is a KV type and, after a semicolon, modules. Prints a line of JSON for each: decode
// tokens a second (median, least, most), the ratio to the first case (median of the rounds' own
// ratios), acceptance, and whether the ids equal those of the first case with the same KV type.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file_io.h"
#include "frontend/session/generation.h"
#include "frontend/session/module_set.h"
#include "frontend/store/store.h"
#include "hal/kv_type.h"

namespace tenon {
namespace {

struct Flags {
  std::string model;
  std::string text;
  int64_t context = 4096;
  int64_t tokens = 128;
  int64_t rounds = 5;
  int64_t skip = 0;  // bytes of the text before the prompt
  int threads = 0;
  float temperature = 0.0F;
  std::vector<std::string> cases;
};

struct Case {
  std::string name;
  std::string kv;
  std::unique_ptr<Model> model;
  std::unique_ptr<ModuleSet> modules;
  GenerationRequest request;
  std::vector<double> rates;
  std::vector<int32_t> ids;
};

Status SetFlag(std::string_view name, const char* value, Flags& flags) {
  if (name == "--context")
    flags.context = std::atoll(value);
  else if (name == "--tokens")
    flags.tokens = std::atoll(value);
  else if (name == "--rounds")
    flags.rounds = std::atoll(value);
  else if (name == "--skip")
    flags.skip = std::atoll(value);
  else if (name == "--threads")
    flags.threads = std::atoi(value);
  else if (name == "--temp")
    flags.temperature = static_cast<float>(std::atof(value));
  else if (name == "--case")
    flags.cases.emplace_back(value);
  else
    return InvalidArgument(fmt::format("unknown flag {}", name));
  return {};
}

Result<Flags> ParseFlags(int argc, char** argv) {
  Flags flags;
  std::vector<std::string> places;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (!name.starts_with("--")) {
      places.push_back(name);
      continue;
    }
    if (++i == argc)
      return InvalidArgument(fmt::format("{} needs a value", name));
    TENON_RETURN_IF_ERROR(SetFlag(name, argv[i], flags));
  }
  if (places.size() != 2 || flags.cases.empty())
    return InvalidArgument("usage: speculation_bench MODEL TEXT --case KV[;MODULE...]...");
  flags.model = places[0];
  flags.text = places[1];
  return flags;
}

Result<ModuleConfig> ConfigOf(std::string_view modules) {
  ModuleConfig config;
  while (!modules.empty()) {
    const size_t end = std::min(modules.find(';'), modules.size());
    TENON_ASSIGN_OR_RETURN(auto entry, ParseModuleFlag(modules.substr(0, end)));
    config.modules.push_back(std::move(entry));
    modules.remove_prefix(std::min(end + 1, modules.size()));
  }
  return config;
}

Status Prepare(const Flags& flags, const std::string& text, Case& item) {
  TENON_ASSIGN_OR_RETURN(const auto path, ResolveModel(flags.model));
  TENON_ASSIGN_OR_RETURN(item.model, Model::Open(path));
  const size_t semicolon = std::min(item.name.find(';'), item.name.size());
  item.kv = item.name.substr(0, semicolon);
  LoadOptions options;
  options.threads = flags.threads;
  options.sequences = 2;
  options.batch_outputs = 40;
  options.context_tokens = flags.context + flags.tokens + 64;
  TENON_ASSIGN_OR_RETURN(options.kv_type, ParseKvType(item.kv));
  TENON_RETURN_IF_ERROR(item.model->Load(options));
  TENON_ASSIGN_OR_RETURN(
      const ModuleConfig config,
      ConfigOf(std::string_view(item.name).substr(std::min(semicolon + 1, item.name.size()))));
  TENON_ASSIGN_OR_RETURN(item.modules, ModuleSet::Create(*item.model, config));
  item.request.prompt =
      item.model->tokenizer().Encode(text, SpecialText::kPlain, AddSpecial::kModelDefault);
  if (static_cast<int64_t>(item.request.prompt.size()) < flags.context)
    return InvalidArgument("the text is shorter than the context", flags.text);
  item.request.prompt.resize(static_cast<size_t>(flags.context));
  item.request.sampling.temperature = flags.temperature;
  item.request.sampling.seed = 1;
  item.request.end_tokens = EndTokens::kIgnore;
  item.request.max_tokens = flags.tokens;
  item.request.steps = &item.modules->steps();
  return {};
}

Status RunOnce(Case& item) {
  TENON_ASSIGN_OR_RETURN(const auto result, Generate(*item.model, item.request, nullptr));
  item.rates.push_back(result.tokens_per_s);
  item.ids = result.token_ids;
  return {};
}

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0.0 : values[values.size() / 2];
}

void Print(const Case& item, const std::vector<Case>& all) {
  nlohmann::ordered_json json;
  json["case"] = item.name;
  json["tok_s"] = {{"median", Median(item.rates)},
                   {"min", *std::ranges::min_element(item.rates)},
                   {"max", *std::ranges::max_element(item.rates)}};
  std::vector<double> ratios;
  for (size_t i = 0; i < item.rates.size(); ++i)
    ratios.push_back(item.rates[i] / all.front().rates[i]);
  json["ratio"] = Median(ratios);
  const auto same = std::ranges::find(all, item.kv, &Case::kv);
  json["ids_equal_to"] = {{"case", same->name}, {"equal", same->ids == item.ids}};
  for (const ModuleReport& report : item.modules->chain().Report()) {
    nlohmann::ordered_json& module = json["modules"][report.info.name];
    module["proposed"] = report.stats.proposed;
    module["accepted"] = report.stats.accepted;
    module["paused"] = report.stats.paused;
    for (const Module::Gauge& gauge : report.gauges)
      module[gauge.name] = gauge.value;
  }
  fmt::print("{}\n", json.dump());
}

Status Run(int argc, char** argv) {
  TENON_ASSIGN_OR_RETURN(const Flags flags, ParseFlags(argc, argv));
  TENON_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(flags.text, uint64_t{64} << 20));
  const std::string from = text.substr(std::min(text.size(), static_cast<size_t>(flags.skip)),
                                       static_cast<size_t>(flags.context) * 12);
  std::vector<Case> cases(flags.cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    cases[i].name = flags.cases[i];
    TENON_RETURN_IF_ERROR(Prepare(flags, from, cases[i]));
    TENON_RETURN_IF_ERROR(RunOnce(cases[i]));  // computes the prompt and warms up
    cases[i].rates.clear();
  }
  for (int64_t round = 0; round < flags.rounds; ++round) {
    for (Case& item : cases)
      TENON_RETURN_IF_ERROR(RunOnce(item));
  }
  for (const Case& item : cases)
    Print(item, cases);
  return {};
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  const tenon::Status status = tenon::Run(argc, argv);
  if (!status.ok())
    fmt::print(stderr, "{}\n", status.error().ToString());
  return status.ok() ? 0 : 1;
}

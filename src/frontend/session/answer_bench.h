// How fast and how well several ways of running a model answer the same prompts: the model alone,
// with one acceleration module or another, with all of them.
//
// Rounds are interleaved: every setting answers each prompt once in each round, so that whatever
// else the machine does hits all of them alike. Answers are greedy and have the same length. What
// they are worth is told by a reference model, outside the time that counts.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "accel/module_chain.h"
#include "base/result.h"
#include "frontend/session/model.h"

namespace tenon {

struct BenchWorkload {
  std::string name;
  std::vector<std::vector<int32_t>> prompts;

  int64_t longest() const;  // prompt, in tokens
};

// `argument` is NAME=FILE; of the file's documents (ReadDocuments) the first `prompts`.
Result<BenchWorkload> ReadWorkload(const Model& model, std::string_view argument, int64_t prompts);

// One way to answer. Borrows the model and the chain in front of it.
struct BenchSetting {
  std::string name;
  Model* model = nullptr;
  ModuleChain* chain = nullptr;
  std::vector<std::string> modules;  // of the chain: on in this setting, the others off
};

// Each module of the chain alone, then stacked in the chain's order, outermost last. The plain
// engine comes first. `prefix` goes before each name.
std::vector<BenchSetting> AloneAndStacked(Model& model, ModuleChain& chain,
                                          const std::string& prefix);

struct AnswerBenchOptions {
  int64_t answer_tokens = 128;
  int64_t rounds = 2;
};

struct AnswerRates {
  std::string workload;
  std::string setting;
  int64_t tokens = 0;
  double tok_s = 0.0;      // of whole answers, prefill included
  double tok_s_min = 0.0;  // the slowest round
  double tok_s_max = 0.0;
  double first_token_s = 0.0;
  double gap_p50_s = 0.0;  // between two tokens
  double gap_p99_s = 0.0;
  double agreement = 0.0;          // share of tokens that the reference model finds best
  double nll = 0.0;                // of the answers, nats a token, by the reference model
  nlohmann::ordered_json modules;  // by name: proposed, accepted, checks, failures, gauges
};

// One entry for each setting, in their order. The chain's modules are all on afterwards.
Result<std::vector<AnswerRates>> RunAnswerBench(std::span<const BenchSetting> settings,
                                                const BenchWorkload& workload, Model& reference,
                                                const AnswerBenchOptions& options);

// For bench/modules_table.py.
nlohmann::ordered_json ToJson(const AnswerRates& rates);

}  // namespace tenon

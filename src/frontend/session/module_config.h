// ModuleConfig: tenon.yaml, and the --module flags: which acceleration modules run, what watches
// over them, how the KV cache is kept and how requests are batched.
//
//   kv_cache: 4bit_nf4
//   scheduling: { batch_window_ms: 50, max_batch: 32 }
//   modules:                      # in this order within a stage
//     ngram: { max_guesses: 8 }
//     draft_model: { model: smollm2-135m-instruct }
//   module_memory_quota: { ngram: 5%, draft_model: 50% }
//   monitoring: { min_latency_saving: 15% }
//
// Threading: values.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tenon {

struct ModuleConfig {
  struct Entry {
    std::string name;
    nlohmann::json options;  // an object
    std::string where = {};  // "file:line"; empty: a flag
  };
  std::vector<Entry> modules;
  // As they stand; objects, empty where they are not given.
  nlohmann::json memory_quota = nlohmann::json::object();
  nlohmann::json monitoring = nlohmann::json::object();
  nlohmann::json scheduling = nlohmann::json::object();
  // "file:line" of two of them.
  std::string memory_quota_where;
  std::string monitoring_where;
  // As `kv_cache:` or `quantization: { kv_cache: ... }` names it; empty: not given.
  std::string kv_cache;
  std::string kv_cache_where;  // "file:line"
  // `quantization: { recomputation: ... }`: KV that was given away is rebuilt from hidden states.
  std::optional<bool> recomputation;
};

// The error with a place in front of its own: "tenon.yaml:3: modules.ngram.max_guesses".
Error Placed(Error error, const std::string& place);

// `monitoring: { max_acceptance_rate: ... }` is the option of that name of self_spec, unless it has
// one of its own. Fails with kIo, or kInvalidArgument naming the file and line: text that is no
// YAML, keys that nobody knows, keys that occur twice, more than 10,000 values or 16 levels.
Result<ModuleConfig> ReadModuleConfig(const std::filesystem::path& path);
// `where` names the text in errors.
Result<ModuleConfig> ParseModuleConfig(std::string_view yaml, const std::string& where);

// A flag: "name" or "name:option=value,option=value"; values as in YAML.
Result<ModuleConfig::Entry> ParseModuleFlag(std::string_view flag);

}  // namespace tenon

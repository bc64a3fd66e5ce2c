// ApiContext: what all endpoints share: the engine once it runs, the model's names, metrics.
//
// Threading: any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "frontend/server/api/api_error.h"
#include "frontend/server/api/metrics.h"
#include "frontend/server/api/work_queue.h"
#include "frontend/serving/constraint_store.h"
#include "frontend/serving/serving_engine.h"

namespace tenon {

class ModuleControl;

inline constexpr const char* kTenonVersion = "0.1.0";

// Whether prompts and answers may stand in the log.
enum class ContentLog : uint8_t { kOff, kOn };

// Whether requests may say how urgent they are. Whoever may can overtake all others.
enum class ClientPriority : uint8_t { kRefused, kHonoured };

struct ApiOptions {
  // What requests may call the model; the first is its own name. "*" accepts any name.
  std::vector<std::string> model_names;
  std::filesystem::path model_path;
  std::filesystem::path slot_folder;  // for saved slots; empty: none
  ContentLog content_log = ContentLog::kOff;
  MetricsAliases metrics_aliases = MetricsAliases::kOff;
  ClientPriority client_priority = ClientPriority::kRefused;
  std::chrono::milliseconds request_timeout{0};  // 0: none
  std::chrono::milliseconds ping_interval{15'000};
};

class ApiContext {
 public:
  explicit ApiContext(ApiOptions options);

  // Null until the model is ready. The engine must outlive the HTTP server's handlers.
  void SetEngine(ServingEngine* engine) { engine_.store(engine); }
  ServingEngine* engine() const { return engine_.load(); }

  // The same for the acceleration modules; null: there are none.
  void SetModules(ModuleControl* modules) {
    modules_.store(modules);
    metrics_.SetModules(modules);
  }
  ModuleControl* modules() const { return modules_.load(); }

  const ApiOptions& options() const { return options_; }
  const std::string& model_name() const { return options_.model_names.front(); }
  Metrics& metrics() { return metrics_; }
  // What was made for earlier requests; it locks itself.
  ConstraintStore& constraints() const { return constraints_; }
  // Reading of large requests. To be stopped after the HTTP server and before the engine goes.
  WorkQueue& work() { return work_; }
  int64_t start_time() const { return start_time_; }  // Unix seconds

  // The name to answer with: `requested`, or the model's own for "". Ollama's ":latest" may follow.
  Result<std::string> ResolveModelName(const std::string& requested) const;

 private:
  ApiOptions options_;
  Metrics metrics_;
  mutable ConstraintStore constraints_;
  int64_t start_time_;
  std::atomic<ServingEngine*> engine_ = nullptr;
  std::atomic<ModuleControl*> modules_ = nullptr;
  WorkQueue work_;  // last: it goes first
};

// When a request that comes now must be done: --request-timeout.
std::chrono::steady_clock::time_point RequestDeadline(const ApiContext& context);

// What the client of a request that ended early is told. kCancelled without a server that stops is
// the deadline's: 504.
ApiError EndError(const Error& error, Health health);

// Tokens that one request may hold, prompt and answer together.
int64_t SequenceContext(const ServingEngine& engine);

int64_t UnixSeconds();
// 24 random hex digits.
std::string NewId();

// Who asked: for the log, fairness and the KV cache's scope.
struct Caller {
  std::string request_id;
  std::string path;
  std::string key_name;
};
// The salt that parts the KV cache: each key has its own, and a request may part it further. Empty
// when there is neither.
std::string CacheSalt(const std::string& key_name, const std::string& salt);
Caller CallerOf(const HttpRequest& request);

}  // namespace tenon

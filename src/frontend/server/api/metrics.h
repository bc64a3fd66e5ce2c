// Metrics: the server's numbers as Prometheus reads them.
//
// Histograms and counts of requests are gathered as the engine reports them; everything else is
// read from ServingStats when a scrape asks. Threading: any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "frontend/serving/serving_engine.h"

namespace tenon {

class ModuleControl;

// Whether the same numbers also appear as vllm:... and llamacpp:...
enum class MetricsAliases : uint8_t { kOff, kOn };

class Metrics final : public ServingObserver {
 public:
  Metrics(std::string model_name, MetricsAliases aliases);
  ~Metrics() override;

  void OnStep(double seconds, int64_t tokens, int64_t sequences) override;
  void OnInterToken(double seconds) override;
  void OnFirstToken(const RequestTimings& timings) override;
  void OnEnd(std::string_view outcome, const RequestTimings& timings, int64_t prompt_tokens,
             int64_t completion_tokens) override;

  // One request to an endpoint, as its client saw it.
  void OnHttpRequest(std::string_view path, int status);

  // Numbers of acceleration modules too; null: there are none. It outlives this, or is taken away.
  void SetModules(const ModuleControl* modules) { modules_.store(modules); }

  // Prometheus' text format 0.0.4. `engine` may be null while the model loads.
  std::string Text(const ServingEngine* engine);

 private:
  struct Families;
  double Utilisation(const ServingStats& stats);

  std::string model_name_;
  MetricsAliases aliases_;
  std::unique_ptr<Families> families_;
  std::atomic<const ModuleControl*> modules_ = nullptr;
  std::mutex utilisation_mutex_;
  double since_uptime_s_ = 0.0;  // where the current window of utilisation began
  double since_busy_s_ = 0.0;
};

}  // namespace tenon

// A ServingEngine on the real model, and a client that collects what its sinks are told.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "frontend/serving/serving_engine.h"
#include "frontend/session/generation.h"
#include "spine/test_model.h"

namespace tenon {

// Everything one request's sink was told.
struct Outcome {
  std::vector<ServingEvent> events;
  std::map<int32_t, std::string> text;             // by choice
  std::map<int32_t, std::vector<int32_t>> tokens;  // by choice
  std::map<int32_t, FinishReason> finish;          // by choice
  bool is_finished = false;
  bool has_error = false;
  Error error;
  int64_t cached_tokens = 0;
  int64_t completion_tokens = 0;
  std::vector<SampledToken> prompt_logprobs;
  bool is_over() const { return is_finished || has_error; }
};

// Threading: Sink's calls come from the engine's thread, the rest from the test's.
class Client {
 public:
  EventSink Sink() {
    return [this](ServingEvent event) { Take(std::move(event)); };
  }

  // Waits until the request is over. A request that hangs ends the test by CTest's own limit.
  const Outcome& Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return outcome_.is_over(); });
    return outcome_;
  }
  void WaitForTokens(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return outcome_.is_over() || outcome_.tokens[0].size() >= count; });
  }

 private:
  void Take(ServingEvent event) {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(outcome_.is_over()) << "an event after the last one";
    outcome_.text[event.choice] += event.text;
    auto& tokens = outcome_.tokens[event.choice];
    tokens.insert(tokens.end(), event.tokens.begin(), event.tokens.end());
    if (event.kind == ServingEvent::Kind::kStarted) {
      outcome_.cached_tokens = event.cached_tokens;
      outcome_.prompt_logprobs = event.prompt_logprobs;
    }
    if (event.kind == ServingEvent::Kind::kDone)
      outcome_.finish[event.choice] = event.finish_reason;
    if (event.kind == ServingEvent::Kind::kFinished)
      outcome_.completion_tokens = event.completion_tokens;
    outcome_.is_finished |= event.kind == ServingEvent::Kind::kFinished;
    outcome_.has_error |= event.kind == ServingEvent::Kind::kError;
    outcome_.error = event.error;
    outcome_.events.push_back(std::move(event));
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Outcome outcome_;
};

inline ServingRequest GreedyRequest(std::vector<int32_t> prompt, int64_t tokens) {
  ServingRequest request;
  request.prompt = std::move(prompt);
  request.sampling.temperature = 0.0F;
  request.max_tokens = tokens;
  request.end_tokens = EndTokens::kIgnore;
  return request;
}

// What Generate says to the same request, without any cache.
inline GenerationResult Reference(Model& model, const ServingRequest& request) {
  model.runner().kv().DropCached();
  GenerationRequest single;
  single.prompt = request.prompt;
  single.sampling = request.sampling;
  single.stop = request.stop;
  single.end_tokens = request.end_tokens;
  single.max_tokens = request.max_tokens;
  auto result = Generate(model, single, nullptr);
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().ToString());
  model.runner().kv().DropCached();
  return result.ok() ? *result : GenerationResult();
}

inline std::unique_ptr<ServingEngine> MustStart(Model& model, const ServingOptions& options) {
  auto engine = ServingEngine::Start(model, options, nullptr);
  EXPECT_TRUE(engine.ok()) << (engine.ok() ? "" : engine.error().ToString());
  return engine.ok() ? std::move(*engine) : nullptr;
}

inline RequestId MustSubmit(ServingEngine& engine, ServingRequest request, Client& client) {
  auto id = engine.Submit(std::move(request), client.Sink());
  EXPECT_TRUE(id.ok()) << (id.ok() ? "" : id.error().ToString());
  return id.ok() ? *id : 0;
}

}  // namespace tenon

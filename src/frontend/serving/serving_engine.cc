#include "frontend/serving/serving_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "accel/module_list.h"
#include "accel/plain_engine.h"
#include "base/log.h"
#include "frontend/serving/active_request.h"
#include "frontend/serving/engine_core.h"

namespace tenon {
namespace {

using Clock = std::chrono::steady_clock;

Status CheckOptions(const ServingOptions& options, const PlanOptions& plan) {
  if (options.max_batch < 1 || options.max_batch > plan.max_outputs) {
    return InvalidArgument(
        fmt::format("found {}, expected 1 to {}, the rows of logits that the model is loaded for",
                    options.max_batch, plan.max_outputs),
        "max_batch");
  }
  if (options.token_budget < options.max_batch) {
    return InvalidArgument(fmt::format("found {}, expected at least max_batch, {}",
                                       options.token_budget, options.max_batch),
                           "token_budget");
  }
  if (options.queue_limit < 1)
    return InvalidArgument(fmt::format("found {}, expected 1 or more", options.queue_limit),
                           "queue_limit");
  if (options.batch_threshold < 0 || options.batch_threshold > options.max_batch)
    return InvalidArgument(fmt::format("found {}, expected at most max_batch, {}",
                                       options.batch_threshold, options.max_batch),
                           "batch_threshold");
  if (options.warmup_steps < 1)
    return InvalidArgument(fmt::format("found {}, expected 1 or more", options.warmup_steps),
                           "warmup_steps");
  if (options.batch_window.count() < 0)
    return InvalidArgument(
        fmt::format("found {} ms, expected 0 or more", options.batch_window.count()),
        "batch_window");
  return {};
}

Status CheckModules(const std::optional<std::vector<std::string>>& modules) {
  if (!modules.has_value())
    return {};
  const auto known = KnownModules();
  for (const std::string& name : *modules) {
    if (std::ranges::find(known, name, &ModuleEntry::name) == known.end())
      return InvalidArgument(fmt::format("found {}, which is no module of this build", name),
                             "modules");
  }
  return {};
}

Error Stopped() {
  return MakeError(ErrorCode::kCancelled, "the engine is shutting down");
}

// The thread, the mailbox in front of it and what others may see of it.
class ThreadedEngine : public ServingEngine {
 public:
  ThreadedEngine(Model& model, const ServingOptions& options, ServingObserver* observer,
                 StepEngine* steps)
      : model_(model),
        options_(options),
        started_(Clock::now()),
        plain_(model.runner(), model.pool()),
        core_(model, steps != nullptr ? *steps : plain_, options, observer),
        thread_([this] { Run(); }) {}
  ~ThreadedEngine() override;

  Result<RequestId> Submit(ServingRequest request, EventSink sink) override;
  void Cancel(RequestId id) override;
  Result<RequestId> SubmitEmbedding(EmbeddingRequest request, EmbeddingSink sink) override;
  void Post(std::function<void()> action) override;
  void OrderSlot(SlotOrder order, SlotSink sink) override;
  void Drain(std::chrono::milliseconds limit) override;
  ServingStats stats() const override;
  Health health() const override;
  const Model& model() const override { return model_; }
  const ServingOptions& options() const override { return options_; }

 private:
  // Letters for the engine's thread.
  struct Mail {
    std::vector<std::unique_ptr<ActiveRequest>> requests;
    std::vector<RequestId> cancelled;
    std::vector<std::function<void()>> actions;
    std::vector<std::pair<SlotOrder, SlotSink>> slot_orders;
    bool cancel_all = false;
    bool empty() const {
      return requests.empty() && cancelled.empty() && actions.empty() && slot_orders.empty() &&
             !cancel_all;
    }
  };

  void Run();
  bool WarmUp();
  bool WaitForMail(SchedTime until, Mail& mail);
  void Deliver(Mail& mail);
  void Publish();
  Status AddVoices(const ServingRequest& request, ActiveRequest& active);
  Status CheckWhole(std::span<const int32_t> tokens) const;
  Status CheckRequest(const ServingRequest& request) const;
  Result<RequestId> Post(std::unique_ptr<ActiveRequest> request);

  Model& model_;
  const ServingOptions options_;
  const SchedTime started_;
  PlainEngine plain_;  // of the engine's thread, as the core
  EngineCore core_;

  mutable std::mutex mutex_;  // guards the next block
  std::condition_variable mail_arrived_;
  std::condition_variable round_ended_;
  Mail mail_;
  ServingStats stats_;
  int64_t active_ = 0;  // requests that the core has
  RequestId last_id_ = 0;
  bool is_draining_ = false;
  bool is_stopping_ = false;

  std::atomic<bool> is_warm_ = false;
  std::atomic<bool> is_stopped_ = false;
  // When the round began that is running, in ticks of Clock; 0 while the thread sleeps.
  std::atomic<Clock::rep> round_began_ = 0;

  std::thread thread_;
};

ThreadedEngine::~ThreadedEngine() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  mail_arrived_.notify_all();
  thread_.join();
}

// ---- On the engine's thread ----

bool ThreadedEngine::WarmUp() {
  const Status status = core_.WarmUp();
  if (!status.ok())
    Log(LogLevel::kError, "the warm-up step failed: {}", status.error().ToString());
  is_warm_ = status.ok();
  is_stopped_ = !status.ok();
  return status.ok();
}

void ThreadedEngine::Run() {
  round_began_ = Clock::now().time_since_epoch().count();
  const bool is_warm = WarmUp();
  Publish();
  SchedTime until = SchedTime::max();
  for (Mail mail; WaitForMail(until, mail); mail = {}) {
    if (!is_warm)
      mail.cancel_all = true;
    Deliver(mail);
    until = core_.RunOnce();
    if (until == SchedTime::max())
      until = core_.Idle();
    Publish();
  }
  core_.EndAll(Stopped());
  Publish();
  is_stopped_ = true;
}

// Sleeps until there is mail or `until` has come. False when the engine stops.
bool ThreadedEngine::WaitForMail(SchedTime until, Mail& mail) {
  std::unique_lock lock(mutex_);
  const auto is_due = [&] { return is_stopping_ || !mail_.empty(); };
  if (!is_due() && until > Clock::now()) {
    round_began_ = 0;
    if (until == SchedTime::max())  // which wait_until would overflow
      mail_arrived_.wait(lock, is_due);
    else
      mail_arrived_.wait_until(lock, until, is_due);
  }
  round_began_ = Clock::now().time_since_epoch().count();
  mail = std::exchange(mail_, {});
  active_ += static_cast<int64_t>(mail.requests.size());
  stats_.waiting += static_cast<int64_t>(mail.requests.size());
  if (is_stopping_) {
    lock.unlock();
    Deliver(mail);  // so that their sinks are told, too
    return false;
  }
  return true;
}

void ThreadedEngine::Deliver(Mail& mail) {
  for (const auto& action : mail.actions)
    action();
  for (auto& request : mail.requests)
    core_.Accept(std::move(request));
  for (const RequestId id : mail.cancelled)
    core_.End(id, MakeError(ErrorCode::kCancelled, "the request was cancelled"));
  if (mail.cancel_all)
    core_.EndAll(Stopped());
  for (const auto& [order, sink] : mail.slot_orders)
    sink(core_.RunSlotOrder(order));
}

void ThreadedEngine::Publish() {
  ServingStats stats = core_.stats();
  {
    const std::lock_guard lock(mutex_);
    stats_ = stats;
    active_ = core_.requests();
  }
  round_ended_.notify_all();
}

// ---- On any thread ----

Status ThreadedEngine::CheckRequest(const ServingRequest& request) const {
  if (model_.runner().is_encoder())
    return Unsupported("the model makes vectors of texts; it does not generate");
  TENON_RETURN_IF_ERROR(CheckPrompt(model_, request.prompt));
  TENON_RETURN_IF_ERROR(CheckChoices(request.choices, options_));
  TENON_RETURN_IF_ERROR(CheckModules(request.modules));
  if (request.max_tokens < -1) {
    return InvalidArgument(fmt::format("found {}, expected -1 or more", request.max_tokens),
                           "max_tokens");
  }
  if (request.slot < -1 || request.slot >= options_.max_batch) {
    return InvalidArgument(
        fmt::format("found {}, expected -1 to {}", request.slot, options_.max_batch - 1),
        "id_slot");
  }
  return {};
}

// One for each choice, the first one at the end.
Status ThreadedEngine::AddVoices(const ServingRequest& request, ActiveRequest& active) {
  for (int32_t i = request.choices - 1; i >= 0; --i) {
    SamplingParams params = request.sampling;
    params.seed += static_cast<uint64_t>(i);
    TENON_ASSIGN_OR_RETURN(Sampler sampler, CreateSampler(model_, params, request.prompt));
    // A constrained answer ends where its constraint lets it.
    const EndTokens end_tokens = request.constraint ? EndTokens::kStop : request.end_tokens;
    TENON_ASSIGN_OR_RETURN(Answer answer,
                           Answer::Create(model_, static_cast<int64_t>(request.prompt.size()),
                                          {request.stop, end_tokens, request.max_tokens}));
    if (request.constraint)
      sampler.Constrain(*request.constraint);
    active.voices.push_back({std::move(sampler), std::move(answer)});
  }
  return {};
}

Result<RequestId> ThreadedEngine::Submit(ServingRequest request, EventSink sink) {
  const SchedTime submitted = Clock::now();
  TENON_RETURN_IF_ERROR(CheckRequest(request));
  auto active = std::make_unique<ActiveRequest>();
  TENON_RETURN_IF_ERROR(AddVoices(request, *active));
  active->prompt = std::move(request.prompt);
  active->spec = std::move(request);
  active->sink = std::move(sink);
  active->submitted = submitted;
  return Post(std::move(active));
}

// An encoder's text must fit one step and the positions that the model has learned.
Status ThreadedEngine::CheckWhole(std::span<const int32_t> tokens) const {
  const int64_t most = std::min(options_.token_budget, model_.source().config.context_length);
  if (!model_.runner().is_encoder() || static_cast<int64_t>(tokens.size()) <= most)
    return {};
  return InvalidArgument(
      fmt::format("{} tokens, a text of at most {} expected", tokens.size(), most), "input");
}

Result<RequestId> ThreadedEngine::SubmitEmbedding(EmbeddingRequest request, EmbeddingSink sink) {
  const std::vector<int32_t>& tokens = request.tokens;
  if (model_.runner().hidden_size() == 0)
    return Unsupported("the model's graph does not give its hidden states");
  TENON_RETURN_IF_ERROR(CheckPrompt(model_, tokens));
  TENON_RETURN_IF_ERROR(CheckWhole(tokens));
  const auto vocab = model_.runner().token_count();
  for (const int32_t token : tokens) {
    if (token < 0 || token >= vocab) {
      return InvalidArgument(fmt::format("found token {}, expected 0 to {}", token, vocab - 1),
                             "input");
    }
  }
  auto active = std::make_unique<ActiveRequest>();
  active->prompt = std::move(request.tokens);
  active->spec.prefix_cache = PrefixCache::kOff;
  active->spec.tenant = std::move(request.tenant);
  active->spec.deadline = request.deadline;
  active->embedding_sink = std::move(sink);
  active->submitted = Clock::now();
  return Post(std::move(active));
}

Result<RequestId> ThreadedEngine::Post(std::unique_ptr<ActiveRequest> request) {
  RequestId id = 0;
  {
    const std::lock_guard lock(mutex_);
    if (is_draining_ || is_stopping_ || is_stopped_)
      return Stopped();
    const int64_t waiting = stats_.waiting + static_cast<int64_t>(mail_.requests.size());
    if (waiting >= options_.queue_limit) {
      return MakeError(ErrorCode::kResourceExhausted,
                       fmt::format("{} requests are waiting, the queue's limit is {}", waiting,
                                   options_.queue_limit),
                       "queue");
    }
    id = ++last_id_;
    request->id = id;
    mail_.requests.push_back(std::move(request));
  }
  mail_arrived_.notify_all();
  return id;
}

void ThreadedEngine::Post(std::function<void()> action) {
  {
    const std::lock_guard lock(mutex_);
    mail_.actions.push_back(std::move(action));
  }
  mail_arrived_.notify_all();
}

void ThreadedEngine::Cancel(RequestId id) {
  {
    const std::lock_guard lock(mutex_);
    mail_.cancelled.push_back(id);
  }
  mail_arrived_.notify_all();
}

void ThreadedEngine::OrderSlot(SlotOrder order, SlotSink sink) {
  {
    const std::lock_guard lock(mutex_);
    if (!is_stopping_ && !is_stopped_) {
      mail_.slot_orders.emplace_back(std::move(order), std::move(sink));
      mail_arrived_.notify_all();
      return;
    }
  }
  sink(Stopped());
}

void ThreadedEngine::Drain(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  is_draining_ = true;
  const auto is_idle = [&] { return is_stopped_ || (active_ == 0 && mail_.requests.empty()); };
  if (round_ended_.wait_for(lock, limit, is_idle))
    return;
  mail_.cancel_all = true;
  mail_arrived_.notify_all();
  round_ended_.wait(lock, is_idle);
}

ServingStats ThreadedEngine::stats() const {
  const std::lock_guard lock(mutex_);
  ServingStats stats = stats_;
  stats.waiting += static_cast<int64_t>(mail_.requests.size());
  stats.uptime_s = std::chrono::duration<double>(Clock::now() - started_).count();
  return stats;
}

Health ThreadedEngine::health() const {
  if (is_stopped_)
    return Health::kStopped;
  const Clock::rep began = round_began_;
  const Clock::duration age = Clock::now().time_since_epoch() - Clock::duration(began);
  if (began != 0 && age > options_.stuck_after)
    return Health::kStuck;
  if (!is_warm_)
    return Health::kStarting;
  const std::lock_guard lock(mutex_);
  return is_draining_ || is_stopping_ ? Health::kDraining : Health::kReady;
}

}  // namespace

Status CheckChoices(int32_t choices, const ServingOptions& options) {
  if (choices >= 1 && choices <= options.max_batch)
    return {};
  return InvalidArgument(
      fmt::format("found {}, expected an integer from 1 to {}, the sequences that the server runs "
                  "at once (--parallel)",
                  choices, options.max_batch),
      "n");
}

std::string_view HealthName(Health health) {
  switch (health) {
    case Health::kStarting:
      return "starting";
    case Health::kReady:
      return "ready";
    case Health::kDraining:
      return "draining";
    case Health::kStuck:
      return "stuck";
    case Health::kStopped:
      return "stopped";
  }
  return "";
}

Result<std::unique_ptr<ServingEngine>> ServingEngine::Start(Model& model,
                                                            const ServingOptions& options,
                                                            ServingObserver* observer,
                                                            StepEngine* steps) {
  const PlanOptions& plan = model.runner().options().plan;
  ServingOptions effective = options;
  effective.token_budget = std::min(effective.token_budget, plan.max_tokens);
  TENON_RETURN_IF_ERROR(CheckOptions(effective, plan));
  return std::unique_ptr<ServingEngine>(
      std::make_unique<ThreadedEngine>(model, effective, observer, steps));
}

}  // namespace tenon

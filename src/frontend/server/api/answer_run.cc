#include "frontend/server/api/answer_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <exception>
#include <mutex>

#include "frontend/server/api/request_log.h"

namespace tenon {
namespace {

// A list of prompts takes this many places of the queue at once, whatever its length: a long one
// neither fills the queue nor is refused for its length.
constexpr size_t kInFlight = 32;

// One API request while it runs: the engine's requests of its prompts, and the answer so far.
//
// Events come on the engine's thread and may come before Submit has returned; they wait until all
// prompts were accepted, so that a refusal can still be an HTTP status.
class AnswerRun final : public AnswerHandle, public std::enable_shared_from_this<AnswerRun> {
 public:
  AnswerRun(ApiContext& context, ServingEngine& engine, Caller caller, TextJob job,
            std::shared_ptr<AnswerChannel> channel)
      : context_(context),
        engine_(engine),
        caller_(std::move(caller)),
        job_(std::move(job)),
        channel_(std::move(channel)),
        deadline_(RequestDeadline(context)) {}

  void Start();
  void Cancel() override {
    cancelled_by_client_ = true;
    CancelRequests();
  }
  void Abandon() override {
    client_gone_ = true;
    CancelRequests();
  }

 private:
  struct EarlyEvent {
    size_t prompt;
    ServingEvent event;
  };

  void PrepareAnswer();
  bool CheckPrompts();
  ServingRequest Complete(ServingRequest request) const;
  Status SubmitFirst();
  Status SubmitNext();
  void SubmitMore();
  void Open();
  void CancelRequests();

  void OnEvent(size_t prompt, ServingEvent event);
  void Process(size_t prompt, ServingEvent& event);
  void OnText(size_t prompt, ServingEvent& event);
  void OnDone(size_t prompt, ServingEvent& event);
  void Deliver(AnswerPiece piece);
  void FinishPrompt(size_t prompt, const ServingEvent& event);
  void Fail(const ApiError& error);
  ApiError ErrorOf(const Error& error) const;
  size_t ChoiceIndex(size_t prompt, int32_t choice) const {
    return prompt * choices_per_prompt_ + static_cast<size_t>(choice);
  }
  bool streams() const { return job_.delivery == Delivery::kStream; }

  ApiContext& context_;
  ServingEngine& engine_;
  Caller caller_;
  TextJob job_;
  std::shared_ptr<AnswerChannel> channel_;
  const std::chrono::steady_clock::time_point deadline_;  // of all prompts together

  std::atomic<bool> client_gone_ = false;
  std::atomic<bool> cancelled_by_client_ = false;
  std::mutex ids_mutex_;
  std::vector<RequestId> ids_;  // guarded by ids_mutex_
  bool cancelled_ = false;      // guarded by ids_mutex_

  std::mutex mutex_;  // guards all below
  bool open_ = false;
  bool ended_ = false;
  std::deque<EarlyEvent> early_;
  ApiAnswer answer_;
  std::vector<MessageParser> parsers_;  // one for each choice
  size_t choices_per_prompt_ = 1;
  size_t next_prompt_ = 0;  // the first that was not submitted
  size_t finished_prompts_ = 0;
};

void AnswerRun::PrepareAnswer() {
  answer_.request_id = NewId();
  answer_.model = job_.model;
  answer_.created = UnixSeconds();
  answer_.tokenizer = &engine_.model().tokenizer();
  choices_per_prompt_ = static_cast<size_t>(job_.requests.front().choices);
  for (size_t p = 0; p < job_.requests.size(); ++p) {
    AnswerPrompt prompt;
    prompt.ids = job_.requests[p].prompt;
    prompt.tokens = static_cast<int64_t>(prompt.ids.size());
    answer_.prompts.push_back(std::move(prompt));
    for (size_t c = 0; c < choices_per_prompt_; ++c) {
      AnswerChoice choice;
      choice.prompt = p;
      parsers_.emplace_back(job_.syntax,
                            fmt::format("{}_{}", answer_.request_id, answer_.choices.size()));
      static_cast<void>(parsers_.back().Push(job_.syntax.primed));
      answer_.choices.push_back(std::move(choice));
    }
  }
}

bool AnswerRun::CheckPrompts() {
  const int64_t context = SequenceContext(engine_);
  for (const AnswerPrompt& prompt : answer_.prompts) {
    if (prompt.tokens < context)
      continue;
    Fail(PromptTooLong(prompt.tokens, context));
    return false;
  }
  return true;
}

ServingRequest AnswerRun::Complete(ServingRequest request) const {
  request.label = caller_.request_id;
  request.tenant = caller_.key_name;
  request.scope.salt = CacheSalt(caller_.key_name, job_.salt);
  request.priority = -job_.priority;
  request.deadline = std::min(request.deadline, deadline_);
  return request;
}

Status AnswerRun::SubmitNext() {
  const size_t p = next_prompt_;
  TENON_ASSIGN_OR_RETURN(const RequestId id,
                         engine_.Submit(Complete(job_.requests[p]),
                                        [self = shared_from_this(), p](ServingEvent event) {
                                          self->OnEvent(p, std::move(event));
                                        }));
  ++next_prompt_;
  job_.requests[p] = {};
  const std::lock_guard lock(ids_mutex_);
  ids_.push_back(id);
  if (cancelled_)
    engine_.Cancel(id);
  return {};
}

Status AnswerRun::SubmitFirst() {
  while (next_prompt_ < std::min(kInFlight, job_.requests.size()))
    TENON_RETURN_IF_ERROR(SubmitNext());
  return {};
}

// A prompt is done, so another one may come. A queue that is full now is tried again at the end of
// the next prompt, as long as there is one.
void AnswerRun::SubmitMore() {
  Status submitted;
  while (submitted.ok() && next_prompt_ < job_.requests.size() &&
         next_prompt_ - finished_prompts_ < kInFlight) {
    if (client_gone_)
      submitted = MakeError(ErrorCode::kCancelled, "the client has gone");
    else
      submitted = SubmitNext();
  }
  if (!submitted.ok() && next_prompt_ == finished_prompts_)
    Fail(ToApiError(submitted.error()));
}

void AnswerRun::Start() {
  {
    const std::lock_guard lock(mutex_);
    // Before anything is made for each of them.
    const Status choices = CheckChoices(job_.requests.front().choices, engine_.options());
    if (!choices.ok())
      return Fail(ToApiError(choices.error()));
    PrepareAnswer();
    if (!CheckPrompts())
      return;
  }
  channel_->OnClose([weak = weak_from_this()] {
    if (const auto self = weak.lock())
      self->Abandon();
  });
  const Status submitted = SubmitFirst();
  if (!submitted.ok()) {
    CancelRequests();
    const std::lock_guard lock(mutex_);
    return Fail(ToApiError(submitted.error()));
  }
  Open();
}

void AnswerRun::Open() {
  const std::lock_guard lock(mutex_);
  if (streams() && !client_gone_)
    channel_->BeginEvents();
  open_ = true;
  for (EarlyEvent& early : early_)
    Process(early.prompt, early.event);
  early_.clear();
}

void AnswerRun::CancelRequests() {
  std::vector<RequestId> ids;
  {
    const std::lock_guard lock(ids_mutex_);
    cancelled_ = true;
    ids = ids_;
  }
  for (const RequestId id : ids)
    engine_.Cancel(id);
}

void AnswerRun::OnEvent(size_t prompt, ServingEvent event) {
  const std::lock_guard lock(mutex_);
  if (!open_) {
    if (!ended_)
      early_.push_back({prompt, std::move(event)});
    return;
  }
  // Nothing may be thrown into the engine; what can be is lack of memory.
  try {
    Process(prompt, event);
  } catch (const std::exception& error) {
    CancelRequests();
    Fail(ToApiError(MakeError(ErrorCode::kInternal, error.what())));
  }
}

void AnswerRun::Process(size_t prompt, ServingEvent& event) {
  if (ended_)
    return;
  AnswerPrompt& part = answer_.prompts[prompt];
  switch (event.kind) {
    case ServingEvent::Kind::kStarted:
      part.tokens = event.prompt_tokens;
      part.cached_tokens = event.cached_tokens;
      part.logprobs = std::move(event.prompt_logprobs);
      if (streams() && !client_gone_)
        job_.format->OnStarted(answer_, prompt, *channel_);
      return;
    case ServingEvent::Kind::kText:
      return OnText(prompt, event);
    case ServingEvent::Kind::kDone:
      return OnDone(prompt, event);
    case ServingEvent::Kind::kFinished:
      return FinishPrompt(prompt, event);
    case ServingEvent::Kind::kError:
      part.timings = event.timings;
      CancelRequests();
      return Fail(ErrorOf(event.error));
  }
}

void AnswerRun::OnText(size_t prompt, ServingEvent& event) {
  AnswerPiece piece;
  piece.choice = ChoiceIndex(prompt, event.choice);
  MessageParser& parser = parsers_[piece.choice];
  piece.deltas = parser.Push(event.text);
  // A control token comes alone, after any text that was held back before it.
  for (const int32_t token : event.tokens) {
    for (const auto& [marked, mark] : job_.syntax.control_marks) {
      if (marked != token)
        continue;
      for (MessageDelta& delta : parser.Push(mark))
        piece.deltas.push_back(std::move(delta));
    }
  }
  piece.tokens = std::move(event.tokens);
  piece.sampled = std::move(event.sampled);
  Deliver(std::move(piece));
}

void AnswerRun::OnDone(size_t prompt, ServingEvent& event) {
  const size_t index = ChoiceIndex(prompt, event.choice);
  AnswerPiece piece;
  piece.choice = index;
  piece.deltas = parsers_[index].Finish();
  Deliver(std::move(piece));
  AnswerChoice& choice = answer_.choices[index];
  choice.finish_reason = event.finish_reason;
  choice.stop_text = std::move(event.stop_text);
  choice.completion_tokens = event.completion_tokens;
  choice.timings = event.timings;
  if (streams() && !client_gone_)
    job_.format->OnChoiceEnd(answer_, index, *channel_);
}

void AnswerRun::Deliver(AnswerPiece piece) {
  AnswerChoice& choice = answer_.choices[piece.choice];
  for (const MessageDelta& delta : piece.deltas) {
    if (delta.kind == MessageDelta::Kind::kContent)
      choice.content += delta.text;
    else if (delta.kind == MessageDelta::Kind::kReasoning)
      choice.reasoning += delta.text;
    else
      choice.tool_calls.push_back(delta.call);
  }
  choice.tokens.insert(choice.tokens.end(), piece.tokens.begin(), piece.tokens.end());
  choice.sampled.insert(choice.sampled.end(), piece.sampled.begin(), piece.sampled.end());
  const bool empty = piece.deltas.empty() && piece.tokens.empty();
  if (streams() && !client_gone_ && !empty)
    job_.format->OnPiece(answer_, piece, *channel_);
}

void AnswerRun::FinishPrompt(size_t prompt, const ServingEvent& event) {
  AnswerPrompt& part = answer_.prompts[prompt];
  part.tokens = event.prompt_tokens;
  part.cached_tokens = event.cached_tokens;
  part.completion_tokens = event.completion_tokens;
  part.timings = event.timings;
  if (++finished_prompts_ < answer_.prompts.size())
    return SubmitMore();
  ended_ = true;
  if (!client_gone_) {
    if (streams()) {
      job_.format->OnEnd(answer_, *channel_);
      channel_->EndEvents();
    } else {
      channel_->SendWhole(job_.format->Whole(answer_));
    }
  }
  const FinishReason reason = answer_.choices.front().finish_reason;
  LogAnswer(context_, caller_, answer_, 200, FinishReasonName(reason));
}

ApiError AnswerRun::ErrorOf(const Error& error) const {
  ApiError result = EndError(error, engine_.health());
  if (error.code == ErrorCode::kCancelled && cancelled_by_client_) {
    result.status = kClientClosed;
    result.message = "the request was cancelled";
    result.type = "cancelled";
    result.code = "cancelled";
  }
  return result;
}

void AnswerRun::Fail(const ApiError& error) {
  if (ended_)
    return;
  ended_ = true;
  early_.clear();
  if (!client_gone_)
    channel_->SendError(error);
  LogAnswer(context_, caller_, answer_, client_gone_ ? kClientClosed : error.status,
            client_gone_ ? "cancelled" : error.type);
}

}  // namespace

std::shared_ptr<AnswerHandle> StartCancellableAnswer(ApiContext& context, ServingEngine& engine,
                                                     Caller caller, TextJob job,
                                                     std::shared_ptr<AnswerChannel> channel) {
  auto run = std::make_shared<AnswerRun>(context, engine, std::move(caller), std::move(job),
                                         std::move(channel));
  run->Start();
  return run;
}

void StartAnswer(ApiContext& context, ServingEngine& engine, Caller caller, TextJob job,
                 std::shared_ptr<AnswerChannel> channel) {
  StartCancellableAnswer(context, engine, std::move(caller), std::move(job), std::move(channel));
}

}  // namespace tenon

// What came of a step: sampling, text, events.
#include <algorithm>

#include "base/check.h"
#include "engine/sample/logprobs.h"
#include "frontend/serving/engine_core.h"

namespace tenon {
namespace {

double Seconds(SchedTime from, SchedTime to) {
  return std::chrono::duration<double>(to - from).count();
}

ServingEvent MakeEvent(ServingEvent::Kind kind, const ActiveRequest& request) {
  ServingEvent event;
  event.kind = kind;
  event.id = request.id;
  return event;
}

// Ends an answer whose constraint is met with the token that was just taken in; not before a token
// that the sampler has decided and the answer has not taken yet.
void EndIfComplete(Voice& voice, Answer::Piece& piece) {
  const bool is_level = voice.sampler.generated() == static_cast<uint64_t>(voice.answer.tokens());
  const bool has_ended = piece.finish.has_value() && *piece.finish != FinishReason::kLength;
  if (has_ended || !is_level || !voice.sampler.IsComplete())
    return;
  piece.finish.reset();
  voice.answer.End(piece);
}

}  // namespace

RequestTimings ActiveRequest::TimingsAt(SchedTime now) const {
  RequestTimings timings;
  timings.total_s = Seconds(submitted, now);
  timings.queue_s = Seconds(submitted, started.value_or(now));
  if (started.has_value())
    timings.prefill_s = Seconds(*started, first_token.value_or(now));
  if (first_token.has_value()) {
    timings.first_token_s = Seconds(submitted, *first_token);
    timings.decode_s = Seconds(*first_token, last_token);
  }
  return timings;
}

void EngineCore::TakeResults() {
  decisions_.clear();
  for (size_t i = 0; i < parts_.size(); ++i) {
    SequenceTask& task = tasks_[i];
    ActiveRequest& request = *parts_[i].choice->request;
    if (task.failure.has_value() && !request.failure.has_value())
      request.failure = std::move(task.failure);
    if (request.failure.has_value())
      continue;
    if (parts_[i].is_scored && !request.NeedsScores())
      TellScored(request);
    CollectDecisions(parts_[i], task);
  }
  const SchedTime now = Clock::now();
  for (Decision& decision : decisions_) {
    if (!decision.choice->request->failure.has_value())
      TakeDecision(decision, now);
  }
}

// The output rows of `count` more of the prompt's tokens.
void EngineCore::TakeRows(ActiveRequest& request, int64_t count, std::span<const float> rows) {
  if (request.is_embedding()) {
    TakeHidden(request, rows);
  } else {
    // The last row is for the first token of the answer.
    const bool has_end = request.scored + count == request.prompt_tokens();
    ScorePrompt(request, has_end ? count - 1 : count, rows);
  }
  request.scored += count;
}

void EngineCore::TellScored(ActiveRequest& request) {
  if (request.is_embedding())
    TellEmbedding(request);
  else
    TellStarted(request);
}

// Logprobs of the prompt's tokens that follow the first `count` rows.
void EngineCore::ScorePrompt(ActiveRequest& request, int64_t count, std::span<const float> logits) {
  const auto vocab = static_cast<size_t>(runner_.vocab_size());
  const auto base = static_cast<size_t>(request.scored);
  request.prompt_logprobs.resize(base + static_cast<size_t>(count));
  const auto alternatives = static_cast<size_t>(request.spec.sampling.logprobs);
  model_.pool().ParallelFor(count, 1, [&](int64_t begin, int64_t end, int) {
    Candidates scratch;
    for (int64_t i = begin; i < end; ++i) {
      const auto row = logits.subspan(static_cast<size_t>(i) * vocab, vocab);
      const double log_sum_exp = LogSumExp(row);
      SampledToken& scored = request.prompt_logprobs[base + static_cast<size_t>(i)];
      scored.token = request.prompt[base + static_cast<size_t>(i) + 1];
      const auto logit = static_cast<double>(row[static_cast<size_t>(scored.token)]);
      scored.logprob = static_cast<float>(logit - log_sum_exp);
      if (alternatives > 0)
        scored.top = TopLogprobs(row, alternatives, log_sum_exp, scratch);
    }
  });
}

// An encoder gives one row for all of the text's tokens.
void EngineCore::TakeHidden(ActiveRequest& request, std::span<const float> hidden) {
  const auto size = static_cast<size_t>(runner_.hidden_size());
  const auto count = static_cast<int64_t>(hidden.size() / size);
  request.hidden_sum.resize(size, 0.0);
  for (int64_t i = 0; i < count; ++i) {
    const auto row = hidden.subspan(static_cast<size_t>(i) * size, size);
    for (size_t c = 0; c < size; ++c)
      request.hidden_sum[c] += static_cast<double>(row[c]);
  }
  request.hidden_rows += count;
}

// What was decided for this choice and, with the prompt's last token, for those that fork from it.
void EngineCore::CollectDecisions(const Part& part, SequenceTask& task) {
  Choice& choice = *part.choice;
  if (!choice.voice.has_value())
    return;
  const bool wants_none = part.samplers.empty() && choice.pending() == 0;
  if (task.decided.empty() && !wants_none)
    return;
  decisions_.push_back({&choice, std::move(task.decided)});
  if (choice.index == 0)
    BeginChoices(choice, task.forks);
}

// `tokens`: the first one of each; empty where none is wanted.
void EngineCore::BeginChoices(Choice& first, std::span<SampledToken> tokens) {
  ActiveRequest& request = *first.request;
  for (size_t i = 0; !request.voices.empty(); ++i) {
    auto fork = std::make_unique<Choice>(request, ++last_key_, first.sequence.Fork(), first.tokens);
    fork->index = request.choices_begun++;
    fork->voice.emplace(std::move(request.voices.back()));
    request.voices.pop_back();
    Decision decision{fork.get(), {}};
    if (i < tokens.size())
      decision.tokens.push_back(std::move(tokens[i]));
    decisions_.push_back(std::move(decision));
    running_.push_back(std::move(fork));
  }
}

void EngineCore::TakeDecision(Decision& decision, SchedTime now) {
  Choice& choice = *decision.choice;
  if (decision.tokens.empty())
    TellDone(choice, FinishReason::kLength, {}, now);
  // What was decided behind a stop is not part of the answer.
  for (SampledToken& sampled : decision.tokens) {
    if (!choice.is_done)
      TakeToken(choice, std::move(sampled), now);
  }
}

void EngineCore::TakeToken(Choice& choice, SampledToken sampled, SchedTime now) {
  const int32_t token = sampled.token;
  Answer::Piece piece = choice.voice->answer.Take(token);
  EndIfComplete(*choice.voice, piece);
  if (piece.token == Answer::Token::kPart) {
    choice.tokens.push_back(token);
    ++choice.request->completion_tokens;
    ++counters_.completion_tokens;
  }
  RecordTime(choice, now);
  if (piece.token == Answer::Token::kPart || !piece.text.empty())
    TellText(choice, piece, std::move(sampled));
  if (piece.finish.has_value())
    TellDone(choice, *piece.finish, std::move(piece.stop_text), now);
}

void EngineCore::RecordTime(Choice& choice, SchedTime now) {
  ActiveRequest& request = *choice.request;
  const bool is_first = !request.first_token.has_value();
  const bool has_earlier = choice.last_token != SchedTime();
  const double since_last = Seconds(choice.last_token, now);
  choice.last_token = now;
  request.last_token = now;
  if (is_first)
    request.first_token = now;
  if (observer_ == nullptr)
    return;
  if (is_first)
    observer_->OnFirstToken(request.TimingsAt(now));
  if (has_earlier)
    observer_->OnInterToken(since_last);
}

// With prompt logprobs it waits for them.
void EngineCore::TellStarted(ActiveRequest& request) {
  if (request.scored == 0) {
    counters_.prompt_tokens += static_cast<uint64_t>(request.prompt_tokens());
    counters_.cached_tokens += static_cast<uint64_t>(request.cached_tokens);
  }
  if (request.NeedsScores() || request.is_embedding())
    return;
  ServingEvent event = MakeEvent(ServingEvent::Kind::kStarted, request);
  event.prompt_tokens = request.prompt_tokens();
  event.cached_tokens = request.cached_tokens;
  event.prompt_logprobs = std::move(request.prompt_logprobs);
  request.sink(std::move(event));
}

void EngineCore::TellText(Choice& choice, Answer::Piece& piece, SampledToken sampled) {
  ServingEvent event = MakeEvent(ServingEvent::Kind::kText, *choice.request);
  event.choice = choice.index;
  event.text = std::move(piece.text);
  if (piece.token == Answer::Token::kPart) {
    event.tokens.push_back(sampled.token);
    if (choice.request->spec.sampling.logprobs > 0)
      event.sampled.push_back(std::move(sampled));
  }
  choice.request->sink(std::move(event));
}

void EngineCore::TellDone(Choice& choice, FinishReason reason, std::string stop_text,
                          SchedTime now) {
  ActiveRequest& request = *choice.request;
  ServingEvent event = MakeEvent(ServingEvent::Kind::kDone, request);
  event.choice = choice.index;
  event.finish_reason = reason;
  event.stop_text = std::move(stop_text);
  event.completion_tokens = choice.voice->answer.tokens();
  event.timings = request.TimingsAt(now);
  request.sink(std::move(event));
  request.last_finish = reason;
  choice.is_done = true;
  if (choice.index == 0 && request.spec.prefix_cache == PrefixCache::kOn)
    slots_.Remember(request.spec.slot, choice.sequence.tokens(), request.spec.scope);
  if (--request.choices_left == 0)
    TellFinished(request, now);
}

void EngineCore::TellFinished(ActiveRequest& request, SchedTime now) {
  request.is_over = true;
  ServingEvent event = MakeEvent(ServingEvent::Kind::kFinished, request);
  event.prompt_tokens = request.prompt_tokens();
  event.cached_tokens = request.cached_tokens;
  event.completion_tokens = request.completion_tokens;
  event.finish_reason = request.last_finish;
  event.timings = request.TimingsAt(now);
  if (observer_ != nullptr) {
    observer_->OnEnd(FinishReasonName(request.last_finish), event.timings, event.prompt_tokens,
                     event.completion_tokens);
  }
  request.sink(std::move(event));
}

void EngineCore::TellError(ActiveRequest& request, const Error& error) {
  request.is_over = true;
  const RequestTimings timings = request.TimingsAt(Clock::now());
  if (observer_ != nullptr) {
    observer_->OnEnd(ErrorCodeName(error.code), timings, request.prompt_tokens(),
                     request.completion_tokens);
  }
  if (request.is_embedding()) {
    request.embedding_sink(error);
    return;
  }
  ServingEvent event = MakeEvent(ServingEvent::Kind::kError, request);
  event.timings = timings;
  event.error = error;
  request.sink(std::move(event));
}

void EngineCore::TellEmbedding(ActiveRequest& request) {
  request.is_over = true;
  std::vector<float> mean;
  for (const double sum : request.hidden_sum)
    mean.push_back(static_cast<float>(sum / static_cast<double>(request.hidden_rows)));
  if (observer_ != nullptr) {
    observer_->OnEnd(FinishReasonName(FinishReason::kStop), request.TimingsAt(Clock::now()),
                     request.prompt_tokens(), 0);
  }
  request.embedding_sink(std::move(mean));
}

}  // namespace tenon

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

void EngineCore::TakeResults(std::span<const float> logits) {
  draws_.clear();
  for (const Part& part : parts_) {
    Choice& choice = *part.choice;
    const auto first = static_cast<size_t>(choice.sequence.length());
    const bool is_scored = choice.request->NeedsScores();
    choice.sequence.Append(
        std::span(choice.tokens).subspan(first, static_cast<size_t>(part.tokens)));
    choice.sequence.Commit();
    if (is_scored)
      TakeScores(part, logits);
    if (choice.pending() == 0)
      CollectDraws(part);
  }
  SampleDraws(logits);
  const SchedTime now = Clock::now();
  for (Draw& draw : draws_) {
    if (!draw.choice->request->failure.has_value())
      TakeToken(draw, now);
  }
}

void EngineCore::TakeScores(const Part& part, std::span<const float> logits) {
  ActiveRequest& request = *part.choice->request;
  if (request.is_embedding()) {
    TakeHidden(part);
  } else {
    // The last row is for the first token of the answer.
    const bool has_end = request.scored + part.rows == request.prompt_tokens();
    ScorePrompt(part, has_end ? part.rows - 1 : part.rows, logits);
  }
  request.scored += part.rows;
  if (request.NeedsScores())
    return;
  if (request.is_embedding())
    TellEmbedding(request);
  else
    TellStarted(request);
}

// Logprobs of the prompt's tokens that follow the part's first `count` rows.
void EngineCore::ScorePrompt(const Part& part, int64_t count, std::span<const float> logits) {
  ActiveRequest& request = *part.choice->request;
  const auto vocab = static_cast<size_t>(runner_.vocab_size());
  const auto base = static_cast<size_t>(request.scored);
  request.prompt_logprobs.resize(base + static_cast<size_t>(count));
  const auto alternatives = static_cast<size_t>(request.spec.sampling.logprobs);
  model_.pool().ParallelFor(count, 1, [&](int64_t begin, int64_t end, int) {
    Candidates scratch;
    for (int64_t i = begin; i < end; ++i) {
      const auto row = logits.subspan(static_cast<size_t>(part.first_row + i) * vocab, vocab);
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

void EngineCore::TakeHidden(const Part& part) {
  ActiveRequest& request = *part.choice->request;
  const std::span<const float> hidden = runner_.hidden();
  const auto size = static_cast<size_t>(runner_.hidden_size());
  request.hidden_sum.resize(size, 0.0);
  for (int64_t i = 0; i < part.rows; ++i) {
    const auto row = hidden.subspan(static_cast<size_t>(part.first_row + i) * size, size);
    for (size_t c = 0; c < size; ++c)
      request.hidden_sum[c] += static_cast<double>(row[c]);
  }
}

// Everything known of this choice is computed: its next token comes from the part's last row, and
// with it the other choices of a prompt begin.
void EngineCore::CollectDraws(const Part& part) {
  Choice& choice = *part.choice;
  if (!choice.voice.has_value())
    return;
  const int64_t row = part.first_row + part.rows - 1;
  draws_.push_back({&choice, row, std::nullopt});
  if (choice.index == 0)
    BeginChoices(choice, row);
}

void EngineCore::BeginChoices(Choice& first, int64_t row) {
  ActiveRequest& request = *first.request;
  while (!request.voices.empty()) {
    auto fork = std::make_unique<Choice>(request, first.sequence.Fork(), first.tokens);
    fork->index = request.choices_begun++;
    fork->voice.emplace(std::move(request.voices.back()));
    request.voices.pop_back();
    draws_.push_back({fork.get(), row, std::nullopt});
    running_.push_back(std::move(fork));
  }
}

// Sequences are independent of each other, so their tokens are chosen on all threads.
void EngineCore::SampleDraws(std::span<const float> logits) {
  const auto vocab = static_cast<size_t>(runner_.vocab_size());
  const auto count = static_cast<int64_t>(draws_.size());
  model_.pool().ParallelFor(count, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      Draw& draw = draws_[static_cast<size_t>(i)];
      if (draw.choice->voice->answer.IsEmpty())
        continue;
      draw.sampled = draw.choice->voice->sampler.Sample(
          logits.subspan(static_cast<size_t>(draw.row) * vocab, vocab));
    }
  });
}

void EngineCore::TakeToken(Draw& draw, SchedTime now) {
  Choice& choice = *draw.choice;
  if (!draw.sampled.has_value()) {  // no token is wanted
    TellDone(choice, FinishReason::kLength, {}, now);
    return;
  }
  if (!draw.sampled->ok()) {
    choice.request->failure = draw.sampled->error();
    return;
  }
  SampledToken sampled = std::move(*draw.sampled).value();
  const int32_t token = sampled.token;
  choice.voice->sampler.Accept(token);
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
    mean.push_back(static_cast<float>(sum / static_cast<double>(request.prompt_tokens())));
  if (observer_ != nullptr) {
    observer_->OnEnd(FinishReasonName(FinishReason::kStop), request.TimingsAt(Clock::now()),
                     request.prompt_tokens(), 0);
  }
  request.embedding_sink(std::move(mean));
}

}  // namespace tenon

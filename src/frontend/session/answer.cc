#include "frontend/session/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/sample/dry_breakers.h"

namespace tenon {
namespace {

DryBreakers BreakersOf(const Tokenizer& tokenizer, const SamplingParams& params) {
  TokenTexts texts;
  texts.vocab_size = tokenizer.vocab_size();
  texts.bytes = [&](int32_t id) { return tokenizer.TokenBytes(id, SpecialText::kPlain); };
  texts.tokenize = [&](std::string_view text) {
    return tokenizer.Encode(text, SpecialText::kPlain, AddSpecial::kNone);
  };
  return FindDryBreakers(params.dry_sequence_breakers, texts);
}

}  // namespace

std::string_view FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
  }
  return "";
}

int64_t SequenceLimit(const Model& model) {
  const int64_t trained = model.source().config.context_length;
  return trained > 0 ? std::min(model.context_tokens(), trained) : model.context_tokens();
}

Status CheckPrompt(const Model& model, std::span<const int32_t> prompt) {
  const auto tokens = static_cast<int64_t>(prompt.size());
  if (tokens == 0)
    return InvalidArgument("the prompt has no tokens", "prompt");
  if (tokens >= SequenceLimit(model)) {
    return InvalidArgument(
        fmt::format("the prompt has {} tokens and the context {}: no room for an answer", tokens,
                    SequenceLimit(model)),
        "prompt");
  }
  return {};
}

Result<Sampler> CreateSampler(Model& model, const SamplingParams& params,
                              std::span<const int32_t> prompt) {
  DryBreakers breakers;
  if (params.dry_multiplier > 0.0F)
    breakers = BreakersOf(model.tokenizer(), params);
  TENON_ASSIGN_OR_RETURN(Sampler sampler,
                         Sampler::Create(params, static_cast<int32_t>(model.runner().vocab_size()),
                                         std::move(breakers)));
  TENON_RETURN_IF_ERROR(sampler.AcceptPrompt(prompt));
  return sampler;
}

Result<Answer> Answer::Create(const Model& model, int64_t prompt_tokens,
                              const AnswerOptions& options) {
  TENON_ASSIGN_OR_RETURN(StopMatcher matcher, StopMatcher::Create(options.stop));
  Answer answer(model, std::move(matcher), options);
  answer.limit_ = std::max<int64_t>(SequenceLimit(model) - prompt_tokens, 0);
  if (options.max_tokens >= 0)
    answer.limit_ = std::min(answer.limit_, options.max_tokens);
  return answer;
}

Answer::Answer(const Model& model, StopMatcher matcher, const AnswerOptions& options)
    : tokenizer_(&model.tokenizer()),
      matcher_(std::move(matcher)),
      detokenizer_(model.tokenizer()),
      stop_(options.stop),
      end_tokens_(options.end_tokens) {}

void Answer::Push(std::string_view text, Piece& piece) {
  StopMatcher::Output output = matcher_.Push(text);
  piece.text += output.text;
  if (!output.stop.has_value())
    return;
  piece.finish = FinishReason::kStop;
  piece.stop_text = stop_[*output.stop];
}

void Answer::Finish(FinishReason reason, Piece& piece) {
  Push(detokenizer_.Flush(), piece);
  if (piece.finish.has_value())
    return;
  piece.text += matcher_.Flush();
  piece.finish = reason;
}

Answer::Piece Answer::Take(int32_t token) {
  Piece piece;
  if (end_tokens_ == EndTokens::kStop && std::ranges::count(tokenizer_->stop_ids(), token) > 0) {
    piece.token = Token::kEnd;
    Finish(FinishReason::kStop, piece);
    return piece;
  }
  ++tokens_;
  Push(detokenizer_.Push(token), piece);
  if (!piece.finish.has_value() && tokens_ >= limit_)
    Finish(FinishReason::kLength, piece);
  return piece;
}

}  // namespace tenon

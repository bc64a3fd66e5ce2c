#include "frontend/session/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "engine/exec/batch_builder.h"
#include "engine/kv/sequence.h"
#include "engine/sample/dry_breakers.h"
#include "engine/sample/stop_matcher.h"

namespace tenon {
namespace {

using Clock = std::chrono::steady_clock;

// One request on its way from prompt to text.
class Generator {
 public:
  Generator(Model& model, const GenerationRequest& request, const TextCallback& on_text,
            Sampler sampler, StopMatcher stops)
      : model_(model),
        request_(request),
        on_text_(on_text),
        sampler_(std::move(sampler)),
        stops_(std::move(stops)),
        detokenizer_(model.tokenizer()),
        sequence_(model.runner().kv(), CacheScope{}) {}

  Result<GenerationResult> Run();

 private:
  Result<std::span<const float>> Prefill();
  Result<std::span<const float>> Decode(int32_t token);
  // Takes in a chosen token; true when the generation is over.
  bool Take(SampledToken sampled);
  bool Emit(const StopMatcher::Output& output);
  void EmitRest();
  bool IsFull() const;

  Model& model_;
  const GenerationRequest& request_;
  const TextCallback& on_text_;
  Sampler sampler_;
  StopMatcher stops_;
  StreamingDetokenizer detokenizer_;
  Sequence sequence_;
  BatchBuilder builder_;
  GenerationResult result_;
};

Result<std::span<const float>> Generator::Prefill() {
  const auto& prompt = request_.prompt;
  const int64_t cached = sequence_.MatchPrefix(prompt);
  result_.cached_tokens = cached;
  TENON_RETURN_IF_ERROR(ReserveNow(sequence_, static_cast<int64_t>(prompt.size()) - cached));
  const auto step = static_cast<size_t>(model_.runner().options().plan.max_tokens);
  for (auto done = static_cast<size_t>(cached);;) {
    const auto piece = std::span(prompt).subspan(done, std::min(step, prompt.size() - done));
    const bool last = done + piece.size() == prompt.size();
    builder_.Clear();
    builder_.AddTokens(builder_.AddSequence(sequence_.block_table()), piece,
                       static_cast<int64_t>(done),
                       last ? BatchBuilder::Outputs::kLast : BatchBuilder::Outputs::kNone);
    TENON_ASSIGN_OR_RETURN(const auto logits, model_.runner().Step(builder_.batch()));
    sequence_.Append(piece);
    sequence_.Commit();
    if (last)
      return logits;
    done += piece.size();
  }
}

Result<std::span<const float>> Generator::Decode(int32_t token) {
  TENON_RETURN_IF_ERROR(ReserveNow(sequence_, 1));
  builder_.Clear();
  builder_.AddToken(builder_.AddSequence(sequence_.block_table()), token, sequence_.length(),
                    Logits::kYes);
  TENON_ASSIGN_OR_RETURN(const auto logits, model_.runner().Step(builder_.batch()));
  sequence_.Append({&token, 1});
  sequence_.Commit();
  return logits;
}

bool Generator::Emit(const StopMatcher::Output& output) {
  result_.text += output.text;
  if (!output.text.empty() && on_text_ && !on_text_(output.text)) {
    result_.finish_reason = FinishReason::kCancelled;
    return true;
  }
  if (output.stop.has_value())
    result_.finish_reason = FinishReason::kStop;
  return output.stop.has_value();
}

void Generator::EmitRest() {
  const StopMatcher::Output output = stops_.Push(detokenizer_.Flush());
  if (Emit(output))
    return;
  Emit({stops_.Flush(), std::nullopt});
}

bool Generator::IsFull() const {
  const auto generated = static_cast<int64_t>(result_.token_ids.size());
  if (request_.max_tokens >= 0 && generated >= request_.max_tokens)
    return true;
  return result_.prompt_tokens + generated >= model_.context_tokens();
}

bool Generator::Take(SampledToken sampled) {
  const int32_t token = sampled.token;
  sampler_.Accept(token);
  const bool is_end = std::ranges::count(model_.tokenizer().stop_ids(), token) > 0;
  if (is_end && request_.end_tokens == EndTokens::kStop) {
    EmitRest();
    result_.finish_reason = FinishReason::kStop;
    return true;
  }
  result_.token_ids.push_back(token);
  if (request_.sampling.logprobs > 0)
    result_.sampled.push_back(std::move(sampled));
  if (Emit(stops_.Push(detokenizer_.Push(token))))
    return true;
  if (!IsFull())
    return false;
  result_.finish_reason = FinishReason::kLength;
  EmitRest();
  return true;
}

Result<GenerationResult> Generator::Run() {
  result_.prompt_tokens = static_cast<int64_t>(request_.prompt.size());
  result_.finish_reason = FinishReason::kLength;
  const auto start = Clock::now();
  TENON_RETURN_IF_ERROR(sampler_.AcceptPrompt(request_.prompt));
  TENON_ASSIGN_OR_RETURN(std::span<const float> logits, Prefill());
  auto first = start;
  while (request_.max_tokens != 0) {
    TENON_ASSIGN_OR_RETURN(SampledToken sampled, sampler_.Sample(logits));
    if (first == start) {
      first = Clock::now();
      result_.first_token_s = std::chrono::duration<double>(first - start).count();
    }
    if (Take(std::move(sampled)))
      break;
    TENON_ASSIGN_OR_RETURN(logits, Decode(result_.token_ids.back()));
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - first).count();
  const auto after_first = static_cast<double>(std::max<size_t>(result_.token_ids.size(), 1) - 1);
  result_.tokens_per_s = seconds > 0.0 ? after_first / seconds : 0.0;
  return std::move(result_);
}

Status CheckFits(const Model& model, const GenerationRequest& request) {
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  if (prompt == 0)
    return InvalidArgument("the prompt has no tokens", "prompt");
  if (prompt >= model.context_tokens()) {
    return InvalidArgument(
        fmt::format("the prompt has {} tokens and the context {}: no room for an answer", prompt,
                    model.context_tokens()),
        "prompt");
  }
  return {};
}

Result<Sampler> CreateSampler(Model& model, const SamplingParams& params) {
  DryBreakers breakers;
  if (params.dry_multiplier > 0.0F) {
    const Tokenizer& tokenizer = model.tokenizer();
    TokenTexts texts;
    texts.vocab_size = tokenizer.vocab_size();
    texts.bytes = [&](int32_t id) { return tokenizer.TokenBytes(id, SpecialText::kPlain); };
    texts.tokenize = [&](std::string_view text) {
      return tokenizer.Encode(text, SpecialText::kPlain, AddSpecial::kNone);
    };
    breakers = FindDryBreakers(params.dry_sequence_breakers, texts);
  }
  return Sampler::Create(params, static_cast<int32_t>(model.runner().vocab_size()),
                         std::move(breakers));
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

Result<GenerationResult> Generate(Model& model, const GenerationRequest& request,
                                  const TextCallback& on_text) {
  TENON_RETURN_IF_ERROR(CheckFits(model, request));
  TENON_ASSIGN_OR_RETURN(Sampler sampler, CreateSampler(model, request.sampling));
  TENON_ASSIGN_OR_RETURN(StopMatcher stops, StopMatcher::Create(request.stop));
  Generator generator(model, request, on_text, std::move(sampler), std::move(stops));
  return generator.Run();
}

}  // namespace tenon

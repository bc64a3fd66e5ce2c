#include "frontend/session/generation.h"

#include <algorithm>
#include <chrono>

#include "engine/exec/batch_builder.h"
#include "engine/kv/sequence.h"

namespace tenon {
namespace {

using Clock = std::chrono::steady_clock;

// One request on its way from prompt to text.
class Generator {
 public:
  Generator(Model& model, const GenerationRequest& request, const TextCallback& on_text,
            Sampler sampler, Answer answer)
      : model_(model),
        request_(request),
        on_text_(on_text),
        sampler_(std::move(sampler)),
        answer_(std::move(answer)),
        sequence_(model.runner().kv(), CacheScope{}) {}

  Result<GenerationResult> Run();

 private:
  Result<std::span<const float>> Prefill();
  Result<std::span<const float>> Decode(int32_t token);
  // Takes in a chosen token; true when the generation is over.
  bool Take(SampledToken sampled);

  Model& model_;
  const GenerationRequest& request_;
  const TextCallback& on_text_;
  Sampler sampler_;
  Answer answer_;
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

bool Generator::Take(SampledToken sampled) {
  const int32_t token = sampled.token;
  sampler_.Accept(token);
  const Answer::Piece piece = answer_.Take(token);
  if (piece.token == Answer::Token::kPart) {
    result_.token_ids.push_back(token);
    if (request_.sampling.logprobs > 0)
      result_.sampled.push_back(std::move(sampled));
  }
  result_.text += piece.text;
  if (piece.finish.has_value())
    result_.finish_reason = *piece.finish;
  if (piece.text.empty() || !on_text_ || on_text_(piece.text))
    return piece.finish.has_value();
  result_.finish_reason = FinishReason::kCancelled;
  return true;
}

Result<GenerationResult> Generator::Run() {
  if (model_.runner().is_encoder())
    return Unsupported("the model makes vectors of texts; it does not generate");
  result_.prompt_tokens = static_cast<int64_t>(request_.prompt.size());
  result_.finish_reason = FinishReason::kLength;
  const auto start = Clock::now();
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

}  // namespace

Result<GenerationResult> Generate(Model& model, const GenerationRequest& request,
                                  const TextCallback& on_text) {
  TENON_RETURN_IF_ERROR(CheckPrompt(model, request.prompt));
  TENON_ASSIGN_OR_RETURN(Sampler sampler, CreateSampler(model, request.sampling, request.prompt));
  TENON_ASSIGN_OR_RETURN(Answer answer,
                         Answer::Create(model, static_cast<int64_t>(request.prompt.size()),
                                        {request.stop, request.end_tokens, request.max_tokens}));
  Generator generator(model, request, on_text, std::move(sampler), std::move(answer));
  return generator.Run();
}

}  // namespace tenon

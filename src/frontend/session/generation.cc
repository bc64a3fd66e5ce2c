#include "frontend/session/generation.h"

#include <algorithm>
#include <chrono>

#include "accel/plain_engine.h"
#include "engine/kv/sequence.h"

namespace tenon {
namespace {

using Clock = std::chrono::steady_clock;

// One request on its way from prompt to text.
class Generator {
 public:
  Generator(Model& model, const GenerationRequest& request, const TextCallback& on_text,
            Sampler sampler, Answer answer)
      : request_(request),
        on_text_(on_text),
        sampler_(std::move(sampler)),
        answer_(std::move(answer)),
        sequence_(model.runner().kv(), CacheScope{}),
        plain_(model.runner(), model.pool()),
        steps_(request.steps != nullptr ? *request.steps : plain_),
        tokens_(request.prompt) {}
  ~Generator() { steps_.Forget(kKey); }

  Result<GenerationResult> Run();

 private:
  // The only sequence of its engine while it runs.
  static constexpr SequenceKey kKey = 1;

  // One step; what it decided is in task_.
  Status Advance();
  // Takes in the decided tokens; true when the generation is over.
  bool TakeDecided();
  // Takes in a chosen token; true when the generation is over.
  bool Take(SampledToken sampled);
  bool HasPending() const {
    return sequence_.length() < static_cast<int64_t>(request_.prompt.size());
  }

  const GenerationRequest& request_;
  const TextCallback& on_text_;
  Sampler sampler_;
  Answer answer_;
  Sequence sequence_;
  PlainEngine plain_;
  StepEngine& steps_;
  std::vector<int32_t> tokens_;  // known
  SequenceTask task_;
  GenerationResult result_;
};

Status Generator::Advance() {
  Sampler* const sampler = &sampler_;
  task_ = {};
  task_.key = kKey;
  task_.sequence = &sequence_;
  task_.tokens = tokens_;
  task_.prompt_tokens = static_cast<int64_t>(request_.prompt.size());
  task_.most = std::max<int64_t>(answer_.remaining(), 1);
  if (!answer_.IsEmpty())
    task_.samplers = {&sampler, 1};
  const PendingWork work = steps_.Pending(task_);
  task_.compute = std::min(work.tokens, steps_.capacity().tokens);
  if (work.target_slots > 0)
    TENON_RETURN_IF_ERROR(ReserveNow(sequence_, std::min(work.target_slots, task_.compute)));
  TENON_RETURN_IF_ERROR(steps_.Advance({&task_, 1}));
  task_.samplers = {};
  return task_.failure.has_value() ? Status(*task_.failure) : Status();
}

bool Generator::TakeDecided() {
  for (SampledToken& sampled : task_.decided) {
    if (Take(std::move(sampled)))
      return true;
  }
  return false;
}

bool Generator::Take(SampledToken sampled) {
  const int32_t token = sampled.token;
  const Answer::Piece piece = answer_.Take(token);
  if (piece.token == Answer::Token::kPart) {
    tokens_.push_back(token);
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
  result_.prompt_tokens = static_cast<int64_t>(request_.prompt.size());
  result_.finish_reason = FinishReason::kLength;
  const auto start = Clock::now();
  result_.cached_tokens = sequence_.MatchPrefix(request_.prompt);
  auto first = start;
  while (!answer_.IsEmpty() || HasPending()) {
    TENON_RETURN_IF_ERROR(Advance());
    if (first == start && !task_.decided.empty()) {
      first = Clock::now();
      result_.first_token_s = std::chrono::duration<double>(first - start).count();
    }
    if (TakeDecided())
      break;
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - first).count();
  const auto after_first = static_cast<double>(std::max<size_t>(result_.token_ids.size(), 1) - 1);
  result_.tokens_per_s = seconds > 0.0 ? after_first / seconds : 0.0;
  return std::move(result_);
}

}  // namespace

Result<GenerationResult> Generate(Model& model, const GenerationRequest& request,
                                  const TextCallback& on_text) {
  if (model.runner().is_encoder())
    return Unsupported("the model makes vectors of texts; it does not generate");
  TENON_RETURN_IF_ERROR(CheckPrompt(model, request.prompt));
  TENON_ASSIGN_OR_RETURN(Sampler sampler, CreateSampler(model, request.sampling, request.prompt));
  TENON_ASSIGN_OR_RETURN(Answer answer,
                         Answer::Create(model, static_cast<int64_t>(request.prompt.size()),
                                        {request.stop, request.end_tokens, request.max_tokens}));
  Generator generator(model, request, on_text, std::move(sampler), std::move(answer));
  return generator.Run();
}

}  // namespace tenon

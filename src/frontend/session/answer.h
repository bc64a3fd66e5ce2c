// What one request on a model needs, whoever runs it: the checks of its prompt, its sampler, and
// Answer, which turns the chosen tokens into text and says when it is over.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/sample/sampler.h"
#include "engine/sample/sampling_params.h"
#include "engine/sample/stop_matcher.h"
#include "frontend/session/model.h"

namespace tenon {

enum class EndTokens : uint8_t { kStop, kIgnore };

enum class FinishReason : uint8_t {
  kStop,       // an end token or a stop string
  kLength,     // max_tokens, or the context is full
  kCancelled,  // the callback said so
};
std::string_view FinishReasonName(FinishReason reason);

// Tokens that prompt and answer of one request may have together: the KV cache may hold more than
// one sequence of the length that the model was trained for.
int64_t SequenceLimit(const Model& model);

// Fails with kInvalidArgument for an empty prompt and for one that leaves no room for an answer,
// with both numbers: nothing is ever cut.
Status CheckPrompt(const Model& model, std::span<const int32_t> prompt);

// A sampler that has seen the prompt. Reads the whole vocabulary when DRY is on. REQUIRES: the
// model is prepared.
Result<Sampler> CreateSampler(Model& model, const SamplingParams& params,
                              std::span<const int32_t> prompt);

struct AnswerOptions {
  std::vector<std::string> stop;
  EndTokens end_tokens = EndTokens::kStop;
  int64_t max_tokens = -1;  // -1: until an end token, a stop or the sequence's limit
};

// The text of one answer as its tokens come in. Whole UTF-8 at every point, no byte of a stop
// string. Keeps a reference to the model's tokenizer. Threading: one thread at a time.
class Answer {
 public:
  // Fails with kInvalidArgument for an empty stop string or too many of them.
  static Result<Answer> Create(const Model& model, int64_t prompt_tokens,
                               const AnswerOptions& options);

  enum class Token : uint8_t { kPart, kEnd };  // kEnd: an end token, not part of the answer
  struct Piece {
    std::string text;  // that became certain
    Token token = Token::kPart;
    std::optional<FinishReason> finish;  // the answer is over; `text` is its rest
    std::string stop_text;               // the stop string that was found, if one was
  };
  // REQUIRES: not over.
  Piece Take(int32_t token);

  // No token may follow the one of `piece`: the answer is complete.
  void End(Piece& piece) { Finish(FinishReason::kStop, piece); }

  int64_t tokens() const { return tokens_; }
  // Tokens that may still follow.
  int64_t remaining() const { return limit_ - tokens_; }
  // True when no token may follow, before the first one was taken.
  bool IsEmpty() const { return limit_ == 0; }

 private:
  Answer(const Model& model, StopMatcher matcher, const AnswerOptions& options);
  void Push(std::string_view text, Piece& piece);
  void Finish(FinishReason reason, Piece& piece);

  const Tokenizer* tokenizer_;
  StopMatcher matcher_;
  StreamingDetokenizer detokenizer_;
  std::vector<std::string> stop_;
  EndTokens end_tokens_;
  int64_t limit_ = 0;   // tokens
  int64_t tokens_ = 0;  // taken in
};

}  // namespace tenon

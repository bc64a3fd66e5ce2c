// ApiAnswer: what the engine has given so far for one API request, and AnswerFormat: how an API
// writes it. Streams and whole answers are made from the same pieces, so they can't differ.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/sample/sampler.h"
#include "frontend/server/api/answer_channel.h"
#include "frontend/server/api/json.h"
#include "frontend/server/api/message_parser.h"
#include "frontend/serving/serving_engine.h"

namespace tenon {

struct AnswerPrompt {
  int64_t tokens = 0;
  int64_t cached_tokens = 0;
  std::vector<int32_t> ids;            // for echo
  std::vector<SampledToken> logprobs;  // of tokens 1 and on; when asked for
  int64_t completion_tokens = 0;       // over its choices, when finished
  RequestTimings timings;
};

struct AnswerChoice {
  size_t prompt = 0;  // index into ApiAnswer::prompts
  std::string content;
  std::string reasoning;
  std::vector<ToolCall> tool_calls;
  std::vector<int32_t> tokens;
  std::vector<SampledToken> sampled;
  FinishReason finish_reason = FinishReason::kStop;
  std::string stop_text;
  int64_t completion_tokens = 0;
  RequestTimings timings;
};

struct ApiAnswer {
  std::string request_id;  // the frontend's; APIs put their prefix before it
  std::string model;
  int64_t created = 0;  // Unix seconds
  const Tokenizer* tokenizer = nullptr;
  std::vector<AnswerPrompt> prompts;
  std::vector<AnswerChoice> choices;  // prompt by prompt

  int64_t prompt_tokens() const;
  int64_t cached_tokens() const;
  int64_t completion_tokens() const;
  // The slowest prompt's.
  RequestTimings timings() const;
};

// What one event added to a choice.
struct AnswerPiece {
  size_t choice = 0;
  std::vector<MessageDelta> deltas;
  std::vector<int32_t> tokens;
  std::vector<SampledToken> sampled;
};

// Called by one thread at a time, in the order OnStarted (for each prompt), OnPiece, OnChoiceEnd
// (once for each choice), OnEnd; or Whole alone.
class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;
  virtual Json Whole(const ApiAnswer& answer) = 0;
  virtual void OnStarted(const ApiAnswer& answer, size_t prompt, AnswerChannel& channel) = 0;
  virtual void OnPiece(const ApiAnswer& answer, const AnswerPiece& piece,
                       AnswerChannel& channel) = 0;
  virtual void OnChoiceEnd(const ApiAnswer& answer, size_t choice, AnswerChannel& channel) = 0;
  virtual void OnEnd(const ApiAnswer& answer, AnswerChannel& channel) = 0;
};

}  // namespace tenon

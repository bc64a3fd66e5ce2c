#include "frontend/server/api/answer.h"

#include <algorithm>

namespace tenon {

int64_t ApiAnswer::prompt_tokens() const {
  int64_t sum = 0;
  for (const AnswerPrompt& prompt : prompts)
    sum += prompt.tokens;
  return sum;
}

int64_t ApiAnswer::cached_tokens() const {
  int64_t sum = 0;
  for (const AnswerPrompt& prompt : prompts)
    sum += prompt.cached_tokens;
  return sum;
}

int64_t ApiAnswer::completion_tokens() const {
  int64_t sum = 0;
  for (const AnswerChoice& choice : choices)
    sum += choice.completion_tokens;
  return sum;
}

RequestTimings ApiAnswer::timings() const {
  const auto slowest = std::ranges::max_element(
      prompts, {}, [](const AnswerPrompt& prompt) -> double { return prompt.timings.total_s; });
  return slowest == prompts.end() ? RequestTimings{} : slowest->timings;
}

}  // namespace tenon

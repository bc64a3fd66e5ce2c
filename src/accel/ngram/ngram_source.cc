#include "accel/ngram/ngram_source.h"

#include <algorithm>

namespace tenon {

std::span<const int32_t> FindContinuation(std::span<const int32_t> tokens,
                                          const NgramOptions& options, int64_t most) {
  if (tokens.size() < 2 || most <= 0)
    return {};
  const auto longest = static_cast<size_t>(options.longest);
  const size_t last = tokens.size() - 1;
  size_t best_end = 0;  // index behind the occurrence; 0: none
  size_t best_length = static_cast<size_t>(options.shortest) - 1;
  for (size_t end = last; end > best_length && best_length < longest; --end) {
    if (tokens[end - 1] != tokens[last])
      continue;
    size_t length = 1;
    while (length < longest && length < end && tokens[end - 1 - length] == tokens[last - length])
      ++length;
    if (length > best_length) {
      best_length = length;
      best_end = end;
    }
  }
  if (best_end == 0)
    return {};
  return tokens.subspan(best_end, std::min(tokens.size() - best_end, static_cast<size_t>(most)));
}

Status NgramSource::Propose(std::span<const GuessRequest> requests) {
  for (const GuessRequest& request : requests) {
    const auto found = FindContinuation(request.task->tokens, options_, request.most);
    request.task->guesses.tokens.assign(found.begin(), found.end());
  }
  return {};
}

}  // namespace tenon

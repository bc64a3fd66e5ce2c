#include "engine/sample/dry_breakers.h"

#include <algorithm>

namespace tenon {
namespace {

// The token followed by the tokens of what is left of the breaker after `overlap` bytes.
std::vector<int32_t> WithRest(int32_t token, std::string_view rest, const TokenTexts& texts) {
  std::vector<int32_t> sequence = {token};
  const std::vector<int32_t> tail = texts.tokenize(rest);
  sequence.insert(sequence.end(), tail.begin(), tail.end());
  return sequence;
}

void AddSequences(std::string_view breaker, int32_t token, const TokenTexts& texts,
                  DryBreakers& out) {
  const std::string bytes = texts.bytes(token);
  if (bytes.find(breaker) != std::string::npos) {
    out.push_back({token});
    return;
  }
  const size_t longest = std::min(bytes.size(), breaker.size() - 1);
  for (size_t overlap = 1; overlap <= longest; ++overlap) {
    if (std::string_view(bytes).ends_with(breaker.substr(0, overlap)))
      out.push_back(WithRest(token, breaker.substr(overlap), texts));
  }
}

}  // namespace

DryBreakers FindDryBreakers(const std::vector<std::string>& breakers, const TokenTexts& texts) {
  DryBreakers sequences;
  for (const std::string& breaker : breakers) {
    if (breaker.empty())
      continue;
    for (int32_t token = 0; token < texts.vocab_size; ++token)
      AddSequences(breaker, token, texts, sequences);
  }
  return sequences;
}

}  // namespace tenon

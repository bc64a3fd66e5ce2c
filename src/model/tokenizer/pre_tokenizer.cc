#include "model/tokenizer/pre_tokenizer.h"

namespace tenon {

std::vector<std::string_view> PreTokenizer::Split(std::string_view text) const {
  std::vector<std::string_view> pieces;
  if (!text.empty())
    pieces.push_back(text);
  std::vector<std::string_view> finer;
  for (const SplitStep& step : steps_) {
    finer.clear();
    for (std::string_view piece : pieces)
      SplitPiece(step, piece, finer);
    pieces.swap(finer);
  }
  return pieces;
}

void PreTokenizer::SplitPiece(const SplitStep& step, std::string_view piece,
                              std::vector<std::string_view>& out) const {
  const RuleMatcher matcher(classes_, piece);
  // Steps after the byte-level mapping look at bytes, not at characters.
  const bool by_byte = step.front().shape == Shape::kMappedDigits;
  size_t gap = 0;  // where the unmatched text before `at` begins
  for (size_t at = 0; at < piece.size();) {
    size_t end = at;
    for (size_t i = 0; i < step.size() && end == at; ++i)
      end = matcher.Match(step[i], at, gap);
    if (end == at) {
      at += by_byte ? 1 : matcher.At(at).length;
      continue;
    }
    if (at > gap)
      out.push_back(piece.substr(gap, at - gap));
    out.push_back(piece.substr(at, end - at));
    at = gap = end;
  }
  if (gap < piece.size())
    out.push_back(piece.substr(gap));
}

}  // namespace tenon

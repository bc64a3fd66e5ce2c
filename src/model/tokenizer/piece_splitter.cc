#include "model/tokenizer/piece_splitter.h"

#include <algorithm>

#include "base/check.h"
#include "model/tokenizer/byte_alphabet.h"
#include "model/tokenizer/utf8.h"

namespace tenon {
namespace {

constexpr std::string_view kByteLevelWords =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

Pattern ByteLevelWords() {
  auto pattern = Pattern::Regex(kByteLevelWords);
  TENON_CHECK(pattern.ok());
  return *std::move(pattern);
}

}  // namespace

PieceSplitter::PieceSplitter(std::span<const PreTokenizerStep> steps, const UnicodeClasses& classes)
    : steps_(steps), classes_(classes), byte_level_words_(ByteLevelWords()) {}

TextPieces PieceSplitter::Split(std::string_view text, Place place) const {
  TextPieces pieces;
  pieces.first_at_start = place == Place::kStart;
  pieces.Append(text);
  for (const PreTokenizerStep& step : steps_)
    std::visit([&](const auto& concrete) { Apply(concrete, pieces); }, step);
  return pieces;
}

// All of the piece, in spans that are matches or lie between them.
void PieceSplitter::FindPattern(const Pattern& pattern, std::string_view piece,
                                Spans& spans) const {
  for (size_t at = 0; at < piece.size();) {
    const Pattern::Match match = pattern.Find(classes_, piece, at);
    if (match.begin > at)
      spans.push_back({at, match.begin, false});
    if (match.end > match.begin)
      spans.push_back({match.begin, match.end, true});
    at = match.end;
  }
}

// Joins spans as the behaviour says. A match joins the span before it (or after it, read
// backwards), but not another match.
void PieceSplitter::Merge(SplitBehavior behavior, Spans& spans) {
  Spans merged;
  bool previous_match = false;
  const bool backward = behavior == SplitBehavior::kMergedWithNext;
  if (backward)
    std::reverse(spans.begin(), spans.end());
  for (const Span& span : spans) {
    const bool joins = behavior == SplitBehavior::kContiguous
                           ? !merged.empty() && span.match == previous_match
                           : !merged.empty() && span.match && !previous_match;
    if (!joins)
      merged.push_back(span);
    else if (backward)
      merged.back().begin = span.begin;
    else
      merged.back().end = span.end;
    previous_match = span.match;
  }
  if (backward)
    std::reverse(merged.begin(), merged.end());
  spans.swap(merged);
}

template <class FindSpans>
void PieceSplitter::SplitAll(SplitBehavior behavior, const FindSpans& find,
                             TextPieces& pieces) const {
  TextPieces out;
  out.text.reserve(pieces.text.size());
  out.first_at_start = pieces.first_at_start;
  Spans spans;
  for (size_t i = 0; i < pieces.ends.size(); ++i) {
    const std::string_view piece = pieces.Piece(i);
    spans.clear();
    find(piece, spans);
    if (behavior == SplitBehavior::kRemoved) {
      // Once its beginning is gone, no piece starts where the input does.
      if (i == 0 && !spans.empty() && spans.front().match)
        out.first_at_start = false;
      std::erase_if(spans, [](const Span& span) { return span.match; });
    } else if (behavior != SplitBehavior::kIsolated) {
      Merge(behavior, spans);
    }
    for (const Span& span : spans)
      out.Append(piece.substr(span.begin, span.end - span.begin));
  }
  pieces = std::move(out);
}

// A space before each piece that starts with none, GPT-2's words, then every byte as a letter.
void PieceSplitter::Apply(const pre_tokenizer::ByteLevel& step, TextPieces& pieces) const {
  if (step.add_prefix_space) {
    TextPieces spaced;
    spaced.first_at_start = pieces.first_at_start;
    for (size_t i = 0; i < pieces.ends.size(); ++i) {
      const std::string_view piece = pieces.Piece(i);
      spaced.Append(piece.starts_with(' ') ? std::string(piece) : " " + std::string(piece));
    }
    pieces = std::move(spaced);
  }
  if (step.use_regex) {
    SplitAll(
        SplitBehavior::kIsolated,
        [this](std::string_view piece, Spans& spans) {
          FindPattern(byte_level_words_, piece, spans);
        },
        pieces);
  }
  TextPieces spelled;
  spelled.first_at_start = pieces.first_at_start;
  spelled.text.reserve(pieces.text.size() + pieces.text.size() / 4);
  for (size_t i = 0; i < pieces.ends.size(); ++i)
    spelled.Append(SpellBytes(pieces.Piece(i)));
  pieces = std::move(spelled);
}

void PieceSplitter::Apply(const pre_tokenizer::Split& step, TextPieces& pieces) const {
  SplitAll(
      step.behavior,
      [&](std::string_view piece, Spans& spans) {
        FindPattern(step.pattern, piece, spans);
        for (Span& span : spans)
          span.match = span.match != step.invert;
      },
      pieces);
}

void PieceSplitter::Apply(const pre_tokenizer::SplitClasses& step, TextPieces& pieces) const {
  SplitAll(
      step.behavior,
      [&](std::string_view piece, Spans& spans) {
        const RuleMatcher chars(classes_, piece);
        size_t gap = 0;
        for (size_t at = 0; at < piece.size();) {
          const RuleMatcher::Char c = chars.At(at);
          const size_t end = at + c.length;
          if ((c.classes & step.classes) != 0) {
            if (at > gap)
              spans.push_back({gap, at, false});
            spans.push_back({at, end, true});
            gap = end;
          }
          at = end;
        }
        if (gap < piece.size())
          spans.push_back({gap, piece.size(), false});
      },
      pieces);
}

// Spaces become the replacement; with kFirst only the start of the whole input gets one in front.
void PieceSplitter::Apply(const pre_tokenizer::Metaspace& step, TextPieces& pieces) const {
  TextPieces replaced;
  replaced.first_at_start = pieces.first_at_start;
  for (size_t i = 0; i < pieces.ends.size(); ++i) {
    std::string piece;
    for (const char letter : pieces.Piece(i)) {
      if (letter == ' ')
        piece += step.replacement;
      else
        piece += letter;
    }
    const bool wanted = step.scheme == PrependScheme::kAlways ||
                        (step.scheme == PrependScheme::kFirst && i == 0 && pieces.first_at_start);
    if (wanted && !piece.starts_with(step.replacement))
      piece.insert(0, step.replacement);
    replaced.Append(piece);
  }
  pieces = std::move(replaced);
  if (!step.split)
    return;
  const Pattern pattern = Pattern::Literal(step.replacement);
  SplitAll(
      SplitBehavior::kMergedWithNext,
      [&](std::string_view piece, Spans& spans) { FindPattern(pattern, piece, spans); }, pieces);
}

}  // namespace tenon

// PieceSplitter: runs a pipeline's pre-tokenizers over a text.
//
// Borrows the steps. Threading: const; any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/tokenizer/tokenizer_pipeline.h"
#include "model/tokenizer/unicode_classes.h"

namespace tenon {

// Pieces of a text one after the other; a step may have removed or added characters.
struct TextPieces {
  std::string text;
  std::vector<size_t> ends;     // in text, ascending; no piece is empty
  bool first_at_start = false;  // whether the first piece begins where the whole input does

  void Append(std::string_view piece) {
    if (piece.empty())
      return;
    text += piece;
    ends.push_back(text.size());
  }
  std::string_view Piece(size_t index) const {
    const size_t begin = index == 0 ? 0 : ends[index - 1];
    return std::string_view(text).substr(begin, ends[index] - begin);
  }
};

class PieceSplitter {
 public:
  PieceSplitter(std::span<const PreTokenizerStep> steps, const UnicodeClasses& classes);

  // `at_start`: whether `text` is the beginning of the input.
  enum class Place : uint8_t { kStart, kLater };
  TextPieces Split(std::string_view text, Place place) const;

 private:
  // A stretch of a piece.
  struct Span {
    size_t begin = 0;
    size_t end = 0;
    bool match = false;
  };
  using Spans = std::vector<Span>;

  void Apply(const pre_tokenizer::ByteLevel& step, TextPieces& pieces) const;
  void Apply(const pre_tokenizer::Split& step, TextPieces& pieces) const;
  void Apply(const pre_tokenizer::SplitClasses& step, TextPieces& pieces) const;
  void Apply(const pre_tokenizer::Metaspace& step, TextPieces& pieces) const;

  void FindPattern(const Pattern& pattern, std::string_view piece, Spans& spans) const;
  static void Merge(SplitBehavior behavior, Spans& spans);
  template <class FindSpans>
  void SplitAll(SplitBehavior behavior, const FindSpans& find, TextPieces& pieces) const;

  std::span<const PreTokenizerStep> steps_;
  const UnicodeClasses& classes_;
  Pattern byte_level_words_;  // GPT-2's
};

}  // namespace tenon

// PreTokenizer: cuts text into the words that byte-pair merges never cross.
//
// A pre-tokenizer is a list of steps; each step cuts every piece of the step before into what its
// rules match and what lies between the matches. The patterns are those of the models' published
// tokenizer.json files, known by GGUF's name for them. Threading: const after Create; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/tokenizer/split_rule.h"
#include "model/tokenizer/unicode_classes.h"

namespace tenon {

using SplitStep = std::vector<SplitRule>;  // alternatives, first match wins

// What a model family does to text before merging.
struct SplitFamily {
  std::vector<SplitStep> steps;
  bool whole_words = false;  // a word that is a token is taken whole, without merging
  bool normalize = false;    // the text is brought to NFC first
};

// The family of GGUF's tokenizer.ggml.pre; an unknown name's error lists the known ones.
Result<SplitFamily> FindSplitFamily(std::string_view name);

// All names that FindSplitFamily knows.
std::vector<std::string_view> SplitFamilyNames();

// The step of a published regular expression, character for character; none for another one.
std::optional<SplitStep> FindSplitPattern(std::string_view regex);

class PreTokenizer {
 public:
  explicit PreTokenizer(std::vector<SplitStep> steps) : steps_(std::move(steps)) {}

  // The pieces of `text` in order; together they are the text. They point into it.
  std::vector<std::string_view> Split(std::string_view text) const;

 private:
  void SplitPiece(const SplitStep& step, std::string_view piece,
                  std::vector<std::string_view>& out) const;

  std::vector<SplitStep> steps_;
  UnicodeClasses classes_;
};

}  // namespace tenon

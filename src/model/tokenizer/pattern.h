// Pattern: a literal or a regular expression of a tokenizer.json, and its matches in a text.
//
// Oniguruma's syntax as far as tokenizers use it: alternatives, groups (also (?i: )), sets with
// ranges,
// \p{...}, && and nesting, greedy repetition, ^ and $ at the ends of lines, \A \z at those of the
// text, and lookahead without unbounded repetition in it. Anything else is refused by name. A run
// over a text takes time linear in it: all threads of the expression advance together (Pike's
// machine), the leftmost alternative first, so that matches are those of a backtracking engine.
// Characters are classed by UnicodeClasses. Threading: const after creation; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/tokenizer/pre_tokenizer.h"
#include "model/tokenizer/unicode_classes.h"

namespace tenon {

// A set of characters: the union of what it lists, or the rest of Unicode where it is negated.
struct PatternSet {
  struct Category {
    uint16_t classes = 0;   // of UnicodeClasses
    uint8_t steps = 0;      // of StepFlagsOf
    uint32_t utf8proc = 0;  // bits of utf8proc's categories, for the finer ones
    bool script_han = false;
    bool negated = false;
  };
  bool negated = false;
  std::vector<CodeRange> ranges;
  std::vector<Category> categories;
  std::vector<PatternSet> subsets;
  std::vector<PatternSet> intersections;  // members of the set must be in each of these too

  bool Has(char32_t code, const UnicodeClasses& classes) const;
};

class Pattern {
 public:
  struct Match {
    size_t begin = 0;
    size_t end = 0;  // begin == end: none
  };

  // What \w is: Oniguruma's, for the file's expressions, or that of the reference's own steps.
  enum class Words : uint8_t { kOniguruma, kOwnSteps };

  static Pattern Literal(std::string text);
  // kUnsupported, naming the construct, where the syntax goes beyond the above.
  static Result<Pattern> Regex(std::string_view source, Words words = Words::kOniguruma);

  // The first match that is not empty at or after `from`; { size, size } when there is none.
  Match Find(const UnicodeClasses& classes, std::string_view text, size_t from) const;

  // One instruction of the machine. Those at x (and y, tried later) follow, else the next one.
  struct Instruction {
    enum class Kind : uint8_t {
      kSet,
      kSplit,
      kJump,
      kLook,
      kLookNot,
      kBegin,
      kEnd,
      kLineBegin,
      kLineEnd,
      kMatch,
    };
    Kind kind = Kind::kMatch;
    uint32_t x = 0;  // kSet: index into sets; kLook: where the looked-for program starts
    uint32_t y = 0;  // kLook: where the program goes on
  };

 private:
  friend class PatternParser;
  friend class PatternMachine;

  std::string literal_;             // of Literal
  std::optional<SplitStep> known_;  // a published pattern, matched by hand-written rules
  std::vector<PatternSet> sets_;
  std::vector<Instruction> program_;
};

}  // namespace tenon

// Grammar: which texts are allowed, as a tree of terms over bytes, with rules that may recurse.
//
// Terms are made bottom-up and named by index; a term may be used in many places. Counted
// repetition is a term of its own and is never unrolled, so maxItems or maxLength cost nothing but
// a counter. The compiler (automaton.h) makes a pushdown automaton of it.
//
// Owns its terms. Threading: one thread at a time.
#pragma once

#include <bitset>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tenon {

using ByteSet = std::bitset<256>;

// Bytes from `low` to `high`, both included.
ByteSet ByteRange(uint8_t low, uint8_t high);

class Grammar {
 public:
  using Term = int32_t;
  using Rule = int32_t;

  enum class Kind : uint8_t {
    kBytes,     // one byte of a set
    kSequence,  // parts, one after the other; none: the empty text
    kEither,    // one of the parts; none: no text at all
    kRepeat,    // parts[0], min to max times
    kRule,      // what the rule says
  };
  static constexpr int64_t kNoLimit = -1;

  struct Node {
    Kind kind = Kind::kSequence;
    ByteSet bytes;            // kBytes
    std::vector<Term> parts;  // kSequence, kEither, kRepeat
    int64_t min = 0;          // kRepeat
    int64_t max = kNoLimit;   // kRepeat; kNoLimit: any number
    Rule rule = 0;            // kRule
    // kRepeat: the part is one character inside a JSON string, whose loop is known to token masks
    // (constraint.h). kBytes: the plain ASCII characters of one.
    bool is_string = false;
  };

  Term Empty() { return Sequence({}); }
  Term Never() { return Either({}); }
  Term Bytes(const ByteSet& set);
  Term Literal(std::string_view text);
  Term Sequence(std::vector<Term> parts);
  Term Either(std::vector<Term> parts);
  // REQUIRES: min >= 0; max == kNoLimit or max >= min.
  Term Repeat(Term part, int64_t min, int64_t max);
  Term Optional(Term part) { return Repeat(part, 0, 1); }
  // One of the texts.
  Term AnyOf(std::vector<std::string> texts);
  // Texts between two of the same length, byte by byte in order, where `tail_low` and `tail_high`
  // are the least and the greatest byte of all but the first place. REQUIRES: low <= high.
  Term Between(std::string_view low, std::string_view high, uint8_t tail_low, uint8_t tail_high);
  // One code point of [low, high] as UTF-8; surrogates are left out.
  Term CodePoints(uint32_t low, uint32_t high);

  // Characters of a JSON string, without its quotes: anything but control characters, as it is or
  // escaped. Each counts as one, whatever its spelling.
  Term StringCharacters(int64_t min, int64_t max);

  // Any bytes up to the first `mark`, and the mark; with kOptional the text may also end before
  // there was one. REQUIRES: a mark.
  enum class Mark : uint8_t { kNeeded, kOptional };
  Term Until(std::string_view mark, Term then, Mark need);

  Rule DeclareRule();
  // REQUIRES: not defined before.
  void DefineRule(Rule rule, Term term);
  Term Call(Rule rule);
  // A rule of its own for a term, so that using it often does not copy it.
  Term Share(Term term);

  const Node& node(Term term) const { return nodes_[static_cast<size_t>(term)]; }
  std::span<const Term> rules() const { return rules_; }
  size_t size() const { return nodes_.size(); }

 private:
  Term Add(Node node);
  Term AnyOfSorted(std::span<const std::string> texts, size_t at);
  Term StringCharacter();

  std::vector<Node> nodes_;
  std::vector<Term> rules_;  // [rule]
  Term string_character_ = -1;
};

}  // namespace tenon

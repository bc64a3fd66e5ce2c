#include "model/tokenizer/pattern.h"

#include <utf8proc.h>

#include <algorithm>

#include "model/tokenizer/unicode_steps.h"
#include "model/tokenizer/utf8.h"

namespace tenon {
namespace {

using Kind = Pattern::Instruction::Kind;

// Unicode's Script=Han (version 16).
constexpr CodeRange kHan[] = {
    {0x2E80, 0x2E99},   {0x2E9B, 0x2EF3},   {0x2F00, 0x2FD5},   {0x3005, 0x3005},
    {0x3007, 0x3007},   {0x3021, 0x3029},   {0x3038, 0x303B},   {0x3400, 0x4DBF},
    {0x4E00, 0x9FFF},   {0xF900, 0xFA6D},   {0xFA70, 0xFAD9},   {0x16FE2, 0x16FE3},
    {0x16FF0, 0x16FF1}, {0x20000, 0x2A6DF}, {0x2A700, 0x2B739}, {0x2B740, 0x2B81D},
    {0x2B820, 0x2CEA1}, {0x2CEB0, 0x2EBE0}, {0x2EBF0, 0x2EE5D}, {0x2F800, 0x2FA1D},
    {0x30000, 0x3134A}, {0x31350, 0x323AF}};

bool IsHan(char32_t code) {
  const auto* after =
      std::upper_bound(std::begin(kHan), std::end(kHan), code,
                       [](char32_t value, const CodeRange& range) { return value < range.first; });
  return after != std::begin(kHan) && code <= std::prev(after)->last;
}

bool HasCategory(const PatternSet::Category& category, char32_t code,
                 const UnicodeClasses& classes) {
  bool member = (classes.Of(code) & category.classes) != 0;
  if (!member && category.steps != 0)
    member = (StepFlagsOf(code) & category.steps) != 0;
  if (!member && category.utf8proc != 0)
    member = (category.utf8proc >> utf8proc_category(static_cast<utf8proc_int32_t>(code)) & 1) != 0;
  if (!member && category.script_han)
    member = IsHan(code);
  return member != category.negated;
}

}  // namespace

bool PatternSet::Has(char32_t code, const UnicodeClasses& classes) const {
  bool member = std::any_of(ranges.begin(), ranges.end(), [code](const CodeRange& range) {
    return code >= range.first && code <= range.last;
  });
  for (size_t i = 0; i < categories.size() && !member; ++i)
    member = HasCategory(categories[i], code, classes);
  for (size_t i = 0; i < subsets.size() && !member; ++i)
    member = subsets[i].Has(code, classes);
  for (size_t i = 0; i < intersections.size() && member; ++i)
    member = intersections[i].Has(code, classes);
  return member != negated;
}

// Runs a program over one text from one position.
class PatternMachine {
 public:
  PatternMachine(const Pattern& pattern, const UnicodeClasses& classes, std::string_view text)
      : pattern_(pattern), classes_(classes), text_(text) {}

  // Where the match that starts at `begin` ends; nullopt when there is none.
  std::optional<size_t> Run(uint32_t start, size_t begin) {
    // Threads at the current place, the preferred one first, and those one character further.
    std::vector<uint32_t> threads;
    std::vector<uint32_t> next;
    std::vector<bool> seen(pattern_.program_.size());
    std::optional<size_t> end;
    Follow(start, begin, seen, threads);
    for (size_t at = begin; !threads.empty();) {
      const Utf8Char c = at < text_.size() ? DecodeUtf8(text_, at) : Utf8Char{};
      next.clear();
      seen.assign(seen.size(), false);
      for (const uint32_t thread : threads) {
        const Pattern::Instruction& instruction = pattern_.program_[thread];
        if (instruction.kind == Kind::kMatch) {
          end = at;
          break;  // later alternatives are worse
        }
        if (c.length > 0 && pattern_.sets_[instruction.x].Has(c.code, classes_))
          Follow(thread + 1, at + c.length, seen, next);
      }
      threads.swap(next);
      at += c.length;
    }
    return end;
  }

 private:
  // Adds the threads that `pc` leads to without reading, the preferred ones first.
  void Follow(uint32_t pc, size_t at, std::vector<bool>& seen, std::vector<uint32_t>& threads) {
    std::vector<uint32_t> stack = {pc};
    while (!stack.empty()) {
      pc = stack.back();
      stack.pop_back();
      if (seen[pc])
        continue;
      seen[pc] = true;
      const Pattern::Instruction& instruction = pattern_.program_[pc];
      switch (instruction.kind) {
        case Kind::kSet:
        case Kind::kMatch:
          threads.push_back(pc);
          break;
        case Kind::kSplit:
          stack.push_back(instruction.y);
          stack.push_back(instruction.x);
          break;
        case Kind::kJump:
          stack.push_back(instruction.x);
          break;
        case Kind::kLook:
        case Kind::kLookNot:
          if (Run(instruction.x, at).has_value() == (instruction.kind == Kind::kLook))
            stack.push_back(instruction.y);
          break;
        case Kind::kBegin:
        case Kind::kEnd:
        case Kind::kLineBegin:
        case Kind::kLineEnd:
          if (Holds(instruction.kind, at))
            stack.push_back(pc + 1);
          break;
      }
    }
  }

  bool Holds(Kind anchor, size_t at) const {
    if (anchor == Kind::kBegin || anchor == Kind::kLineBegin)
      return at == 0 || (anchor == Kind::kLineBegin && text_[at - 1] == '\n');
    return at == text_.size() || (anchor == Kind::kLineEnd && text_[at] == '\n');
  }

  const Pattern& pattern_;
  const UnicodeClasses& classes_;
  std::string_view text_;
};

Pattern Pattern::Literal(std::string text) {
  Pattern pattern;
  pattern.literal_ = std::move(text);
  return pattern;
}

Pattern::Match Pattern::Find(const UnicodeClasses& classes, std::string_view text,
                             size_t from) const {
  const Match none = {text.size(), text.size()};
  if (!literal_.empty()) {
    const size_t found = text.find(literal_, from);
    return found == std::string_view::npos ? none : Match{found, found + literal_.size()};
  }
  const RuleMatcher rules(classes, text);
  PatternMachine machine(*this, classes, text);
  for (size_t at = from; at < text.size(); at += DecodeUtf8(text, at).length) {
    size_t end = at;
    for (size_t i = 0; known_.has_value() && i < known_->size() && end == at; ++i)
      end = rules.Match((*known_)[i], at, from);
    if (!known_.has_value())
      end = machine.Run(0, at).value_or(at);
    if (end > at)
      return {at, end};
  }
  return none;
}

}  // namespace tenon

// The parts of JSON as grammars: white space, strings, any value, objects from their members.
//
// White space is what models write and no more: nothing or a space, or a line end with its
// indentation, so that a text can't consist of it without end. Threading: one thread at a time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/constrain/grammar.h"

namespace tenon {

class JsonGrammar {
 public:
  using Term = Grammar::Term;

  explicit JsonGrammar(Grammar& grammar) : grammar_(grammar) {}

  Grammar& grammar() { return grammar_; }

  Term Space();
  // A string of `min` to `max` characters.
  Term String(int64_t min, int64_t max);
  // Quotes around characters.
  Term Quoted(Term characters);
  Term AnyValue();
  Term AnyObject();
  Term AnyArray();

  // "[" items "]", with separators between; of the items in `first` those beyond `min` may be
  // missing, and after them come up to `max` items in all, each like `rest`.
  struct ArrayParts {
    std::vector<Term> first;
    Term rest = -1;  // -1: none
    int64_t min = 0;
    int64_t max = Grammar::kNoLimit;
  };
  Term Array(const ArrayParts& parts);

  // "{" members "}", in their order, then any number of others.
  struct Member {
    std::string name;
    Term value = 0;
    bool is_required = false;
  };
  struct ObjectParts {
    std::vector<Member> members;
    Term other_value = -1;  // -1: no others
    int64_t max_others = Grammar::kNoLimit;
  };
  Term Object(const ObjectParts& parts);

  // A name as JSON writes it, with quotes.
  static std::string Quote(std::string_view text);

 private:
  Term Separator();
  Term NameAndValue(Term name, Term value);
  Term OtherName(const std::vector<std::string>& taken);
  Term NotOneOf(std::vector<std::u32string> names, size_t at);
  enum class Place : uint8_t { kFirst, kLater };  // whether members were written before
  Term Others(const ObjectParts& parts, Place place);

  Grammar& grammar_;
  Term space_ = -1;
  Term any_value_ = -1;
  Term any_object_ = -1;
  Term any_array_ = -1;
  Term any_string_ = -1;
};

}  // namespace tenon

// str methods that look for a part of the text.
#include <fmt/format.h>

#include <algorithm>

#include "model/chat/argument_types.h"
#include "model/chat/attributes.h"
#include "model/chat/methods.h"
#include "model/chat/operators.h"
#include "model/chat/runtime.h"
#include "model/chat/text_search.h"
#include "model/chat/unicode.h"

namespace tenon::chat {
namespace {

enum class Side : uint8_t { kLeft, kRight };

// The part of self that the arguments start and stop (1 and 2) leave; false if start lies beyond
// the end, where not even an empty part is found.
bool TakeRange(Runtime& rt, const Value& self, const BoundArguments& args, Value& range) {
  range = self;
  if (!args.HasSome(1) && !args.HasSome(2))
    return true;
  const int64_t start = args.HasSome(1) ? ToIndex(args[1]) : 0;
  range = SubText(rt, self, args[1], args[2]);
  return start <= CharacterCount(rt, self);
}

// The index in characters, or -1.
int64_t IndexOf(Runtime& rt, const Value& self, const BoundArguments& args, Side side) {
  const std::string_view part = TextArgument(args, 0);
  Value range;
  if (!TakeRange(rt, self, args, range))
    return -1;
  rt.budget().Scan(range.string->bytes);
  if (side == Side::kRight)
    rt.budget().Decode(range.string->bytes);  // copied in reverse
  const size_t found =
      side == Side::kLeft ? FindPart(range.text(), part) : FindLastPart(range.text(), part);
  if (found == kNotFound)
    return -1;
  const char* place = range.string->data + found;
  if (range.string->bytes == 0)
    return args.HasSome(1) ? std::max<int64_t>(0, ToIndex(args[1]) < 0
                                                      ? ToIndex(args[1]) + CharacterCount(rt, self)
                                                      : ToIndex(args[1]))
                           : 0;
  // A slice with step 1 points into the text it was taken from.
  rt.budget().Decode(static_cast<size_t>(place - self.string->data));
  return CountCodePoints(self.text().substr(0, static_cast<size_t>(place - self.string->data)));
}

// find and rfind: -1 where there is no such part.
template <Side kSide>
Value Find(Runtime& rt, const Value& self, const BoundArguments& args) {
  return Value::Int(IndexOf(rt, self, args, kSide));
}

// index and rindex: an error instead.
template <Side kSide>
Value Index(Runtime& rt, const Value& self, const BoundArguments& args) {
  const int64_t index = IndexOf(rt, self, args, kSide);
  if (index < 0)
    Fail("substring not found");
  return Value::Int(index);
}

// Occurrences that do not overlap; an empty part fits between all characters.
Value Count(Runtime& rt, const Value& self, const BoundArguments& args) {
  const std::string_view part = TextArgument(args, 0);
  Value range;
  if (!TakeRange(rt, self, args, range))
    return Value::Int(0);
  if (part.empty())
    return Value::Int(CharacterCount(rt, range) + 1);
  return Value::Int(static_cast<int64_t>(FindParts(rt, range.text(), part, -1).size()));
}

bool HasAffix(std::string_view text, std::string_view affix, Side side) {
  if (affix.size() > text.size())
    return false;
  const size_t start = side == Side::kLeft ? 0 : text.size() - affix.size();
  return text.substr(start, affix.size()) == affix;
}

// startswith and endswith: one affix or a tuple of them.
template <Side kSide>
Value Affixed(Runtime& rt, const Value& self, const BoundArguments& args) {
  constexpr std::string_view kName = kSide == Side::kLeft ? "startswith" : "endswith";
  const bool many = args[0].Is(Kind::kTuple);
  if (!many && !IsString(args[0]))
    Fail(fmt::format("{} first arg must be str or a tuple of str, not {}", kName,
                     TypeName(args[0])));
  Value range;
  const bool within = TakeRange(rt, self, args, range);
  const Value* first = many ? args[0].begin() : &args[0];
  const size_t count = many ? args[0].sequence->size : 1;
  for (size_t i = 0; within && i < count; ++i) {
    rt.budget().Step();
    if (!IsString(first[i]))
      Fail(fmt::format("tuple for {} must only contain str, not {}", kName, TypeName(first[i])));
    rt.budget().Scan(first[i].string->bytes);
    if (HasAffix(range.text(), first[i].text(), kSide))
      return Value::Bool(true);
  }
  return Value::Bool(false);
}

// removeprefix and removesuffix.
template <Side kSide>
Value RemoveAffix(Runtime& rt, const Value& self, const BoundArguments& args) {
  const std::string_view affix = TextArgument(args, 0);
  const std::string_view text = self.text();
  rt.budget().Scan(affix.size());
  if (!HasAffix(text, affix, kSide))
    return self;
  return rt.View(kSide == Side::kLeft ? text.substr(affix.size())
                                      : text.substr(0, text.size() - affix.size()));
}

Value Replace(Runtime& rt, const Value& self, const BoundArguments& args) {
  const std::string_view part = TextArgument(args, 0);
  const std::string_view replacement = TextArgument(args, 1);
  return ReplaceParts(rt, self, part, replacement, IntegerArgument(args, 2, -1));
}

// partition and rpartition: three parts, the middle one empty where nothing was found.
template <Side kSide>
Value Partition(Runtime& rt, const Value& self, const BoundArguments& args) {
  const std::string_view part = TextArgument(args, 0);
  const std::string_view text = self.text();
  if (part.empty())
    Fail("empty separator");
  rt.budget().Decode(text.size());
  const size_t at = kSide == Side::kLeft ? FindPart(text, part) : FindLastPart(text, part);
  const Value empty = rt.View({});
  if (at == kNotFound) {
    const Value whole[] = {kSide == Side::kLeft ? self : empty, empty,
                           kSide == Side::kLeft ? empty : self};
    return rt.Tuple(whole);
  }
  const Value parts[] = {rt.View(text.substr(0, at)), rt.View(text.substr(at, part.size())),
                         rt.View(text.substr(at + part.size()))};
  return rt.Tuple(parts);
}

// Splits at runs of white space.
std::vector<Value> SplitWords(Runtime& rt, std::string_view text, int64_t limit) {
  std::vector<Value> words;
  text = StripLeft(text);
  while (!text.empty()) {
    rt.budget().Step();
    size_t end = 0;
    for (size_t pos = 0; pos < text.size() && limit != 0; end = pos) {
      if (IsSpace(DecodeAt(text, pos)))
        break;
    }
    if (limit == 0)
      end = text.size();
    words.push_back(rt.View(text.substr(0, end)));
    text = StripLeft(text.substr(end));
    --limit;
  }
  // Beyond the limit the rest stays whole, as it ends.
  return words;
}

// The same from the end, for rsplit.
std::vector<Value> SplitWordsFromRight(Runtime& rt, std::string_view text, int64_t limit) {
  std::vector<Value> words;
  text = StripRight(text);
  while (!text.empty()) {
    rt.budget().Step();
    size_t start = limit == 0 ? 0 : text.size();
    while (start > 0) {
      const size_t previous = PreviousStart(text, start);
      size_t pos = previous;
      if (IsSpace(DecodeAt(text, pos)))
        break;
      start = previous;
    }
    words.push_back(rt.View(text.substr(start)));
    text = StripRight(text.substr(0, start));
    --limit;
  }
  std::reverse(words.begin(), words.end());
  return words;
}

// The pieces between the places.
std::vector<Value> SplitAt(Runtime& rt, std::string_view text, std::string_view part,
                           std::vector<size_t> places) {
  std::sort(places.begin(), places.end());
  std::vector<Value> pieces;
  size_t done = 0;
  for (const size_t place : places) {
    pieces.push_back(rt.View(text.substr(done, place - done)));
    done = place + part.size();
  }
  pieces.push_back(rt.View(text.substr(done)));
  return pieces;
}

// split and rsplit: at a separator, or at white space without one.
template <Side kSide>
Value Split(Runtime& rt, const Value& self, const BoundArguments& args) {
  const int64_t limit = IntegerArgument(args, 1, -1);
  const std::string_view text = self.text();
  rt.budget().Decode(text.size());
  if (!args.HasSome(0))
    return rt.List(kSide == Side::kLeft ? SplitWords(rt, text, limit)
                                        : SplitWordsFromRight(rt, text, limit));
  const std::string_view part = TextArgument(args, 0);
  if (part.empty())
    Fail("empty separator");
  std::vector<size_t> places = kSide == Side::kLeft ? FindParts(rt, text, part, limit)
                                                    : FindPartsFromRight(rt, text, part, limit);
  return rt.List(SplitAt(rt, text, part, std::move(places)));
}

constexpr Builtin kMethods[] = {
    {"count", "/ sub start end", 1, Count},
    {"endswith", "/ suffix start end", 1, Affixed<Side::kRight>},
    {"find", "/ sub start end", 1, Find<Side::kLeft>},
    {"index", "/ sub start end", 1, Index<Side::kLeft>},
    {"partition", "/ sep", 1, Partition<Side::kLeft>},
    {"removeprefix", "/ prefix", 1, RemoveAffix<Side::kLeft>},
    {"removesuffix", "/ suffix", 1, RemoveAffix<Side::kRight>},
    {"replace", "/ old new count", 2, Replace},
    {"rfind", "/ sub start end", 1, Find<Side::kRight>},
    {"rindex", "/ sub start end", 1, Index<Side::kRight>},
    {"rpartition", "/ sep", 1, Partition<Side::kRight>},
    {"rsplit", "sep maxsplit", 0, Split<Side::kRight>},
    {"split", "sep maxsplit", 0, Split<Side::kLeft>},
    {"startswith", "/ prefix start end", 1, Affixed<Side::kLeft>},
};

}  // namespace

std::span<const Builtin> StringSearchMethods() {
  return kMethods;
}

}  // namespace tenon::chat

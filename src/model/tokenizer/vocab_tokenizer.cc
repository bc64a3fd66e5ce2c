#include "model/tokenizer/vocab_tokenizer.h"

#include <algorithm>

namespace tenon {
namespace {

// Merging counts bytes in 32 bits; longer texts are encoded in parts of this size.
constexpr size_t kLongestPlain = size_t{1} << 30;

}  // namespace

std::vector<int32_t> VocabTokenizer::Encode(std::string_view text, SpecialText special,
                                            AddSpecial add) const {
  const TokenizerSpec& spec = vocabulary_.spec();
  const bool defaults = add == AddSpecial::kModelDefault;
  std::vector<int32_t> ids;
  if (defaults && spec.add_bos)
    ids.push_back(spec.bos_id);
  const SpecialMatcher& matcher = vocabulary_.Matcher(special);
  Place place = Place::kAfterSpecial;
  for (size_t at = 0; at < text.size();) {
    const SpecialMatcher::Match match = matcher.Find(text, at);
    while (at < match.begin) {
      const size_t length = std::min(match.begin - at, kLongestPlain);
      EncodePlain(text.substr(at, length), place, ids);
      place = Place::kAfterText;
      at += length;
    }
    if (match.length > 0) {
      ids.push_back(match.id);
      place = Place::kAfterSpecial;
      at += match.length;
    }
  }
  if (defaults && spec.add_eos)
    ids.push_back(spec.eos_id);
  return ids;
}

std::string VocabTokenizer::TokenBytes(int32_t id, SpecialText special) const {
  if (!vocabulary_.Contains(id))
    return {};
  if (vocabulary_.IsControl(id))
    return special == SpecialText::kParse ? vocabulary_.Text(id) : std::string();
  if (vocabulary_.Type(id) == TokenType::kUserDefined)
    return vocabulary_.Text(id);
  return PlainBytes(id);
}

std::string VocabTokenizer::BytesAfter(int32_t previous, int32_t id, SpecialText special) const {
  std::string bytes = TokenBytes(id, special);
  const bool starts = !vocabulary_.Contains(previous) || vocabulary_.IsSpecial(previous);
  if (AddsSpace() && starts && vocabulary_.Contains(id) && !vocabulary_.IsSpecial(id) &&
      bytes.starts_with(' '))
    bytes.erase(0, 1);
  return bytes;
}

std::string VocabTokenizer::Decode(const std::vector<int32_t>& ids, SpecialText special) const {
  std::string out;
  int32_t previous = -1;
  for (int32_t id : ids) {
    out += BytesAfter(previous, id, special);
    previous = id;
  }
  return out;
}

std::string_view VocabTokenizer::TokenText(int32_t id) const {
  return vocabulary_.Contains(id) ? std::string_view(vocabulary_.Text(id)) : std::string_view();
}

}  // namespace tenon

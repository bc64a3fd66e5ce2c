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
  EncodeText({text, special, {}}, ids);
  if (defaults && spec.add_eos)
    ids.push_back(spec.eos_id);
  return ids;
}

std::vector<int32_t> VocabTokenizer::EncodeRendered(std::string_view text,
                                                    std::span<const size_t> plain_offsets) const {
  std::vector<int32_t> ids;
  EncodeText({text, SpecialText::kParse, plain_offsets}, ids);
  return ids;
}

std::vector<size_t> VocabTokenizer::FindControlText(std::string_view text) const {
  const SpecialMatcher& matcher = vocabulary_.Matcher(SpecialText::kParse);
  std::vector<size_t> offsets;
  for (size_t at = 0; at < text.size();) {
    const SpecialMatcher::Match match = matcher.Find(text, at);
    if (match.length > 0 && vocabulary_.IsControl(match.id))
      offsets.push_back(match.begin);
    at = match.begin + 1;
  }
  return offsets;
}

SpecialMatcher::Match VocabTokenizer::NextSpecial(const Job& job, size_t from) const {
  const SpecialMatcher& matcher = vocabulary_.Matcher(job.special);
  SpecialMatcher::Match match = matcher.Find(job.text, from);
  while (match.length > 0 && std::ranges::binary_search(job.plain_offsets, match.begin)) {
    // Other tokens that are matched in plain text too may still start here or later.
    const SpecialMatcher::Match plain =
        vocabulary_.Matcher(SpecialText::kPlain).Find(job.text, match.begin);
    if (plain.length > 0 && plain.begin == match.begin)
      return plain;
    match = matcher.Find(job.text, match.begin + 1);
  }
  return match;
}

void VocabTokenizer::EncodeText(const Job& job, std::vector<int32_t>& ids) const {
  const std::string_view text = job.text;
  Place place = Place::kAfterSpecial;
  for (size_t at = 0; at < text.size();) {
    const SpecialMatcher::Match match = NextSpecial(job, at);
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

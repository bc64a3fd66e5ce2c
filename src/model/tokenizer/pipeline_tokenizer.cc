#include "model/tokenizer/pipeline_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/tokenizer/unicode_steps.h"
#include "model/tokenizer/utf8.h"
#include "model/tokenizer/word_cache.h"

namespace tenon {
namespace {

// What single_word tokens must not touch.
bool IsWordChar(const RuleMatcher::Char& c) {
  return (StepFlagsOf(c.code) & unicode_step::kTextWord) != 0;
}

// The start of the character that ends at `end`. REQUIRES: end > 0.
size_t CharBefore(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && end - at < 4 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80)
    --at;
  return at;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> PipelineTokenizer::Create(Vocabulary vocabulary) {
  const TokenizerSpec& spec = vocabulary.spec();
  const auto size = static_cast<size_t>(vocabulary.size());
  if (spec.pipeline == nullptr || spec.types.size() != size ||
      spec.pipeline->in_model.size() != size)
    return Corrupt("a pipeline that does not fit the tokens", "tokenizer.json");
  if (const auto* unigram = std::get_if<UnigramOptions>(&spec.pipeline->model);
      unigram != nullptr && unigram->scores.size() != size)
    return Corrupt("a score for each token expected", "tokenizer.json");
  return std::unique_ptr<Tokenizer>(new PipelineTokenizer(std::move(vocabulary)));
}

PipelineTokenizer::PipelineTokenizer(Vocabulary vocabulary)
    : vocabulary_(std::move(vocabulary)),
      normalizer_(pipeline().normalizers, classes_),
      splitter_(pipeline().pre_tokenizers, classes_),
      decoder_(pipeline().decoders),
      model_(TokenModel::Create(vocabulary_, pipeline())),
      added_index_(static_cast<size_t>(vocabulary_.size()), -1) {
  for (size_t i = 0; i < pipeline().added_tokens.size(); ++i) {
    const AddedToken& token = pipeline().added_tokens[i];
    const std::string& text = vocabulary_.Text(token.id);
    added_index_[static_cast<size_t>(token.id)] = static_cast<int32_t>(i);
    if (token.special)
      control_.Add(text, token.id);
    const bool raw = token.special || !token.normalized;
    added_texts_.push_back(raw ? text : normalizer_.Normalize(text));
    (raw ? raw_ : normalized_).Add(added_texts_.back(), token.id);
  }
}

std::string_view PipelineTokenizer::DecodedText(int32_t id) const {
  const int32_t index = added_index_[static_cast<size_t>(id)];
  return index < 0 ? std::string_view(vocabulary_.Text(id))
                   : std::string_view(added_texts_[static_cast<size_t>(index)]);
}

bool PipelineTokenizer::add_bos() const {
  return !pipeline().prefix.empty() && pipeline().prefix.front() == bos_id();
}

std::vector<int32_t> PipelineTokenizer::Encode(std::string_view text, SpecialText special,
                                               AddSpecial add) const {
  std::vector<int32_t> ids;
  if (add == AddSpecial::kModelDefault)
    ids = pipeline().prefix;
  EncodeText({text, special, {}}, ids);
  if (add == AddSpecial::kModelDefault)
    ids.insert(ids.end(), pipeline().suffix.begin(), pipeline().suffix.end());
  return ids;
}

std::vector<int32_t> PipelineTokenizer::EncodeRendered(
    std::string_view text, std::span<const size_t> plain_offsets) const {
  std::vector<int32_t> ids;
  EncodeText({text, SpecialText::kParse, plain_offsets}, ids);
  return ids;
}

std::vector<size_t> PipelineTokenizer::FindControlText(std::string_view text) const {
  std::vector<size_t> offsets;
  for (size_t at = 0; at < text.size();) {
    const SpecialMatcher::Match match = control_.Find(text, at);
    if (match.length > 0)
      offsets.push_back(match.begin);
    at = match.begin + 1;
  }
  return offsets;
}

// Whether no word character touches [begin, end).
bool PipelineTokenizer::StandsAlone(std::string_view text, size_t begin, size_t end) const {
  const RuleMatcher chars(classes_, text);
  if (begin > 0 && IsWordChar(chars.At(CharBefore(text, begin))))
    return false;
  return end == text.size() || !IsWordChar(chars.At(end));
}

// Widens the stretch over the white space that the token takes with it.
void PipelineTokenizer::TakeSpaces(const AddedToken& token, std::string_view text,
                                   Stretch& stretch) const {
  const RuleMatcher chars(classes_, text);
  const auto is_space = [&](size_t at) { return (chars.At(at).classes & char_class::kSpace) != 0; };
  while (token.left_strip && stretch.begin > 0 && is_space(CharBefore(text, stretch.begin)))
    stretch.begin = CharBefore(text, stretch.begin);
  while (token.right_strip && stretch.end < text.size() && is_space(stretch.end))
    stretch.end += chars.At(stretch.end).length;
}

// All of the text, in stretches: leftmost added tokens, the longest of those that start together.
std::vector<PipelineTokenizer::Stretch> PipelineTokenizer::FindAdded(const SpecialMatcher& matcher,
                                                                     const Job& job) const {
  std::vector<Stretch> stretches;
  size_t done = 0;  // what lies before is in `stretches`
  for (size_t at = 0; at < job.text.size();) {
    const SpecialMatcher::Match match = matcher.Find(job.text, at);
    if (match.length == 0)
      break;
    Stretch stretch{match.begin, match.begin + match.length, match.id};
    at = stretch.end;
    const AddedToken& token =
        pipeline().added_tokens[static_cast<size_t>(added_index_[static_cast<size_t>(match.id)])];
    // Spelled where it means nothing: the text is passed over, as in the reference.
    const bool plain =
        token.special && (job.special == SpecialText::kPlain ||
                          std::ranges::binary_search(job.plain_offsets, match.begin));
    if (plain || (token.single_word && !StandsAlone(job.text, stretch.begin, stretch.end)))
      continue;
    TakeSpaces(token, job.text, stretch);
    // An earlier token may have taken the spaces that this one is made of.
    if (stretch.end <= done)
      continue;
    stretch.begin = std::max(stretch.begin, done);
    if (stretch.begin > done)
      stretches.push_back({done, stretch.begin, -1});
    stretches.push_back(stretch);
    done = stretch.end;
  }
  if (done < job.text.size())
    stretches.push_back({done, job.text.size(), -1});
  return stretches;
}

void PipelineTokenizer::EncodeText(const Job& job, std::vector<int32_t>& ids) const {
  for (const Stretch& stretch : FindAdded(raw_, job)) {
    if (stretch.id >= 0) {
      ids.push_back(stretch.id);
      continue;
    }
    EncodeBetween(job.text.substr(stretch.begin, stretch.end - stretch.begin),
                  stretch.begin == 0 ? PieceSplitter::Place::kStart : PieceSplitter::Place::kLater,
                  ids);
  }
}

// Text between added tokens that are looked for as it stands.
void PipelineTokenizer::EncodeBetween(std::string_view text, PieceSplitter::Place place,
                                      std::vector<int32_t>& ids) const {
  std::string normal;
  if (!normalizer_.empty()) {
    normal = normalizer_.Normalize(text);
    text = normal;
  }
  for (const Stretch& stretch : FindAdded(normalized_, {text, SpecialText::kParse, {}})) {
    if (stretch.id >= 0) {
      ids.push_back(stretch.id);
      continue;
    }
    EncodeNormalized(text.substr(stretch.begin, stretch.end - stretch.begin),
                     stretch.begin == 0 ? place : PieceSplitter::Place::kLater, ids);
  }
}

void PipelineTokenizer::EncodeNormalized(std::string_view text, PieceSplitter::Place place,
                                         std::vector<int32_t>& ids) const {
  const TextPieces pieces = splitter_.Split(text, place);
  WordCache cache(pieces.text.size());
  for (size_t i = 0; i < pieces.ends.size(); ++i)
    cache.Append(pieces.Piece(i), ids, [&](std::string_view word) { model_->Encode(word, ids); });
}

std::string PipelineTokenizer::Bytes(const TokenDecoder::Token& token, int32_t id,
                                     SpecialText special) const {
  if (vocabulary_.IsControl(id))
    return special == SpecialText::kParse ? vocabulary_.Text(id) : std::string();
  return decoder_.Bytes(token);
}

std::string PipelineTokenizer::TokenBytes(int32_t id, SpecialText special) const {
  if (!vocabulary_.Contains(id))
    return {};
  return Bytes({DecodedText(id), false, {}}, id, special);
}

std::string PipelineTokenizer::BytesAfter(int32_t previous, int32_t id, SpecialText special) const {
  if (!vocabulary_.Contains(id))
    return {};
  const bool first = !vocabulary_.Contains(previous);
  return Bytes({DecodedText(id), first, first ? std::string_view() : DecodedText(previous)}, id,
               special);
}

// The first token is the first that is not left out.
std::string PipelineTokenizer::Decode(const std::vector<int32_t>& ids, SpecialText special) const {
  std::string out;
  int32_t previous = -1;
  for (const int32_t id : ids) {
    if (!vocabulary_.Contains(id) || (vocabulary_.IsControl(id) && special == SpecialText::kPlain))
      continue;
    out += BytesAfter(previous, id, special);
    previous = id;
  }
  return out;
}

std::string_view PipelineTokenizer::TokenText(int32_t id) const {
  return vocabulary_.Contains(id) ? std::string_view(vocabulary_.Text(id)) : std::string_view();
}

}  // namespace tenon

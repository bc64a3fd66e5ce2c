#include "model/tokenizer/sentence_piece_tokenizer.h"

#include <fmt/core.h>

#include <bit>
#include <cmath>

#include "model/tokenizer/named_byte.h"
#include "model/tokenizer/utf8.h"
#include "model/tokenizer/word_cache.h"

namespace tenon {
namespace {

constexpr std::string_view kSpace = "\u2581";
constexpr char32_t kSpaceCode = 0x2581;

// Order of scores as that of unsigned numbers, the highest score first. IEEE floats compare as
// their bits do, once the negative ones are turned around. REQUIRES: score is not NaN.
uint32_t PriorityOf(float score) {
  const uint32_t bits = std::bit_cast<uint32_t>(score == 0.0f ? 0.0f : score);
  const uint32_t rising = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
  return ~rising;
}

std::string ReplaceAll(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t found = std::min(text.find(from, at), text.size());
    out.append(text, at, found - at);
    if (found < text.size())
      out += to;
    at = found + from.size();
  }
  return out;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> SentencePieceTokenizer::Create(Vocabulary vocabulary) {
  const std::vector<float>& scores = vocabulary.spec().scores;
  if (scores.empty())
    return Corrupt("is missing, but a SentencePiece vocabulary needs it", "tokenizer.ggml.scores");
  for (size_t id = 0; id < scores.size(); ++id) {
    if (std::isnan(scores[id]))
      return Corrupt(fmt::format("the score of token {} is not a number", id),
                     "tokenizer.ggml.scores");
  }
  return std::unique_ptr<Tokenizer>(new SentencePieceTokenizer(std::move(vocabulary)));
}

SentencePieceTokenizer::SentencePieceTokenizer(Vocabulary vocabulary_in)
    : VocabTokenizer(std::move(vocabulary_in)), pieces_(vocabulary().spec().tokens) {
  byte_ids_.fill(-1);
  byte_of_.assign(static_cast<size_t>(vocabulary().size()), -1);
  const bool typed = !vocabulary().spec().types.empty();
  for (int32_t id = 0; id < vocabulary().size(); ++id) {
    const int byte = NamedByte(vocabulary().Text(id));
    const bool is_byte = typed ? vocabulary().Type(id) == TokenType::kByte : byte >= 0;
    if (is_byte && byte >= 0) {
      byte_of_[static_cast<size_t>(id)] = static_cast<int16_t>(byte);
      byte_ids_[static_cast<size_t>(byte)] = id;
    }
    if (!is_byte && !vocabulary().IsControl(id))
      AddPiece(id);
  }
}

void SentencePieceTokenizer::AddPiece(int32_t id) {
  const std::string& text = vocabulary().Text(id);
  if (!pieces_.Add(id) || text.find(kSpace, 1) == std::string::npos)
    return;
  char32_t before = 0;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = DecodeUtf8(text, at);
    if (c.code == kSpaceCode && at > 0)
      before_space_.insert(before);
    before = c.code;
    at += c.length;
  }
}

void SentencePieceTokenizer::EncodePlain(std::string_view text, Place place,
                                         std::vector<int32_t>& ids) const {
  std::string escaped = ReplaceAll(text, " ", kSpace);
  if (AddsSpace() && place == Place::kAfterSpecial)
    escaped.insert(0, kSpace);
  PairMerger merger;
  const std::string_view all = escaped;
  WordCache cache(all.size());
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = WordEnd(all, begin);
    cache.Append(all.substr(begin, end - begin), ids,
                 [&](std::string_view word) { EncodeWord(word, merger, ids); });
    begin = end;
  }
}

// The next place after `begin` that no merge can cross: before a space that follows a character
// which no piece has before a space. Splitting there keeps the heaps of merges small.
size_t SentencePieceTokenizer::WordEnd(std::string_view escaped, size_t begin) const {
  char32_t before = kSpaceCode;
  for (size_t at = begin; at < escaped.size();) {
    const Utf8Char c = DecodeUtf8(escaped, at);
    if (c.code == kSpaceCode && at > begin && !before_space_.contains(before))
      return at;
    before = c.code;
    at += c.length;
  }
  return escaped.size();
}

void SentencePieceTokenizer::EncodeWord(std::string_view word, PairMerger& merger,
                                        std::vector<int32_t>& ids) const {
  merger.Clear();
  for (size_t at = 0; at < word.size();) {
    const uint32_t length = DecodeUtf8(word, at).length;
    merger.Append(static_cast<uint32_t>(at), length, pieces_.Find(word.substr(at, length)));
    at += length;
  }
  const std::vector<float>& scores = vocabulary().spec().scores;
  merger.Merge(
      [&](const MergeSymbol& left, const MergeSymbol& right) -> std::optional<MergeResult> {
        const int32_t id = pieces_.Find(word.substr(left.begin, left.length + right.length));
        if (id < 0)
          return std::nullopt;
        return MergeResult{PriorityOf(scores[static_cast<size_t>(id)]), id};
      });
  for (const MergeSymbol& symbol : merger.symbols()) {
    if (symbol.length == 0)
      continue;
    if (symbol.id >= 0)
      ids.push_back(symbol.id);
    else
      EncodeBytes(word.substr(symbol.begin, symbol.length), ids);
  }
}

// One character without a piece: its bytes, or the unknown token when a byte is missing too.
void SentencePieceTokenizer::EncodeBytes(std::string_view bytes, std::vector<int32_t>& ids) const {
  const size_t before = ids.size();
  for (char letter : bytes) {
    const int32_t id = byte_ids_[static_cast<uint8_t>(letter)];
    if (id >= 0) {
      ids.push_back(id);
      continue;
    }
    ids.resize(before);
    if (vocabulary().spec().unknown_id >= 0)
      ids.push_back(vocabulary().spec().unknown_id);
    return;
  }
}

std::string SentencePieceTokenizer::PlainBytes(int32_t id) const {
  const int16_t byte = byte_of_[static_cast<size_t>(id)];
  if (byte >= 0)
    return std::string(1, static_cast<char>(byte));
  return ReplaceAll(vocabulary().Text(id), kSpace, " ");
}

}  // namespace tenon

#include "model/tokenizer/byte_bpe_tokenizer.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>

#include "model/tokenizer/piece_table.h"
#include "model/tokenizer/word_cache.h"

namespace tenon {
namespace {

// One entry of the merges, taken apart.
struct MergeParts {
  std::string_view left;
  std::string_view right;
};

Error BadMerge(size_t rank, std::string_view merge, std::string_view wrong) {
  return Corrupt(fmt::format("\"{}\" {}", merge, wrong),
                 fmt::format("tokenizer.ggml.merges[{}]", rank));
}

Result<MergeParts> SplitMerge(size_t rank, std::string_view merge) {
  // The left part has a byte at least, which may itself be a space.
  const size_t space = merge.find(' ', 1);
  if (space == std::string_view::npos || space + 1 == merge.size())
    return BadMerge(rank, merge, "is not two tokens with a space between");
  return MergeParts{merge.substr(0, space), merge.substr(space + 1)};
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> ByteBpeTokenizer::Create(Vocabulary vocabulary) {
  TENON_ASSIGN_OR_RETURN(SplitFamily family, FindSplitFamily(vocabulary.spec().pre));
  if (vocabulary.spec().merges.empty())
    return Corrupt("is missing, but byte-level BPE needs it", "tokenizer.ggml.merges");
  std::unique_ptr<ByteBpeTokenizer> tokenizer(
      new ByteBpeTokenizer(std::move(vocabulary), std::move(family)));
  TENON_RETURN_IF_ERROR(tokenizer->ReadMerges());
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

ByteBpeTokenizer::ByteBpeTokenizer(Vocabulary vocabulary_in, SplitFamily family)
    : VocabTokenizer(std::move(vocabulary_in)),
      pre_tokenizer_(std::move(family.steps)),
      whole_words_(family.whole_words),
      nfc_(family.normalize ? std::make_unique<Nfc>() : nullptr),
      pairs_(vocabulary().spec().merges.size()) {
  byte_ids_.fill(-1);
  // The letter of a byte has one or two bytes itself; of longer tokens only words are of interest.
  constexpr size_t kLongestLetter = 2;
  for (int32_t id = 0; id < vocabulary().size(); ++id) {
    if (vocabulary().IsSpecial(id))
      continue;
    if (!whole_words_ && vocabulary().Text(id).size() > kLongestLetter)
      continue;
    const std::string bytes = alphabet_.Bytes(vocabulary().Text(id));
    if (bytes.size() == 1 && byte_ids_[static_cast<uint8_t>(bytes[0])] < 0)
      byte_ids_[static_cast<uint8_t>(bytes[0])] = id;
    if (whole_words_)
      words_.try_emplace(bytes, id);
  }
}

// Reads merges in stretches, whose parts are looked up together. Vocabularies number the merged
// tokens in the order of their merges, so the next id is tried before the table is asked; only
// where every text stands once in the vocabulary, because the table knows the first.
class ByteBpeTokenizer::MergeReader {
 public:
  explicit MergeReader(ByteBpeTokenizer& tokenizer)
      : tokenizer_(tokenizer),
        vocabulary_(tokenizer.vocabulary()),
        ids_(vocabulary_.spec().tokens) {
    for (int32_t id = 0; id < vocabulary_.size(); ++id)
      unique_ = ids_.Add(id) && unique_;
  }

  // Reads merges [rank, rank + count). REQUIRES: 2 * count <= PieceTable::kManyTexts.
  Status Read(size_t rank, size_t count) {
    const std::vector<std::string>& merges = vocabulary_.spec().merges;
    std::array<std::string_view, PieceTable::kManyTexts> parts;
    std::array<int32_t, PieceTable::kManyTexts> ids;
    for (size_t i = 0; i < count; ++i) {
      TENON_ASSIGN_OR_RETURN(const MergeParts split, SplitMerge(rank + i, merges[rank + i]));
      parts[2 * i] = split.left;
      parts[2 * i + 1] = split.right;
    }
    ids_.FindMany(std::span(parts).first(2 * count), std::span(ids).first(2 * count));
    for (size_t i = 0; i < count; ++i)
      tokenizer_.pairs_.Prefetch(ids[2 * i], ids[2 * i + 1]);
    for (size_t i = 0; i < count; ++i) {
      const int32_t merged = Merged(parts[2 * i], parts[2 * i + 1]);
      if (ids[2 * i] < 0 || ids[2 * i + 1] < 0 || merged < 0)
        return BadMerge(rank + i, merges[rank + i], "has parts or a result that are not tokens");
      // A merge that makes a special token is left out: plain text never becomes one.
      if (!vocabulary_.IsSpecial(merged))
        tokenizer_.pairs_.Add(ids[2 * i], ids[2 * i + 1],
                              {static_cast<uint32_t>(rank + i), merged});
    }
    return {};
  }

 private:
  int32_t Merged(std::string_view left, std::string_view right) {
    both_.assign(left).append(right);
    const int32_t next = last_ + 1;
    last_ = unique_ && vocabulary_.Contains(next) && both_ == vocabulary_.Text(next)
                ? next
                : ids_.Find(both_);
    return last_;
  }

  ByteBpeTokenizer& tokenizer_;
  const Vocabulary& vocabulary_;
  PieceTable ids_;
  bool unique_ = true;
  int32_t last_ = -1;  // id that the merge before made
  std::string both_;
};

Status ByteBpeTokenizer::ReadMerges() {
  MergeReader reader(*this);
  const size_t merges = vocabulary().spec().merges.size();
  constexpr size_t kStretch = PieceTable::kManyTexts / 2;
  for (size_t rank = 0; rank < merges; rank += kStretch)
    TENON_RETURN_IF_ERROR(reader.Read(rank, std::min(kStretch, merges - rank)));
  return {};
}

void ByteBpeTokenizer::EncodePlain(std::string_view text, Place, std::vector<int32_t>& ids) const {
  std::string normal;
  if (nfc_ != nullptr) {
    normal = nfc_->Normalize(text);
    text = normal;
  }
  PairMerger merger;
  WordCache cache(text.size());
  for (std::string_view piece : pre_tokenizer_.Split(text))
    cache.Append(piece, ids, [&](std::string_view word) { EncodeWord(word, merger, ids); });
}

// A byte that the vocabulary lacks gives no token, as in the `tokenizers` package.
void ByteBpeTokenizer::EncodeWord(std::string_view word, PairMerger& merger,
                                  std::vector<int32_t>& ids) const {
  if (whole_words_) {
    if (auto found = words_.find(std::string(word)); found != words_.end()) {
      ids.push_back(found->second);
      return;
    }
  }
  merger.Clear();
  for (size_t i = 0; i < word.size(); ++i) {
    if (const int32_t id = byte_ids_[static_cast<uint8_t>(word[i])]; id >= 0)
      merger.Append(static_cast<uint32_t>(i), 1, id);
  }
  merger.Merge([this](const MergeSymbol& left, const MergeSymbol& right) {
    return pairs_.Find(left.id, right.id);
  });
  for (const MergeSymbol& symbol : merger.symbols()) {
    if (symbol.length != 0)
      ids.push_back(symbol.id);
  }
}

}  // namespace tenon

#include "model/tokenizer/byte_bpe_tokenizer.h"

#include <fmt/core.h>

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

// A merge that makes a special token is left out: plain text never becomes one. Vocabularies number
// the merged tokens in the order of their merges, so the next id is tried before the table is
// asked; only texts that stand once in the vocabulary count there, because the table knows the
// first.
Status ByteBpeTokenizer::ReadMerges() {
  const std::vector<std::string>& tokens = vocabulary().spec().tokens;
  PieceTable ids(tokens);
  bool unique = true;
  for (int32_t id = 0; id < vocabulary().size(); ++id)
    unique = ids.Add(id) && unique;
  const std::vector<std::string>& merges = vocabulary().spec().merges;
  std::string both;
  int32_t merged = -1;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    TENON_ASSIGN_OR_RETURN(const MergeParts parts, SplitMerge(rank, merges[rank]));
    const int32_t left = ids.Find(parts.left);
    const int32_t right = ids.Find(parts.right);
    both.assign(parts.left).append(parts.right);
    const bool next =
        unique && vocabulary().Contains(merged + 1) && both == vocabulary().Text(merged + 1);
    merged = next ? merged + 1 : ids.Find(both);
    if (left < 0 || right < 0 || merged < 0)
      return BadMerge(rank, merges[rank], "has parts or a result that are not tokens");
    if (!vocabulary().IsSpecial(merged))
      pairs_.Add(left, right, {static_cast<uint32_t>(rank), merged});
  }
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

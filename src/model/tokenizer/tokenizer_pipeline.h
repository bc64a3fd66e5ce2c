// TokenizerPipeline: what a tokenizer.json says, in values: normalizers, pre-tokenizers, the
// model's options, decoders, added tokens, and the tokens around a text. PipelineTokenizer runs it.
//
// The names are those of the file's "type" fields. Threading: values; const ones from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "model/tokenizer/nfc.h"
#include "model/tokenizer/pattern.h"

namespace tenon {

// SentencePiece's table of replacements (Precompiled): a double-array trie over bytes and the texts
// that its values point into.
struct CharacterMap {
  std::vector<uint32_t> units;  // of the trie (Darts-clone)
  std::string texts;            // each ends with a zero byte
};

namespace normalizer {
struct Form {
  NormalForm form = NormalForm::kNfc;
};
struct Lowercase {};
struct StripAccents {};
struct Strip {
  bool left = true;
  bool right = true;
};
struct Prepend {
  std::string text;
};
struct Replace {
  Pattern pattern;
  std::string content;
};
struct Bert {
  bool clean_text = true;
  bool chinese_characters = true;
  bool strip_accents = true;
  bool lowercase = true;
};
struct ByteLevel {};
struct Nmt {};
struct Precompiled {
  CharacterMap map;
};
}  // namespace normalizer
using Normalizer =
    std::variant<normalizer::Form, normalizer::Lowercase, normalizer::StripAccents,
                 normalizer::Strip, normalizer::Prepend, normalizer::Replace, normalizer::Bert,
                 normalizer::ByteLevel, normalizer::Nmt, normalizer::Precompiled>;

// What becomes of the matches of a split.
enum class SplitBehavior : uint8_t {
  kRemoved,
  kIsolated,
  kMergedWithPrevious,
  kMergedWithNext,
  kContiguous,
};

enum class PrependScheme : uint8_t { kNever, kFirst, kAlways };

namespace pre_tokenizer {
struct ByteLevel {
  bool add_prefix_space = true;
  bool use_regex = true;
};
struct Split {
  Pattern pattern;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  // the matches are what lies between the pattern's
};
// Single characters of these classes of UnicodeClasses.
struct SplitClasses {
  uint16_t classes = 0;
  SplitBehavior behavior = SplitBehavior::kIsolated;
};
struct Metaspace {
  std::string replacement = "\u2581";
  PrependScheme scheme = PrependScheme::kAlways;
  bool split = true;
};
}  // namespace pre_tokenizer
using PreTokenizerStep = std::variant<pre_tokenizer::ByteLevel, pre_tokenizer::Split,
                                      pre_tokenizer::SplitClasses, pre_tokenizer::Metaspace>;

// Models. Tokens and ids are TokenizerSpec::tokens.
struct BpeOptions {
  struct Merge {
    int32_t left = -1;
    int32_t right = -1;
    int32_t merged = -1;
  };
  std::vector<Merge> merges;  // best first
  int32_t unknown_id = -1;    // -1: text without tokens vanishes
  std::string continuing_subword_prefix;
  std::string end_of_word_suffix;
  bool fuse_unknown = false;
  bool byte_fallback = false;
  bool ignore_merges = false;  // a word that is a token is taken whole
};
struct UnigramOptions {
  std::vector<double> scores;  // log probabilities, by id
  int32_t unknown_id = -1;
  bool byte_fallback = false;
};
struct WordPieceOptions {
  int32_t unknown_id = -1;
  std::string continuing_subword_prefix = "##";
  int64_t longest_word = 100;  // characters; longer ones are unknown
};
struct WordLevelOptions {
  int32_t unknown_id = -1;
};
using ModelOptions = std::variant<BpeOptions, UnigramOptions, WordPieceOptions, WordLevelOptions>;

namespace decoder {
struct ByteLevel {};
struct ByteFallback {};
struct Replace {
  std::string from;
  std::string to;
};
// Removes up to `start` and `stop` characters `content` at the ends of the whole text.
struct Strip {
  std::string content;
  int64_t start = 0;
  int64_t stop = 0;
};
struct Metaspace {
  std::string replacement;
  bool strips_first = true;
};
struct WordPiece {
  std::string prefix;
  bool cleanup = true;
};
struct Bpe {
  std::string suffix;
};
struct Fuse {};
// Without a decoder, tokens stand side by side with spaces between.
struct JoinWithSpaces {};
}  // namespace decoder
using DecoderStep = std::variant<decoder::ByteLevel, decoder::ByteFallback, decoder::Replace,
                                 decoder::Strip, decoder::Metaspace, decoder::WordPiece,
                                 decoder::Bpe, decoder::Fuse, decoder::JoinWithSpaces>;

struct AddedToken {
  int32_t id = -1;
  bool special = false;
  bool normalized = false;   // looked for in the normalized text, else before
  bool single_word = false;  // only where no word character touches it
  bool left_strip = false;   // takes the white space before it
  bool right_strip = false;
};

struct TokenizerPipeline {
  std::vector<Normalizer> normalizers;
  std::vector<PreTokenizerStep> pre_tokenizers;
  ModelOptions model;
  std::vector<bool> in_model;  // by id: whether the model itself knows the token
  std::vector<DecoderStep> decoders;
  std::vector<AddedToken> added_tokens;
  std::vector<int32_t> prefix;  // around a text, from the post-processor
  std::vector<int32_t> suffix;
};

}  // namespace tenon

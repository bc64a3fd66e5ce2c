// tokenizer.json: what is refused, and properties that the comparison with the `tokenizers` package
// (scripts/check_hf_tokenizers.py) does not cover.
#include "model/hf/tokenizer_json.h"

#include "hf/hf_test_support.h"
#include "model/tokenizer/pattern.h"
#include "model/tokenizer/tokenizer.h"

namespace tenon::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ids = std::vector<int32_t>;

Result<std::unique_ptr<Tokenizer>> Create(const json& tokenizer) {
  TENON_ASSIGN_OR_RETURN(const JsonDocument document,
                         JsonDocument::Parse(tokenizer.dump(), "tokenizer.json"));
  TENON_ASSIGN_OR_RETURN(TokenizerSpec spec, ReadTokenizerJson(document.root(), 0));
  return Tokenizer::Create(std::move(spec));
}

std::unique_ptr<Tokenizer> Make(const json& tokenizer) {
  auto made = Create(tokenizer);
  EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().ToString());
  return made.ok() ? *std::move(made) : nullptr;
}

std::string ErrorOf(const json& tokenizer) {
  const auto made = Create(tokenizer);
  return made.ok() ? std::string() : made.error().ToString();
}

// `small` with its field at a JSON pointer changed.
json Changed(const char* pointer, const json& value) {
  json tokenizer = SmallTokenizer();
  tokenizer[json::json_pointer(pointer)] = value;
  return tokenizer;
}

struct BadTokenizer {
  const char* pointer;
  json value;
  const char* expected;
};

TEST(TokenizerJson, UnknownAndWrongThingsAreNamed) {
  const BadTokenizer cases[] = {
      {"/model", nullptr, "model: missing"},
      {"/model/type", "Neural", "model: the model type 'Neural'"},
      {"/model/vocab", json::object(), "model.vocab: 0 tokens"},
      {"/model/vocab", {{"a", -1}}, "model.vocab.a"},
      {"/model/vocab", {{"a", 0}, {"b", 0}}, "have the same id"},
      {"/model/vocab", {{"a", 1000000000}}, "the id 1000000000 found among 1 tokens"},
      {"/model/merges", {"a"}, "model.merges[0]: two tokens"},
      {"/model/merges", {"a b c"}, "model.merges[0]"},
      {"/model/merges", {"a x"}, "not in the vocabulary"},
      {"/model/merges", {"b c"}, "not in the vocabulary"},
      {"/model/dropout", 0.1, "model.dropout"},
      {"/model/unk_token", "x", "model.unk_token: 'x'"},
      {"/added_tokens/0/id", 100000, "added_tokens[0].id"},
      {"/added_tokens/0/id", 0, "but the model has 'a' at this id"},
      {"/added_tokens/0/content", "", "added_tokens[0].content"},
      {"/normalizer", {{"type", "Magic"}}, "normalizer.type: the type 'Magic'"},
      {"/normalizer",
       {{"type", "Sequence"}, {"normalizers", {{{"type", "X"}}}}},
       "normalizer.normalizers[0].type: the type 'X'"},
      {"/normalizer",
       {{"type", "Replace"}, {"pattern", {{"Regex", "a*?"}}}, {"content", ""}},
       "normalizer.pattern.Regex"},
      {"/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "%"}}, "base64"},
      {"/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "//////8="}}, "trie"},
      {"/pre_tokenizer", {{"type", "UnicodeScripts"}}, "pre_tokenizer.type: the type 'UnicodeScr"},
      {"/pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", "(a"}}}}, "without its ')'"},
      {"/pre_tokenizer",
       {{"type", "Split"}, {"pattern", {{"String", "a"}}}, {"behavior", "Sometimes"}},
       "pre_tokenizer.behavior"},
      {"/pre_tokenizer",
       {{"type", "Metaspace"}, {"prepend_scheme", "last"}},
       "pre_tokenizer.prepend_scheme"},
      {"/decoder", {{"type", "CTC"}}, "decoder.type: the type 'CTC'"},
      {"/decoder", {{"type", "Strip"}, {"content", "a"}, {"start", 1}}, "decoder: Strip"},
      {"/post_processor", {{"type", "X"}}, "post_processor.type: the type 'X'"},
      {"/post_processor",
       {{"type", "TemplateProcessing"}, {"single", {{{"SpecialToken", {{"id", "q"}}}}}}},
       "special_tokens"},
      {"/post_processor",
       {{"type", "BertProcessing"}, {"sep", {"a", 0}}, {"cls", {"b", 99}}},
       "the id 99 is outside"},
  };
  for (const BadTokenizer& bad : cases) {
    const std::string error = ErrorOf(Changed(bad.pointer, bad.value));
    EXPECT_THAT(error, HasSubstr(bad.expected)) << bad.pointer << " " << bad.value.dump();
    EXPECT_THAT(error, HasSubstr("tokenizer.json"));
  }
}

TEST(TokenizerJson, PlainTextNeverBecomesAControlToken) {
  // A merge would make "<s>", and ignore_merges would take it whole.
  json small = SmallTokenizer();
  small["model"]["vocab"] = {{"<", 0}, {"s", 1}, {">", 2}, {"<s", 3}, {"<s>", 4}};
  small["model"]["merges"] = {"< s", "<s >"};
  small["model"]["ignore_merges"] = true;
  small["added_tokens"] = {{{"id", 4}, {"content", "<s>"}, {"special", true}}};
  const auto tokenizer = Make(small);
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->Encode("<s>", SpecialText::kPlain, AddSpecial::kNone), (Ids{3, 2}));
  EXPECT_EQ(tokenizer->Encode("<s>", SpecialText::kParse, AddSpecial::kNone), (Ids{4}));
  const std::vector<size_t> plain = {3};
  EXPECT_EQ(tokenizer->EncodeRendered("<s><s>", plain), (Ids{4, 3, 2}));
  EXPECT_THAT(tokenizer->FindControlText("a<s><s>"), ElementsAre(1, 4));
}

TEST(TokenizerJson, NoMergesAtAll) {
  const auto tokenizer = Make(Changed("/model/merges", json::array()));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->Encode("abab", SpecialText::kPlain, AddSpecial::kNone), (Ids{0, 1, 0, 1}));
}

TEST(TokenizerJson, MergesAsPairsMayHoldSpaces) {
  json small = SmallTokenizer();
  small["model"]["vocab"] = {{"a", 0}, {" ", 1}, {"a ", 2}, {"a a", 3}};
  small["model"]["merges"] = json::array({json::array({"a", " "}), json::array({"a ", "a"})});
  small["added_tokens"] = json::array();
  const auto tokenizer = Make(small);
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->Encode("a aa a", SpecialText::kPlain, AddSpecial::kNone), (Ids{3, 3}));
}

TEST(TokenizerJson, AnyBytesGiveValidIds) {
  json small = SmallTokenizer();
  small["normalizer"] = {{"type", "Sequence"},
                         {"normalizers", {{{"type", "NFKC"}}, {{"type", "BertNormalizer"}}}}};
  small["pre_tokenizer"] = {{"type", "Sequence"},
                            {"pretokenizers",
                             {{{"type", "Split"}, {"pattern", {{"Regex", "\\w+|[^\\w\\s]+|\\s"}}}},
                              {{"type", "ByteLevel"}}}}};
  const auto tokenizer = Make(small);
  ASSERT_NE(tokenizer, nullptr);
  uint32_t state = 7;
  for (int round = 0; round < 200; ++round) {
    std::string text;
    for (int i = 0; i < round; ++i)
      text += static_cast<char>((state = state * 1664525U + 1013904223U) >> 24);
    for (const int32_t id : tokenizer->Encode(text, SpecialText::kParse, AddSpecial::kNone))
      ASSERT_TRUE(id >= 0 && id < tokenizer->vocab_size());
  }
}

TEST(TokenizerJson, StreamedTextIsTheWhole) {
  json small = SmallTokenizer();
  small["model"]["vocab"] = {{"\u2581", 0}, {"a", 1},      {"\u2581a", 2},
                             {"<0xC3>", 3}, {"<0xA9>", 4}, {"<0x20>", 5}};
  small["model"]["merges"] = {"\u2581 a"};
  small["added_tokens"] = json::array();
  small["decoder"] = {
      {"type", "Sequence"},
      {"decoders",
       {{{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}},
        {{"type", "ByteFallback"}},
        {{"type", "Fuse"}},
        {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}};
  const auto tokenizer = Make(small);
  ASSERT_NE(tokenizer, nullptr);
  const Ids ids = {2, 3, 4, 2, 0, 5};
  EXPECT_EQ(tokenizer->Decode(ids, SpecialText::kPlain), "a\u00E9 a  ");
  StreamingDetokenizer stream(*tokenizer);
  std::string streamed;
  for (const int32_t id : ids)
    streamed += stream.Push(id);
  EXPECT_EQ(streamed + stream.Flush(), "a\u00E9 a  ");
}

// -- Regular expressions -------------------------------------------------------------------------

std::vector<std::string> Matches(const char* regex, std::string_view text) {
  const UnicodeClasses classes;
  const auto pattern = Pattern::Regex(regex);
  EXPECT_TRUE(pattern.ok()) << regex << (pattern.ok() ? "" : pattern.error().ToString());
  std::vector<std::string> found;
  for (size_t at = 0; pattern.ok() && at < text.size();) {
    const Pattern::Match match = pattern->Find(classes, text, at);
    if (match.end > match.begin)
      found.emplace_back(text.substr(match.begin, match.end - match.begin));
    at = match.end;
  }
  return found;
}

TEST(Pattern, MatchesAsABacktrackingEngineDoes) {
  EXPECT_THAT(Matches("a|ab", "abab"), ElementsAre("a", "a"));
  EXPECT_THAT(Matches("ab|a", "abaa"), ElementsAre("ab", "a", "a"));
  EXPECT_THAT(Matches("(a|ab)(c|bcd)", "abcd"), ElementsAre("abcd"));
  EXPECT_THAT(Matches("x{2,3}", "xxxxxxx"), ElementsAre("xxx", "xxx"));
  EXPECT_THAT(Matches("x{2}", "xxxxx"), ElementsAre("xx", "xx"));
  EXPECT_THAT(Matches("(?:ab){1,2}c", "ababcabc"), ElementsAre("ababc", "abc"));
  EXPECT_THAT(Matches("\\s+(?!\\S)|\\s", "a   b "), ElementsAre("  ", " ", " "));
  EXPECT_THAT(Matches("(?i:k|s)", "kK\u212A\u017Fx"), ElementsAre("k", "K", "\u212A", "\u017F"));
  EXPECT_THAT(Matches("[a-c&&[^b]]+", "abcab"), ElementsAre("a", "ca"));
  EXPECT_THAT(Matches("[^a-c\\s]", "a b\nd"), ElementsAre("d"));
  EXPECT_THAT(Matches("\\p{Han}+", "x漢字々y"), ElementsAre("漢字々"));
  EXPECT_THAT(Matches("^a|b$", "ab\nab"), ElementsAre("a", "b", "a", "b"));
  EXPECT_THAT(Matches("\\x{61}\\u0062", "ab"), ElementsAre("ab"));
  EXPECT_THAT(Matches("[]a]+", "a]b"), ElementsAre("a]"));
  EXPECT_THAT(Matches("(a*)*b", std::string(1000, 'a')), ElementsAre());
}

TEST(Pattern, WhatCannotBeReadIsNamed) {
  for (const auto& [regex, expected] : std::vector<std::pair<const char*, const char*>>{
           {"a*?", "lazy or possessive"},
           {"a++", "lazy or possessive"},
           {"(?<=a)b", "the group"},
           {"(?>a)", "the group"},
           {"\\b", "the escape '\\b'"},
           {"(a)\\1", "the escape '\\1'"},
           {"\\p{Greek}", "the property 'Greek'"},
           {"[[:alpha:]]", "POSIX"},
           {"(?=a*)", "unbounded repetition in a lookahead"},
           {"a{1,100000}", "out of range"},
           {"((((a{1,900}){1,900}){1,900}))", "too many parts"},
           {"*a", "repetition of nothing"},
           {"a)", "without '('"},
           {"[a", "without its ']'"},
           {"[b-a]", "ends before it starts"},
           {"\\", "lone backslash"}}) {
    const auto pattern = Pattern::Regex(regex);
    ASSERT_FALSE(pattern.ok()) << regex;
    EXPECT_THAT(pattern.error().message, HasSubstr(expected)) << regex;
  }
  EXPECT_FALSE(Pattern::Regex(std::string(100, '(')).ok());
  EXPECT_FALSE(Pattern::Regex(std::string(100, '[')).ok());
}

}  // namespace
}  // namespace tenon::testing

// Grammars, regular expressions and schemas: what they allow and refuse, and masks against the
// same question asked token by token.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "constrain/small_vocabulary.h"
#include "engine/constrain/json_schema.h"
#include "engine/constrain/regex.h"

namespace tenon {
namespace {

const SmallTrie& Vocabulary() {
  static const SmallTrie vocabulary;
  return vocabulary;
}

Result<std::unique_ptr<Constraint>> FromSchema(const std::string& schema) {
  Grammar grammar;
  JsonGrammar json(grammar);
  TENON_ASSIGN_OR_RETURN(const Grammar::Term root,
                         CompileJsonSchema(json, nlohmann::ordered_json::parse(schema)));
  return Constraint::Create(grammar, root, Vocabulary().trie);
}

Result<std::unique_ptr<Constraint>> FromRegex(const std::string& pattern,
                                              RegexMatch match = RegexMatch::kWhole) {
  Grammar grammar;
  TENON_ASSIGN_OR_RETURN(const Grammar::Term root,
                         CompileRegex(grammar, pattern, TextForm::kPlain, match));
  return Constraint::Create(grammar, root, Vocabulary().trie);
}

bool Matches(Constraint& constraint, std::string_view text) {
  const Constraint::State end = constraint.AfterBytes(constraint.start(), text);
  return constraint.IsAccepting(end);
}

struct TextCase {
  const char* expression;
  std::vector<std::string> match;
  std::vector<std::string> differ;
};

TEST(RegexTest, MatchesWhatItShould) {
  const TextCase cases[] = {
      {"abc", {"abc"}, {"", "ab", "abcd", "Abc"}},
      {"a*b+c?", {"b", "aab", "abbc"}, {"a", "c", "abcc"}},
      {"(foo|ba[rz]){2}", {"foofoo", "barbaz"}, {"foo", "foobax", "foofoofoo"}},
      {"[^a-c\\d]", {"d", "-", "é", "日"}, {"a", "5", "", "dd"}},
      {"\\w{2,4}", {"ab", "a_9Z"}, {"a", "abcde", "a-"}},
      {"x{3,}", {"xxx", "xxxxxxx"}, {"xx"}},
      {".", {"a", "😀"}, {"\n", "", "\xC3", "\x80"}},
      {"\\x41\\u00e9\\.", {"Aé."}, {"Aéx"}},
      {"(a?){3}", {"", "a", "aaa"}, {"aaaa", "b"}},
      {"(a*)*b", {"b", "aaab"}, {"a"}},
      {"[\\]\\-a]", {"]", "-", "a"}, {"b"}},
      {"a|", {"a", ""}, {"aa"}},
      {"(?:a|b)+?c", {"abc"}, {"c"}},
      {"[0-9]{1000,2000}",
       {std::string(1500, '7')},
       {std::string(999, '7'), std::string(2001, '7')}},
  };
  for (const TextCase& test : cases) {
    auto constraint = FromRegex(test.expression);
    ASSERT_TRUE(constraint.ok()) << test.expression << ": " << constraint.error().ToString();
    for (const std::string& text : test.match)
      EXPECT_TRUE(Matches(**constraint, text)) << test.expression << " " << text;
    for (const std::string& text : test.differ)
      EXPECT_FALSE(Matches(**constraint, text)) << test.expression << " " << text;
  }
}

TEST(RegexTest, AnywhereUnlessAnchored) {
  const TextCase cases[] = {
      {"b", {"b", "abc"}, {"ac"}},
      {"^b", {"b", "bc"}, {"ab"}},
      {"b$", {"ab", "b"}, {"ba"}},
      {"^(b|c)$", {"b", "c"}, {"bc", ""}},
      {"^a|b$", {"ax", "xb"}, {"xax", "bx"}},
  };
  for (const TextCase& test : cases) {
    auto constraint = FromRegex(test.expression, RegexMatch::kAnywhere);
    ASSERT_TRUE(constraint.ok()) << test.expression << ": " << constraint.error().ToString();
    for (const std::string& text : test.match)
      EXPECT_TRUE(Matches(**constraint, text)) << test.expression << " " << text;
    for (const std::string& text : test.differ)
      EXPECT_FALSE(Matches(**constraint, text)) << test.expression << " " << text;
  }
}

TEST(RegexTest, RefusesWhatItCannotKeep) {
  const std::pair<const char*, ErrorCode> cases[] = {
      {"(?<=x)a", ErrorCode::kUnsupported},         {"(?=x)a", ErrorCode::kUnsupported},
      {"(a)\\1", ErrorCode::kUnsupported},          {"\\bfoo", ErrorCode::kUnsupported},
      {"\\p{L}", ErrorCode::kUnsupported},          {"a$b", ErrorCode::kUnsupported},
      {"foo**", ErrorCode::kInvalidArgument},       {"(a", ErrorCode::kInvalidArgument},
      {"a)", ErrorCode::kInvalidArgument},          {"[a", ErrorCode::kInvalidArgument},
      {"[z-a]", ErrorCode::kInvalidArgument},       {"a{3,2}", ErrorCode::kInvalidArgument},
      {"a{99999999}", ErrorCode::kInvalidArgument}, {"*a", ErrorCode::kInvalidArgument},
      {"\\", ErrorCode::kInvalidArgument},          {"\\u12", ErrorCode::kInvalidArgument},
      {"(a*){2,500}", ErrorCode::kUnsupported},     {"[]", ErrorCode::kInvalidArgument},
  };
  for (const auto& [pattern, code] : cases) {
    const auto constraint = FromRegex(pattern);
    ASSERT_FALSE(constraint.ok()) << pattern;
    EXPECT_EQ(constraint.error().code, code) << pattern << " " << constraint.error().ToString();
  }
  const std::string nested = std::string(60'000, '(') + "a" + std::string(60'000, ')');
  EXPECT_FALSE(FromRegex(nested).ok());
}

TEST(GrammarTest, RulesMayRecurseButNotBeginWithThemselves) {
  Grammar grammar;
  const auto nested = grammar.DeclareRule();
  grammar.DefineRule(nested,
                     grammar.Optional(grammar.Sequence(
                         {grammar.Literal("("), grammar.Call(nested), grammar.Literal(")")})));
  auto constraint = Constraint::Create(grammar, grammar.Call(nested), Vocabulary().trie);
  ASSERT_TRUE(constraint.ok());
  EXPECT_TRUE(Matches(**constraint, "((()))"));
  EXPECT_FALSE(Matches(**constraint, "(()"));
  // Deeper than the limit can't even be begun; up to it everything can be ended.
  const std::string deep(1000, '(');
  EXPECT_EQ((*constraint)->AfterBytes((*constraint)->start(), deep), Constraint::kDead);

  Grammar left;
  const auto rule = left.DeclareRule();
  left.DefineRule(
      rule, left.Either({left.Literal("x"), left.Sequence({left.Call(rule), left.Literal("y")})}));
  const auto refused = Constraint::Create(left, left.Call(rule), Vocabulary().trie);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("left recursion"), std::string::npos);

  Grammar endless;
  const auto again = endless.DeclareRule();
  endless.DefineRule(again, endless.Sequence({endless.Literal("a"), endless.Call(again)}));
  EXPECT_FALSE(Constraint::Create(endless, endless.Call(again), Vocabulary().trie).ok());
}

// Every token, asked one by one.
TokenMask SlowMask(Constraint& constraint, Constraint::State state) {
  TokenMask mask(Vocabulary().trie.mask_words(), 0);
  for (int32_t token = 0; token < Vocabulary().trie.vocab_size(); ++token) {
    const std::string& bytes = Vocabulary().tokens[static_cast<size_t>(token)];
    const bool is_allowed =
        token == Vocabulary().stop
            ? constraint.IsAccepting(state)
            : !bytes.empty() && constraint.AfterBytes(state, bytes) != Constraint::kDead;
    if (is_allowed)
      AllowToken(mask, token);
  }
  return mask;
}

const char* const kMaskSchemas[] = {
    R"({"type":"string"})",
    R"({"type":"string","minLength":3,"maxLength":5})",
    R"({"type":"string","maxLength":2000})",
    R"({"anyOf":[{"type":"string","maxLength":2},{"enum":["abcabc","xyz","日本"]}]})",
    R"({"anyOf":[{"type":"string","maxLength":3},{"type":"string","maxLength":40}]})",
    R"({"type":"string","pattern":"^ab+c"})",
    R"({"type":"object","properties":{"name":{"type":"string","maxLength":6},"n":{"type":"integer",
        "minimum":-5,"maximum":120}},"required":["n"],"additionalProperties":{"type":"null"}})",
    R"({"type":"array","items":{"type":["number","null"]},"minItems":2,"maxItems":300})",
    R"({"type":"string","format":"date-time"})",
    R"({})",
};

TEST(ConstraintTest, MasksAreWhatEachTokenAlonePermits) {
  for (const char* schema : kMaskSchemas) {
    auto constraint = FromSchema(schema);
    ASSERT_TRUE(constraint.ok()) << schema << constraint.error().ToString();
    std::mt19937 random(7);
    for (int round = 0; round < 4; ++round) {
      Constraint::State state = (*constraint)->start();
      for (int step = 0; step < 60 && state != Constraint::kDead; ++step) {
        TokenMask mask(Vocabulary().trie.mask_words());
        (*constraint)->Mask(state, mask);
        ASSERT_EQ(mask, SlowMask(**constraint, state)) << schema << " step " << step;
        std::vector<int32_t> allowed;
        for (int32_t token = 0; token < Vocabulary().stop; ++token) {
          if (IsAllowed(mask, token))
            allowed.push_back(token);
        }
        if (allowed.empty())
          break;
        const auto& bytes =
            Vocabulary().tokens[static_cast<size_t>(allowed[random() % allowed.size()])];
        state = (*constraint)->AfterBytes(state, bytes);
      }
    }
  }
}

TEST(ConstraintTest, LongCountersHaveFewMasks) {
  auto constraint = FromSchema(R"({"type":"string","maxLength":5000})");
  ASSERT_TRUE(constraint.ok());
  TokenMask mask(Vocabulary().trie.mask_words());
  Constraint::State state = (*constraint)->AfterBytes((*constraint)->start(), "\"");
  for (int i = 0; i < 4000; ++i) {
    (*constraint)->Mask(state, mask);
    state = (*constraint)->AfterBytes(state, "a");
  }
  EXPECT_EQ((*constraint)->stats().masks, 4000U);
  EXPECT_LE((*constraint)->stats().walks, 2U);
  state = (*constraint)->AfterBytes(state, std::string(1000, 'b'));
  ASSERT_NE(state, Constraint::kDead);
  EXPECT_EQ((*constraint)->AfterBytes(state, "b"), Constraint::kDead);
  EXPECT_TRUE((*constraint)->IsFinal((*constraint)->AfterBytes(state, "\"")));
}

}  // namespace
}  // namespace tenon

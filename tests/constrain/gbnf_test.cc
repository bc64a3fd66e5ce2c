// GBNF: texts against what llama.cpp's own grammars accept (make_gbnf_golden.py), places of errors,
// recursion, and grammars that would take all time or memory.
#include "engine/constrain/gbnf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "constrain/small_vocabulary.h"
#include "engine/sample/sampler.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

const SmallTrie& Vocabulary() {
  static const SmallTrie vocabulary;
  return vocabulary;
}

Result<std::unique_ptr<Constraint>> FromGbnf(std::string_view text) {
  Grammar grammar;
  TENON_ASSIGN_OR_RETURN(const Grammar::Term root, CompileGbnf(grammar, text));
  return Constraint::Create(grammar, root, Vocabulary().trie);
}

bool Accepts(Constraint& constraint, std::string_view text) {
  return constraint.IsAccepting(constraint.AfterBytes(constraint.start(), text));
}

TEST(GbnfTest, AcceptsWhatLlamaCppAccepts) {
  std::ifstream file("tests/data/gbnf_golden.jsonl");
  ASSERT_TRUE(file);
  int texts = 0;
  int refused = 0;
  for (std::string line; std::getline(file, line);) {
    const auto entry = nlohmann::json::parse(line);
    const auto grammar = entry["grammar"].get<std::string>();
    const auto constraint = FromGbnf(grammar);
    EXPECT_EQ(constraint.ok(), !entry.contains("refused")) << grammar;
    if (!constraint.ok() || entry.contains("refused")) {
      ++refused;
      continue;
    }
    for (size_t i = 0; i < entry["texts"].size(); ++i, ++texts) {
      const auto text = entry["texts"][i].get<std::string>();
      EXPECT_EQ(Accepts(**constraint, text), entry["accepts"][i].get<bool>())
          << grammar << "\non: " << text;
    }
  }
  EXPECT_GT(texts, 500);
  EXPECT_GT(refused, 20);
}

TEST(GbnfTest, NamesLineAndColumn) {
  const struct {
    const char* text;
    const char* message;
  } cases[] = {
      {"root ::= \"a\"\nx ::= [z-a]", "a range begins after its end (line 2, column 8)"},
      {"root ::= \"a", "found the end (line 1, column 12)"},
      {"root ::= \"a\" )",
       "expected an item or the end of the line, found ')' (line 1, column 14)"},
      {"root ::= (\"a\"\n  |", "expected an item or ')', found the end (line 2, column 4)"},
      {"root ::= \"\xC3\xA9\" \\", "found '\\' (line 1, column 14)"},
      {"root ::= [\\q]", "an unknown escape (line 1, column 11)"},
      {"root ::= \"\\u12\"", "expected 4 hexadecimal digits (line 1, column 13)"},
      {"root ::= \"\\U00110000\"", "expected a code point up to 10FFFF (line 1, column 13)"},
      {"root ::= \"\\ud800\"", "a surrogate is no character (line 1, column 11)"},
      {"root ::= []", "a class without characters (line 1, column 10)"},
      {"root ::= \"a\"{3,1}", "in the wrong order (line 1, column 13)"},
      {"root ::= \"a\"{,3}", "expected a number, found ',' (line 1, column 14)"},
      {"root ::= \"a\"{1;3}", "expected ',' or '}', found ';' (line 1, column 15)"},
      {"root ::= \"a\"{9999999}", "more than 1000000 (line 1, column 14)"},
      {"root ::= \"a\"\nroot ::= \"b\"", "the rule 'root' is already defined (line 2, column 1)"},
      {"root ::= \"a\" x\r\ny ::= zz", "the rule 'x' is not defined (line 1, column 14)"},
      {"a ::= \"a\"\n", "the rule 'root' is missing (line 2, column 1)"},
      {"", "the rule 'root' is missing"},
      {"root := \"a\"", "expected '::=' after the rule's name, found ':' (line 1, column 6)"},
      {"root ::= \"a\"\n  | \"b\"", "expected a rule's name, found '|' (line 2, column 3)"},
      {"root ::= \"\xFF\"", "bytes that are no UTF-8 (line 1, column 11)"},
      {"root ::= <[1000]>", "token ids are not supported (line 1, column 10)"},
      {"root ::= root \"a\" | \"b\"", "left recursion"},
      {"root ::= (\"a\"?){2,3}", "a counted repetition of something that may be empty"},
  };
  for (const auto& test : cases) {
    const auto constraint = FromGbnf(test.text);
    ASSERT_FALSE(constraint.ok()) << test.text;
    EXPECT_THAT(constraint.error().message, HasSubstr(test.message)) << test.text;
  }
  EXPECT_FALSE(FromGbnf(std::string_view("root ::= \"a\"\0 x", 15)).ok());
}

// The stack has Automaton::kMaxDepth frames; what could not be closed again can't be opened.
TEST(GbnfTest, RecursionEndsAtTheStacksLimit) {
  auto constraint = FromGbnf("root ::= \"(\" root \")\" | \"o\"");
  ASSERT_TRUE(constraint.ok());
  const auto nested = [](size_t depth) {
    return std::string(depth, '(') + "o" + std::string(depth, ')');
  };
  EXPECT_TRUE(Accepts(**constraint, nested(200)));
  size_t deepest = 200;
  while (Accepts(**constraint, nested(deepest + 1)))
    ++deepest;
  EXPECT_EQ(deepest, static_cast<size_t>(Automaton::kMaxDepth));
  EXPECT_EQ((*constraint)->AfterBytes((*constraint)->start(), std::string(deepest + 1, '(')),
            Constraint::kDead);
  EXPECT_FALSE((*constraint)->IsExhausted());
}

TEST(GbnfTest, MasksLeadToTextsOfTheGrammar) {
  auto constraint = FromGbnf(R"(
root ::= value
value ::= "[" (value ("," value)*)? "]" | "\"" [^"\\\x00-\x1F\x7F]* "\"" | "-"? ("0" | [1-9] [0-9]*)
)");
  ASSERT_TRUE(constraint.ok());
  std::mt19937 random(3);
  for (int i = 0; i < 40; ++i) {
    const std::string text = RandomText(**constraint, Vocabulary(), random);
    EXPECT_TRUE(nlohmann::json::accept(text)) << text;
  }
}

// After n times "a" there are 2^n ways to go on, all of them different.
constexpr std::string_view kAmbiguous = "root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"d\"";

TEST(GbnfTest, AnAmbiguousGrammarIsGivenUp) {
  auto constraint = FromGbnf(kAmbiguous);
  ASSERT_TRUE(constraint.ok());
  EXPECT_TRUE(Accepts(**constraint, "aaadbcb"));
  EXPECT_FALSE((*constraint)->IsExhausted());
  ConstraintCursor cursor(**constraint);
  for (int i = 0; i < 40; ++i)
    cursor.Accept('a');
  EXPECT_TRUE(cursor.IsExhausted());
  EXPECT_FALSE(cursor.IsOver());  // it is no end of the answer
  EXPECT_LT((*constraint)->stats().bytes, size_t{64} << 20);
}

TEST(GbnfTest, TheSamplerSaysThatAConstraintIsExhausted) {
  auto constraint = FromGbnf(kAmbiguous);
  ASSERT_TRUE(constraint.ok());
  const int32_t size = Vocabulary().trie.vocab_size();
  auto sampler = Sampler::Create(SamplingParams{}, size);
  ASSERT_TRUE(sampler.ok());
  sampler->Constrain(**constraint);
  std::vector<float> logits(static_cast<size_t>(size), 0.0F);
  logits['a'] = 100.0F;
  Result<SampledToken> sampled = sampler->Sample(logits);
  for (int i = 0; i < 40 && sampled.ok(); ++i) {
    EXPECT_EQ(sampled->token, 'a');
    sampler->Accept('a');
    sampled = sampler->Sample(logits);
  }
  ASSERT_FALSE(sampled.ok());
  EXPECT_EQ(sampled.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(sampled.error().message, HasSubstr("too ambiguous"));
  EXPECT_FALSE(sampler->IsComplete());
}

TEST(GbnfTest, LargeGrammarsAreMadeOrRefused) {
  std::string chain;  // each rule may be passed over, so the first one may begin with any of them
  for (int i = 0; i < 8000; ++i)
    chain += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + "? \"x\"?\n";
  auto made = FromGbnf(chain + "r8000 ::= \"y\"\nroot ::= \"z\" r7990\n");
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_TRUE(Accepts(**made, "zyxx"));
  std::string plus = "\"a\"";
  for (int i = 0; i < 150; ++i)
    plus = "(" + plus + ")+";
  made = FromGbnf("root ::= " + plus);
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_TRUE(Accepts(**made, "aaaa"));
  const std::string nested = std::string(60'000, '(') + "\"a\"" + std::string(60'000, ')');
  EXPECT_THAT(FromGbnf("root ::= " + nested).error().message, HasSubstr("nested deeper than 200"));
  EXPECT_THAT(FromGbnf(std::string(300'000, '#')).error().message, HasSubstr("at most 262144"));
}

}  // namespace
}  // namespace tenon

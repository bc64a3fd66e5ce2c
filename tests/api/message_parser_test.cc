#include "frontend/server/api/message_parser.h"

#include <gtest/gtest.h>

#include "frontend/server/api/json.h"

namespace tenon {
namespace {

struct Parsed {
  std::string content;
  std::string reasoning;
  std::vector<std::string> calls;  // name + arguments

  bool operator==(const Parsed&) const = default;
};

void PrintTo(const Parsed& parsed, std::ostream* out) {
  *out << "content '" << parsed.content << "' reasoning '" << parsed.reasoning << "' calls";
  for (const std::string& call : parsed.calls)
    *out << " " << call;
}

void Add(const std::vector<MessageDelta>& deltas, Parsed& parsed) {
  for (const MessageDelta& delta : deltas) {
    if (delta.kind == MessageDelta::Kind::kContent)
      parsed.content += delta.text;
    else if (delta.kind == MessageDelta::Kind::kReasoning)
      parsed.reasoning += delta.text;
    else
      parsed.calls.push_back(delta.call.name + delta.call.arguments);
  }
}

Parsed Parse(const MessageSyntax& syntax, const std::string& text, size_t piece) {
  MessageParser parser(syntax, "x");
  Parsed parsed;
  for (size_t i = 0; i < text.size(); i += piece)
    Add(parser.Push(text.substr(i, piece)), parsed);
  Add(parser.Finish(), parsed);
  return parsed;
}

struct Case {
  const char* name;
  ToolSyntax tools;
  ReasoningSyntax reasoning;
  const char* text;
  Parsed expected;
};

constexpr auto kNone = ToolSyntax::kNone;
constexpr auto kHermes = ToolSyntax::kHermes;
constexpr auto kLlama = ToolSyntax::kLlama3;
constexpr auto kMistral = ToolSyntax::kMistral;
constexpr auto kBarred = ToolSyntax::kBarred;
constexpr auto kDeepSeek = ToolSyntax::kDeepSeek;
constexpr auto kPlain = ReasoningSyntax::kPlain;
constexpr auto kThink = ReasoningSyntax::kThink;
constexpr auto kInThink = ReasoningSyntax::kInThink;

const Case kCases[] = {
    {"plain", kNone, kPlain, "a <tool_call> b\n", {"a <tool_call> b\n", "", {}}},
    {"hermes",
     kHermes,
     kPlain,
     "Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"b\": 1, \"a\": \"x\"}}\n"
     "</tool_call>",
     {"Let me see.", "", {"f{\"b\":1,\"a\":\"x\"}"}}},
    {"hermes twice",
     kHermes,
     kPlain,
     "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n"
     "<tool_call>{\"name\":\"g\",\"arguments\":{\"c\":[1]}}</tool_call>\n",
     {"", "", {"f{}", "g{\"c\":[1]}"}}},
    {"hermes without the end mark",
     kHermes,
     kPlain,
     "<tool_call>{\"name\":\"f\",\"arguments\":{}}",
     {"", "", {"f{}"}}},
    {"hermes, end mark in a string",
     kHermes,
     kPlain,
     "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":\"</tool_cal\"}}</tool_call>",
     {"", "", {"f{\"a\":\"</tool_cal\"}"}}},
    {"hermes, broken JSON",
     kHermes,
     kPlain,
     "x <tool_call>{\"name\": f}</tool_call> y",
     {"x <tool_call>{\"name\": f}</tool_call> y", "", {}}},
    {"hermes, cut off",
     kHermes,
     kPlain,
     "x <tool_call>{\"name\": \"f\", \"argu",
     {"x <tool_call>{\"name\": \"f\", \"argu", "", {}}},
    {"hermes, no name",
     kHermes,
     kPlain,
     "<tool_call>{\"arguments\": {}}</tool_call>",
     {"<tool_call>{\"arguments\": {}}</tool_call>", "", {}}},
    {"hermes, beginning of a mark at the end", kHermes, kPlain, "a <tool_", {"a <tool_", "", {}}},
    {"hermes, text after",
     kHermes,
     kPlain,
     "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call> and more",
     {" and more", "", {"f{}"}}},
    {"hermes, nested too deep",
     kHermes,
     kPlain,
     "<tool_call>[[[[1]]]]</tool_call>",
     {"<tool_call>[[[[1]]]]</tool_call>", "", {}}},
    {"llama",
     kLlama,
     kPlain,
     "{\"name\": \"f\", \"parameters\": {\"a\": 1}}",
     {"", "", {"f{\"a\":1}"}}},
    {"llama, two",
     kLlama,
     kPlain,
     "{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {}}",
     {"", "", {"f{}", "g{}"}}},
    {"llama, python tag",
     kLlama,
     kPlain,
     "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}",
     {"", "", {"f{}"}}},
    {"llama, JSON that is no call",
     kLlama,
     kPlain,
     "{\"answer\": 42}",
     {"{\"answer\": 42}", "", {}}},
    {"llama, text", kLlama, kPlain, "hello {\"name\": 1}", {"hello {\"name\": 1}", "", {}}},
    {"mistral",
     kMistral,
     kPlain,
     "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": 1}}, {\"name\": \"g\"}]",
     {"", "", {"f{\"a\":1}", "g{}"}}},
    {"mistral, args mark",
     kMistral,
     kPlain,
     "[TOOL_CALLS]f[ARGS]{\"a\": 1}",
     {"", "", {"f{\"a\":1}"}}},
    {"mistral, mark lost",
     kMistral,
     kPlain,
     "[{\"name\": \"f\", \"arguments\": {}}]",
     {"", "", {"f{}"}}},
    {"mistral, a list", kMistral, kPlain, "[1, 2]", {"[1, 2]", "", {}}},
    {"qwen coder",
     kHermes,
     kPlain,
     "I look.\n<tool_call>\n<function=f>\n<parameter=s>\n5\n</parameter>\n<parameter=n>\n5\n"
     "</parameter>\n<parameter=list>[1, {\"a\": null}]</parameter>\n<parameter=other>\nline one\n"
     "  two\n\n</parameter>\n</function>\n</tool_call>",
     {"I look.",
      "",
      {"f{\"s\":\"5\",\"n\":5,\"list\":[1,{\"a\":null}],\"other\":\"line one\\n  two\\n\"}"}}},
    {"qwen coder, no parameters, twice",
     kHermes,
     kPlain,
     "<tool_call><function=f></function></tool_call><tool_call><function=g></function></tool_call>",
     {"", "", {"f{}", "g{}"}}},
    {"qwen coder, a value that looks like JSON and is none",
     kHermes,
     kPlain,
     "<tool_call><function=g><parameter=x>{a}</parameter></function></tool_call>",
     {"", "", {"g{\"x\":\"{a}\"}"}}},
    {"qwen coder, never closed",
     kHermes,
     kPlain,
     "<tool_call><function=f><parameter=s>x</function></tool_call>",
     {"<tool_call><function=f><parameter=s>x</function></tool_call>", "", {}}},
    {"granite",
     kBarred,
     kPlain,
     "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}, {\"name\": \"g\"}]",
     {"", "", {"f{\"a\":1}", "g{}"}}},
    {"phi 4",
     kBarred,
     kPlain,
     "<|tool_call|>[{\"name\": \"f\", \"arguments\": {}}]<|/tool_call|> done",
     {" done", "", {"f{}"}}},
    {"granite, no call", kBarred, kPlain, "<|tool_call|>[1", {"<|tool_call|>[1", "", {}}},
    {"deepseek v3",
     kDeepSeek,
     kPlain,
     "Let me see.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n"
     "{\"a\": "
     "\"}\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n``"
     "`"
     "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     {"Let me see.", "", {"f{\"a\":\"}\"}", "g{}"}}},
    {"deepseek v3.1",
     kDeepSeek,
     kThink,
     "<think>hm</think><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\":1}"
     "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     {"", "hm", {"f{\"a\":1}"}}},
    {"deepseek, cut off after the arguments",
     kDeepSeek,
     kPlain,
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\":1}",
     {"", "", {"f{\"a\":1}"}}},
    {"deepseek, cut off in them",
     kDeepSeek,
     kPlain,
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\":",
     {"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\":", "", {}}},
    {"think", kNone, kThink, "<think>\nhm, 2 < 3\n</think>\n\nFour.", {"Four.", "hm, 2 < 3", {}}},
    {"think, empty", kNone, kThink, "<think>\n\n</think>\n\nFour.", {"Four.", "", {}}},
    {"no think", kNone, kThink, "<thing> Four.", {"<thing> Four.", "", {}}},
    {"in think", kNone, kInThink, "hm\n</think>\n4", {"4", "hm", {}}},
    {"in think, never closed", kNone, kInThink, "hm </thin", {"", "hm </thin", {}}},
    {"think and call",
     kHermes,
     kThink,
     "<think>a</think><tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>",
     {"", "a", {"f{}"}}},
    {"think and bare call",
     kLlama,
     kThink,
     "<think>a</think>\n{\"name\":\"f\",\"parameters\":{}}",
     {"", "a", {"f{}"}}},
    {"white space stays without tools", kNone, kPlain, "\n a \n", {"\n a \n", "", {}}},
    {"white space stays without calls", kHermes, kPlain, "\n a \n", {"\n a \n", "", {}}},
};

// However the text is cut, the same comes out.
TEST(MessageParser, Cases) {
  for (const Case& test : kCases) {
    MessageSyntax syntax;
    syntax.tools = test.tools;
    syntax.reasoning = test.reasoning;
    syntax.declared = std::make_shared<const Json>(Json::parse(
        R"([{"function":{"name":"f","parameters":{"properties":
            {"s":{"type":"string"},"n":{"type":"integer"}}}}}])"));
    for (const size_t piece : {1, 2, 3, 7, 1000})
      EXPECT_EQ(Parse(syntax, test.text, piece), test.expected) << test.name << " by " << piece;
  }
}

TEST(MessageParser, CallsOfOneMessageHaveDifferentIds) {
  MessageSyntax syntax;
  syntax.tools = ToolSyntax::kHermes;
  MessageParser parser(syntax, "seed");
  const auto deltas =
      parser.Push("<tool_call>{\"name\":\"f\"}</tool_call><tool_call>{\"name\":\"f\"}</tool_call>");
  ASSERT_EQ(deltas.size(), 2U);
  EXPECT_NE(deltas[0].call.id, deltas[1].call.id);
}

TEST(MessageParser, SyntaxByTemplate) {
  EXPECT_EQ(ToolSyntaxOf("... [TOOL_CALLS] ..."), ToolSyntax::kMistral);
  EXPECT_EQ(ToolSyntaxOf("{{ '<|python_tag|>' }}"), ToolSyntax::kLlama3);
  EXPECT_EQ(ToolSyntaxOf("<tool_call>"), ToolSyntax::kHermes);
  EXPECT_EQ(ToolSyntaxOf("{{ '<｜tool▁calls▁begin｜>' }}"), ToolSyntax::kDeepSeek);
  EXPECT_EQ(ToolSyntaxOf("followed by <|tool_call|> and a list"), ToolSyntax::kBarred);
  EXPECT_TRUE(HasReasoning("{{ '<think>' }}"));
  EXPECT_FALSE(HasReasoning("thinking"));
}

TEST(ParseJson, RefusesWithThePlace) {
  struct {
    std::string text;
    const char* expected;
  } const cases[] = {
      {"", "at byte"},
      {"{\"a\": }", "at byte 7"},
      {"{\"a\": 1} x", "at byte 10"},
      {"\"\xff\"", "at byte 2"},
      {"{\"a\": \"\xb0\xa1\"}", "at byte 8"},
      {"{\"a\": 1, \"b\": 2, \"a\": 3}", "'a' stands twice"},
      {"[1e999]", "at byte"},
      {"\"\\ud800\"", "at byte"},
      {std::string(100'000, '['), "deeper than 128"},
      {std::string(100'000, '[') + std::string(100'000, ']'), "deeper than 128"},
  };
  for (const auto& test : cases) {
    const auto parsed = ParseJson(test.text);
    ASSERT_FALSE(parsed.ok()) << test.text.substr(0, 40);
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(parsed.error().message.find(test.expected), std::string::npos)
        << parsed.error().message;
  }
}

TEST(ParseJson, KeepsTheOrderOfFieldsAndNestedValues) {
  const std::string text = R"({"z":[1,{"b":[],"a":{"c":null}}],"a":"é","f":-1.5,"t":true})";
  const auto parsed = ParseJson(text);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(DumpJson(*parsed), text);
}

// An object of a megabyte: n^2 comparisons of keys would take minutes.
TEST(ParseJson, ManyFieldsAreNotQuadratic) {
  std::string text = "{";
  for (int i = 0; i < 100'000; ++i)
    text += "\"k" + std::to_string(i) + "\":1,";
  text.back() = '}';
  const auto parsed = ParseJson(text);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->size(), 100'000U);
}

}  // namespace
}  // namespace tenon

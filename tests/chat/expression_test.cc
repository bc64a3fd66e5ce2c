// Small templates against jinja2 3.1.6 (expressions.jsonl), and what the reference cannot show.
#include <gtest/gtest.h>

#include <fstream>

#include "chat/chat_data.h"

namespace tenon {
namespace {

using Json = nlohmann::ordered_json;

TEST(ChatExpression, AgreesWithJinja2) {
  std::ifstream file(ChatDataPath("expressions.jsonl"), std::ios::binary);
  ASSERT_TRUE(file.is_open());
  int count = 0;
  for (std::string line; std::getline(file, line); ++count) {
    const Json expected = Json::parse(line);
    const auto source = expected["template"].get<std::string>();
    SCOPED_TRACE(source);
    const auto actual = RenderChat(source, expected.value("variables", Json::object()));
    EXPECT_EQ(Mismatch(expected, actual), "");
  }
  EXPECT_GE(count, 1000);
}

std::string Output(const std::string& source, const Json& variables = Json::object()) {
  const auto result = RenderChat(source, variables);
  return result ? *result : "error: " + result.error().ToString();
}

TEST(ChatExpression, KeepsTheOrderOfJsonKeys) {
  EXPECT_EQ(Output("{{ d | tojson }}", Json::parse(R"({"d": {"z": 1, "a": {"y": 2, "b": 3}}})")),
            R"({"z": 1, "a": {"y": 2, "b": 3}})");
}

TEST(ChatExpression, LargeDictsFindEveryKey) {
  Json variables;
  for (int i = 0; i < 1000; ++i)
    variables["d"]["key" + std::to_string(i)] = i;
  EXPECT_EQ(Output("{{ d.key0 }} {{ d.key8 }} {{ d.key999 }} {{ d.key1000 is defined }} "
                   "{{ d | length }} {{ (d | items | list)[512] }}",
                   variables),
            "0 8 999 False 1000 ('key512', 512)");
}

TEST(ChatExpression, IntegersBeyond64BitsAreRefused) {
  EXPECT_EQ(Output("{{ 9223372036854775807 + 1 }}"),
            "error: chat template:1: integer result outside the range of 64 bits");
  EXPECT_EQ(Output("{{ 2 ** 63 }}"),
            "error: chat template:1: integer result outside the range of 64 bits");
  EXPECT_EQ(Output("{{ -(-9223372036854775807 - 1) }}"),
            "error: chat template:1: integer result outside the range of 64 bits");
  EXPECT_EQ(Output("{{ (-9223372036854775807 - 1) // -1 }}"),
            "error: chat template:1: integer result outside the range of 64 bits");
  EXPECT_EQ(Output("{{ (-9223372036854775807 - 1) % -1 }}"), "0");
  EXPECT_EQ(Output("{{ 99999999999999999999 }}"),
            "error: chat template:1: integer literal outside the range of 64 bits");
  // JSON may hold larger ones: they are printed, not computed with.
  const auto big = Json::parse(R"({"v": 18446744073709551615})");
  EXPECT_EQ(Output("{{ v }} {{ v | tojson }} {{ v > 1 }} {{ v == v }}", big),
            "18446744073709551615 18446744073709551615 True True");
  EXPECT_EQ(Output("{{ v + 1 }}", big),
            "error: chat template:1: integer result outside the range of 64 bits");
}

TEST(ChatExpression, ErrorsNameTheLine) {
  EXPECT_EQ(Output("a\nb\n{{ x.y }}"), "error: chat template:3: 'x' is undefined");
  EXPECT_EQ(Output("{% if true %}\n\n{{ raise_exception('no') }}\n{% endif %}"),
            "error: chat template:3: no");
  EXPECT_EQ(Output("{{ 1 }}\n{% endfor %}"),
            "error: chat template:2: Encountered unknown tag 'endfor'.");
  EXPECT_EQ(Output("\n\n{% for x in y %}"),
            "error: chat template:3: Unexpected end of template. Jinja was looking for the "
            "following tags: 'endfor' or 'else'. The innermost block that needs to be closed is "
            "'for'.");
}

TEST(ChatExpression, TheNameStandsInMessages) {
  const auto parsed = ChatTemplate::Parse("{{ 1 +", "smollm2");
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(parsed.error().where, "smollm2:1");
}

TEST(ChatExpression, RaisedTextIsTheMessage) {
  const auto result = RenderChat("{{ raise_exception('roles must alternate') }}", Json::object());
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(result.error().message, "roles must alternate");
}

TEST(ChatExpression, OtherTemplatesAreRefused) {
  for (const char* tag : {"include 'a'", "import 'a' as b", "from 'a' import b", "extends 'a'"}) {
    const auto parsed = ChatTemplate::Parse(std::string("{% ") + tag + " %}");
    ASSERT_FALSE(parsed.ok()) << tag;
    EXPECT_NE(parsed.error().message.find("is not supported"), std::string::npos) << tag;
  }
}

TEST(ChatExpression, VariablesMustBeAnObject) {
  EXPECT_FALSE(RenderChat("x", Json::array()).ok());
  EXPECT_FALSE(RenderChat("x", Json()).ok());
}

TEST(ChatExpression, WithoutAGivenTimeTheClockIsRead) {
  const auto result = RenderChat("{{ strftime_now('%Y') | int > 2023 }}", Json::object(), {});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(*result, "True");
}

}  // namespace
}  // namespace tenon

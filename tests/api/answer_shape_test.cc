// What a request's constraint lets through, in each family's form of tool calls and with reasoning.
#include "api/fake_server.h"

namespace tenon::testing {
namespace {

constexpr const char* kTools =
    R"("tools":[{"type":"function","function":{"name":"f","strict":%STRICT%,"parameters":
       {"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],
        "additionalProperties":false}}},
       {"type":"function","function":{"name":"g","parameters":{"type":"object"}}}])";

std::string Tools(const std::string& strict = "false") {
  std::string text = kTools;
  text.replace(text.find("%STRICT%"), 8, strict);
  return text;
}

class ShapeTest : public ApiTest {
 protected:
  using ApiTest::ApiTest;

  // Null where the request was refused or is free.
  std::shared_ptr<Constraint> Ask(const std::string& fields) {
    engine_.submitted.clear();
    answer_ = Call("POST", "/v1/chat/completions",
                   R"({"messages":[{"role":"user","content":"hi"}],)" + fields + "}");
    return engine_.submitted.empty() ? nullptr : engine_.submitted.front().request.constraint;
  }
  static bool Allows(Constraint& constraint, const std::string& text) {
    return constraint.IsAccepting(constraint.AfterBytes(constraint.start(), text));
  }
  void Expect(const std::string& fields, const std::vector<std::string>& allowed,
              const std::vector<std::string>& refused) {
    const auto constraint = Ask(fields);
    ASSERT_NE(constraint, nullptr) << fields << answer_->body;
    for (const std::string& text : allowed)
      EXPECT_TRUE(Allows(*constraint, text)) << fields << "\n" << text;
    for (const std::string& text : refused)
      EXPECT_FALSE(Allows(*constraint, text)) << fields << "\n" << text;
  }

  std::shared_ptr<FakeWriter> answer_;
};

class HermesTest : public ShapeTest {
 protected:
  HermesTest() : ShapeTest(kChatMl) {}
};
class LlamaTest : public ShapeTest {
 protected:
  LlamaTest() : ShapeTest("{{ messages[0].content }}<|python_tag|>") {}
};
class MistralTest : public ShapeTest {
 protected:
  MistralTest() : ShapeTest("{{ messages[0].content }}[TOOL_CALLS]") {}
};
class GraniteTest : public ShapeTest {
 protected:
  GraniteTest() : ShapeTest("{{ messages[0].content }}<|tool_call|>", {"<|tool_call|>"}) {}
};
class DeepSeekTest : public ShapeTest {
 protected:
  DeepSeekTest() : ShapeTest("{{ messages[0].content }}<｜tool▁calls▁begin｜>") {}
};
class ReasoningTest : public ShapeTest {
 protected:
  ReasoningTest() : ShapeTest("{{ messages[0].content }}{# <think> </think> #}") {}
};

const char* const kHermesCall =
    "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>";
const char* const kHermesBad =
    "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"b\": 1}}\n</tool_call>";

TEST_F(HermesTest, FreeAnswersHaveNoConstraint) {
  const std::string tools = Tools();
  const std::string strict = Tools("true") + R"(,"tool_choice":"none")";
  for (const std::string& fields :
       {std::string(R"("temperature":1)"), std::string(R"("response_format":{"type":"text"})"),
        tools, strict}) {
    EXPECT_EQ(Ask(fields), nullptr) << fields;
    EXPECT_EQ(engine_.submitted.size(), 1U) << fields << answer_->body;
  }
}

TEST_F(HermesTest, ForcedCalls) {
  Expect(Tools() + R"(,"tool_choice":"required")",
         {kHermesCall, "<tool_call>\n{\"name\": \"g\", \"arguments\": {\"x\": []}}\n</tool_call>"},
         {kHermesBad, "hello", "<tool_call>\n{\"name\": \"h\", \"arguments\": {}}\n</tool_call>"});
  Expect(Tools() + R"(,"tool_choice":{"type":"function","function":{"name":"f"}})", {kHermesCall},
         {"<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>"});
}

TEST_F(HermesTest, StrictArgumentsWhereTheModelMayCall) {
  const std::string call = kHermesCall;
  Expect(Tools("true"), {"hello", "", "x <tool_cal", call, "I call: " + call, call + "\n" + call},
         {kHermesBad, "x <tool_call>", "x <tool_call> y", call + "\nhello"});
}

TEST_F(HermesTest, AnAnswerOfTheFormOrACall) {
  Expect(Tools() + R"(,"response_format":{"type":"json_object"})", {"{\"x\": 1}", kHermesCall},
         {"hello", kHermesBad});
}

TEST_F(HermesTest, ConstraintsAreMadeOnce) {
  const auto first = Ask(R"("json_schema":{"type":"integer"})");
  EXPECT_EQ(Ask(R"("guided_json":{"type":"integer"})"), first);
  EXPECT_NE(Ask(R"("json_schema":{"type":"number"})"), first);
}

TEST_F(HermesTest, Grammars) {
  for (const char* field :
       {"\"grammar\":%", "\"guided_grammar\":%", "\"structured_outputs\":{\"grammar\":%}"}) {
    std::string fields = field;
    fields.replace(fields.find('%'), 1, R"("root ::= [a-c]+ (\"-\" root)?")");
    Expect(fields, {"a", "abc-b-c"}, {"", "-a", "a-", "d"});
  }
  EXPECT_EQ(Ask(R"("grammar":"")"), nullptr);
  EXPECT_EQ(answer_->status, 0);  // llama-server's clients send it empty
  EXPECT_EQ(Ask(R"("grammar":"root ::= \"a\"\nb ::= (")"), nullptr);
  EXPECT_NE(answer_->body.find("line 2, column 8"), std::string::npos) << answer_->body;
}

TEST_F(LlamaTest, ForcedCallsAndNoStrictTools) {
  Expect(Tools() + R"(,"tool_choice":"required")",
         {"{\"name\": \"f\", \"parameters\": {\"a\": 5}}"},
         {"{\"name\": \"f\", \"parameters\": {}}", kHermesCall});
  EXPECT_EQ(Ask(Tools("true")), nullptr);
  EXPECT_EQ(answer_->status, 400);
  EXPECT_NE(answer_->body.find("tool_choice"), std::string::npos) << answer_->body;
}

TEST_F(MistralTest, ForcedCalls) {
  Expect(Tools() + R"(,"tool_choice":"required")",
         {"[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": 5}}]"},
         {"[{\"name\": \"f\", \"arguments\": {\"a\": 5}}]"});
}

// Granite's mark is a control token: it ends the prompt, and the call follows.
TEST_F(GraniteTest, ForcedCalls) {
  Expect(Tools() + R"(,"tool_choice":"required")",
         {"[{\"name\": \"f\", \"arguments\": {\"a\": 5}}]"},
         {"<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"a\": 5}}]", "hello"});
  EXPECT_EQ(engine_.submitted.front().request.prompt.back(), 259);
  engine_.Answer(0, {"[{\"name\": \"f\", \"argu", "ments\": {\"a\": 5}}]"});
  const Json call = answer_->Body()["choices"][0]["message"]["tool_calls"][0]["function"];
  EXPECT_EQ(call, Json({{"name", "f"}, {"arguments", "{\"a\":5}"}}));
}

TEST_F(DeepSeekTest, ForcedCalls) {
  Expect(Tools() + R"(,"tool_choice":"required")", {"{\"name\": \"f\", \"arguments\": {\"a\": 5}}"},
         {"hello", "<｜tool▁calls▁begin｜>"});
  engine_.Answer(0, {"{\"name\": \"f\", \"arguments\": {\"a\": 5}}"});
  const Json call = answer_->Body()["choices"][0]["message"]["tool_calls"][0]["function"];
  EXPECT_EQ(call, Json({{"name", "f"}, {"arguments", "{\"a\":5}"}}));
}

TEST_F(ReasoningTest, ThoughtsAreFree) {
  Expect(R"("json_schema":{"type":"integer"})",
         {"5", "<think>\nlet me see: \"{</think>\n\n5", "<think></think>5"},
         {"<think>5", "think 5", "<think></think>five"});
  // With the reasoning left in the text, the text is what is constrained.
  Expect(R"("json_schema":{"type":"integer"},"reasoning_format":"none")", {"5"},
         {"<think></think>5"});
}

}  // namespace
}  // namespace tenon::testing

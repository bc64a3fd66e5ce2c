// Templates in the manner of the model families, against jinja2 3.1.6 (golden.json), byte for byte.
#include <gtest/gtest.h>

#include <filesystem>

#include "chat/chat_data.h"

namespace tenon {
namespace {

class ChatFamily : public testing::TestWithParam<std::string> {};

TEST_P(ChatFamily, RendersAsJinja2) {
  const auto cases = ReadChatJson("cases.json");
  const auto golden = ReadChatJson("golden.json");
  const std::string source = ReadChatFile(ChatDataPath("templates/" + GetParam() + ".jinja"));
  auto parsed = ChatTemplate::Parse(source, GetParam());
  ASSERT_TRUE(parsed.ok()) << parsed.error().ToString();
  ASSERT_TRUE(golden.contains(GetParam())) << "no reference: run scripts/make_chat_golden.py";
  for (const auto& [name, variables] : cases.items()) {
    SCOPED_TRACE(name);
    const auto actual = parsed->Render(variables, ReferenceBudget());
    EXPECT_EQ(Mismatch(golden[GetParam()].at(name), actual), "");
  }
}

std::vector<std::string> FamilyNames() {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(ChatDataPath("templates"), ignored))
    names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, ChatFamily, testing::ValuesIn(FamilyNames()),
                         [](const auto& entry) { return entry.param; });

TEST(ChatFamilies, AreAllThere) {
  EXPECT_GE(FamilyNames().size(), 35U);
}

// A few results read by a person rather than made by a program.
TEST(ChatFamilies, KnownWireFormats) {
  const auto variables = ReadChatJson("cases.json").at("system_multi_turn");
  const auto render = [&](const std::string& family) {
    const auto result =
        RenderChat(ReadChatFile(ChatDataPath("templates/" + family + ".jinja")), variables);
    return result ? *result : result.error().ToString();
  };
  EXPECT_EQ(render("chatml"),
            "<|im_start|>system\nYou are terse.<|im_end|>\n"
            "<|im_start|>user\nHello there<|im_end|>\n"
            "<|im_start|>assistant\nHi! How can I help?<|im_end|>\n"
            "<|im_start|>user\n  Tell me a joke\n<|im_end|>\n"
            "<|im_start|>assistant\nWhy did the chicken...\n\n<|im_end|>\n");
  EXPECT_EQ(render("llama2"),
            "<s>[INST] <<SYS>>\nYou are terse.\n<</SYS>>\n\nHello there [/INST]"
            " Hi! How can I help? </s><s>[INST] Tell me a joke [/INST]"
            " Why did the chicken... </s>");
}

// The template inside SmolLM2's own file: its text is the model's and is not committed, so the
// reference is written by `make_chat_golden.py --model ... --out $TENON_HOME/...` beforehand.
TEST(ChatFamilies, OwnTemplateOfSmolLm2) {
  const char* home = std::getenv("TENON_HOME");
  const std::string path =
      std::string(home == nullptr ? "" : home) + "/smollm2-135m-instruct.chat.json";
  const std::string text = home == nullptr ? "" : ReadChatFile(path);
  if (text.empty())
    GTEST_SKIP() << "missing " << path
                 << ": scripts/make_chat_golden.py --model MODEL.gguf --out writes it";
  const auto reference = nlohmann::ordered_json::parse(text);
  ASSERT_FALSE(reference["cases"].empty());
  for (const auto& [name, variables] : reference["cases"].items()) {
    SCOPED_TRACE(name);
    const auto actual = RenderChat(reference["template"].get<std::string>(), variables);
    EXPECT_EQ(Mismatch(reference["golden"].at(name), actual), "");
  }
}

}  // namespace
}  // namespace tenon

// What the chat template tests share: the data folder and the clock their references were made
// with.
#pragma once

#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "model/chat/chat_template.h"

namespace tenon {

// Files committed beside the tests; the working directory is the repository's root.
inline std::string ChatDataPath(const std::string& name) {
  return "tests/data/chat/" + name;
}

inline std::string ReadChatFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline nlohmann::ordered_json ReadChatJson(const std::string& name) {
  return nlohmann::ordered_json::parse(ReadChatFile(ChatDataPath(name)));
}

// Friday 2024-07-26 14:03:05, as in scripts/make_chat_golden.py.
inline ChatBudget ReferenceBudget() {
  std::tm time{};
  time.tm_year = 124;
  time.tm_mon = 6;
  time.tm_mday = 26;
  time.tm_hour = 14;
  time.tm_min = 3;
  time.tm_sec = 5;
  time.tm_wday = 5;
  time.tm_yday = 207;
  ChatBudget budget;
  budget.local_time = time;
  return budget;
}

inline Result<std::string> RenderChat(const std::string& source,
                                      const nlohmann::ordered_json& variables,
                                      const ChatBudget& budget = ReferenceBudget()) {
  auto parsed = ChatTemplate::Parse(source);
  if (!parsed)
    return parsed.error();
  return parsed->Render(variables, budget);
}

// Whether the reference error's text is jinja2's own, which Tenon repeats. Python's TypeErrors and
// the like only have to be errors.
inline bool HasExactText(const std::string& kind) {
  return kind == "TemplateError" || kind == "UndefinedError" || kind == "TemplateRuntimeError" ||
         kind == "SecurityError" || kind == "FilterArgumentError";
}

// The mismatch between a reference result and ours, or an empty text.
inline std::string Mismatch(const nlohmann::ordered_json& expected,
                            const Result<std::string>& actual) {
  if (expected.contains("output")) {
    const auto output = expected["output"].get<std::string>();
    if (!actual)
      return "expected output, found the error: " + actual.error().ToString();
    return *actual == output ? "" : "expected:\n" + output + "\nfound:\n" + *actual;
  }
  const auto text = expected["error"].get<std::string>();
  if (actual)
    return "expected the error: " + text + "\nfound:\n" + *actual;
  const bool exact = HasExactText(expected["kind"].get<std::string>());
  return !exact || actual.error().message == text
             ? ""
             : "expected the error: " + text + "\nfound: " + actual.error().message;
}

}  // namespace tenon

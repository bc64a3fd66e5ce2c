// A vocabulary for tests: all single bytes and some longer tokens that cross the borders of JSON's
// parts and of characters.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "engine/constrain/constraint.h"

namespace tenon {

inline std::vector<std::string> SmallVocabulary() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte)
    tokens.emplace_back(1, static_cast<char>(byte));
  for (const char* text : {"{\"",
                           "\": ",
                           "\":",
                           "\", \"",
                           "\"}",
                           "\"]",
                           "]}",
                           "}}",
                           "},",
                           " \"",
                           ", ",
                           "true",
                           "false",
                           "null",
                           "abc",
                           "ab",
                           "name",
                           "\xC3\xA9",
                           "\xE6\x97\xA5\xE6\x9C\xAC",
                           "\xE6\x97",
                           "\xA5x",
                           "\xF0\x9F\x98\x80",
                           "\\n",
                           "\\\"",
                           "\\u00",
                           "4a",
                           "00",
                           "12",
                           "-1",
                           "0.",
                           "e5",
                           "  ",
                           "\n  ",
                           "\n    ",
                           "a\", ",
                           "xyz\"}",
                           "2024-",
                           "-12",
                           "T10:",
                           "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"})
    tokens.emplace_back(text);
  tokens.emplace_back();  // a control token without bytes
  tokens.emplace_back();  // the stop token
  return tokens;
}

struct SmallTrie {
  SmallTrie() : SmallTrie(SmallVocabulary()) {}
  explicit SmallTrie(std::vector<std::string> list)
      : tokens(std::move(list)),
        stop(static_cast<int32_t>(tokens.size()) - 1),
        trie(
            static_cast<int32_t>(tokens.size()),
            [this](int32_t id) { return tokens[static_cast<size_t>(id)]; },
            std::vector<int32_t>{stop}) {}

  std::vector<std::string> tokens;
  int32_t stop;
  TokenTrie trie;
};

// A text that the constraint allows, by choosing among allowed tokens; tokens that end strings and
// brackets are preferred, so that it ends. Empty when there is no token to go on with.
inline std::string RandomText(Constraint& constraint, const SmallTrie& vocabulary,
                              std::mt19937& random) {
  constexpr int kMaxTokens = 4000;
  constexpr std::string_view kEnders = "\"]}0";
  ConstraintCursor cursor(constraint);
  std::string text;
  for (int i = 0; i < kMaxTokens && !cursor.IsOver(); ++i) {
    const auto mask = cursor.Mask();
    std::vector<int32_t> allowed;
    std::vector<int32_t> enders;
    for (int32_t token = 0; token < vocabulary.trie.vocab_size(); ++token) {
      if (!IsAllowed(mask, token))
        continue;
      allowed.push_back(token);
      const std::string& bytes = vocabulary.tokens[static_cast<size_t>(token)];
      if (token == vocabulary.stop ||
          (bytes.size() == 1 && kEnders.find(bytes[0]) != std::string_view::npos))
        enders.push_back(token);
    }
    if (allowed.empty())
      return {};
    const bool ends =
        !enders.empty() && random() % 100 < static_cast<unsigned>(std::min(10 + i / 4, 60));
    const auto& from = ends ? enders : allowed;
    const int32_t token = from[random() % from.size()];
    if (token == vocabulary.stop)
      return text;
    text += vocabulary.tokens[static_cast<size_t>(token)];
    cursor.Accept(token);
  }
  return cursor.IsOver() ? text : std::string();
}

}  // namespace tenon

// The lexer: template source to tokens, with jinja2's white-space rules for
// trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=False.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::chat {

enum class TokenKind : uint8_t {
  kData,
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,  // text holds it: "+", "==", ...
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 0;
  std::string text;  // names, operators, data; strings with their escapes resolved
  int64_t integer = 0;
  double real = 0;
};

// All tokens, the last one kEnd. Throws TemplateFailure.
std::vector<Token> Tokenize(std::string_view source);

}  // namespace tenon::chat

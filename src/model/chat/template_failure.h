// TemplateFailure: how an error leaves the depths of the parser and the interpreter.
//
// Thrown inside this folder only; ChatTemplate::Parse and Render catch it and return an Error.
#pragma once

#include <string>
#include <utility>

namespace tenon::chat {

struct TemplateFailure {
  std::string message;
  int line = 0;  // 0: filled in with the line that was being evaluated
};

[[noreturn]] inline void Fail(std::string message, int line = 0) {
  throw TemplateFailure{std::move(message), line};
}

}  // namespace tenon::chat

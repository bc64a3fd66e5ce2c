#include "frontend/cli/line_reader.h"

#include <editline/readline.h>
#include <unistd.h>

#include <clocale>
#include <cstdlib>
#include <iostream>

namespace tenon {

LineReader::LineReader() : interactive_(::isatty(STDIN_FILENO) == 1) {
  if (!interactive_)
    return;
  // The library edits by characters, which it learns from the locale.
  if (std::setlocale(LC_CTYPE, "") == nullptr || MB_CUR_MAX == 1)
    std::setlocale(LC_CTYPE, "C.UTF-8");
  using_history();
}

LineReader::~LineReader() {
  if (interactive_)
    clear_history();
}

std::optional<std::string> LineReader::Read(const char* prompt) {
  std::string line;
  if (!interactive_) {
    if (!std::getline(std::cin, line))
      return std::nullopt;
    return line;
  }
  char* raw = readline(prompt);
  if (raw == nullptr)
    return std::nullopt;
  line = raw;
  std::free(raw);
  if (!line.empty())
    add_history(line.c_str());
  return line;
}

}  // namespace tenon

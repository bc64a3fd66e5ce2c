#include "graph/pass_cases.h"

#include <fstream>
#include <stdexcept>

namespace tenon {
namespace {

// What follows `prefix` on the line, without the space; nothing when the line is another.
bool Follows(const std::string& line, const std::string& prefix, std::string& rest) {
  if (line.rfind(prefix, 0) != 0)
    return false;
  rest = line.substr(prefix.size());
  rest.erase(0, rest.find_first_not_of(' '));
  return true;
}

}  // namespace

std::vector<PassCase> ReadPassCases(const std::string& path) {
  std::ifstream file(path);
  if (!file)
    throw std::runtime_error("cannot read " + path);
  std::vector<PassCase> cases;
  std::string* section = nullptr;
  std::string rest;
  for (std::string line; std::getline(file, line);) {
    if (Follows(line, "case:", rest)) {
      cases.push_back({rest, "int8", "", ""});
      section = nullptr;
    } else if (cases.empty()) {
      continue;  // the file's heading
    } else if (Follows(line, "activations:", rest)) {
      cases.back().activations = rest;
    } else if (Follows(line, "input:", rest)) {
      section = &cases.back().input;
    } else if (Follows(line, "expected:", rest)) {
      section = &cases.back().expected;
      *section = rest == "unchanged" ? cases.back().input : "";
    } else if (section != nullptr) {
      *section += line + "\n";
    }
  }
  return cases;
}

}  // namespace tenon

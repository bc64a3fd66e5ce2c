// For schema_test.py: one JSON object a line on stdin, {"schema" or "regex", "samples", "texts"};
// for each a line on stdout: {"error"} or {"samples": [texts], "accepts": [booleans]}.
#include <iostream>
#include <nlohmann/json.hpp>

#include "constrain/small_vocabulary.h"
#include "engine/constrain/json_schema.h"
#include "engine/constrain/regex.h"

namespace tenon {
namespace {

using Json = nlohmann::ordered_json;

Result<std::unique_ptr<Constraint>> Compile(const Json& line, const TokenTrie& trie) {
  Grammar grammar;
  JsonGrammar json(grammar);
  const auto term = line.contains("regex") ? CompileRegex(grammar, line["regex"].get<std::string>(),
                                                          TextForm::kPlain, RegexMatch::kWhole)
                                           : CompileJsonSchema(json, line["schema"]);
  if (!term.ok())
    return term.error();
  return Constraint::Create(grammar, *term, trie);
}

Json Answer(const Json& line, const SmallTrie& vocabulary) {
  auto constraint = Compile(line, vocabulary.trie);
  if (!constraint.ok())
    return {{"error", constraint.error().ToString()}};
  std::mt19937 random(1);
  Json answer{{"samples", Json::array()}, {"accepts", Json::array()}};
  for (int i = 0; i < line.value("samples", 0); ++i)
    answer["samples"].push_back(RandomText(**constraint, vocabulary, random));
  for (const Json& text : line.value("texts", Json::array())) {
    const auto end = (*constraint)->AfterBytes((*constraint)->start(), text.get<std::string>());
    answer["accepts"].push_back((*constraint)->IsAccepting(end));
  }
  return answer;
}

}  // namespace
}  // namespace tenon

int main() {
  const tenon::SmallTrie vocabulary;
  for (std::string line; std::getline(std::cin, line);)
    std::cout << tenon::Answer(nlohmann::ordered_json::parse(line), vocabulary).dump() << std::endl;
  return 0;
}

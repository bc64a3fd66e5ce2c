// `tenon tokenize`: text to ids, once or line by line.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "frontend/cli/command.h"
#include "frontend/cli/model_flags.h"

namespace tenon {
namespace {

struct TokenizeFlags {
  ModelFlags model;
  std::string text;
  bool jsonl = false;
  bool json = false;
  bool special = false;
  bool bos = false;
  bool pieces = false;
};

std::vector<int32_t> Encode(const Tokenizer& tokenizer, const TokenizeFlags& flags,
                            std::string_view text) {
  return tokenizer.Encode(text, flags.special ? SpecialText::kParse : SpecialText::kPlain,
                          flags.bos ? AddSpecial::kModelDefault : AddSpecial::kNone);
}

// One JSON string a line in, one JSON array of ids a line out.
Status TokenizeLines(const Tokenizer& tokenizer, const TokenizeFlags& flags) {
  std::string line;
  for (int64_t number = 1; std::getline(std::cin, line); ++number) {
    const auto value = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!value.is_string())
      return InvalidArgument("not a JSON string", fmt::format("stdin: line {}", number));
    fmt::print("[{}]\n", fmt::join(Encode(tokenizer, flags, value.get<std::string>()), ","));
  }
  return {};
}

void PrintIds(const Tokenizer& tokenizer, const TokenizeFlags& flags,
              const std::vector<int32_t>& ids) {
  if (!flags.pieces) {
    fmt::print("{}{}{}\n", flags.json ? "[" : "", fmt::join(ids, flags.json ? "," : " "),
               flags.json ? "]" : "");
    return;
  }
  for (int32_t id : ids)
    fmt::print("{:>8}  {}\n", id, tokenizer.TokenText(id));
}

Status Tokenize(const TokenizeFlags& flags) {
  TENON_ASSIGN_OR_RETURN(auto model, flags.model.OpenModel());
  const Tokenizer& tokenizer = model->tokenizer();
  if (flags.jsonl)
    return TokenizeLines(tokenizer, flags);
  std::string text = flags.text;
  if (text.empty())
    text.assign(std::istreambuf_iterator<char>(std::cin), {});
  PrintIds(tokenizer, flags, Encode(tokenizer, flags, text));
  return {};
}

}  // namespace

CommandBody DefineTokenize(CLI::App& app) {
  auto flags = std::make_shared<TokenizeFlags>();
  flags->model.AddModel(app);
  auto* prompt = app.add_option("-p,--prompt", flags->text, "The text (default: standard input)");
  auto* jsonl = app.add_flag("--jsonl", flags->jsonl,
                             "One JSON string a line in, one array of ids a line out");
  auto* json = app.add_flag("--json", flags->json, "Ids as a JSON array");
  jsonl->excludes(prompt)->excludes(json);
  app.add_flag("--special", flags->special, "Text that spells a control token becomes the token");
  app.add_flag("--bos", flags->bos, "Add the beginning token if the model asks for one");
  app.add_flag("--pieces", flags->pieces, "One id and its spelling a line")
      ->excludes(json)
      ->excludes(jsonl);
  return [flags] { return Tokenize(*flags); };
}

}  // namespace tenon

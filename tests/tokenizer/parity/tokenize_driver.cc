// Runs the tokenizer for scripts/make_tokenizer_golden.py, one JSON value a line.
//
//   tokenize_driver MODEL [--special]   JSON strings to arrays of ids
//   tokenize_driver FILE.json ...       the same with a tokenizer.json; --special adds the tokens
//   around tokenize_driver MODEL --decode      arrays of ids to arrays of bytes tokenize_driver
//   --pre NAME          JSON strings to arrays of arrays of bytes, the pieces tokenize_driver --nfc
//   JSON strings to their normal form
#include <fmt/core.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file_io.h"
#include "model/hf/tokenizer_json.h"
#include "model/model_source.h"
#include "model/tokenizer/nfc.h"
#include "model/tokenizer/pre_tokenizer.h"
#include "model/tokenizer/tokenizer.h"

namespace tenon {
namespace {

using nlohmann::json;

template <class Convert>
int ForEachLine(const Convert& convert) {
  for (std::string line; std::getline(std::cin, line);)
    std::cout << convert(json::parse(line)).dump() << '\n';
  return 0;
}

json BytesOf(std::string_view text) {
  return std::vector<uint8_t>(text.begin(), text.end());
}

int Fail(const Error& error) {
  std::cerr << error.ToString() << '\n';
  return 1;
}

int RunPre(const std::string& name) {
  auto family = FindSplitFamily(name);
  if (!family.ok())
    return Fail(family.error());
  const PreTokenizer pre_tokenizer(family->steps);
  return ForEachLine([&](const json& text) {
    json pieces = json::array();
    for (std::string_view piece : pre_tokenizer.Split(text.get_ref<const std::string&>()))
      pieces.push_back(BytesOf(piece));
    return pieces;
  });
}

int RunNfc() {
  const Nfc nfc;
  return ForEachLine(
      [&](const json& text) { return json(nfc.Normalize(text.get_ref<const std::string&>())); });
}

Result<TokenizerSpec> ReadSpec(const std::string& path) {
  if (path.ends_with(".json")) {
    TENON_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path, kMaxTokenizerBytes));
    TENON_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Parse(text, path));
    return ReadTokenizerJson(document.root(), 0);
  }
  TENON_ASSIGN_OR_RETURN(ModelSource source, OpenModel(path));
  return std::move(source.tokenizer);
}

int RunModel(const std::string& path, const std::string& mode) {
  auto spec = ReadSpec(path);
  if (!spec.ok())
    return Fail(spec.error());
  auto tokenizer = Tokenizer::Create(std::move(*spec));
  if (!tokenizer.ok())
    return Fail(tokenizer.error());
  const bool around = path.ends_with(".json") && mode == "--special";
  const SpecialText special = mode == "--special" ? SpecialText::kParse : SpecialText::kPlain;
  if (mode == "--decode")
    return ForEachLine([&](const json& ids) {
      return BytesOf(tokenizer.value()->Decode(ids.get<std::vector<int32_t>>(), special));
    });
  return ForEachLine([&](const json& text) {
    return json(tokenizer.value()->Encode(text.get_ref<const std::string&>(), special,
                                          around ? AddSpecial::kModelDefault : AddSpecial::kNone));
  });
}

int Main(const std::vector<std::string>& arguments) {
  if (arguments.size() == 2 && arguments[0] == "--pre")
    return RunPre(arguments[1]);
  if (arguments.size() == 1 && arguments[0] == "--nfc")
    return RunNfc();
  if (arguments.size() == 1 || arguments.size() == 2)
    return RunModel(arguments[0], arguments.size() == 2 ? arguments[1] : "");
  std::cerr << "usage: tokenize_driver MODEL [--special|--decode] | --pre NAME | --nfc\n";
  return 2;
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  return tenon::Main({argv + 1, argv + argc});
}

#include "frontend/server/api/infill_prompt.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>

namespace tenon {
namespace {

// More files than an editor sends; bounds the work before a token is counted.
constexpr size_t kMaxExtras = 1024;

// The marks of a family, as its vocabulary spells them. `repository` and `file` may be empty.
struct MarkNames {
  std::string_view prefix;
  std::string_view suffix;
  std::string_view middle;
  std::string_view repository;
  std::string_view file;
};
constexpr MarkNames kFamilies[] = {
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|repo_name|>", "<|file_sep|>"},
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "", "<|file_separator|>"},
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<repo_name>", "<file_sep>"},
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<reponame>", "<filename>"},
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>", "", ""},
    {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", "", ""},
    {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>", "", ""},
};

struct Marks {
  int32_t prefix;
  int32_t suffix;
  int32_t middle;
  std::optional<int32_t> repository;
  std::optional<int32_t> file;
};

std::optional<int32_t> TokenOf(const Tokenizer& tokenizer, std::string_view name) {
  if (name.empty())
    return std::nullopt;
  const auto tokens = tokenizer.Encode(name, SpecialText::kParse, AddSpecial::kNone);
  return tokens.size() == 1 ? std::optional(tokens.front()) : std::nullopt;
}

// The family that has the most of its marks.
std::optional<Marks> FindMarks(const Tokenizer& tokenizer) {
  std::optional<Marks> best;
  for (const MarkNames& names : kFamilies) {
    const auto prefix = TokenOf(tokenizer, names.prefix);
    const auto suffix = TokenOf(tokenizer, names.suffix);
    const auto middle = TokenOf(tokenizer, names.middle);
    if (!prefix.has_value() || !suffix.has_value() || !middle.has_value())
      continue;
    const Marks found{*prefix, *suffix, *middle, TokenOf(tokenizer, names.repository),
                      TokenOf(tokenizer, names.file)};
    if (!best.has_value() || (!best->file.has_value() && found.file.has_value()))
      best = found;
  }
  return best;
}

class PromptBuilder {
 public:
  explicit PromptBuilder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {
    if (tokenizer.add_bos() && tokenizer.bos_id() >= 0)
      tokens_.push_back(tokenizer.bos_id());
  }

  void Mark(int32_t token) { tokens_.push_back(token); }
  // What spells a control token in a file is text.
  void Text(std::string_view text) {
    const auto tokens = tokenizer_.Encode(text, SpecialText::kPlain, AddSpecial::kNone);
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  }
  std::vector<int32_t> Take() { return std::move(tokens_); }

 private:
  const Tokenizer& tokenizer_;
  std::vector<int32_t> tokens_;
};

// Other files come first, each behind its name where the family has a mark for that (Qwen2.5-Coder
// technical report, section 3.2); llama-server's names stand for what nobody told.
void AddExtras(const Marks& marks, const InfillText& text, PromptBuilder& prompt) {
  if (text.extras.empty())
    return;
  if (marks.repository.has_value()) {
    prompt.Mark(*marks.repository);
    prompt.Text("myproject\n");
  }
  for (const InfillText::Extra& extra : text.extras) {
    if (marks.file.has_value()) {
      prompt.Mark(*marks.file);
      prompt.Text(extra.filename + "\n");
    }
    prompt.Text(extra.text);
  }
  if (marks.file.has_value()) {
    prompt.Mark(*marks.file);
    prompt.Text("filename\n");
  }
}

Status ReadExtras(const Json& given, InfillText& text) {
  if (given.size() > kMaxExtras) {
    return InvalidArgument(
        fmt::format("found {} files, expected at most {}", given.size(), kMaxExtras),
        "input_extra");
  }
  for (size_t i = 0; i < given.size(); ++i) {
    FieldReader fields(given[i], fmt::format("input_extra[{}]", i));
    InfillText::Extra extra;
    fields.String("filename", extra.filename);
    fields.Required("text");
    fields.String("text", extra.text);
    TENON_RETURN_IF_ERROR(fields.Finish());
    if (extra.filename.empty())
      extra.filename = "tmp";
    text.extras.push_back(std::move(extra));
  }
  return {};
}

}  // namespace

Status ReadInfillText(FieldReader& fields, InfillText& text) {
  fields.Required("input_prefix");
  fields.Required("input_suffix");
  fields.String("input_prefix", text.prefix);
  fields.String("input_suffix", text.suffix);
  fields.String("prompt", text.prompt);
  const Json* extras = fields.Array("input_extra");
  return extras == nullptr ? Status() : ReadExtras(*extras, text);
}

bool CanInfill(const Tokenizer& tokenizer) {
  return FindMarks(tokenizer).has_value();
}

Result<std::vector<int32_t>> InfillTokens(const Tokenizer& tokenizer, const InfillText& text) {
  const auto marks = FindMarks(tokenizer);
  if (!marks.has_value())
    return Unsupported("the model's vocabulary has no marks for filling in", "input_prefix");
  PromptBuilder prompt(tokenizer);
  AddExtras(*marks, text, prompt);
  prompt.Mark(marks->prefix);
  prompt.Text(text.prefix);
  prompt.Mark(marks->suffix);
  prompt.Text(text.suffix);
  prompt.Mark(marks->middle);
  prompt.Text(text.prompt);
  return prompt.Take();
}

}  // namespace tenon

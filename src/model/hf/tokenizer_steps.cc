// The steps of a tokenizer.json around its model (tokenizer_json.h).
#include <fmt/format.h>

#include <array>

#include "model/hf/base64.h"
#include "model/hf/tokenizer_json.h"

namespace tenon {
namespace {

using ReadStep = Status (*)(const JsonValue& value, TokenizerPipeline& pipeline);
struct NamedStep {
  std::string_view type;
  ReadStep read;
};

template <size_t count>
Status ReadNamed(const std::array<NamedStep, count>& known, const JsonValue& value,
                 TokenizerPipeline& pipeline) {
  TENON_ASSIGN_OR_RETURN(const JsonValue field, value.At("type"));
  TENON_ASSIGN_OR_RETURN(const std::string_view type, field.String());
  std::string names;
  for (const NamedStep& step : known) {
    if (step.type == type)
      return step.read(value, pipeline);
    names += fmt::format("{}{}", names.empty() ? "" : ", ", step.type);
  }
  return field.NotSupported(fmt::format("the type '{}'; known are {}", type, names));
}

// A "Sequence": the members of its list in turn.
Status ReadList(const JsonValue& value, std::string_view field, ReadStep read,
                TokenizerPipeline& pipeline) {
  TENON_ASSIGN_OR_RETURN(const JsonValue list, value.At(field));
  TENON_ASSIGN_OR_RETURN(const auto items, list.Array());
  size_t index = 0;
  for (const simdjson::dom::element item : items)
    TENON_RETURN_IF_ERROR(read(list.Item(index++, item), pipeline));
  return {};
}

Result<std::string> ReadText(const JsonValue& value, std::string_view field) {
  TENON_ASSIGN_OR_RETURN(const JsonValue found, value.At(field));
  TENON_ASSIGN_OR_RETURN(const std::string_view text, found.String());
  return std::string(text);
}

// {"String": ...} or {"Regex": ...}.
Result<Pattern> ReadPattern(const JsonValue& value) {
  TENON_ASSIGN_OR_RETURN(const JsonValue pattern, value.At("pattern"));
  if (const auto literal = pattern.Find("String")) {
    TENON_ASSIGN_OR_RETURN(const std::string_view text, literal->String());
    if (text.empty())
      return literal->Wrong("an empty pattern");
    return Pattern::Literal(std::string(text));
  }
  TENON_ASSIGN_OR_RETURN(const JsonValue regex, pattern.At("Regex"));
  TENON_ASSIGN_OR_RETURN(const std::string_view text, regex.String());
  auto compiled = Pattern::Regex(text);
  if (!compiled.ok())
    return regex.NotSupported(compiled.error().message);
  return compiled;
}

template <NormalForm form>
Status ReadForm(const JsonValue&, TokenizerPipeline& pipeline) {
  pipeline.normalizers.emplace_back(normalizer::Form{form});
  return {};
}

template <class Step>
Status ReadPlainNormalizer(const JsonValue&, TokenizerPipeline& pipeline) {
  pipeline.normalizers.emplace_back(Step{});
  return {};
}

Status ReadStripNormalizer(const JsonValue& value, TokenizerPipeline& pipeline) {
  normalizer::Strip step;
  TENON_ASSIGN_OR_RETURN(step.left, value.BoolOr("strip_left", true));
  TENON_ASSIGN_OR_RETURN(step.right, value.BoolOr("strip_right", true));
  pipeline.normalizers.emplace_back(step);
  return {};
}

Status ReadPrepend(const JsonValue& value, TokenizerPipeline& pipeline) {
  TENON_ASSIGN_OR_RETURN(std::string text, ReadText(value, "prepend"));
  pipeline.normalizers.emplace_back(normalizer::Prepend{std::move(text)});
  return {};
}

Status ReadReplaceNormalizer(const JsonValue& value, TokenizerPipeline& pipeline) {
  TENON_ASSIGN_OR_RETURN(Pattern pattern, ReadPattern(value));
  TENON_ASSIGN_OR_RETURN(std::string content, ReadText(value, "content"));
  pipeline.normalizers.emplace_back(normalizer::Replace{std::move(pattern), std::move(content)});
  return {};
}

Status ReadBertNormalizer(const JsonValue& value, TokenizerPipeline& pipeline) {
  normalizer::Bert step;
  TENON_ASSIGN_OR_RETURN(step.clean_text, value.BoolOr("clean_text", true));
  TENON_ASSIGN_OR_RETURN(step.chinese_characters, value.BoolOr("handle_chinese_chars", true));
  TENON_ASSIGN_OR_RETURN(step.lowercase, value.BoolOr("lowercase", true));
  // Null: as in the original, accents go with the capitals.
  TENON_ASSIGN_OR_RETURN(step.strip_accents, value.BoolOr("strip_accents", step.lowercase));
  pipeline.normalizers.emplace_back(step);
  return {};
}

uint32_t LittleEndian(std::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = 4; i-- > 0;)
    value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

// u32 bytes of the trie, the trie, the texts.
Status ReadPrecompiled(const JsonValue& value, TokenizerPipeline& pipeline) {
  const auto field = value.Find("precompiled_charsmap");
  if (!field)
    return {};
  TENON_ASSIGN_OR_RETURN(const std::string_view text, field->String());
  const std::optional<std::string> bytes = DecodeBase64(text);
  if (!bytes.has_value() || (!bytes->empty() && bytes->size() < 4))
    return field->Wrong("base64 of a character map expected");
  if (bytes->empty())
    return {};
  const std::string_view rest = std::string_view(*bytes).substr(4);
  const uint32_t trie = LittleEndian(*bytes);
  if (trie % 4 != 0 || trie > rest.size())
    return field->Wrong(fmt::format("a trie of {} bytes in {}", trie, rest.size()));
  CharacterMap map;
  for (size_t at = 0; at < trie; at += 4)
    map.units.push_back(LittleEndian(rest.substr(at)));
  map.texts = rest.substr(trie);
  pipeline.normalizers.emplace_back(normalizer::Precompiled{std::move(map)});
  return {};
}

Status ReadNormalizerSequence(const JsonValue& value, TokenizerPipeline& pipeline) {
  return ReadList(value, "normalizers", ReadNormalizer, pipeline);
}

Result<SplitBehavior> ReadBehavior(const JsonValue& value, std::string_view otherwise) {
  constexpr std::array<std::pair<std::string_view, SplitBehavior>, 5> kKnown = {{
      {"Removed", SplitBehavior::kRemoved},
      {"Isolated", SplitBehavior::kIsolated},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous},
  }};
  TENON_ASSIGN_OR_RETURN(const std::string name, value.StringOr("behavior", otherwise));
  for (const auto& [known, behavior] : kKnown) {
    if (known == name)
      return behavior;
  }
  return value.Member("behavior", value.element()).NotSupported(fmt::format("'{}'", name));
}

Status ReadByteLevel(const JsonValue& value, TokenizerPipeline& pipeline) {
  pre_tokenizer::ByteLevel step;
  TENON_ASSIGN_OR_RETURN(step.add_prefix_space, value.BoolOr("add_prefix_space", true));
  TENON_ASSIGN_OR_RETURN(step.use_regex, value.BoolOr("use_regex", true));
  pipeline.pre_tokenizers.emplace_back(step);
  return {};
}

Status ReadSplit(const JsonValue& value, TokenizerPipeline& pipeline) {
  pre_tokenizer::Split step;
  TENON_ASSIGN_OR_RETURN(step.pattern, ReadPattern(value));
  TENON_ASSIGN_OR_RETURN(step.behavior, ReadBehavior(value, "Isolated"));
  TENON_ASSIGN_OR_RETURN(step.invert, value.BoolOr("invert", false));
  pipeline.pre_tokenizers.emplace_back(std::move(step));
  return {};
}

Status ReadDigits(const JsonValue& value, TokenizerPipeline& pipeline) {
  TENON_ASSIGN_OR_RETURN(const bool single, value.BoolOr("individual_digits", false));
  pipeline.pre_tokenizers.emplace_back(pre_tokenizer::SplitClasses{
      char_class::kDigitsStep, single ? SplitBehavior::kIsolated : SplitBehavior::kContiguous});
  return {};
}

Status ReadPunctuation(const JsonValue& value, TokenizerPipeline& pipeline) {
  TENON_ASSIGN_OR_RETURN(const SplitBehavior behavior, ReadBehavior(value, "Isolated"));
  pipeline.pre_tokenizers.emplace_back(
      pre_tokenizer::SplitClasses{char_class::kPunctuationStep, behavior});
  return {};
}

Status ReadWhitespaceSplit(const JsonValue&, TokenizerPipeline& pipeline) {
  pipeline.pre_tokenizers.emplace_back(
      pre_tokenizer::SplitClasses{char_class::kSpace, SplitBehavior::kRemoved});
  return {};
}

Status ReadBertPreTokenizer(const JsonValue& value, TokenizerPipeline& pipeline) {
  TENON_RETURN_IF_ERROR(ReadWhitespaceSplit(value, pipeline));
  pipeline.pre_tokenizers.emplace_back(
      pre_tokenizer::SplitClasses{char_class::kPunctuationStep, SplitBehavior::kIsolated});
  return {};
}

// Words and runs of signs; what lies between goes.
Status ReadWhitespace(const JsonValue&, TokenizerPipeline& pipeline) {
  pre_tokenizer::Split step;
  TENON_ASSIGN_OR_RETURN(step.pattern,
                         Pattern::Regex(R"(\w+|[^\w\s]+)", Pattern::Words::kOwnSteps));
  step.behavior = SplitBehavior::kRemoved;
  step.invert = true;
  pipeline.pre_tokenizers.emplace_back(std::move(step));
  return {};
}

Status ReadCharDelimiter(const JsonValue& value, TokenizerPipeline& pipeline) {
  TENON_ASSIGN_OR_RETURN(std::string delimiter, ReadText(value, "delimiter"));
  if (delimiter.empty())
    return value.Member("delimiter", value.element()).Wrong("empty");
  pipeline.pre_tokenizers.emplace_back(
      pre_tokenizer::Split{Pattern::Literal(std::move(delimiter)), SplitBehavior::kRemoved, false});
  return {};
}

// Older files say add_prefix_space instead of prepend_scheme.
Result<PrependScheme> ReadScheme(const JsonValue& value) {
  TENON_ASSIGN_OR_RETURN(const bool adds, value.BoolOr("add_prefix_space", true));
  TENON_ASSIGN_OR_RETURN(const std::string name,
                         value.StringOr("prepend_scheme", adds ? "always" : "never"));
  if (name == "always")
    return PrependScheme::kAlways;
  if (name == "first")
    return PrependScheme::kFirst;
  if (name == "never")
    return PrependScheme::kNever;
  return value.Member("prepend_scheme", value.element()).NotSupported(fmt::format("'{}'", name));
}

Result<std::string> ReadReplacement(const JsonValue& value) {
  TENON_ASSIGN_OR_RETURN(std::string replacement, value.StringOr("replacement", "\u2581"));
  if (replacement.empty())
    return value.Member("replacement", value.element()).Wrong("empty");
  return replacement;
}

Status ReadMetaspace(const JsonValue& value, TokenizerPipeline& pipeline) {
  pre_tokenizer::Metaspace step;
  TENON_ASSIGN_OR_RETURN(step.replacement, ReadReplacement(value));
  TENON_ASSIGN_OR_RETURN(step.scheme, ReadScheme(value));
  TENON_ASSIGN_OR_RETURN(step.split, value.BoolOr("split", true));
  pipeline.pre_tokenizers.emplace_back(std::move(step));
  return {};
}

Status ReadPreTokenizerSequence(const JsonValue& value, TokenizerPipeline& pipeline) {
  return ReadList(value, "pretokenizers", ReadPreTokenizer, pipeline);
}

template <class Step>
Status ReadPlainDecoder(const JsonValue&, TokenizerPipeline& pipeline) {
  pipeline.decoders.emplace_back(Step{});
  return {};
}

Status ReadReplaceDecoder(const JsonValue& value, TokenizerPipeline& pipeline) {
  TENON_ASSIGN_OR_RETURN(const JsonValue pattern, value.At("pattern"));
  decoder::Replace step;
  TENON_ASSIGN_OR_RETURN(step.from, ReadText(pattern, "String"));
  TENON_ASSIGN_OR_RETURN(step.to, ReadText(value, "content"));
  pipeline.decoders.emplace_back(std::move(step));
  return {};
}

// Once the tokens are fused, the text's ends are stripped; before, it would be every token's.
Status ReadStripDecoder(const JsonValue& value, TokenizerPipeline& pipeline) {
  decoder::Strip step;
  TENON_ASSIGN_OR_RETURN(step.content, ReadText(value, "content"));
  TENON_ASSIGN_OR_RETURN(step.start, value.IntegerOr("start", 0));
  TENON_ASSIGN_OR_RETURN(step.stop, value.IntegerOr("stop", 0));
  const bool fused = std::any_of(
      pipeline.decoders.begin(), pipeline.decoders.end(),
      [](const DecoderStep& other) { return std::holds_alternative<decoder::Fuse>(other); });
  if (step.content.empty() || step.start < 0 || step.stop != 0 || !fused)
    return value.NotSupported("Strip other than at the start of a fused text");
  pipeline.decoders.emplace_back(std::move(step));
  return {};
}

Status ReadMetaspaceDecoder(const JsonValue& value, TokenizerPipeline& pipeline) {
  decoder::Metaspace step;
  TENON_ASSIGN_OR_RETURN(step.replacement, ReadReplacement(value));
  TENON_ASSIGN_OR_RETURN(const PrependScheme scheme, ReadScheme(value));
  step.strips_first = scheme != PrependScheme::kNever;
  pipeline.decoders.emplace_back(std::move(step));
  return {};
}

Status ReadWordPieceDecoder(const JsonValue& value, TokenizerPipeline& pipeline) {
  decoder::WordPiece step;
  TENON_ASSIGN_OR_RETURN(step.prefix, value.StringOr("prefix", "##"));
  TENON_ASSIGN_OR_RETURN(step.cleanup, value.BoolOr("cleanup", true));
  pipeline.decoders.emplace_back(std::move(step));
  return {};
}

Status ReadBpeDecoder(const JsonValue& value, TokenizerPipeline& pipeline) {
  decoder::Bpe step;
  TENON_ASSIGN_OR_RETURN(step.suffix, value.StringOr("suffix", "</w>"));
  pipeline.decoders.emplace_back(std::move(step));
  return {};
}

Status ReadDecoderSequence(const JsonValue& value, TokenizerPipeline& pipeline) {
  return ReadList(value, "decoders", ReadDecoder, pipeline);
}

}  // namespace

Status ReadNormalizer(const JsonValue& value, TokenizerPipeline& pipeline) {
  static constexpr std::array<NamedStep, 14> kKnown = {{
      {"NFC", ReadForm<NormalForm::kNfc>},
      {"NFD", ReadForm<NormalForm::kNfd>},
      {"NFKC", ReadForm<NormalForm::kNfkc>},
      {"NFKD", ReadForm<NormalForm::kNfkd>},
      {"Lowercase", ReadPlainNormalizer<normalizer::Lowercase>},
      {"StripAccents", ReadPlainNormalizer<normalizer::StripAccents>},
      {"ByteLevel", ReadPlainNormalizer<normalizer::ByteLevel>},
      {"Nmt", ReadPlainNormalizer<normalizer::Nmt>},
      {"Strip", ReadStripNormalizer},
      {"Prepend", ReadPrepend},
      {"Replace", ReadReplaceNormalizer},
      {"BertNormalizer", ReadBertNormalizer},
      {"Precompiled", ReadPrecompiled},
      {"Sequence", ReadNormalizerSequence},
  }};
  return ReadNamed(kKnown, value, pipeline);
}

Status ReadPreTokenizer(const JsonValue& value, TokenizerPipeline& pipeline) {
  static constexpr std::array<NamedStep, 10> kKnown = {{
      {"ByteLevel", ReadByteLevel},
      {"Split", ReadSplit},
      {"Digits", ReadDigits},
      {"Metaspace", ReadMetaspace},
      {"Whitespace", ReadWhitespace},
      {"WhitespaceSplit", ReadWhitespaceSplit},
      {"Punctuation", ReadPunctuation},
      {"BertPreTokenizer", ReadBertPreTokenizer},
      {"CharDelimiterSplit", ReadCharDelimiter},
      {"Sequence", ReadPreTokenizerSequence},
  }};
  return ReadNamed(kKnown, value, pipeline);
}

Status ReadDecoder(const JsonValue& value, TokenizerPipeline& pipeline) {
  static constexpr std::array<NamedStep, 9> kKnown = {{
      {"ByteLevel", ReadPlainDecoder<decoder::ByteLevel>},
      {"ByteFallback", ReadPlainDecoder<decoder::ByteFallback>},
      {"Fuse", ReadPlainDecoder<decoder::Fuse>},
      {"Replace", ReadReplaceDecoder},
      {"Strip", ReadStripDecoder},
      {"Metaspace", ReadMetaspaceDecoder},
      {"WordPiece", ReadWordPieceDecoder},
      {"BPEDecoder", ReadBpeDecoder},
      {"Sequence", ReadDecoderSequence},
  }};
  return ReadNamed(kKnown, value, pipeline);
}

}  // namespace tenon

// The pre-tokenizers that are known, as the models' tokenizer.json files state them. The comment at
// each rule is the pattern that it stands for.
#include <array>

#include "model/tokenizer/pre_tokenizer.h"

namespace tenon {
namespace {

using namespace char_class;

constexpr uint16_t Not(uint16_t classes) {
  return static_cast<uint16_t>(kAny & ~classes);
}

constexpr CodeRange kSpaceCharacter[] = {{' ', ' '}};
constexpr CodeRange kAsciiLetters[] = {{'A', 'Z'}, {'a', 'z'}};
constexpr CodeRange kAsciiPunctuation[] = {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}};
constexpr CodeRange kSlash[] = {{'/', '/'}};

// Han, with the blocks between U+0800 and it, and Hangul: [一-龥ࠀ-一가-퟿].
constexpr CodeRange kDeepseekCjk[] = {{0x800, 0x9FA5}, {0xAC00, 0xD7FF}};
// Han, Hiragana, Katakana: [一-龥぀-ゟ゠-ヿ].
constexpr CodeRange kDeepseek3Cjk[] = {{0x3040, 0x30FF}, {0x4E00, 0x9FA5}};
// [!-/:-~！-／：-～‘-‟　-。]
constexpr CodeRange kDeepseekPunctuation[] = {{'!', '/'},       {':', '~'},       {0x2018, 0x201F},
                                              {0x3000, 0x3002}, {0xFF01, 0xFF0F}, {0xFF1A, 0xFF5E}};
// The cased letters that DeepSeek LLM's pattern spells out.
constexpr CodeRange kDeepseekLetters[] = {
    {'A', 'Z'},         {'a', 'z'},         {0xB5, 0xB5},       {0xC0, 0xD6},
    {0xD8, 0xF6},       {0xF8, 0x1BA},      {0x1BC, 0x1BF},     {0x1C4, 0x293},
    {0x295, 0x2AF},     {0x370, 0x373},     {0x376, 0x377},     {0x37B, 0x37D},
    {0x37F, 0x37F},     {0x386, 0x386},     {0x388, 0x38A},     {0x38C, 0x38C},
    {0x38E, 0x3A1},     {0x3A3, 0x3F5},     {0x3F7, 0x481},     {0x48A, 0x52F},
    {0x531, 0x556},     {0x10A0, 0x10C5},   {0x13A0, 0x13F5},   {0x13F8, 0x13FD},
    {0x1C90, 0x1CBA},   {0x1CBD, 0x1CBF},   {0x1D00, 0x1D2B},   {0x1D6B, 0x1D77},
    {0x1D79, 0x1D9A},   {0x1E00, 0x1F15},   {0x1F18, 0x1F1D},   {0x1F20, 0x1F45},
    {0x1F48, 0x1F4D},   {0x1F50, 0x1F57},   {0x1F59, 0x1F59},   {0x1F5B, 0x1F5B},
    {0x1F5D, 0x1F5D},   {0x1F5F, 0x1F7D},   {0x1F80, 0x1FB4},   {0x1FB6, 0x1FBC},
    {0x1FBE, 0x1FBE},   {0x1FC2, 0x1FC4},   {0x1FC6, 0x1FCC},   {0x1FD0, 0x1FD3},
    {0x1FD6, 0x1FDB},   {0x1FE0, 0x1FEC},   {0x1FF2, 0x1FF4},   {0x1FF6, 0x1FFC},
    {0x2102, 0x2102},   {0x2107, 0x2107},   {0x210A, 0x2113},   {0x2115, 0x2115},
    {0x2119, 0x211D},   {0x2124, 0x2124},   {0x2126, 0x2126},   {0x2128, 0x2128},
    {0x212A, 0x212D},   {0x212F, 0x2134},   {0x2139, 0x2139},   {0x213C, 0x213F},
    {0x2145, 0x2149},   {0x214E, 0x214E},   {0x2183, 0x2184},   {0x2C00, 0x2C7B},
    {0x2C7E, 0x2CE4},   {0x2CEB, 0x2CEE},   {0x2CF2, 0x2CF3},   {0xA640, 0xA66D},
    {0xA680, 0xA69B},   {0xA722, 0xA76F},   {0xA771, 0xA787},   {0xA78B, 0xA78E},
    {0xAB70, 0xABBF},   {0xFB00, 0xFB06},   {0xFB13, 0xFB17},   {0xFF21, 0xFF3A},
    {0xFF41, 0xFF5A},   {0x10400, 0x1044F}, {0x104B0, 0x104D3}, {0x104D8, 0x104FB},
    {0x10C80, 0x10CB2}, {0x10CC0, 0x10CF2}, {0x118A0, 0x118DF}, {0x1E900, 0x1E943}};
// The symbols that the default pattern counts as punctuation: $ + < = > ^ | ~.
constexpr CodeRange kDefaultSymbols[] = {{'$', '$'}, {'+', '+'}, {'<', '>'},
                                         {'^', '^'}, {'|', '|'}, {'~', '~'}};
// BLOOM's sentence marks and brackets.
constexpr char32_t kBloomMarks[] = U"(|.,!?\u2026\u3002\uFF0C\u3001\u0964\u06D4\u060C)";

constexpr CharSet kOneSpace{0, kSpaceCharacter};
constexpr SplitRule kBlanks{.shape = Shape::kBlanks};
constexpr SplitRule kBreaks{.shape = Shape::kBreaks};

// [body]{1,maximum}
constexpr SplitRule Run(CharSet body, uint32_t maximum = kUnlimited) {
  return {.body = body, .maximum = maximum};
}

// prefix?[body]+
constexpr SplitRule PrefixedRun(CharSet prefix, CharSet body, CharSet suffix = {}) {
  return {.prefix_use = Prefix::kOptional, .prefix = prefix, .body = body, .suffix = suffix};
}

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
SplitStep Gpt2Step() {
  return {{.shape = Shape::kContraction},
          PrefixedRun(kOneSpace, {kLetter}),
          PrefixedRun(kOneSpace, {kNumber}),
          PrefixedRun(kOneSpace, {Not(kSpace | kLetter | kNumber)}),
          kBlanks};
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n]*
// |\s*[\r\n]+|\s+(?!\S)|\s+; with kMark among the `letters`: [\p{L}\p{M}]+ and
// [^\s\p{L}\p{M}\p{N}]+.
SplitStep Cl100kStep(uint32_t digits, uint16_t letters = kLetter) {
  return {{.shape = Shape::kContractionFold},
          PrefixedRun({Not(kNewline | kLetter | kNumber)}, {letters}),
          Run({kNumber}, digits),
          PrefixedRun(kOneSpace, {Not(kSpace | letters | kNumber)}, {kNewline}),
          kBreaks,
          kBlanks};
}

enum class CasedContractions { kSplit, kJoin };

// prefix = [^\r\n\p{L}\p{N}]?, capital = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], small = [\p{Ll}\p{Lm}
// \p{Lo}\p{M}]: prefix capital* small+ |prefix capital+ small* (each with (?i:'s|...)? where
// joined)
// |\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
SplitStep O200kStep(uint32_t digits, CasedContractions contractions) {
  return {{.shape = Shape::kCasedWord,
           .prefix = {Not(kNewline | kLetter | kNumber)},
           .contraction_suffix = contractions == CasedContractions::kJoin},
          Run({kNumber}, digits),
          PrefixedRun(kOneSpace, {Not(kSpace | kLetter | kNumber)}, {kNewline, kSlash}),
          kBreaks,
          kBlanks};
}

SplitStep DigitsStep() {
  return {Run({kDigitsStep}, 1)};
}

// [\r\n]; \s?[letters]+; \s?[punctuation]+
std::vector<SplitStep> DeepseekWords(CharSet letters, CharSet punctuation) {
  return {
      {Run({kNewline}, 1)}, {PrefixedRun({kSpace}, letters)}, {PrefixedRun({kSpace}, punctuation)}};
}

SplitFamily Gpt2() {
  return {{Gpt2Step()}};
}
SplitFamily Gpt2Normalized() {
  return {.steps = {Gpt2Step()}, .normalize = true};
}
SplitFamily Starcoder() {
  return {{DigitsStep(), Gpt2Step()}};
}
SplitFamily CommandR() {
  return {.steps = {DigitsStep(), Gpt2Step()}, .normalize = true};
}
SplitFamily Llama3() {
  return {.steps = {Cl100kStep(3)}, .whole_words = true};
}
SplitFamily Dbrx() {
  return {{Cl100kStep(3)}};
}
SplitFamily Qwen2() {
  return {.steps = {Cl100kStep(1)}, .normalize = true};
}
SplitFamily Qwen35() {
  return {.steps = {Cl100kStep(1, kLetter | kMark)}, .normalize = true};
}
SplitFamily Gpt4o() {
  return {{O200kStep(3, CasedContractions::kJoin)}};
}

SplitFamily Tekken() {
  return {.steps = {O200kStep(1, CasedContractions::kSplit)}, .whole_words = true};
}

SplitFamily DeepseekLlm() {
  SplitFamily family{DeepseekWords({0, kDeepseekLetters}, {0, kDeepseekPunctuation})};
  family.steps.push_back({{.shape = Shape::kBlanksAtEnd}});
  family.steps.push_back({Run({0, kDeepseekCjk})});
  family.steps.push_back(DigitsStep());
  return family;
}

SplitFamily DeepseekCoder() {
  SplitFamily family{DeepseekWords({kLetter}, {kPunctuation})};
  family.steps.push_back({Run({0, kDeepseekCjk})});
  family.steps.push_back(DigitsStep());
  return family;
}

// \p{N}{1,3}; [Han and kana]+; [ASCII punctuation][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
// | ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
SplitFamily DeepseekV3() {
  SplitStep words = {
      {.prefix_use = Prefix::kRequired,
       .prefix = {0, kAsciiPunctuation},
       .body = {0, kAsciiLetters}},
      PrefixedRun({Not(kNewline | kLetter | kPunctuation | kSymbol)}, {kLetter | kMark}),
      PrefixedRun(kOneSpace, {kPunctuation | kSymbol}, {kNewline}),
      kBreaks,
      kBlanks};
  return {{{Run({kNumber}, 3)}, {Run({0, kDeepseek3Cjk})}, std::move(words)}};
}

// The steps Punctuation, ByteLevel with GPT-2's pattern, Digits on the mapped bytes; triples.
SplitFamily Falcon() {
  return {{{Run({kPunctuationStep})},
           Gpt2Step(),
           {{.shape = Shape::kMappedDigits}},
           {{.shape = Shape::kDigitTriple}}}};
}

// For files that do not say what they were trained with; llama.cpp's choice for them.
// [\p{P}$+<=>^~|]+; GPT-2's pattern; \p{N}+; [0-9][0-9][0-9]
SplitFamily Default() {
  return {{{Run({kPunctuation, kDefaultSymbols})},
           Gpt2Step(),
           {Run({kNumber})},
           {{.shape = Shape::kDigitTriple}}}};
}

//  ?[^(\s|.,!?...)]+
SplitStep BloomStep() {
  return {PrefixedRun(kOneSpace, {Not(kSpace), {}, std::u32string_view(kBloomMarks)})};
}

SplitFamily Bloom() {
  return {{BloomStep()}};
}
SplitFamily Viking() {
  return {{BloomStep(), {Run({kNumber}, 1)}}};
}

struct NamedPattern {
  std::string_view regex;
  SplitStep (*make)();
};

// In the spelling of the models' tokenizer.json files.
#define TENON_CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define TENON_CL100K(digits)                                     \
  TENON_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})" digits \
                     R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"
constexpr NamedPattern kPatterns[] = {
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", Gpt2Step},
    {TENON_CL100K("{1,3}"), [] { return Cl100kStep(3); }},
    {TENON_CL100K(""), [] { return Cl100kStep(1); }},
};
#undef TENON_CL100K
#undef TENON_CONTRACTIONS

struct NamedFamily {
  std::string_view name;
  SplitFamily (*make)();
};

constexpr NamedFamily kFamilies[] = {
    {"default", Default},
    {"gpt-2", Gpt2},
    {"phi-2", Gpt2},
    {"mpt", Gpt2Normalized},
    {"olmo", Gpt2Normalized},
    {"smollm", Starcoder},
    {"starcoder", Starcoder},
    {"refact", Starcoder},
    {"codeshell", Starcoder},
    {"command-r", CommandR},
    {"llama-bpe", Llama3},
    {"llama3", Llama3},
    {"llama-v3", Llama3},
    {"smaug-bpe", Dbrx},
    {"dbrx", Dbrx},
    {"qwen2", Qwen2},
    {"deepseek-r1-qwen", Qwen2},
    {"stablelm2", Qwen2},
    {"qwen35", Qwen35},
    {"gpt-4o", Gpt4o},
    {"llama4", Gpt4o},
    {"tekken", Tekken},
    {"deepseek-llm", DeepseekLlm},
    {"deepseek-coder", DeepseekCoder},
    {"deepseek-v3", DeepseekV3},
    {"falcon", Falcon},
    {"bloom", Bloom},
    {"poro-chat", Bloom},
    {"viking", Viking},
};

}  // namespace

Result<SplitFamily> FindSplitFamily(std::string_view name) {
  for (const NamedFamily& family : kFamilies) {
    if (family.name == (name.empty() ? "default" : name))
      return family.make();
  }
  std::string known;
  for (std::string_view other : SplitFamilyNames())
    known.append(known.empty() ? "" : ", ").append(other);
  return Unsupported("unknown pre-tokenizer \"" + std::string(name) + "\"; known are " + known,
                     "tokenizer.ggml.pre");
}

std::optional<SplitStep> FindSplitPattern(std::string_view regex) {
  for (const NamedPattern& pattern : kPatterns) {
    if (pattern.regex == regex)
      return pattern.make();
  }
  return std::nullopt;
}

std::vector<std::string_view> SplitFamilyNames() {
  std::vector<std::string_view> names;
  for (const NamedFamily& family : kFamilies)
    names.push_back(family.name);
  return names;
}

}  // namespace tenon

#include "frontend/quantize/calibration_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/file_io.h"

namespace tenon {
namespace {

// Calibration reads some 32,000 tokens; a file of this size has a hundred times more.
constexpr uint64_t kMostBytes = uint64_t{256} << 20;
constexpr int64_t kShortTokens = 128;
constexpr int64_t kLongTokens = 512;
constexpr int64_t kFewestTexts = 500;
// A run of 13 equal tokens is the usual sign that one text holds a piece of another.
constexpr size_t kRunTokens = 13;

Result<std::string> TextOf(const nlohmann::json& value, const std::string& where) {
  if (value.is_string())
    return value.get<std::string>();
  const auto found = value.is_object() ? value.find("text") : value.end();
  if (!value.is_object() || found == value.end() || !found->is_string())
    return Corrupt("a string or an object with a string \"text\" expected", where);
  return found->get<std::string>();
}

Result<std::vector<std::string>> ReadJsonLines(const std::string& bytes, const std::string& name) {
  std::vector<std::string> texts;
  size_t begin = 0;
  for (int64_t line = 1; begin < bytes.size(); ++line) {
    const size_t end = std::min(bytes.find('\n', begin), bytes.size());
    const std::string_view text = std::string_view(bytes).substr(begin, end - begin);
    begin = end + 1;
    if (text.find_first_not_of(" \t\r") == std::string_view::npos)
      continue;
    const nlohmann::json value = nlohmann::json::parse(text, nullptr, false);
    TENON_ASSIGN_OR_RETURN(std::string found,
                           TextOf(value, fmt::format("{}: line {}", name, line)));
    texts.push_back(std::move(found));
  }
  return texts;
}

Result<std::vector<std::string>> ReadJsonArray(const std::string& bytes, const std::string& name) {
  const nlohmann::json values = nlohmann::json::parse(bytes, nullptr, false);
  if (!values.is_array())
    return Corrupt("no JSON array", name);
  std::vector<std::string> texts;
  for (size_t i = 0; i < values.size(); ++i) {
    TENON_ASSIGN_OR_RETURN(std::string text,
                           TextOf(values[i], fmt::format("{}: element {}", name, i)));
    texts.push_back(std::move(text));
  }
  return texts;
}

uint64_t RunHash(std::span<const int32_t> tokens) {
  uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
  for (const int32_t token : tokens)
    hash = (hash ^ static_cast<uint32_t>(token)) * 0x100000001b3U;
  return hash;
}

// Share of the set's runs of tokens that the other text has too.
double SharedRuns(const std::vector<int32_t>& tokens, const std::vector<int32_t>& other) {
  if (tokens.size() < kRunTokens || other.size() < kRunTokens)
    return 0.0;
  std::unordered_set<uint64_t> known;
  for (size_t i = 0; i + kRunTokens <= other.size(); ++i)
    known.insert(RunHash(std::span(other).subspan(i, kRunTokens)));
  size_t shared = 0;
  const size_t runs = tokens.size() - kRunTokens + 1;
  for (size_t i = 0; i < runs; ++i)
    shared += known.contains(RunHash(std::span(tokens).subspan(i, kRunTokens))) ? 1 : 0;
  return static_cast<double>(shared) / static_cast<double>(runs);
}

// Pieces of all texts, in order.
std::vector<std::vector<int32_t>> CutTexts(const std::vector<std::string>& texts,
                                           const Tokenizer& tokenizer, int64_t length,
                                           CalibrationSet& set) {
  std::vector<std::vector<int32_t>> pieces;
  for (const std::string& text : texts) {
    const std::vector<int32_t> tokens =
        tokenizer.Encode(text, SpecialText::kPlain, AddSpecial::kModelDefault);
    const auto count = static_cast<int64_t>(tokens.size());
    set.file_tokens += count;
    set.short_texts += count < kShortTokens ? 1 : 0;
    set.long_texts += count > kLongTokens ? 1 : 0;
    for (int64_t begin = 0; begin < count; begin += length) {
      const auto first = tokens.begin() + begin;
      pieces.emplace_back(first, first + std::min(length, count - begin));
      // As in measuring perplexity: every piece begins as the model's texts do.
      if (tokenizer.add_bos())
        pieces.back().front() = tokenizer.bos_id();
    }
  }
  return pieces;
}

}  // namespace

Result<std::vector<std::string>> ReadCalibrationTexts(const std::filesystem::path& path) {
  TENON_ASSIGN_OR_RETURN(std::string bytes, ReadWholeFile(path, kMostBytes));
  if (path.extension() == ".jsonl")
    return ReadJsonLines(bytes, path.string());
  if (path.extension() == ".json")
    return ReadJsonArray(bytes, path.string());
  return std::vector<std::string>{std::move(bytes)};
}

Result<CalibrationSet> MakeCalibrationSet(const std::vector<std::string>& texts,
                                          const Tokenizer& tokenizer,
                                          const CalibrationLimits& limits) {
  CalibrationSet set;
  set.texts = static_cast<int64_t>(texts.size());
  const auto pieces = CutTexts(texts, tokenizer, limits.sequence_tokens, set);
  if (set.file_tokens == 0)
    return InvalidArgument("the texts have no tokens", "--calib-data");
  const double share = std::min(
      1.0, static_cast<double>(limits.total_tokens) / static_cast<double>(set.file_tokens));
  double due = 0.0;  // pieces that should have been taken by now
  int64_t taken = 0;
  for (const std::vector<int32_t>& piece : pieces) {
    due += share;
    if (due < static_cast<double>(taken) + 0.5)
      continue;
    ++taken;
    set.sequences.tokens.insert(set.sequences.tokens.end(), piece.begin(), piece.end());
    set.sequences.ends.push_back(set.sequences.size());
  }
  if (taken == 0) {
    set.sequences.tokens = pieces.front();
    set.sequences.ends = {set.sequences.size()};
  }
  return set;
}

std::vector<std::string> CalibrationWarnings(const CalibrationSet& set,
                                             const std::vector<int32_t>& evaluation) {
  std::vector<std::string> warnings;
  const auto texts = static_cast<double>(std::max<int64_t>(set.texts, 1));
  if (set.texts == 1) {
    warnings.push_back(
        "the calibration data is one text; 500 to 1,000 texts of the kind that the "
        "model will see are better");
  } else if (set.texts < kFewestTexts) {
    warnings.push_back(
        fmt::format("{} calibration texts; 500 to 1,000 are recommended", set.texts));
  }
  const double brief = static_cast<double>(set.short_texts) / texts;
  const double lengthy = static_cast<double>(set.long_texts) / texts;
  // Twice the recommended share, or none of a kind that should be there.
  if (set.texts > 1 && (brief > 0.2 || lengthy > 0.2 || brief == 0.0 || lengthy == 0.0)) {
    warnings.push_back(fmt::format(
        "of the calibration texts {:.0f}% are short (below {} tokens) and {:.0f}% long (above {}); "
        "10% and 10% are recommended",
        100.0 * brief, kShortTokens, 100.0 * lengthy, kLongTokens));
  }
  const double shared = SharedRuns(set.sequences.tokens, evaluation);
  if (shared > 0.001) {
    warnings.push_back(fmt::format(
        "{:.1f}% of the calibration text is in the text that quality is measured on; the result "
        "will look better than it is",
        100.0 * shared));
  }
  return warnings;
}

}  // namespace tenon

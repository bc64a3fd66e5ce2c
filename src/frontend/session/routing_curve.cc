#include "frontend/session/routing_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "accel/routing/route_state.h"
#include "base/mapped_file.h"

namespace tenon {
namespace {

std::string DocumentOf(const nlohmann::json& line) {
  std::string text;
  for (const char* field : {"question", "answer", "text", "prompt"}) {
    const auto found = line.find(field);
    if (found != line.end() && found->is_string())
      text += (text.empty() ? "" : "\n") + found->get<std::string>();
  }
  return text;
}

Result<std::vector<std::string>> JsonDocuments(std::string_view text, const std::string& name) {
  std::vector<std::string> documents;
  size_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.empty())
      continue;
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object())
      return Corrupt("found no JSON object", fmt::format("{}:{}", name, number));
    documents.push_back(DocumentOf(json));
    if (documents.back().empty())
      return Corrupt("no field question, answer, text or prompt",
                     fmt::format("{}:{}", name, number));
  }
  return documents;
}

// WikiText's titles: " = Title = ", not the " = = Section = = " below them.
bool IsTitle(std::string_view line) {
  return line.starts_with(" = ") && !line.starts_with(" = = ") && line.ends_with(" = ");
}

std::vector<std::string> TextDocuments(std::string_view text) {
  std::vector<std::string> documents(1);
  bool has_titles = false;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const bool is_title = IsTitle(line);
    has_titles |= is_title;
    const bool is_full = !has_titles && documents.back().size() >= kDocumentBytes;
    if ((is_title || is_full) && !documents.back().empty())
      documents.emplace_back();
    documents.back().append(text.substr(0, std::min(end + 1, text.size())));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  std::erase_if(documents, [](const std::string& document) {
    return document.find_first_not_of(" \n\r\t") == std::string::npos;
  });
  return documents;
}

}  // namespace

Result<std::vector<std::string>> ReadDocuments(const std::filesystem::path& path) {
  TENON_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.size());
  if (path.extension() == ".jsonl")
    return JsonDocuments(text, path.string());
  return TextDocuments(text);
}

TextWindows MakeWindows(const Model& model, std::span<const std::string> documents, int64_t length,
                        int64_t tokens) {
  TextWindows result;
  int64_t taken = 0;
  for (size_t d = 0; d < documents.size() && taken < tokens; ++d) {
    const auto ids =
        model.tokenizer().Encode(documents[d], SpecialText::kPlain, AddSpecial::kModelDefault);
    for (size_t first = 0; first + 1 < ids.size() && taken < tokens;) {
      const size_t count = std::min(static_cast<size_t>(length), ids.size() - first);
      TraceWindow window;
      const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(first);
      window.tokens.assign(begin, begin + static_cast<std::ptrdiff_t>(count));
      result.windows.push_back(std::move(window));
      result.document.push_back(d);
      first += count;
      taken += static_cast<int64_t>(count);
    }
  }
  return result;
}

namespace {

// One run of the router over the trace; every window begins with the small model.
CurvePoint RunAlong(std::span<const TraceRow> rows, std::span<const double> confidence,
                    const RouteRules& rules) {
  CurvePoint point;
  point.threshold = rules.threshold;
  const RouteState::Time now;  // the limit of switches is off
  RouteState state;
  double large = 0.0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const TraceRow& row = rows[i];
    if (i == 0 || row.window != rows[i - 1].window)
      state = RouteState();
    const bool is_small = state.side() == RouteSide::kSmall &&
                          state.Offer(rules, confidence[i], now) == RouteState::Verdict::kKeep;
    if (!is_small)
      state.LargeDecided(rules, row.large.top1, now);
    const bool agrees = !is_small || row.small.best == row.large.best;
    large += is_small ? 0.0 : 1.0;
    point.agreement += agrees ? 1.0 : 0.0;
    point.nll -= is_small ? row.small_truth_logprob : row.large_truth_logprob;
  }
  const double count = std::max<double>(static_cast<double>(rows.size()), 1.0);
  point.large_share = large / count;
  point.agreement /= count;
  point.nll /= count;
  return point;
}

}  // namespace

std::vector<CurvePoint> RoutingCurve(std::span<const TraceRow> rows,
                                     std::span<const double> confidence, int64_t hysteresis,
                                     std::span<const double> thresholds) {
  double agree = 0.0;
  double small_nll = 0.0;
  double large_nll = 0.0;
  for (const TraceRow& row : rows) {
    agree += row.small.best == row.large.best ? 1.0 : 0.0;
    small_nll -= row.small_truth_logprob;
    large_nll -= row.large_truth_logprob;
  }
  const double count = std::max<double>(static_cast<double>(rows.size()), 1.0);
  std::vector<CurvePoint> curve;
  for (const double threshold : thresholds) {
    RouteRules rules;
    rules.threshold = threshold;
    rules.return_threshold = threshold;
    rules.hysteresis = hysteresis;
    rules.return_after = hysteresis;
    rules.max_switches_per_s = 0;
    CurvePoint point = RunAlong(rows, confidence, rules);
    const double share = point.large_share;
    point.random_agreement = share + (1.0 - share) * agree / count;
    point.random_nll = (share * large_nll + (1.0 - share) * small_nll) / count;
    curve.push_back(point);
  }
  return curve;
}

double GainOverRandom(std::span<const CurvePoint> curve) {
  std::vector<CurvePoint> sorted(curve.begin(), curve.end());
  std::ranges::sort(sorted, {}, &CurvePoint::large_share);
  double area = 0.0;
  for (size_t i = 1; i < sorted.size(); ++i) {
    const double width = sorted[i].large_share - sorted[i - 1].large_share;
    const double gain = (sorted[i].agreement - sorted[i].random_agreement +
                         sorted[i - 1].agreement - sorted[i - 1].random_agreement) /
                        2.0;
    area += width * gain;
  }
  return area;
}

}  // namespace tenon

// Texts for routing work, and the curve of quality against the large model's share of tokens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "accel/routing/routing_trace.h"
#include "base/result.h"
#include "frontend/session/model.h"

namespace tenon {

// Documents of a text file: a .jsonl file has one a line, its string fields ("question", "answer",
// "text", "prompt", in this order) joined by newlines; any other file is cut at its headlines
// (WikiText's " = Title = ") or, without any, at every kDocumentBytes.
Result<std::vector<std::string>> ReadDocuments(const std::filesystem::path& path);
inline constexpr size_t kDocumentBytes = 8192;

// Windows of at most `length` tokens from the documents, up to `tokens` in all; windows of one
// document are neighbours. Sets `document[i]` to the window's document.
struct TextWindows {
  std::vector<TraceWindow> windows;
  std::vector<size_t> document;
};
TextWindows MakeWindows(const Model& model, std::span<const std::string> documents, int64_t length,
                        int64_t tokens);

// One setting of the router on a trace: tokens from the large model where it leads.
struct CurvePoint {
  double threshold = 0.0;
  double large_share = 0.0;
  double agreement = 0.0;         // tokens that are the large model's best
  double random_agreement = 0.0;  // of a router that asks at random, at the same share
  double nll = 0.0;               // of the text, by the model that leads
  double random_nll = 0.0;
};

// The states of routing run along the trace: the confidence (in 0..1) of each row by the small
// model's score. With hysteresis 1 every token is judged alone.
std::vector<CurvePoint> RoutingCurve(std::span<const TraceRow> rows,
                                     std::span<const double> confidence, int64_t hysteresis,
                                     std::span<const double> thresholds);

// The area between a curve's agreement and the random router's, over the share: 0 is no better.
double GainOverRandom(std::span<const CurvePoint> curve);

}  // namespace tenon

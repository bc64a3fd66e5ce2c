// The calibration texts: read from a file, cut to sequences of tokens, and judged.
//
// Threading: free functions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "frontend/quantize/segment_runner.h"
#include "model/tokenizer/tokenizer.h"

namespace tenon {

// Texts of a file. ".json": an array of strings or of objects with "text"; ".jsonl": one such value
// a line; anything else: one plain text. Fails, naming file and line, for other JSON.
Result<std::vector<std::string>> ReadCalibrationTexts(const std::filesystem::path& path);

struct CalibrationLimits {
  int64_t sequence_tokens = SegmentRunner::kStepTokens;  // longer texts are cut in pieces
  int64_t total_tokens = 32768;
};

struct CalibrationSet {
  TokenSequences sequences;
  int64_t texts = 0;        // in the file
  int64_t file_tokens = 0;  // of all texts
  int64_t short_texts = 0;  // below 128 tokens
  int64_t long_texts = 0;   // above 512
};

// Cuts the texts to sequences and keeps as many as the limit allows, evenly spread over the file:
// the same ones every time. Fails when there is no token at all.
Result<CalibrationSet> MakeCalibrationSet(const std::vector<std::string>& texts,
                                          const Tokenizer& tokenizer,
                                          const CalibrationLimits& limits);

// What is poor about the set, one sentence each: too few or too many texts (500 to 1,000 are
// enough), lengths far from 10% short, 80% middle and 10% long, and runs of 13 tokens that it
// shares with the text that quality will be measured on (`evaluation`, may be empty).
std::vector<std::string> CalibrationWarnings(const CalibrationSet& set,
                                             const std::vector<int32_t>& evaluation);

}  // namespace tenon

// LogitFile: log-probabilities of a model at scored positions, saved to compare other forms with.
//
// Layout, little-endian: "TENONLP1", u32 vocabulary, u32 context, u32 chunks, u64
// hash of all scored tokens; then for each scored position `vocabulary` floats (log-softmax).
// Threading: one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

#include "base/mapped_file.h"
#include "base/result.h"

namespace tenon {

struct LogitHeader {
  uint32_t vocabulary = 0;
  uint32_t context = 0;
  uint32_t chunks = 0;
  uint64_t token_hash = 0;
  bool operator==(const LogitHeader&) const = default;
};

// FNV-1a of token ids.
uint64_t HashTokens(std::span<const int32_t> tokens);

// Writes beside the path and takes its name in Close: an unfinished file never has it.
class LogitWriter {
 public:
  static Result<LogitWriter> Create(const std::filesystem::path& path, const LogitHeader& header);
  Status Write(std::span<const float> log_probabilities);
  Status Close();

 private:
  std::filesystem::path path_;
  std::filesystem::path partial_;
  std::ofstream file_;
};

class LogitReader {
 public:
  // Fails, saying which differ, when the file was made with another header.
  static Result<LogitReader> Open(const std::filesystem::path& path, const LogitHeader& expected);
  // The next position's log-probabilities.
  Status Read(std::span<float> out);

 private:
  explicit LogitReader(MappedFile file) : file_(std::move(file)) {}
  MappedFile file_;
  uint64_t offset_ = 0;
};

}  // namespace tenon

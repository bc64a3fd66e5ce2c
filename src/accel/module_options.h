// OptionReader: the options of one module, taken by name with strict types.
//
// An option that is absent leaves the value as it was: the default. The first thing that is wrong
// stays as the error, with its place ("modules.ngram.max_guesses"), and Finish refuses what nobody
// asked for, so that no option is ignored in silence. Threading: one thread.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tenon {

struct OptionRange {
  double low;
  double high;
};

class OptionReader {
 public:
  // `options` must outlive the reader.
  OptionReader(std::string_view module, const nlohmann::json& options);
  // A block of its own, such as `monitoring`: errors name "monitoring.p99_rollback".
  struct TopLevel {
    std::string name;
  };
  OptionReader(TopLevel block, const nlohmann::json& options);

  void Int(std::string_view name, int64_t& value, OptionRange range);
  void Number(std::string_view name, double& value, OptionRange range);
  // A number from 0 to 1, or a percentage as text: 0.15 or "15%".
  void Share(std::string_view name, double& value);
  void Text(std::string_view name, std::string& value);
  void Object(std::string_view name, nlohmann::json& value);
  // One of `choices`; sets its index.
  void Choice(std::string_view name, size_t& index, std::span<const std::string_view> choices);

  Status Finish();

 private:
  const nlohmann::json* Find(std::string_view name);
  void Fail(std::string_view name, std::string message);
  void WrongType(std::string_view name, std::string_view expected, const nlohmann::json& found);

  std::string path_;
  const nlohmann::json& options_;
  std::vector<std::string> known_;
  Status status_;
};

// "15%" or "0.15" as 0.15. Fails when it is neither, or not from 0 to 1.
Result<double> ParseShare(std::string_view text);

}  // namespace tenon

// ProgressBar: how far a long transfer or computation is, on a terminal or in a log.
//
// On a terminal: one line that is drawn over and is gone at the end. Elsewhere: a new line at most
// every 5 seconds or 10 percent. Threading: one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace tenon {

enum class ProgressStyle {
  kTerminal,  // redraw one line
  kLines,     // add lines
};

enum class ProgressUnit {
  kBytes,
  kSteps,  // counted pieces of work
};

struct ProgressTarget {
  using Clock = std::chrono::steady_clock;

  ProgressStyle style = ProgressStyle::kLines;
  ProgressUnit unit = ProgressUnit::kBytes;
  int columns = 80;
  std::function<void(std::string_view)> write;
  std::function<Clock::time_point()> now = [] { return Clock::now(); };
};

// Standard error, in the style that fits it.
ProgressTarget StderrProgressTarget();

class ProgressBar {
 public:
  explicit ProgressBar(ProgressTarget target);
  ~ProgressBar();  // as Finish
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // May be called as often as there is news. `total` 0: not known. The label is UTF-8; control
  // characters and broken sequences in it are replaced.
  void Update(std::string_view label, uint64_t done, uint64_t total);

  // Clears the line, so that what is printed next starts at its beginning.
  void Finish();

 private:
  using Clock = ProgressTarget::Clock;

  bool IsDue(Clock::time_point now, uint64_t done, uint64_t total) const;
  void Restart(Clock::time_point now, std::string_view label, uint64_t done);
  std::string Describe(Clock::time_point now, uint64_t done, uint64_t total) const;
  std::string TerminalLine(std::string_view numbers, uint64_t done, uint64_t total) const;

  ProgressTarget target_;
  std::string label_;
  Clock::time_point started_{};
  uint64_t started_at_ = 0;  // what was there at the start: it tells nothing about speed
  Clock::time_point drawn_{};
  uint64_t drawn_at_ = 0;
  bool visible_ = false;  // there is something on the terminal's line
  bool running_ = false;
};

}  // namespace tenon

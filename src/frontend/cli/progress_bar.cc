#include "frontend/cli/progress_bar.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace tenon {
namespace {

constexpr std::chrono::milliseconds kRedrawInterval{100};
constexpr std::chrono::seconds kLineInterval{5};
constexpr std::string_view kClearLine = "\r\x1b[K";
constexpr double kMega = 1e6;  // MB as networks count
constexpr int kMinBarColumns = 10;

// Bytes of the well-formed UTF-8 sequence at the start of `text`, 0 if there is none.
size_t SequenceBytes(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const size_t bytes = lead < 0x80                   ? 1
                       : lead >= 0xC2 && lead < 0xE0 ? 2
                       : lead >= 0xE0 && lead < 0xF0 ? 3
                       : lead >= 0xF0 && lead < 0xF5 ? 4
                                                     : 0;
  if (bytes == 0 || bytes > text.size())
    return 0;
  for (size_t i = 1; i < bytes; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80)
      return 0;
  }
  return bytes;
}

// At most `columns` characters, none of which can move the cursor.
std::string Printable(std::string_view text, size_t columns) {
  std::string printable;
  for (size_t used = 0; !text.empty() && used < columns; ++used) {
    const size_t bytes = SequenceBytes(text);
    const auto lead = static_cast<unsigned char>(text.front());
    // C0 and DEL; C1 controls are U+0080 to U+009F: C2 80 to C2 9F.
    const bool control = lead < 0x20 || lead == 0x7F ||
                         (bytes == 2 && lead == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0);
    if (bytes == 0 || control)
      printable += '?';
    else
      printable += text.substr(0, bytes);
    text.remove_prefix(std::max<size_t>(bytes, 1));
  }
  return printable;
}

std::string FormatDuration(double seconds) {
  const auto whole = static_cast<int64_t>(std::min(seconds, 359999.0));
  const int64_t hours = whole / 3600;
  if (hours > 0)
    return fmt::format("{}:{:02}:{:02}", hours, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

double Fraction(uint64_t done, uint64_t total) {
  return total == 0 ? 0.0 : std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
}

}  // namespace

ProgressTarget StderrProgressTarget() {
  ProgressTarget target;
  target.write = [](std::string_view text) {
    // A failure to show progress must not end the work.
    [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, text.data(), text.size());
  };
  const char* terminal = std::getenv("TERM");
  const bool can_redraw = terminal != nullptr && std::string_view(terminal) != "dumb";
  if (::isatty(STDERR_FILENO) == 0 || !can_redraw)
    return target;
  target.style = ProgressStyle::kTerminal;
  winsize size = {};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    target.columns = size.ws_col;
  return target;
}

ProgressBar::ProgressBar(ProgressTarget target) : target_(std::move(target)) {}

ProgressBar::~ProgressBar() {
  Finish();
}

void ProgressBar::Restart(Clock::time_point now, std::string_view label, uint64_t done) {
  label_ = label;
  started_ = now;
  started_at_ = done;
  running_ = true;
}

bool ProgressBar::IsDue(Clock::time_point now, uint64_t done, uint64_t total) const {
  if (target_.style == ProgressStyle::kTerminal)
    return now - drawn_ >= kRedrawInterval;
  const auto tenths = [total](uint64_t bytes) {
    return static_cast<int>(Fraction(bytes, total) * 10);
  };
  return now - drawn_ >= kLineInterval || tenths(done) > tenths(drawn_at_);
}

void ProgressBar::Update(std::string_view label, uint64_t done, uint64_t total) {
  const Clock::time_point now = target_.now();
  const bool fresh = !running_ || label != label_;
  if (fresh || done < started_at_)
    Restart(now, label, done);
  if (!fresh && !IsDue(now, done, total))
    return;
  drawn_ = now;
  drawn_at_ = done;
  const std::string numbers = Describe(now, done, total);
  if (target_.style == ProgressStyle::kTerminal) {
    target_.write(std::string(kClearLine) + TerminalLine(numbers, done, total));
    visible_ = true;
  } else {
    target_.write(fmt::format("{} {}\n", Printable(label_, label_.size()), numbers));
  }
}

std::string ProgressBar::Describe(Clock::time_point now, uint64_t done, uint64_t total) const {
  const bool bytes = target_.unit == ProgressUnit::kBytes;
  std::string text =
      !bytes ? fmt::format("{:3.0f}%  {}/{}", 100 * Fraction(done, total), done, total)
      : total > 0
          ? fmt::format("{:3.0f}%  {:.1f}/{:.1f} MB", 100 * Fraction(done, total),
                        static_cast<double>(done) / kMega, static_cast<double>(total) / kMega)
          : fmt::format("{:.1f} MB", static_cast<double>(done) / kMega);
  const double seconds = std::chrono::duration<double>(now - started_).count();
  const double speed = seconds > 0 ? static_cast<double>(done - started_at_) / seconds : 0.0;
  if (speed <= 0)
    return text;
  if (bytes)
    text += fmt::format("  {:.1f} MB/s", speed / kMega);
  if (total > done)
    text += fmt::format("  {} left", FormatDuration(static_cast<double>(total - done) / speed));
  return text;
}

std::string ProgressBar::TerminalLine(std::string_view numbers, uint64_t done,
                                      uint64_t total) const {
  // The last column stays free: writing it makes some terminals go to the next line.
  const int columns = target_.columns - 1;
  const int beside = columns - static_cast<int>(numbers.size()) - 2;
  // The label gets half of what the numbers leave, the bar the rest.
  const std::string label = Printable(label_, static_cast<size_t>(std::max(beside / 2, 0)));
  const auto label_columns = static_cast<int>(
      std::count_if(label.begin(), label.end(), [](char c) { return (c & 0xC0) != 0x80; }));
  const int bar = beside - label_columns - 2;
  if (total == 0 || bar < kMinBarColumns)
    return Printable(fmt::format("{}  {}", label, numbers),
                     static_cast<size_t>(std::max(columns, 0)));
  const int filled = static_cast<int>(Fraction(done, total) * bar);
  return fmt::format("{} [{:#<{}}{:.<{}}] {}", label, "", filled, "", bar - filled, numbers);
}

void ProgressBar::Finish() {
  if (visible_)
    target_.write(kClearLine);
  visible_ = false;
  running_ = false;
}

}  // namespace tenon

#include "base/log.h"

#include <atomic>
#include <mutex>

namespace tenon {
namespace {

// Above every level: nothing is written.
constexpr int kSilent = static_cast<int>(LogLevel::kError) + 1;

// The one piece of process-wide state of this folder: threads of every layer log into it.
struct LogState {
  std::atomic<int> minimum{kSilent};
  std::mutex mutex;  // guards sink and its Write
  LogSink* sink = nullptr;
};

LogState& State() {
  static LogState state;
  return state;
}

}  // namespace

std::string_view LogLevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "unknown";
}

void SetLogSink(LogSink* sink, LogLevel minimum) {
  LogState& state = State();
  std::lock_guard lock(state.mutex);
  state.sink = sink;
  state.minimum.store(sink == nullptr ? kSilent : static_cast<int>(minimum),
                      std::memory_order_relaxed);
}

bool LogEnabled(LogLevel level) {
  return static_cast<int>(level) >= State().minimum.load(std::memory_order_relaxed);
}

void LogMessage(LogLevel level, std::string_view message) {
  if (!LogEnabled(level))
    return;
  LogState& state = State();
  std::lock_guard lock(state.mutex);
  if (state.sink != nullptr)
    state.sink->Write(level, message);
}

}  // namespace tenon

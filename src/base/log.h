// Log: where the library's messages go. The library never prints; the composition root sets one
// sink.
//
// Without a sink every message is dropped. Threading: all functions from any thread.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace tenon {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// "debug", "info", "warning" or "error".
std::string_view LogLevelName(LogLevel level);

class LogSink {
 public:
  virtual ~LogSink() = default;
  // Called by one thread at a time; the message has no line end. It must not log and must not
  // throw.
  virtual void Write(LogLevel level, std::string_view message) = 0;
};

// Sends messages of `minimum` and above to `sink`, which must live until it is replaced; nullptr
// drops everything. When this returns, the earlier sink is no longer in use.
void SetLogSink(LogSink* sink, LogLevel minimum);

// True if a message of this level would be written: asked before a costly message is made.
bool LogEnabled(LogLevel level);

void LogMessage(LogLevel level, std::string_view message);

// Log(LogLevel::kInfo, "loaded {} tensors", count): formatted only if somebody listens.
template <class... Args>
void Log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (LogEnabled(level))
    LogMessage(level, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace tenon

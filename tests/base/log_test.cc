#include "base/log.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace tenon {
namespace {

// Not thread-safe on purpose: the log promises to call it by one thread at a time.
class RecordingSink : public LogSink {
 public:
  void Write(LogLevel level, std::string_view message) override {
    lines.push_back(std::string(LogLevelName(level)) + ": " + std::string(message));
  }
  std::vector<std::string> lines;
};

class LogTest : public testing::Test {
 protected:
  void TearDown() override { SetLogSink(nullptr, LogLevel::kDebug); }
  RecordingSink sink_;
};

TEST_F(LogTest, DropsEverythingWithoutASink) {
  EXPECT_FALSE(LogEnabled(LogLevel::kError));
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Log(LogLevel::kError, "nobody hears {}", 1);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(LogTest, WritesFromTheMinimumUp) {
  SetLogSink(&sink_, LogLevel::kWarning);
  Log(LogLevel::kInfo, "no");
  Log(LogLevel::kWarning, "{} of {}", 1, 2);
  Log(LogLevel::kError, "bad");
  LogMessage(LogLevel::kDebug, "no");
  EXPECT_EQ(sink_.lines, (std::vector<std::string>{"warning: 1 of 2", "error: bad"}));
  EXPECT_FALSE(LogEnabled(LogLevel::kInfo));
}

TEST_F(LogTest, DoesNotFormatWhatIsNotWritten) {
  SetLogSink(&sink_, LogLevel::kError);
  int formatted = 0;
  const auto costly = [&] { return ++formatted; };
  if (LogEnabled(LogLevel::kDebug))
    Log(LogLevel::kDebug, "{}", costly());
  EXPECT_EQ(formatted, 0);
}

TEST_F(LogTest, ASinkThatIsTakenAwayGetsNothingMore) {
  SetLogSink(&sink_, LogLevel::kDebug);
  Log(LogLevel::kDebug, "one");
  SetLogSink(nullptr, LogLevel::kDebug);
  Log(LogLevel::kError, "two");
  EXPECT_EQ(sink_.lines, (std::vector<std::string>{"debug: one"}));
}

TEST_F(LogTest, ThreadsLogOneAtATime) {
  SetLogSink(&sink_, LogLevel::kInfo);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([t] {
        for (int i = 0; i < 500; ++i)
          Log(LogLevel::kInfo, "{} {}", t, i);
      });
    }
  }
  EXPECT_EQ(sink_.lines.size(), 2000u);
}

}  // namespace
}  // namespace tenon

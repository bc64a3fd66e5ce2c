// ProgressBar with a fake clock and a recorded output.
#include "frontend/cli/progress_bar.h"

#include <gtest/gtest.h>

#include <vector>

namespace tenon {
namespace {

using namespace std::chrono_literals;

class ProgressBarTest : public testing::Test {
 protected:
  std::vector<std::string> written_;
  ProgressTarget::Clock::time_point now_{1h};

  ProgressTarget Target(ProgressStyle style, int columns) {
    ProgressTarget target;
    target.style = style;
    target.columns = columns;
    target.write = [this](std::string_view text) { written_.emplace_back(text); };
    target.now = [this] { return now_; };
    return target;
  }
};

TEST_F(ProgressBarTest, DrawsOneLineOnATerminalAndClearsIt) {
  ProgressBar bar(Target(ProgressStyle::kTerminal, 80));
  bar.Update("model", 0, 100'000'000);
  now_ += 10s;
  bar.Update("model", 50'000'000, 100'000'000);
  bar.Update("model", 51'000'000, 100'000'000);  // too soon after the last
  ASSERT_EQ(written_.size(), 2u);
  EXPECT_EQ(written_[0].find('\n'), std::string::npos);
  EXPECT_EQ(
      written_[1],
      "\r\x1b[Kmodel [###############...............]  50%  50.0/100.0 MB  5.0 MB/s  0:10 left");
  EXPECT_EQ(written_[1].size() - 4, 79u);
  bar.Finish();
  EXPECT_EQ(written_.back(), "\r\x1b[K");
  bar.Finish();
  EXPECT_EQ(written_.size(), 3u);
}

TEST_F(ProgressBarTest, WritesALineEveryTenPercentOrFiveSeconds) {
  {
    ProgressBar bar(Target(ProgressStyle::kLines, 80));
    for (uint64_t done = 0; done <= 100; ++done)
      bar.Update("m", done, 100);
    EXPECT_EQ(written_.size(), 11u);
    EXPECT_EQ(written_.back(), "m 100%  0.0/0.0 MB\n");
    written_.clear();
    bar.Update("n", 0, 0);
    now_ += 4s;
    bar.Update("n", 3'000'000, 0);
    now_ += 1s;
    bar.Update("n", 10'000'000, 0);
  }
  EXPECT_EQ(written_, (std::vector<std::string>{"n 0.0 MB\n", "n 10.0 MB  2.0 MB/s\n"}));
}

TEST_F(ProgressBarTest, DoesNotCountWhatWasThereBefore) {
  ProgressBar bar(Target(ProgressStyle::kLines, 80));
  bar.Update("m", 900'000'000, 1'000'000'000);
  now_ += 10s;
  bar.Update("m", 910'000'000, 1'000'000'000);
  EXPECT_EQ(written_.back(), "m  91%  910.0/1000.0 MB  1.0 MB/s  1:30 left\n");
}

TEST_F(ProgressBarTest, CutsLabelsBetweenCharactersAndNeutralisesControls) {
  ProgressBar bar(Target(ProgressStyle::kTerminal, 40));
  bar.Update("\xC3\xA4\xE2\x82\xAC\x1b[2J\n\xC2\x9B\xFF\xE2\x82", 1, 0);
  EXPECT_EQ(written_.back(), "\r\x1b[K\xC3\xA4\xE2\x82\xAC?[2J?????  0.0 MB");
  bar.Update(
      "\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3"
      "\xA4"
      "\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3"
      "\xA4",
      1, 0);
  std::string expected = "\r\x1b[K";
  for (int i = 0; i < (39 - 6 - 2) / 2; ++i)
    expected += "\xC3\xA4";
  EXPECT_EQ(written_.back(), expected + "  0.0 MB");
}

TEST_F(ProgressBarTest, FitsTheNarrowestTerminal) {
  for (int columns = 1; columns < 60; ++columns) {
    ProgressBar bar(Target(ProgressStyle::kTerminal, columns));
    bar.Update("a rather long name of a model", 500'000'000, 1'000'000'000);
    EXPECT_LE(written_.back().size() - 4, static_cast<size_t>(columns)) << columns;
  }
}

}  // namespace
}  // namespace tenon

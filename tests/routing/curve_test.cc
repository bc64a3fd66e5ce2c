// The curve of quality against the large model's share, by hand, and how texts become documents.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "frontend/session/routing_curve.h"
#include "gguf/gguf_writer.h"

namespace tenon {
namespace {

using ::tenon::testing::Bytes;
using ::tenon::testing::TempFolder;

TraceRow Row(int32_t window, int32_t small, int32_t large, double small_nll, double large_nll) {
  TraceRow row;
  row.window = window;
  row.small.best = small;
  row.large.best = large;
  row.large.top1 = 1.0;  // always sure: hands back after one token
  row.small_truth_logprob = -small_nll;
  row.large_truth_logprob = -large_nll;
  return row;
}

TEST(RoutingCurveTest, ByHand) {
  const TraceRow rows[] = {Row(0, 1, 1, 1.0, 0.5), Row(0, 2, 3, 4.0, 1.0), Row(0, 5, 5, 1.0, 1.0),
                           Row(1, 6, 7, 3.0, 2.0)};
  const double confidence[] = {0.9, 0.2, 0.8, 0.4};
  const double thresholds[] = {0.0, 0.3, 0.5, 1.01};
  const auto curve = RoutingCurve(rows, confidence, 1, thresholds);
  ASSERT_EQ(curve.size(), 4U);
  EXPECT_DOUBLE_EQ(curve[0].large_share, 0.0);
  EXPECT_DOUBLE_EQ(curve[0].agreement, 0.5);
  EXPECT_DOUBLE_EQ(curve[0].nll, 9.0 / 4);
  EXPECT_DOUBLE_EQ(curve[1].large_share, 0.25);  // row 1
  EXPECT_DOUBLE_EQ(curve[1].agreement, 0.75);
  EXPECT_DOUBLE_EQ(curve[1].random_agreement, 0.25 + 0.75 * 0.5);
  EXPECT_DOUBLE_EQ(curve[1].nll, 6.0 / 4);
  EXPECT_DOUBLE_EQ(curve[1].random_nll, (0.25 * 4.5 + 0.75 * 9.0) / 4);
  EXPECT_DOUBLE_EQ(curve[2].large_share, 0.5);  // rows 1 and 3
  EXPECT_DOUBLE_EQ(curve[2].agreement, 1.0);
  EXPECT_DOUBLE_EQ(curve[3].large_share, 1.0);
  EXPECT_DOUBLE_EQ(curve[3].nll, 4.5 / 4);
  // Trapezoids of 0, 0.125, 0.25 and 0 over steps of 0.25, 0.25 and 0.5.
  EXPECT_DOUBLE_EQ(GainOverRandom(curve), 0.25 * 0.0625 + 0.25 * 0.1875 + 0.5 * 0.125);
}

std::vector<std::string> DocumentsOf(const std::string& name, const std::string& text) {
  const TempFolder folder;
  const auto bytes = std::as_bytes(std::span(text));
  const auto documents = ReadDocuments(folder.Write(name, Bytes(bytes.begin(), bytes.end())));
  EXPECT_TRUE(documents.ok()) << (documents.ok() ? "" : documents.error().ToString());
  return documents.ok() ? *documents : std::vector<std::string>();
}

TEST(ReadDocumentsTest, ThreeKinds) {
  EXPECT_EQ(
      DocumentsOf("a.jsonl", "{\"question\": \"q\", \"answer\": \"a\"}\n\n{\"prompt\": \"p\"}"),
      (std::vector<std::string>{"q\na", "p"}));
  EXPECT_EQ(
      DocumentsOf("w.txt", " \n = One = \n text \n = = Part = = \n more \n = Two = \n end").size(),
      2U);
  const auto plain = DocumentsOf("p.txt", std::string(3000, 'x') + "\n" + std::string(6000, 'y') +
                                              "\n" + std::string(100, 'z') + "\n");
  ASSERT_EQ(plain.size(), 2U);
  EXPECT_EQ(plain[1], std::string(100, 'z') + "\n");
}

TEST(ReadDocumentsTest, NamesTheLine) {
  const TempFolder folder;
  const std::string text = "{\"prompt\": \"p\"}\n{\"other\": 1}\n";
  const auto bytes = std::as_bytes(std::span(text));
  const auto documents = ReadDocuments(folder.Write("a.jsonl", Bytes(bytes.begin(), bytes.end())));
  ASSERT_FALSE(documents.ok());
  EXPECT_TRUE(documents.error().where.ends_with("a.jsonl:2"));
}

}  // namespace
}  // namespace tenon

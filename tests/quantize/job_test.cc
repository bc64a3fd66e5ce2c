#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "base/file_io.h"
#include "frontend/quantize/calibration_set.h"
#include "frontend/quantize/quality_gate.h"
#include "frontend/quantize/quantize_job.h"
#include "model/gguf/gguf_model.h"
#include "tiny_file.h"

namespace tenon {
namespace {

using testing::FindTinyCase;
using testing::TemporaryFolder;
using testing::WriteTinyFile;

constexpr uint64_t kMostBytes = 1 << 24;

std::string LetterText(size_t length) {
  std::string text;
  for (size_t i = 0; i < length; ++i)
    text += static_cast<char>('!' + (i * i * 7 + i * 13) % 90);
  return text;
}

struct QuantizeRun {
  TemporaryFolder folder;
  QuantizeRequest request;

  explicit QuantizeRun(QuantizeMethod method, std::string_view tiny = "llama") {
    WriteTinyFile(FindTinyCase(tiny), folder / "in.gguf");
    std::ofstream(folder / "calibration.txt") << LetterText(4000);
    request.input = folder / "in.gguf";
    request.output = folder / "out.gguf";
    request.options.method = method;
    request.options.weight_bits = 4;
    request.options.calibration = folder / "calibration.txt";
    request.options.calibration_tokens = 2000;
    request.options.threads = 2;
  }
  Result<QuantizeReport> Go() const { return QuantizeModel(request, {}); }
  std::string Output() const { return *ReadWholeFile(request.output, kMostBytes); }
};

TEST(QuantizeModel, EveryMethodWritesAModelThatOpens) {
  for (const QuantizeMethod method :
       {QuantizeMethod::kRtn, QuantizeMethod::kGptq, QuantizeMethod::kAwq,
        QuantizeMethod::kSmoothQuant, QuantizeMethod::kHaq, QuantizeMethod::kKQuant}) {
    for (const int bits : {8, 4, 3}) {
      QuantizeRun run(method);
      run.request.options.weight_bits = bits;
      run.request.options.activation_bits = bits == 8 ? 8 : 16;
      const auto report = run.Go();
      ASSERT_TRUE(report.ok()) << report.error().ToString();
      EXPECT_EQ(report->linears.size(), 14U);
      const auto model = OpenGguf(run.request.output);
      ASSERT_TRUE(model.ok()) << model.error().ToString();
      EXPECT_EQ(model->tensors.size(), OpenGguf(run.request.input)->tensors.size());
      const TensorInfo* down = model->Find("blk.1.ffn_down.weight");
      // Rows of 96 values take no super blocks; k-quant's mixes give this layer more bits.
      const bool eight = bits == 8 || method == QuantizeMethod::kKQuant;
      EXPECT_EQ(down->dtype, eight ? DType::kQ8_0 : DType::kQ4_0)
          << QuantizeMethodName(method) << bits;
      EXPECT_FALSE(std::filesystem::exists(run.folder / "out.gguf.parts"));
      EXPECT_FALSE(std::filesystem::exists(run.folder / "out.gguf.partial"));
    }
  }
}

double MeanError(const QuantizeReport& report) {
  double sum = 0.0;
  for (const LinearReport& linear : report.linears)
    sum += linear.relative_error / static_cast<double>(report.linears.size());
  return sum;
}

TEST(QuantizeModel, CompensationLeavesLessErrorThanSearchedScales) {
  const double awq = MeanError(*QuantizeRun(QuantizeMethod::kAwq).Go());
  const double haq = MeanError(*QuantizeRun(QuantizeMethod::kHaq).Go());
  EXPECT_GT(haq, 0.0);
  EXPECT_LT(haq, awq);
}

TEST(QuantizeModel, TheSameRunGivesTheSameFile) {
  QuantizeRun first(QuantizeMethod::kHaq);
  QuantizeRun second(QuantizeMethod::kHaq);
  second.request.options.threads = 1;
  ASSERT_TRUE(first.Go().ok());
  ASSERT_TRUE(second.Go().ok());
  EXPECT_EQ(first.Output(), second.Output());
}

void FlipLastByte(const std::filesystem::path& path) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(-1, std::ios::end);
  const int byte = file.get();
  file.seekp(-1, std::ios::end);
  file.put(static_cast<char>(byte ^ 1));
}

TEST(QuantizeModel, ResumedRunGivesTheSameFile) {
  QuantizeRun whole(QuantizeMethod::kHaq);
  ASSERT_TRUE(whole.Go().ok());
  QuantizeRun cut(QuantizeMethod::kHaq);
  struct Interrupted {};
  QuantizeHooks hooks;
  hooks.progress = [](std::string_view, uint64_t done, uint64_t) {
    if (done == 4)
      throw Interrupted();  // as if the process ended here
  };
  EXPECT_THROW(static_cast<void>(QuantizeModel(cut.request, hooks)), Interrupted);
  EXPECT_FALSE(std::filesystem::exists(cut.request.output));
  cut.request.resume = ResumeMode::kResume;
  std::filesystem::path piece;
  for (const auto& entry : std::filesystem::directory_iterator(cut.folder / "out.gguf.parts")) {
    if (entry.path().extension() == ".gguf" && entry.path() > piece)
      piece = entry.path();
  }
  FlipLastByte(piece);
  const auto damaged = cut.Go();
  ASSERT_FALSE(damaged.ok());
  EXPECT_EQ(damaged.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(damaged.error().where, piece.string());
  FlipLastByte(piece);
  const auto report = cut.Go();
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  EXPECT_EQ(report->resumed_segments, 3);
  EXPECT_EQ(report->linears.size(), 14U);
  EXPECT_EQ(cut.Output(), whole.Output());
}

TEST(QuantizeModel, ResumeRefusesOtherSettings) {
  QuantizeRun run(QuantizeMethod::kRtn);
  QuantizeHooks hooks;
  hooks.progress = [](std::string_view, uint64_t done, uint64_t) {
    if (done == 4)
      throw 1;
  };
  EXPECT_ANY_THROW(static_cast<void>(QuantizeModel(run.request, hooks)));
  run.request.resume = ResumeMode::kResume;
  run.request.options.weight_bits = 8;
  const auto report = run.Go();
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, ErrorCode::kInvalidArgument);
}

TEST(QuantizeModel, RefusesBadRequests) {
  QuantizeRun run(QuantizeMethod::kHaq);
  run.request.output = run.request.input;
  EXPECT_EQ(run.Go().error().code, ErrorCode::kInvalidArgument);
  std::ofstream(run.folder / "file.bin") << "x";
  run.request.output = run.folder / "file.bin";
  EXPECT_EQ(run.Go().error().code, ErrorCode::kInvalidArgument);
  run.request.output = run.folder / "missing/out.gguf";
  EXPECT_EQ(run.Go().error().code, ErrorCode::kNotFound);
  run.request.output = run.folder / "out.gguf";
  run.request.options.type = "q9_9";
  EXPECT_EQ(run.Go().error().where, "--type");
  run.request.options.type = "";
  run.request.options.max_memory = 1000;
  EXPECT_EQ(run.Go().error().code, ErrorCode::kResourceExhausted);
  run.request.options.max_memory = 0;
  run.request.options.calibration = "";
  EXPECT_EQ(run.Go().error().where, "--calib-data");
  run.request.options.calibration = run.folder / "missing.txt";
  EXPECT_FALSE(run.Go().ok());
  run.request.evaluation = run.folder / "short.txt";
  std::ofstream(run.request.evaluation) << "too short";
  EXPECT_EQ(run.Go().error().where, "--validate");
  EXPECT_FALSE(std::filesystem::exists(run.request.output));
}

// One weight of the file's last matrix becomes what no number is.
TEST(QuantizeModel, RefusesWeightsThatAreNoNumbers) {
  for (const uint32_t bits : {0x7fc00000U, 0x7f800000U}) {
    QuantizeRun run(QuantizeMethod::kRtn);
    const auto source = OpenGguf(run.request.input);
    ASSERT_TRUE(source.ok());
    const TensorInfo* matrix = source->Find("blk.0.ffn_up.weight");
    ASSERT_TRUE(matrix != nullptr && matrix->dtype == DType::kF32);
    const auto whole = source->files.front().bytes();
    const auto at = source->Bytes(*matrix).data() + 4 * (matrix->columns() + 3) - whole.data();
    std::fstream file(run.request.input, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(at);
    file.write(reinterpret_cast<const char*>(&bits), sizeof(bits));
    file.close();
    const auto report = run.Go();
    ASSERT_FALSE(report.ok());
    EXPECT_EQ(report.error().code, ErrorCode::kCorrupt);
    EXPECT_EQ(report.error().where, "blk.0.ffn_up.weight");
    EXPECT_NE(report.error().message.find("row 1, column 3"), std::string::npos);
  }
}

TEST(CalibrationTexts, JsonLinesArraysAndPlainText) {
  const TemporaryFolder folder;
  std::ofstream(folder / "a.jsonl") << "{\"text\": \"one\"}\n\n\"two\"\n";
  std::ofstream(folder / "b.json") << "[\"one\", {\"text\": \"two\", \"id\": 3}]";
  std::ofstream(folder / "c.txt") << "one\ntwo";
  std::ofstream(folder / "bad.jsonl") << "\"one\"\n{\"body\": \"two\"}\n";
  const std::vector<std::string> expected = {"one", "two"};
  EXPECT_EQ(*ReadCalibrationTexts(folder / "a.jsonl"), expected);
  EXPECT_EQ(*ReadCalibrationTexts(folder / "b.json"), expected);
  EXPECT_EQ(ReadCalibrationTexts(folder / "c.txt")->front(), "one\ntwo");
  const auto bad = ReadCalibrationTexts(folder / "bad.jsonl");
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(bad.error().where.find("line 2"), std::string::npos);
}

TEST(CalibrationWarnings, FewTextsLengthsAndOverlap) {
  CalibrationSet set;
  set.texts = 600;
  set.short_texts = 60;
  set.long_texts = 60;
  for (int32_t i = 0; i < 100; ++i)
    set.sequences.tokens.push_back(i);
  EXPECT_TRUE(CalibrationWarnings(set, {}).empty());
  std::vector<int32_t> evaluation(set.sequences.tokens.begin() + 40,
                                  set.sequences.tokens.begin() + 60);
  EXPECT_EQ(CalibrationWarnings(set, evaluation).size(), 1U);  // 8 of 88 runs are shared
  evaluation.resize(12);
  EXPECT_TRUE(CalibrationWarnings(set, evaluation).empty());
  set.short_texts = 0;
  EXPECT_EQ(CalibrationWarnings(set, {}).size(), 1U);
  set.texts = 20;
  EXPECT_EQ(CalibrationWarnings(set, {}).size(), 2U);
}

TEST(QualityGate, ComparesWithTheOriginal) {
  QuantizeRun run(QuantizeMethod::kRtn);
  run.request.options.weight_bits = 8;
  ASSERT_TRUE(run.Go().ok());
  std::ofstream(run.folder / "text.txt") << LetterText(1600);
  GateOptions gate;
  gate.text = run.folder / "text.txt";
  gate.threads = 2;
  const auto same = CompareModels(run.request.input, run.request.input, gate, {});
  ASSERT_TRUE(same.ok()) << same.error().ToString();
  EXPECT_NEAR(same->divergence->kl_mean, 0.0, 1e-3);
  const auto rounded = CompareModels(run.request.input, run.request.output, gate, {});
  ASSERT_TRUE(rounded.ok());
  EXPECT_GT(rounded->divergence->kl_mean, same->divergence->kl_mean);
  EXPECT_NEAR(std::exp(rounded->nll - rounded->divergence->delta_nll),
              rounded->divergence->base_ppl, 1e-6);
  EXPECT_TRUE(CheckDelta(*rounded, DeltaPerplexity(*rounded) + 0.001).ok());
  EXPECT_FALSE(CheckDelta(*rounded, DeltaPerplexity(*rounded) - 0.001).ok());
}

}  // namespace
}  // namespace tenon

// What the quantizer writes: experts, the mark for W8A8, files in shards, directories.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file_io.h"
#include "frontend/quantize/quality_gate.h"
#include "frontend/quantize/quantize_job.h"
#include "frontend/session/model.h"
#include "model/gguf/gguf_model.h"
#include "tiny_directory.h"
#include "tiny_file.h"
#include "tiny_run.h"

namespace tenon {
namespace {

using testing::FindTinyCase;
using testing::TemporaryFolder;
using testing::TinyCase;

struct OutputRun {
  TemporaryFolder folder;
  QuantizeRequest request;

  explicit OutputRun(std::string_view tiny) {
    testing::WriteTinyFile(FindTinyCase(tiny), folder / "in.gguf");
    std::string text;
    for (size_t i = 0; i < 4000; ++i)
      text += static_cast<char>('!' + (i * i * 7 + i * 13) % 90);
    std::ofstream(folder / "text.txt") << text;
    request.input = folder / "in.gguf";
    request.output = folder / "out.gguf";
    request.options.calibration = folder / "text.txt";
    request.options.calibration_tokens = 2000;
    request.options.threads = 2;
  }
  Result<QuantizeReport> Go() const { return QuantizeModel(request, {}); }
  double KlOf(const QuantizeReport& report) const {
    GateOptions gate;
    gate.text = folder / "text.txt";
    gate.threads = 2;
    gate.chunks = 2;
    const auto result = CompareModels(request.input, report.output, gate, {});
    EXPECT_TRUE(result.ok()) << result.error().ToString();
    return result.ok() ? result->divergence->kl_mean : 1e9;
  }
};

TEST(QuantizedExperts, EveryExpertIsInTheReportAndTheModelIsClose) {
  OutputRun run("mixtral");
  std::vector<double> divergences;
  for (const QuantizeMethod method :
       {QuantizeMethod::kRtn, QuantizeMethod::kSmoothQuant, QuantizeMethod::kHaq}) {
    run.request.options.method = method;
    run.request.options.weight_bits = 4;
    const auto report = run.Go();
    ASSERT_TRUE(report.ok()) << report.error().ToString();
    EXPECT_EQ(report->linears.size(), 2U * (4 + 3 * 8));  // layers of q k v o and 8 experts
    divergences.push_back(run.KlOf(*report));
    const auto model = OpenGguf(report->output);
    ASSERT_TRUE(model.ok()) << model.error().ToString();
    EXPECT_EQ(model->Find("blk.0.ffn_gate_exps.weight")->dtype, DType::kQ4_0);
    EXPECT_EQ(model->Find("blk.0.ffn_gate_inp.weight")->dtype, DType::kF32);
  }
  EXPECT_LT(divergences[2], divergences[0]);
}

TEST(QuantizedExperts, ColdOnesAreListed) {
  OutputRun run("mixtral");
  run.request.options.calibration_tokens = 100;  // a quarter of them for each of 8 experts
  const auto report = run.Go();
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  int64_t cold = 0;
  for (const LinearReport& linear : report->linears)
    cold += linear.note.starts_with("cold: ") ? 1 : 0;
  EXPECT_GT(cold, 0);
  EXPECT_EQ(cold % 3, 0);  // gate, up and down
  EXPECT_LT(run.KlOf(*report), 1e-2);
}

std::vector<float> LogitsOf(const std::filesystem::path& path, const LoadOptions& options,
                            const TinyCase& tiny) {
  auto model = Model::Open(path);
  EXPECT_TRUE(model.ok()) << model.error().ToString();
  const Status loaded = (*model)->Load(options);
  EXPECT_TRUE(loaded.ok()) << loaded.error().ToString();
  return testing::RunTokens((*model)->runner(), tiny.tokens, tiny.tokens.size());
}

double Distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0.0;
  for (size_t i = 0; i < a.size(); ++i)
    sum += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
  return std::sqrt(sum);
}

// The integer kernels against the same rounding in float. The head, whose input is rounded in
// groups in the one and not at all in the other, is what remains: it has the whole distance
// between plain integer kernels and plain floats as its bound.
class PerTokenTest : public ::testing::TestWithParam<const char*> {};

TEST_P(PerTokenTest, FileThatAsksForItRunsAsTheEmulation) {
  const TinyCase tiny = FindTinyCase(GetParam());
  OutputRun run(GetParam());
  run.request.options.method = QuantizeMethod::kRtn;
  LoadOptions fast;
  fast.threads = 2;
  fast.batch_outputs = 512;
  fast.kv_type = KvType::kF32;
  LoadOptions exact = fast;
  exact.precision = Precision::kReference;
  LoadOptions emulated = exact;
  emulated.activation_rounding = ActivationRounding::kPerTokenInt8;
  ASSERT_TRUE(run.Go().ok());
  EXPECT_EQ(OpenGguf(run.request.output)->activations, ActivationFormat::kAny);
  const double groups =
      Distance(LogitsOf(run.request.output, fast, tiny), LogitsOf(run.request.output, exact, tiny));
  run.request.options.activation_bits = 8;
  ASSERT_TRUE(run.Go().ok());
  EXPECT_EQ(OpenGguf(run.request.output)->activations, ActivationFormat::kInt8PerToken);
  const std::vector<float> kernels = LogitsOf(run.request.output, fast, tiny);
  const double rounding = Distance(LogitsOf(run.request.output, emulated, tiny),
                                   LogitsOf(run.request.output, exact, tiny));
  // One scale a row errs more than one for 16 values. A token that another expert gets says
  // nothing.
  EXPECT_GT(rounding, tiny.Has("experts") ? 0.0 : 1.2 * groups);
  EXPECT_LT(Distance(kernels, LogitsOf(run.request.output, emulated, tiny)), groups);
}

INSTANTIATE_TEST_SUITE_P(Families, PerTokenTest, ::testing::Values("llama", "mixtral"),
                         [](const auto& test) { return std::string(test.param); });

TEST(QuantizedOutput, AnUnknownRoundingOfActivationsIsRefused) {
  const OutputRun run("llama");
  const std::string bytes = *ReadWholeFile(run.request.input, 1 << 24);
  const auto parsed = ParseGguf(std::as_bytes(std::span(bytes)), "in");
  ASSERT_TRUE(parsed.ok());
  GgufMetadataBuilder metadata;
  for (const GgufEntry& entry : parsed->metadata.entries())
    metadata.SetCopy(entry);
  metadata.SetString("tenon.activation_quantization", "int2_per_moon");
  std::vector<GgufTensorPlan> plans;
  for (const TensorInfo& tensor : parsed->tensors)
    plans.push_back({tensor.name, tensor.dtype, tensor.shape});
  auto writer = ::tenon::GgufWriter::Create(run.folder / "odd.gguf", metadata, plans);
  ASSERT_TRUE(writer.ok());
  for (const TensorInfo& tensor : parsed->tensors) {
    const auto values = std::as_bytes(std::span(bytes)).subspan(tensor.offset, tensor.bytes);
    ASSERT_TRUE(writer->WriteTensor(values).ok());
  }
  ASSERT_TRUE(writer->Close().ok());
  const auto model = OpenGguf(run.folder / "odd.gguf");
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.error().ToString().find("int2_per_moon"), std::string::npos);
}

TEST(QuantizedOutput, ShardsAreTheFileInPieces) {
  OutputRun run("llama");
  run.request.options.method = QuantizeMethod::kRtn;
  ASSERT_TRUE(run.Go().ok());
  const auto whole = OpenGguf(run.request.output);
  run.request.output = run.folder / "parts.gguf";
  run.request.options.shard_bytes = 20000;
  const auto report = run.Go();
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  EXPECT_TRUE(report->output.filename().string().starts_with("parts-00001-of-000"));
  const auto parts = OpenGguf(report->output);
  ASSERT_TRUE(parts.ok()) << parts.error().ToString();
  EXPECT_GT(parts->files.size(), 2U);
  ASSERT_EQ(parts->tensors.size(), whole->tensors.size());
  for (size_t i = 0; i < parts->tensors.size(); ++i) {
    const auto a = whole->Bytes(whole->tensors[i]);
    const auto b = parts->Bytes(parts->tensors[i]);
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << i;
  }
}

TEST(QuantizedOutput, DirectoriesAreReadAndWritten) {
  OutputRun run("llama");
  std::filesystem::create_directory(run.folder / "in");
  testing::WriteTinyDirectory(FindTinyCase("llama"), {}, run.folder / "in");
  run.request.input = run.folder / "in";
  run.request.output = run.folder / "out";
  run.request.options.activation_bits = 8;
  const auto report = run.Go();
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  EXPECT_GT(report->output_bytes, 0);
  const auto config =
      nlohmann::json::parse(*ReadWholeFile(run.folder / "out/config.json", 1 << 20));
  ASSERT_TRUE(config.contains("quantization_config"));
  EXPECT_EQ(config["quantization_config"]["quant_method"], "compressed-tensors");
  EXPECT_TRUE(std::filesystem::exists(run.folder / "out/model.safetensors"));
}

}  // namespace
}  // namespace tenon

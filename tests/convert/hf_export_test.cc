// Models written as Hugging Face directories: every family from GGUF has transformers' logits when
// the directory is read again; packed matrices have the values that were given.
#include "frontend/convert/hf_export.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "frontend/convert/packed_form.h"
#include "frontend/session/source_weights.h"
#include "quant/quantize.h"
#include "tiny_cases.h"
#include "tiny_model.h"
#include "tiny_run.h"

namespace tenon::testing {
namespace {

// As of the golden tests of the formats themselves.
constexpr double kTolerance = 2e-5;

// A byte-level BPE with as many tokens as the model has rows.
TokenizerSpec MadeTokenizer(int64_t rows) {
  TokenizerSpec spec;
  spec.model = "gpt2";
  spec.pre = "gpt-2";
  for (int64_t id = 0; id < rows; ++id)
    spec.tokens.push_back(fmt::format("t{}", id));
  spec.tokens[0] = "t";
  spec.tokens[1] = "1";
  spec.tokens[2] = "t1";
  spec.types.assign(spec.tokens.size(), TokenType::kNormal);
  spec.types.back() = TokenType::kControl;
  spec.eos_id = static_cast<int32_t>(rows - 1);
  spec.merges = {"t 1"};
  return spec;
}

ModelSource OpenGgufCase(const TinyCase& tiny, const TempFolder& folder,
                         DType matrices = DType::kF32) {
  auto source = OpenModel(folder.Write("tiny.gguf", TinyGguf(tiny, TinyTensors(tiny), matrices)));
  EXPECT_TRUE(source.ok()) << source.error().ToString();
  source->tokenizer = MadeTokenizer(tiny.Int("vocab"));
  return std::move(*source);
}

std::filesystem::path OutputIn(const TempFolder& folder) {
  return folder.Write("marker", {}).parent_path() / "out";
}

class HfExportTest : public ::testing::TestWithParam<std::string> {};

TEST_P(HfExportTest, GgufBecomesADirectoryWithTheSameLogits) {
  const TinyCase tiny = FindTinyCase(GetParam());
  const TempFolder folder;
  const ModelSource source = OpenGgufCase(tiny, folder);
  const auto directory = OutputIn(folder);
  HfExportOptions options;
  options.shard_bytes = 64 << 10;
  const Status done = ExportHf(source, options, directory);
  ASSERT_TRUE(done.ok()) << done.error().ToString();
  EXPECT_TRUE(std::filesystem::exists(directory / "model.safetensors.index.json"));
  const auto again = OpenModel(directory);
  ASSERT_TRUE(again.ok()) << again.error().ToString();
  EXPECT_EQ(again->tokenizer.eos_id, source.tokenizer.eos_id);
  const SourceWeights weights(*again);
  auto run = LoadTiny(*again, weights, OptimizeLevel::kO3);
  ASSERT_TRUE(run.ok()) << run.error().ToString();
  EXPECT_LE(WorstError(tiny, RunTokens(*run->runner, tiny.tokens, tiny.tokens.size())), kTolerance);
}

// Without what config.json is not made for: DeepSeek, a scaling of another rule than Llama 3's own,
// and Gemma 3 27B's scale with another model's width.
std::vector<std::string> ExportedCases() {
  const std::set<std::string> left_out = {"deepseek2", "deepseek3", "llama_llama3", "gemma3_27b"};
  std::vector<std::string> cases;
  for (const char* name : kTinyCases) {
    if (!left_out.contains(name))
      cases.emplace_back(name);
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Families, HfExportTest, ::testing::ValuesIn(ExportedCases()),
                         [](const auto& tiny) { return tiny.param; });

TEST(HfExport, ADirectoryIsNotOverwritten) {
  const TempFolder folder;
  const ModelSource source = OpenGgufCase(FindTinyCase("llama"), folder);
  const auto directory = OutputIn(folder);
  ASSERT_TRUE(ExportHf(source, {}, directory).ok());
  const Status again = ExportHf(source, {}, directory);
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().code, ErrorCode::kInvalidArgument);
}

TEST(HfExport, NamesTheTokenizerPartThatCantBeMade) {
  const TempFolder folder;
  ModelSource source = OpenGgufCase(FindTinyCase("llama"), folder);
  for (const auto& [model, pre] : {std::pair("llama", ""), std::pair("gpt2", "falcon")}) {
    source.tokenizer.model = model;
    source.tokenizer.pre = pre;
    const Status done = ExportHf(source, {}, OutputIn(folder));
    ASSERT_FALSE(done.ok());
    EXPECT_NE(done.error().ToString().find("tokenizer.json"), std::string::npos);
    EXPECT_EQ(done.error().code, ErrorCode::kUnsupported);
  }
  EXPECT_FALSE(std::filesystem::exists(OutputIn(folder) / "config.json"));
}

// Gives every matrix of a layer as Q8_0 with one scale for a row.
class RowScaleSupply final : public TensorSupply {
 public:
  explicit RowScaleSupply(const ModelSource& source) : below_(source) {}
  TensorForm FormOf(const TensorInfo& tensor) const override {
    const bool matrix = tensor.name.starts_with("blk.") && tensor.shape.size() == 2;
    return matrix ? TensorForm{DType::kQ8_0, 0} : below_.FormOf(tensor);
  }
  Status ReadRows(const TensorInfo& tensor, int64_t first, std::span<std::byte> out) override {
    if (FormOf(tensor).dtype != DType::kQ8_0)
      return below_.ReadRows(tensor, first, out);
    // Blocks: a scale of 2^-7 for rows below 4, 2^-6 above; values from their place.
    const auto row_bytes = static_cast<size_t>(DTypeRowBytes(DType::kQ8_0, tensor.columns()));
    for (size_t at = 0; at < out.size(); ++at) {
      const auto row = first + static_cast<int64_t>(at / row_bytes);
      const size_t in_block = at % 34;
      const unsigned scale = row < 4 ? 0x2000 : 0x2400;
      out[at] = static_cast<std::byte>(in_block == 0   ? scale & 0xFF
                                       : in_block == 1 ? scale >> 8
                                                       : (at * 7 + static_cast<size_t>(row)) % 255);
    }
    return {};
  }
  void Release(const TensorInfo&) override {}

 private:
  SourceSupply below_;
};

nlohmann::json ReadJson(const std::filesystem::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

// The rows of a Q8_0 or Q4_0 tensor that was read back.
std::vector<std::byte> BytesOf(const ModelSource& source, const char* name) {
  const TensorInfo* tensor = source.Find(name);
  EXPECT_NE(tensor, nullptr);
  std::vector<std::byte> bytes(tensor->bytes);
  EXPECT_TRUE(source.ReadAt(*tensor, 0, bytes).ok());
  return bytes;
}

TEST(HfExport, OneScaleForARowIsAChannelsScale) {
  const TempFolder folder;
  const ModelSource source = OpenGgufCase(FindTinyCase("qwen3"), folder);
  RowScaleSupply supply(source);
  HfExportOptions options;
  options.packed = PackedWeights::kCompressedTensors;
  options.activation_bits = 8;
  const auto directory = OutputIn(folder);
  const Status done = ExportHf(source, supply, options, directory);
  ASSERT_TRUE(done.ok()) << done.error().ToString();
  const auto group =
      ReadJson(directory / "config.json")["quantization_config"]["config_groups"]["group_0"];
  EXPECT_EQ(group["weights"]["strategy"], "channel");
  EXPECT_EQ(group["input_activations"]["strategy"], "token");
  const auto again = OpenModel(directory);
  ASSERT_TRUE(again.ok()) << again.error().ToString();
  constexpr const char* kName = "blk.0.ffn_down.weight";
  const TensorInfo* tensor = source.Find(kName);
  std::vector<std::byte> expected(
      static_cast<size_t>(tensor->rows() * DTypeRowBytes(DType::kQ8_0, tensor->columns())));
  ASSERT_TRUE(supply.ReadRows(*tensor, 0, expected).ok());
  EXPECT_EQ(again->Find(kName)->dtype, DType::kQ8_0);
  EXPECT_TRUE(BytesOf(*again, kName) == expected);
}

TEST(HfExport, QuantizedGgufStaysPackedWhenAsked) {
  for (const DType dtype : {DType::kQ4_0, DType::kQ8_0}) {
    const TempFolder folder;
    const ModelSource source = OpenGgufCase(FindTinyCase("qwen3"), folder, dtype);
    SourceSupply supply(source);
    HfExportOptions options;
    options.packed = PackedWeights::kCompressedTensors;
    const auto directory = OutputIn(folder);
    const Status done = ExportHf(source, supply, options, directory);
    ASSERT_TRUE(done.ok()) << done.error().ToString();
    const auto again = OpenModel(directory);
    ASSERT_TRUE(again.ok()) << again.error().ToString();
    for (const char* name : {"blk.0.attn_q.weight", "blk.1.ffn_up.weight"})
      EXPECT_TRUE(BytesOf(*again, name) == BytesOf(source, name)) << name;
  }
}

TEST(PackedForm, RefusesScalesThatDiffer) {
  std::vector<float> values(64, 0.5F);
  values[40] = 3.0F;
  std::vector<std::byte> row(static_cast<size_t>(DTypeRowBytes(DType::kQ8_0, 64)));
  QuantizeRow(DType::kQ8_0, values, row);
  EXPECT_TRUE(RowScales({DType::kQ8_0, 32}, row).ok());
  EXPECT_FALSE(RowScales({DType::kQ8_0, 64}, row).ok());
  EXPECT_FALSE(RowScales({DType::kQ8_0, 0}, row).ok());
}

}  // namespace
}  // namespace tenon::testing

// Checkpoints of GPTQ and AWQ: packed here by the formats' own rules from made-up integers, scales
// and zero points, against a directory of the same values in F32, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "frontend/session/source_weights.h"
#include "model/arch/architecture.h"
#include "model/column_order.h"
#include "quant/half.h"
#include "tiny_directory.h"
#include "tiny_run.h"

namespace tenon::testing {
namespace {

using nlohmann::json;

struct PackedCase {
  const char* name;
  const char* method = "gptq";
  int64_t bits = 4;
  int64_t group = 32;
  bool symmetric = false;
  bool version2 = false;          // GPTQ: zero points as they are
  bool activation_order = false;  // GPTQ: groups of inputs that are not neighbours
  bool own_orders = false;        // and others in each matrix
  DType expected = DType::kQ5_0;
};

// Integers of a matrix, from its name. Values are scale * (q - zero).
struct Integers {
  int64_t outputs = 0;
  int64_t inputs = 0;
  std::vector<int64_t> q;      // [inputs, outputs]
  std::vector<int64_t> zeros;  // [groups, outputs]
  std::vector<float> scales;   // [groups, outputs]
  std::vector<int32_t> group;  // [inputs]
};

Integers MakeIntegers(const TinyTensor& tensor, const PackedCase& packed) {
  Integers made;
  made.outputs = tensor.shape[0];
  made.inputs = tensor.shape[1];
  const int64_t groups = (made.inputs + packed.group - 1) / packed.group;
  const int64_t range = int64_t{1} << packed.bits;
  // The tensor's own values are multiples of 2^-11 that look random.
  const auto number = [&](int64_t i) {
    const auto index = static_cast<size_t>(i) % tensor.values.size();
    return static_cast<int64_t>((tensor.values[index] + 0.25F) * 2048.0F);
  };
  // Any multiplier without a common divisor with the inputs makes an order of them.
  const int64_t step = packed.own_orders && tensor.name.find("attn_k") != std::string::npos ? 5 : 7;
  for (int64_t i = 0; i < made.inputs; ++i) {
    made.group.push_back(static_cast<int32_t>(
        packed.activation_order ? (i * step + 3) % made.inputs / packed.group : i / packed.group));
  }
  for (int64_t i = 0; i < made.inputs * made.outputs; ++i)
    made.q.push_back(number(i * 3) % range);
  for (int64_t i = 0; i < groups * made.outputs; ++i) {
    // GPTQ's first version can't hold a zero point of 0.
    made.zeros.push_back(packed.symmetric ? range / 2 : 1 + number(i * 5) % (range - 1));
    made.scales.push_back(F16ToF32(F32ToF16(0.002F + static_cast<float>(number(i)) * 1e-5F)));
  }
  return made;
}

class WordWriter {
 public:
  WordWriter(int64_t rows, int64_t columns)
      : columns_(columns), words_(static_cast<size_t>(rows * columns)) {}
  void Put(int64_t row, int64_t column, int64_t shift, int64_t value) {
    words_[static_cast<size_t>(row * columns_ + column)] |= static_cast<uint32_t>(value) << shift;
  }
  RawTensor Tensor(const std::string& name) const {
    const auto* bytes = reinterpret_cast<const char*>(words_.data());
    const auto rows = static_cast<int64_t>(words_.size()) / columns_;
    return {name, "I32", {rows, columns_}, {bytes, words_.size() * 4}};
  }

 private:
  int64_t columns_;
  std::vector<uint32_t> words_;
};

// Where output `o` is in its word: AutoAWQ writes 0, 2, 4, 6, 1, 3, 5, 7.
int64_t OutputShift(int64_t o, const PackedCase& packed) {
  constexpr std::array<int64_t, 8> kPlaces = {0, 4, 1, 5, 2, 6, 3, 7};
  const int64_t n = 32 / packed.bits;
  const bool awq = std::string_view(packed.method) == "awq";
  return (awq ? kPlaces[static_cast<size_t>(o % n)] : o % n) * packed.bits;
}

void PutPacked(const std::string& stem, const Integers& made, const PackedCase& packed,
               std::vector<RawTensor>& out) {
  const int64_t n = 32 / packed.bits;
  const bool awq = std::string_view(packed.method) == "awq";
  const auto groups = static_cast<int64_t>(made.zeros.size()) / made.outputs;
  WordWriter values(awq ? made.inputs : made.inputs / n, awq ? made.outputs / n : made.outputs);
  for (int64_t i = 0; i < made.inputs; ++i) {
    for (int64_t o = 0; o < made.outputs; ++o) {
      const int64_t q = made.q[static_cast<size_t>(i * made.outputs + o)];
      if (awq)
        values.Put(i, o / n, OutputShift(o, packed), q);
      else
        values.Put(i / n, o, i % n * packed.bits, q);
    }
  }
  WordWriter zeros(groups, made.outputs / n);
  const int64_t less = awq || packed.version2 ? 0 : 1;
  for (int64_t g = 0; g < groups; ++g) {
    for (int64_t o = 0; o < made.outputs; ++o) {
      zeros.Put(g, o / n, OutputShift(o, packed),
                made.zeros[static_cast<size_t>(g * made.outputs + o)] - less);
    }
  }
  std::string scales;
  for (const float scale : made.scales) {
    const uint16_t half = F32ToF16(scale);
    scales.append(reinterpret_cast<const char*>(&half), sizeof(half));
  }
  out.push_back(values.Tensor(stem + ".qweight"));
  out.push_back(zeros.Tensor(stem + ".qzeros"));
  out.push_back({stem + ".scales", "F16", {groups, made.outputs}, scales});
  if (awq)
    return;
  const auto* bytes = reinterpret_cast<const char*>(made.group.data());
  out.push_back({stem + ".g_idx", "I32", {made.inputs}, {bytes, made.group.size() * 4}});
}

void PutFloats(const std::string& stem, const Integers& made, std::vector<RawTensor>& out) {
  std::string bytes;
  for (int64_t o = 0; o < made.outputs; ++o) {
    for (int64_t i = 0; i < made.inputs; ++i) {
      const auto at = static_cast<size_t>(made.group[static_cast<size_t>(i)] * made.outputs + o);
      const int64_t q = made.q[static_cast<size_t>(i * made.outputs + o)];
      const float value = made.scales[at] * static_cast<float>(q - made.zeros[at]);
      bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }
  }
  out.push_back({stem + ".weight", "F32", {made.outputs, made.inputs}, bytes});
}

enum class Form : uint8_t { kPacked, kFloat };

class PackedTest : public ::testing::TestWithParam<PackedCase> {
 protected:
  // The tiny llama's directory with its layers' matrices so.
  Result<ModelSource> Open(Form form) const {
    const PackedCase& packed = GetParam();
    const TempFolder folder;
    const auto directory = folder.Write("marker", {}).parent_path();
    WriteTinyDirectory(tiny_, {}, directory);
    std::vector<RawTensor> tensors;
    for (const TinyTensor& tensor : TinyHfTensors(tiny_)) {
      RawTensor raw = ToRaw(tiny_, tensor);
      if (!tensor.name.starts_with("blk.") || tensor.shape.size() != 2) {
        tensors.push_back(std::move(raw));
        continue;
      }
      const std::string stem = raw.name.substr(0, raw.name.rfind('.'));
      const Integers made = MakeIntegers(tensor, packed);
      if (form == Form::kPacked)
        PutPacked(stem, made, packed, tensors);
      else
        PutFloats(stem, made, tensors);
    }
    std::ofstream(directory / "model.safetensors", std::ios::binary) << SafetensorsBytes(tensors);
    if (form == Form::kPacked)
      AddQuantization(directory / "config.json");
    return OpenModel(directory);
  }

  void AddQuantization(const std::filesystem::path& path) const {
    const PackedCase& packed = GetParam();
    json config = json::parse(std::ifstream(path));
    json& quantization = config["quantization_config"];
    quantization = {{"quant_method", packed.method},
                    {"bits", packed.bits},
                    {"group_size", packed.group},
                    {"sym", packed.symmetric},
                    {"desc_act", packed.activation_order}};
    if (std::string_view(packed.method) == "awq")
      quantization["version"] = "gemm";
    else if (packed.version2)
      quantization["checkpoint_format"] = "gptq_v2";
    std::ofstream(path) << config.dump();
  }

  static std::vector<float> Logits(const ModelSource& source, const TinyCase& tiny,
                                   OptimizeLevel level = OptimizeLevel::kO3,
                                   ActivationMode activations = ActivationMode::kFloat) {
    const SourceWeights weights(source);
    auto run = LoadTiny(source, weights, level, activations);
    EXPECT_TRUE(run.ok()) << run.error().ToString();
    return RunTokens(*run->runner, tiny.tokens, tiny.tokens.size());
  }

  TinyCase tiny_ = FindTinyCase("llama");
};

TEST_P(PackedTest, LoadsWithoutLosingABit) {
  const auto packed = Open(Form::kPacked);
  ASSERT_TRUE(packed.ok()) << packed.error().ToString();
  const auto floats = Open(Form::kFloat);
  ASSERT_TRUE(floats.ok()) << floats.error().ToString();
  for (const char* name : {"blk.0.attn_q.weight", "blk.1.ffn_down.weight"})
    EXPECT_EQ(DTypeName(packed->Find(name)->dtype), DTypeName(GetParam().expected)) << name;
  const std::vector<float> expected = Logits(*floats, tiny_);
  ASSERT_FALSE(expected.empty());
  const std::vector<float> found = Logits(*packed, tiny_);
  if (!GetParam().activation_order) {
    EXPECT_EQ(found, expected);
    return;
  }
  // The products are the same, their sum is made in another order.
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], 2e-5F) << i;
}

// Cases whose columns are in an order of their own.
class PermutedTest : public PackedTest {};

// Passes keep every bit of a model whose inputs are permuted, and int8 activations stay near.
TEST_P(PermutedTest, PassesKeepEveryBit) {
  const auto packed = Open(Form::kPacked);
  ASSERT_TRUE(packed.ok()) << packed.error().ToString();
  const std::vector<float> expected = Logits(*packed, tiny_);
  EXPECT_EQ(Logits(*packed, tiny_, OptimizeLevel::kO0), expected);
  const auto fast = Logits(*packed, tiny_, OptimizeLevel::kO3, ActivationMode::kInt8);
  ASSERT_EQ(fast.size(), expected.size());
  double error = 0.0;
  double size = 0.0;
  for (size_t i = 0; i < fast.size(); ++i) {
    error += std::pow(static_cast<double>(fast[i] - expected[i]), 2);
    size += std::pow(static_cast<double>(expected[i]), 2);
  }
  // Activations are rounded to 1/127 of their group's maximum, a few times a layer.
  EXPECT_LT(std::sqrt(error / size), 0.03);
  EXPECT_GT(error, 0.0);
}

int64_t CountPermutes(const ModelSource& source) {
  auto graph = BuildGraph(source);
  EXPECT_TRUE(graph.ok()) << graph.error().ToString();
  EXPECT_TRUE(Optimize(*graph, {}).ok());
  return std::ranges::count_if(
      graph->ops(), [](const Op& op) { return std::holds_alternative<PermuteAttrs>(op.attrs); });
}

// Matrices of one input and one order share its permutation, and still are one product.
TEST_P(PermutedTest, EqualOrdersAreOnePermutation) {
  const auto packed = Open(Form::kPacked);
  ASSERT_TRUE(packed.ok()) << packed.error().ToString();
  // Of query, key and value; of what attention gives; of gate and up; of down.
  const int64_t a_layer = GetParam().own_orders ? 5 : 4;
  EXPECT_EQ(CountPermutes(*packed), a_layer * packed->config.layer_count);
}

// Writers of files get the model's own order back, exactly.
TEST_P(PackedTest, RestoredColumnsAreTheFloats) {
  auto packed = Open(Form::kPacked);
  ASSERT_TRUE(packed.ok()) << packed.error().ToString();
  ASSERT_TRUE(RestoreColumnOrder(*packed).ok());
  const auto floats = Open(Form::kFloat);
  ASSERT_TRUE(floats.ok()) << floats.error().ToString();
  EXPECT_EQ(packed->tensors.size(), floats->tensors.size());
  if (GetParam().activation_order) {
    EXPECT_EQ(CountPermutes(*packed), 0);
  }
  EXPECT_EQ(Logits(*packed, tiny_), Logits(*floats, tiny_));
}

constexpr PackedCase kCases[] = {
    {.name = "gptq"},
    {.name = "gptq_v2", .version2 = true},
    {.name = "gptq_symmetric", .symmetric = true, .expected = DType::kQ4_0},
    {.name = "gptq_one_group", .group = 96},
    {.name = "gptq_2_bits", .bits = 2, .expected = DType::kQ4_0},
    {.name = "gptq_8_bits", .bits = 8, .symmetric = true, .expected = DType::kQ8_0},
    {.name = "gptq_8_bits_any_zero", .bits = 8, .expected = DType::kF32},
    {.name = "gptq_group_of_16", .group = 16, .expected = DType::kF32},
    {.name = "gptq_desc_act", .activation_order = true},
    {.name = "gptq_desc_act_symmetric",
     .symmetric = true,
     .activation_order = true,
     .expected = DType::kQ4_0},
    {.name = "gptq_desc_act_own_orders", .activation_order = true, .own_orders = true},
    {.name = "awq", .method = "awq"},
};
std::vector<PackedCase> PermutedCases() {
  std::vector<PackedCase> cases;
  std::ranges::copy_if(kCases, std::back_inserter(cases), &PackedCase::activation_order);
  return cases;
}

std::string CaseName(const ::testing::TestParamInfo<PackedCase>& test) {
  return test.param.name;
}
INSTANTIATE_TEST_SUITE_P(Formats, PackedTest, ::testing::ValuesIn(kCases), CaseName);
INSTANTIATE_TEST_SUITE_P(Formats, PermutedTest, ::testing::ValuesIn(PermutedCases()), CaseName);

}  // namespace
}  // namespace tenon::testing

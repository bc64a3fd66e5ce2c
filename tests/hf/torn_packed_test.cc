// Checkpoints of GPTQ, AWQ and compressed-tensors whose parts are missing or don't fit each other:
// each is refused with the tensor's name, and nothing outside its bytes is read.
#include "hf/hf_test_support.h"

namespace tenon::testing {
namespace {

using ::testing::HasSubstr;

// A tensor of zeros, or of these values.
struct Part {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes = {};
};

uint64_t SizeOf(const Part& part) {
  uint64_t size = part.dtype == "I64" ? 8 : part.dtype == "F16" ? 2 : part.dtype == "I8" ? 1 : 4;
  for (const int64_t extent : part.shape)
    size *= static_cast<uint64_t>(extent);
  return size;
}

std::string FileOf(const std::vector<Part>& parts) {
  json header = json::object();
  std::string data;
  for (const Part& part : parts) {
    const uint64_t size = SizeOf(part);
    header[part.name] = Entry(part.dtype, part.shape, data.size(), data.size() + size);
    std::string bytes = part.bytes;
    bytes.resize(size, '\0');
    data += bytes;
  }
  return Container(header.dump(), data);
}

template <class T>
std::string Raw(std::vector<T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

const std::string kStem = "model.layers.0.self_attn.q_proj.";

// The whole parts of the query's matrix, 8 x 8.
std::vector<Part> Whole(const std::string& method) {
  if (method == "compressed-tensors")
    return {{kStem + "weight_packed", "I32", {8, 1}},
            {kStem + "weight_scale", "F16", {8, 1}},
            {kStem + "weight_shape", "I64", {2}, Raw<int64_t>({8, 8})}};
  if (method == "int8")
    return {{kStem + "weight", "I8", {8, 8}}, {kStem + "weight_scale", "F16", {8, 1}}};
  std::vector<Part> parts = {
      {kStem + "qweight", "I32", {method == "awq" ? 8 : 1, method == "awq" ? 1 : 8}},
      {kStem + "qzeros", "I32", {2, 1}},
      {kStem + "scales", "F16", {2, 8}}};
  if (method == "gptq")
    parts.push_back({kStem + "g_idx", "I32", {8}, Raw<int32_t>({0, 0, 0, 0, 1, 1, 1, 1})});
  return parts;
}

struct TornCase {
  const char* name;
  const char* method;
  Part part;             // replaces the one of its name
  bool missing = false;  // the part is left out instead
  json settings = json::object();
  std::string expected = {};
};

std::string OpenTorn(const TornCase& torn) {
  std::vector<Part> parts;
  for (const ZeroTensor& tensor : SmallTensors()) {
    if (tensor.name != kStem + "weight")
      parts.push_back({tensor.name, "F32", tensor.shape});
  }
  bool replaced = torn.part.name.empty();
  for (const Part& part : Whole(torn.method)) {
    const bool same = part.name == kStem + torn.part.name;
    if (same && !torn.missing) {
      Part changed = torn.part;
      changed.name = part.name;
      parts.push_back(std::move(changed));
    } else if (!same) {
      parts.push_back(part);
    }
    replaced = replaced || same;
  }
  if (!replaced) {
    Part added = torn.part;
    added.name = kStem + added.name;
    parts.push_back(std::move(added));
  }
  json config = SmallConfig();
  const bool compressed = std::string_view(torn.method) == "compressed-tensors" ||
                          std::string_view(torn.method) == "int8";
  json& quantization = config["quantization_config"];
  quantization = {{"quant_method", compressed ? "compressed-tensors" : torn.method},
                  {"bits", 4},
                  {"group_size", 4}};
  if (compressed)
    quantization["format"] = "pack-quantized";
  if (torn.settings.is_object())
    quantization.update(torn.settings);
  const Folder folder;
  WriteSmallModel(folder, config);
  folder.Write("model.safetensors", FileOf(parts));
  return OpenError(folder.path());
}

class TornPacked : public ::testing::TestWithParam<TornCase> {};

TEST_P(TornPacked, IsRefused) {
  const TornCase& torn = GetParam();
  EXPECT_THAT(OpenTorn(torn), HasSubstr(torn.expected));
}

Part Ids(std::vector<int32_t> ids) {
  const auto count = static_cast<int64_t>(ids.size());
  return {"g_idx", "I32", {count}, Raw(std::move(ids))};
}

INSTANTIATE_TEST_SUITE_P(
    Files, TornPacked,
    ::testing::Values(
        TornCase{"gptq_without_zeros",
                 "gptq",
                 {"qzeros", "", {}},
                 true,
                 {},
                 "qzeros: the tensor is missing"},
        TornCase{"gptq_without_scales",
                 "gptq",
                 {"scales", "", {}},
                 true,
                 {},
                 "scales: the tensor is missing"},
        TornCase{"gptq_short_zeros", "gptq", {"qzeros", "I32", {1, 1}}, false, {}, "zero points"},
        TornCase{"gptq_wide_scales", "gptq", {"scales", "F16", {2, 9}}, false, {}, "18 scales"},
        TornCase{"gptq_scales_of_integers", "gptq", {"scales", "I32", {2, 8}}, false, {}, "I32"},
        TornCase{
            "gptq_group_too_high", "gptq", Ids({0, 0, 0, 0, 1, 1, 1, 2}), false, {}, "group 2"},
        TornCase{
            "gptq_group_below_0", "gptq", Ids({0, 0, 0, 0, 1, 1, 1, -1}), false, {}, "group -1"},
        TornCase{"gptq_short_groups", "gptq", Ids({0, 0, 1}), false, {}, "groups of 3 inputs"},
        TornCase{"gptq_float_weights", "gptq", {"qweight", "F32", {1, 8}}, false, {}, "qweight"},
        TornCase{"gptq_flat_weights", "gptq", {"qweight", "I32", {8}}, false, {}, "qweight"},
        TornCase{"gptq_deep_weights", "gptq", {"qweight", "I32", {2, 8}}, false, {}, "zero points"},
        TornCase{
            "gptq_odd_outputs", "gptq", {"qweight", "I32", {1, 7}}, false, {}, "multiples of 8"},
        TornCase{"gptq_3_bits", "gptq", {}, false, {{"bits", 3}}, "bits"},
        TornCase{"gptq_0_bits", "gptq", {}, false, {{"bits", 0}}, "bits"},
        TornCase{"gptq_group_of_0", "gptq", {}, false, {{"group_size", 0}}, "group_size"},
        TornCase{"gptq_group_of_minus_2", "gptq", {}, false, {{"group_size", -2}}, "group_size"},
        TornCase{"gptq_other_group", "gptq", {}, false, {{"group_size", 2}}, "zero points"},
        TornCase{"gptq_marlin", "gptq", {}, false, {{"checkpoint_format", "marlin"}}, "marlin"},
        TornCase{"awq_without_zeros",
                 "awq",
                 {"qzeros", "", {}},
                 true,
                 {},
                 "qzeros: the tensor is missing"},
        TornCase{"awq_short_weights", "awq", {"qweight", "I32", {7, 1}}, false, {}, "7 inputs"},
        TornCase{"awq_8_bits", "awq", {}, false, {{"bits", 8}}, "bits"},
        TornCase{"awq_gemv", "awq", {}, false, {{"version", "gemv"}}, "gemv"},
        TornCase{"packed_without_scale",
                 "compressed-tensors",
                 {"weight_scale", "", {}},
                 true,
                 {},
                 "weight_scale"},
        TornCase{"packed_without_shape",
                 "compressed-tensors",
                 {"weight_shape", "", {}},
                 true,
                 {},
                 "weight_shape"},
        TornCase{"packed_wrong_shape",
                 "compressed-tensors",
                 {"weight_shape", "I64", {2}, Raw<int64_t>({8, 16})},
                 false,
                 {},
                 "words in a row"},
        TornCase{"packed_negative_shape",
                 "compressed-tensors",
                 {"weight_shape", "I64", {2}, Raw<int64_t>({-8, -8})},
                 false,
                 {},
                 "words in a row"},
        TornCase{"packed_short_shape",
                 "compressed-tensors",
                 {"weight_shape", "I64", {1}},
                 false,
                 {},
                 "two values"},
        TornCase{"packed_few_scales",
                 "compressed-tensors",
                 {"weight_scale", "F16", {7, 1}},
                 false,
                 {},
                 "7 scales"},
        TornCase{"packed_odd_scales",
                 "compressed-tensors",
                 {"weight_scale", "F16", {8, 3}},
                 false,
                 {},
                 "24 scales"},
        TornCase{"packed_zeros_of_floats",
                 "compressed-tensors",
                 {"weight_zero_point", "F16", {1, 1}},
                 false,
                 {},
                 "weight_zero_point"},
        TornCase{"packed_many_zeros",
                 "compressed-tensors",
                 {"weight_zero_point", "I32", {2, 1}},
                 false,
                 {},
                 "zero points"},
        TornCase{"packed_group_too_high",
                 "compressed-tensors",
                 {"weight_g_idx", "I32", {8}, Raw<int32_t>({0, 0, 0, 0, 0, 0, 0, 9})},
                 false,
                 {},
                 "group 9"},
        TornCase{"packed_marlin",
                 "compressed-tensors",
                 {},
                 false,
                 {{"format", "marlin-24"}},
                 "marlin-24"},
        TornCase{"packed_sparse",
                 "compressed-tensors",
                 {},
                 false,
                 {{"sparsity_config", {{"format", "sparse-24-bitmask"}}}},
                 "sparse-24-bitmask"},
        TornCase{"packed_frozen",
                 "compressed-tensors",
                 {},
                 false,
                 {{"quantization_status", "frozen"}},
                 "frozen"},
        TornCase{"bytes_without_scale", "int8", {"weight_scale", "", {}}, true, {}, "weight_scale"},
        TornCase{
            "bytes_few_scales", "int8", {"weight_scale", "F16", {7, 1}}, false, {}, "7 scales"}),
    [](const auto& torn) { return torn.param.name; });

// So that the others fail for what they break.
TEST(TornPackedFiles, WholeOnesOpen) {
  for (const char* method : {"gptq", "awq", "compressed-tensors", "int8"})
    EXPECT_EQ(OpenTorn({"whole", method, {}, false, json::object(), {}}), "") << method;
}

}  // namespace
}  // namespace tenon::testing

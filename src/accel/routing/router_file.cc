#include "accel/routing/router_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/file_io.h"
#include "base/mapped_file.h"
#include "model/safetensors/safetensors_reader.h"
#include "model/safetensors/value_decoder.h"

namespace tenon {
namespace {

constexpr std::string_view kFormat = "tenon-router-1";
// A hidden size beyond any model's.
constexpr int64_t kMaxHidden = 65536;

struct Entry {
  const char* name;
  std::vector<int64_t> shape;
  std::span<const float> values;
};

std::vector<Entry> EntriesOf(const RouterNet& net) {
  const int64_t h = net.hidden_size();
  return {{"mean", {h}, net.mean},
          {"scale", {h}, net.scale},
          {"weight1", {2 * h, h}, net.weight1.values},
          {"bias1", {2 * h}, net.bias1},
          {"weight2", {h, 2 * h}, net.weight2.values},
          {"bias2", {h}, net.bias2},
          {"weight3", {1, h}, net.weight3.values},
          {"bias3", {1}, {&net.bias3, 1}}};
}

class RouterReader {
 public:
  RouterReader(const SafetensorsFile& file, std::span<const std::byte> bytes, std::string name)
      : file_(file), bytes_(bytes), name_(std::move(name)) {}

  std::string Metadata(std::string_view key) const {
    for (const auto& [name, value] : file_.metadata) {
      if (name == key)
        return value;
    }
    return {};
  }

  Result<std::vector<float>> Values(std::string_view tensor, std::vector<int64_t> shape) const {
    const auto found = std::ranges::find(file_.tensors, tensor, &SafetensorsTensor::name);
    if (found == file_.tensors.end())
      return Corrupt(fmt::format("no tensor {}", tensor), name_);
    const std::string where = fmt::format("{}: {}", name_, tensor);
    if (found->type != SafetensorsType::kF32 || found->shape != shape) {
      return Corrupt(
          fmt::format("found {} [{}], expected F32 [{}]", SafetensorsTypeName(found->type),
                      fmt::join(found->shape, ", "), fmt::join(shape, ", ")),
          where);
    }
    std::vector<float> values(found->bytes / sizeof(float));
    DecodeValues(found->type, bytes_.subspan(found->offset, found->bytes), values);
    const auto bad = std::ranges::find_if_not(values, [](float v) { return std::isfinite(v); });
    if (bad != values.end())
      return Corrupt(fmt::format("value {} is {}", bad - values.begin(), *bad), where);
    return values;
  }

  Result<int64_t> HiddenSize() const {
    const auto found = std::ranges::find(file_.tensors, "mean", &SafetensorsTensor::name);
    if (found == file_.tensors.end() || found->shape.size() != 1 || found->shape[0] < 1 ||
        found->shape[0] > kMaxHidden)
      return Corrupt("no vector mean [hidden size]", name_);
    return found->shape[0];
  }

  Status Fill(FloatMatrix& matrix, std::string_view tensor, int64_t rows, int64_t columns) const {
    matrix.rows = rows;
    matrix.columns = columns;
    TENON_ASSIGN_OR_RETURN(matrix.values, Values(tensor, {rows, columns}));
    return {};
  }

  Result<RouterNet> Net() const {
    RouterNet net;
    TENON_ASSIGN_OR_RETURN(const int64_t h, HiddenSize());
    TENON_ASSIGN_OR_RETURN(net.mean, Values("mean", {h}));
    TENON_ASSIGN_OR_RETURN(net.scale, Values("scale", {h}));
    TENON_RETURN_IF_ERROR(Fill(net.weight1, "weight1", 2 * h, h));
    TENON_ASSIGN_OR_RETURN(net.bias1, Values("bias1", {2 * h}));
    TENON_RETURN_IF_ERROR(Fill(net.weight2, "weight2", h, 2 * h));
    TENON_ASSIGN_OR_RETURN(net.bias2, Values("bias2", {h}));
    TENON_RETURN_IF_ERROR(Fill(net.weight3, "weight3", 1, h));
    TENON_ASSIGN_OR_RETURN(const std::vector<float> bias3, Values("bias3", {1}));
    net.bias3 = bias3.front();
    return net;
  }

 private:
  const SafetensorsFile& file_;
  std::span<const std::byte> bytes_;
  std::string name_;
};

}  // namespace

Status WriteRouterFile(const std::filesystem::path& path, const RouterFile& router) {
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", kFormat},
                            {"small_fingerprint", router.small_fingerprint},
                            {"large_fingerprint", router.large_fingerprint}};
  std::string data;
  for (const Entry& entry : EntriesOf(router.net)) {
    const size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(entry.values.data()), entry.values.size_bytes());
    header[entry.name] = {
        {"dtype", "F32"}, {"shape", entry.shape}, {"data_offsets", {begin, data.size()}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the data is aligned
  std::string bytes;
  for (int i = 0; i < 8; ++i)
    bytes.push_back(static_cast<char>((static_cast<uint64_t>(text.size()) >> (8 * i)) & 0xFF));
  return WriteFileAtomic(path, bytes + text + data);
}

Result<RouterFile> ReadRouterFile(const std::filesystem::path& path) {
  TENON_ASSIGN_OR_RETURN(const MappedFile mapped, MappedFile::Open(path));
  TENON_ASSIGN_OR_RETURN(const SafetensorsFile file,
                         ParseSafetensors(mapped.bytes(), path.string()));
  const RouterReader reader(file, mapped.bytes(), path.string());
  const std::string format = reader.Metadata("format");
  if (format != kFormat)
    return Corrupt(fmt::format("found format '{}', expected {}", format, kFormat), path.string());
  RouterFile router;
  router.small_fingerprint = reader.Metadata("small_fingerprint");
  router.large_fingerprint = reader.Metadata("large_fingerprint");
  TENON_ASSIGN_OR_RETURN(router.net, reader.Net());
  return router;
}

}  // namespace tenon

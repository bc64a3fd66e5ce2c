#include "frontend/convert/weight_file.h"

#include <algorithm>
#include <cmath>

#include "quant/dequantize.h"

namespace tenon {
namespace {

// Readers map external data: pages of 4 KiB are what ONNX asks for.
constexpr uint64_t kAlignment = 4096;
constexpr float kLargestInt8 = 127.0F;

}  // namespace

Result<WeightFile> WeightFile::Create(const std::filesystem::path& path,
                                      const ModelSource& source) {
  TENON_ASSIGN_OR_RETURN(FileWriter file, FileWriter::Open(path));
  TENON_RETURN_IF_ERROR(file.Truncate(0));
  return WeightFile(std::move(file), source);
}

Result<const TensorInfo*> WeightFile::Find(const std::string& tensor) const {
  const TensorInfo* info = source_->Find(tensor);
  if (info == nullptr)
    return NotFound("the tensor is missing from the model", tensor);
  return info;
}

Status WeightFile::ReadRow(const TensorInfo& tensor, int64_t row, std::vector<float>& out) {
  const auto bytes = static_cast<size_t>(DTypeRowBytes(tensor.dtype, tensor.columns()));
  row_.resize(bytes);
  out.resize(static_cast<size_t>(tensor.columns()));
  TENON_RETURN_IF_ERROR(source_->ReadAt(tensor, static_cast<uint64_t>(row) * bytes, row_));
  DequantizeRow(tensor.dtype, row_, out);
  return {};
}

Status WeightFile::Align() {
  const std::vector<std::byte> zeros((kAlignment - file_.size() % kAlignment) % kAlignment);
  return zeros.empty() ? Status() : file_.Write(zeros);
}

Status WeightFile::PutFloats(const std::string& tensor, OnnxBuilder& builder) {
  if (!written_.insert(tensor).second)
    return {};
  TENON_ASSIGN_OR_RETURN(const TensorInfo* info, Find(tensor));
  TENON_RETURN_IF_ERROR(Align());
  const uint64_t offset = file_.size();
  std::vector<float> row;
  for (int64_t r = 0; r < info->rows(); ++r) {
    TENON_RETURN_IF_ERROR(ReadRow(*info, r, row));
    TENON_RETURN_IF_ERROR(file_.Write(std::as_bytes(std::span(row))));
  }
  builder.External(tensor, ElementType::kF32, info->shape, offset, file_.size() - offset);
  return {};
}

Status WeightFile::PutInt8(const std::string& tensor, OnnxBuilder& builder) {
  if (!written_.insert(tensor + ".q").second)
    return {};
  TENON_ASSIGN_OR_RETURN(const TensorInfo* info, Find(tensor));
  TENON_RETURN_IF_ERROR(Align());
  const uint64_t offset = file_.size();
  std::vector<float> row;
  std::vector<float> scales;
  std::vector<int8_t> quants;
  for (int64_t r = 0; r < info->rows(); ++r) {
    TENON_RETURN_IF_ERROR(ReadRow(*info, r, row));
    float largest = 0.0F;
    for (const float w : row)
      largest = std::max(largest, std::fabs(w));
    // A row of zeros needs a scale too; ONNX does not allow 0.
    const float scale = largest > 0.0F ? largest / kLargestInt8 : 1.0F;
    quants.clear();
    for (const float w : row)
      quants.push_back(static_cast<int8_t>(std::nearbyint(w / scale)));
    scales.push_back(scale);
    TENON_RETURN_IF_ERROR(file_.Write(std::as_bytes(std::span(quants))));
  }
  builder.External(tensor + ".q", ElementType::kI8, info->shape, offset, file_.size() - offset);
  TENON_RETURN_IF_ERROR(Align());
  const uint64_t at = file_.size();
  TENON_RETURN_IF_ERROR(file_.Write(std::as_bytes(std::span(scales))));
  builder.External(tensor + ".scale", ElementType::kF32, {info->rows()}, at, file_.size() - at);
  return {};
}

}  // namespace tenon

// WeightFile: the file beside an ONNX model, filled tensor by tensor.
//
// Threading: one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/file_io.h"
#include "base/result.h"
#include "model/model_source.h"
#include "model/onnx/onnx_builder.h"

namespace tenon {

class WeightFile {
 public:
  static Result<WeightFile> Create(const std::filesystem::path& path, const ModelSource& source);

  // The tensor as float32 under its own name, once.
  Status PutFloats(const std::string& tensor, OnnxBuilder& builder);
  // A matrix as int8 rows, "<tensor>.q", and their scales, "<tensor>.scale": w = scale * q, |q| <=
  // 127.
  Status PutInt8(const std::string& tensor, OnnxBuilder& builder);
  Status Close() { return file_.Sync(); }

 private:
  WeightFile(FileWriter file, const ModelSource& source)
      : file_(std::move(file)), source_(&source) {}
  Result<const TensorInfo*> Find(const std::string& tensor) const;
  Status ReadRow(const TensorInfo& tensor, int64_t row, std::vector<float>& out);
  Status Align();

  FileWriter file_;
  const ModelSource* source_;
  std::set<std::string> written_;
  std::vector<std::byte> row_;
};

}  // namespace tenon

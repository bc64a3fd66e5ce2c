// SegmentStore: the quantized pieces of a model on disk, beside the output, until it is whole.
//
// Each piece is a GGUF file that appears when it is complete, so that an interrupted run can go on
// after the last one. Owns the folder. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"
#include "frontend/quantize/segment_quantizer.h"

namespace tenon {

enum class ResumeMode : uint8_t { kFresh, kResume };

class SegmentStore {
 public:
  // "<output>.parts". `plan` says what is being made of what; with kResume the folder's own plan
  // must be equal (kInvalidArgument otherwise), with kFresh the folder is emptied.
  static Result<SegmentStore> Open(const std::filesystem::path& output, const std::string& plan,
                                   ResumeMode mode);

  bool Has(size_t segment) const;
  Status Save(size_t segment, const SegmentResult& result);
  // Maps a saved piece; its tensors can then be found. Returns its reports.
  Result<std::vector<LinearReport>> Load(size_t segment);

  struct StoredTensor {
    DType dtype = DType::kF32;
    std::vector<int64_t> shape;
    std::span<const std::byte> bytes;
  };
  // Null when no loaded piece has it. Valid while the store lives.
  const StoredTensor* Find(std::string_view name) const;
  // Names of a loaded piece's tensors.
  const std::vector<std::string>& Names(size_t segment) const { return names_.at(segment); }

  // Deletes the folder.
  Status Remove();

 private:
  explicit SegmentStore(std::filesystem::path folder) : folder_(std::move(folder)) {}
  std::filesystem::path PathOf(size_t segment) const;

  std::filesystem::path folder_;
  std::vector<MappedFile> files_;
  std::unordered_map<std::string, StoredTensor> tensors_;
  std::unordered_map<size_t, std::vector<std::string>> names_;
};

}  // namespace tenon

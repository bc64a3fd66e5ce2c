#include "frontend/quantize/segment_store.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/file_io.h"
#include "frontend/store/sha256.h"
#include "model/gguf/gguf_reader.h"
#include "model/gguf/gguf_writer.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kReportsKey = "tenon.segment.reports";
constexpr std::string_view kDigestKey = "tenon.segment.digest";
constexpr std::string_view kPlanFile = "plan.json";
constexpr uint64_t kMostPlanBytes = 1 << 20;

std::string ReportsToJson(const std::vector<LinearReport>& reports) {
  nlohmann::json json = nlohmann::json::array();
  for (const LinearReport& report : reports) {
    json.push_back({{"name", report.name},
                    {"type", report.type},
                    {"rows", report.rows},
                    {"columns", report.columns},
                    {"relative_error", report.relative_error},
                    {"exponent", report.exponent},
                    {"damping", report.damping},
                    {"note", report.note}});
  }
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<std::vector<LinearReport>> ReportsFromJson(std::string_view text, const std::string& where) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  std::vector<LinearReport> reports;
  try {
    for (const nlohmann::json& entry : json) {
      reports.push_back({entry.at("name"), entry.at("type"), entry.at("rows"), entry.at("columns"),
                         entry.at("relative_error"), entry.at("exponent"), entry.at("damping"),
                         entry.at("note")});
    }
  } catch (const nlohmann::json::exception& error) {
    return Corrupt(fmt::format("reports of a piece: {}", error.what()), where);
  }
  return reports;
}

Status CheckPlan(const fs::path& path, const std::string& plan) {
  TENON_ASSIGN_OR_RETURN(const std::string found, ReadWholeFile(path, kMostPlanBytes));
  if (found == plan)
    return {};
  return InvalidArgument(
      fmt::format("the unfinished run was started with other settings or another input; it had {}",
                  found),
      path.string());
}

// A piece may lie there for days before a run goes on with it.
Status CheckDigest(const MappedFile& file, const GgufFile& parsed, std::string_view reports) {
  Sha256 digest;
  digest.Update(std::as_bytes(std::span(reports)));
  for (const TensorInfo& tensor : parsed.tensors)
    digest.Update(file.bytes().subspan(tensor.offset, tensor.bytes));
  TENON_ASSIGN_OR_RETURN(const auto expected, parsed.metadata.String(kDigestKey));
  if (expected.value_or("") == digest.Finish())
    return {};
  return Corrupt("the piece was changed after it was written; without the file it is made again",
                 file.path().string());
}

}  // namespace

Result<SegmentStore> SegmentStore::Open(const fs::path& output, const std::string& plan,
                                        ResumeMode mode) {
  fs::path folder = output;
  folder += ".parts";
  std::error_code error;
  const bool exists = fs::exists(folder / kPlanFile, error);
  if (exists && mode == ResumeMode::kResume) {
    TENON_RETURN_IF_ERROR(CheckPlan(folder / kPlanFile, plan));
    return SegmentStore(std::move(folder));
  }
  fs::remove_all(folder, error);
  TENON_RETURN_IF_ERROR(CreateDirectories(folder));
  TENON_RETURN_IF_ERROR(WriteFileAtomic(folder / kPlanFile, plan));
  return SegmentStore(std::move(folder));
}

fs::path SegmentStore::PathOf(size_t segment) const {
  return folder_ / fmt::format("segment-{:04}.gguf", segment);
}

bool SegmentStore::Has(size_t segment) const {
  std::error_code error;
  return fs::exists(PathOf(segment), error);
}

Status SegmentStore::Save(size_t segment, const SegmentResult& result) {
  GgufMetadataBuilder metadata;
  const std::string reports = ReportsToJson(result.reports);
  metadata.SetString(kReportsKey, reports);
  std::vector<GgufTensorPlan> plans;
  Sha256 digest;
  digest.Update(std::as_bytes(std::span(reports)));
  for (const EncodedTensor& tensor : result.tensors) {
    plans.push_back({tensor.name, tensor.dtype, tensor.shape});
    digest.Update(tensor.bytes);
  }
  metadata.SetString(kDigestKey, digest.Finish());
  TENON_ASSIGN_OR_RETURN(GgufWriter writer,
                         GgufWriter::Create(PathOf(segment), metadata, std::move(plans)));
  for (const EncodedTensor& tensor : result.tensors)
    TENON_RETURN_IF_ERROR(writer.WriteTensor(tensor.bytes));
  return writer.Close();
}

Result<std::vector<LinearReport>> SegmentStore::Load(size_t segment) {
  const std::string name = PathOf(segment).string();
  TENON_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(PathOf(segment)));
  TENON_ASSIGN_OR_RETURN(const GgufFile parsed, ParseGguf(file.bytes(), name));
  TENON_ASSIGN_OR_RETURN(const auto reports, parsed.metadata.String(kReportsKey));
  TENON_RETURN_IF_ERROR(CheckDigest(file, parsed, reports.value_or("")));
  for (const TensorInfo& tensor : parsed.tensors) {
    tensors_[tensor.name] = {tensor.dtype, tensor.shape,
                             file.bytes().subspan(tensor.offset, tensor.bytes)};
    names_[segment].push_back(tensor.name);
  }
  auto result = ReportsFromJson(reports.value_or("[]"), name);
  files_.push_back(std::move(file));
  return result;
}

const SegmentStore::StoredTensor* SegmentStore::Find(std::string_view name) const {
  const auto found = tensors_.find(std::string(name));
  return found == tensors_.end() ? nullptr : &found->second;
}

Status SegmentStore::Remove() {
  tensors_.clear();
  files_.clear();
  std::error_code error;
  std::filesystem::remove_all(folder_, error);
  if (error)
    return MakeError(ErrorCode::kIo, error.message(), folder_.string());
  return {};
}

}  // namespace tenon

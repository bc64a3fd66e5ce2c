#include "frontend/store/model_record.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace tenon {
namespace {

using nlohmann::json;

// Reads a text field; absent is "".
Status ReadText(const json& object, const char* key, const std::string& where, std::string& out) {
  const auto found = object.find(key);
  if (found == object.end())
    return {};
  if (!found->is_string())
    return Corrupt(fmt::format("'{}' is {}, expected text", key, found->type_name()), where);
  out = found->get<std::string>();
  return {};
}

Result<StoredFile> ParseFile(const json& entry, const std::string& where) {
  if (!entry.is_object() || !entry.contains("bytes") || !entry["bytes"].is_number_unsigned())
    return Corrupt("an entry of 'files' has no number of bytes", where);
  StoredFile file;
  file.bytes = entry["bytes"].get<uint64_t>();
  TENON_RETURN_IF_ERROR(ReadText(entry, "name", where, file.name));
  TENON_RETURN_IF_ERROR(ReadText(entry, "sha256", where, file.sha256));
  // One name, or two with a slash between.
  const size_t slash = file.name.find('/');
  const std::string_view first = std::string_view(file.name).substr(0, slash);
  const std::string_view second =
      slash == std::string::npos ? "file" : std::string_view(file.name).substr(slash + 1);
  const bool plain = !first.empty() && first.front() != '.' && !second.empty() &&
                     second.front() != '.' && second.find('/') == std::string_view::npos;
  if (!plain)
    return Corrupt("an entry of 'files' is no name of a file in the store", where);
  return file;
}

}  // namespace

uint64_t ModelRecord::bytes() const {
  uint64_t sum = 0;
  for (const StoredFile& file : files)
    sum += file.bytes;
  return sum;
}

std::string FormatModelRecord(const ModelRecord& record) {
  json files = json::array();
  for (const StoredFile& file : record.files)
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}});
  const json object = {{"name", record.name},
                       {"source", record.source},
                       {"bytes", record.bytes()},
                       {"sha256", record.files.empty() ? "" : record.files.front().sha256},
                       {"files", files},
                       {"licence", record.licence},
                       {"licence_name", record.licence_name},
                       {"licence_url", record.licence_url},
                       {"date", record.date}};
  // Names come from the network: bytes that are not UTF-8 become replacement characters.
  return object.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

Result<ModelRecord> ParseModelRecord(std::string_view text, const std::string& where) {
  const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object())
    return Corrupt("not a JSON object", where);
  ModelRecord record;
  const std::pair<const char*, std::string*> fields[] = {
      {"name", &record.name},
      {"source", &record.source},
      {"licence", &record.licence},
      {"licence_name", &record.licence_name},
      {"licence_url", &record.licence_url},
      {"date", &record.date},
  };
  for (const auto& [key, target] : fields)
    TENON_RETURN_IF_ERROR(ReadText(object, key, where, *target));
  const auto files = object.find("files");
  if (files == object.end() || !files->is_array() || files->empty())
    return Corrupt("'files' is not a list with an entry", where);
  for (const json& entry : *files) {
    TENON_ASSIGN_OR_RETURN(StoredFile file, ParseFile(entry, where));
    record.files.push_back(std::move(file));
  }
  return record;
}

}  // namespace tenon

#include "frontend/server/api/slot_endpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "frontend/server/api/field_reader.h"
#include "frontend/server/api/request_log.h"
#include "frontend/session/model_fingerprint.h"

namespace tenon {
namespace {

constexpr size_t kMaxFileName = 128;

Result<SlotAction> ReadAction(const HttpRequest& request) {
  const auto found = request.query.find("action");
  const std::string action = found == request.query.end() ? "" : found->second;
  if (action == "save")
    return SlotAction::kSave;
  if (action == "restore")
    return SlotAction::kRestore;
  if (action == "erase")
    return SlotAction::kErase;
  return InvalidArgument(fmt::format("found '{}', expected save, restore or erase", action),
                         "action");
}

Result<int32_t> ReadSlot(const HttpRequest& request) {
  const std::string& text = request.parameters.at("id");
  int32_t slot = -1;
  const char* end = text.data() + text.size();
  const auto [rest, code] = std::from_chars(text.data(), end, slot);
  if (code != std::errc() || rest != end || slot < 0)
    return InvalidArgument(fmt::format("found '{}', expected a number", text), "id_slot");
  return slot;
}

// A plain name: nothing that could leave the folder, be hidden or mean something to a shell.
bool IsFileName(std::string_view name) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return !name.empty() && name.size() <= kMaxFileName && name.front() != '.' &&
         std::ranges::all_of(name, is_plain);
}

Result<std::filesystem::path> ReadPath(const ApiContext& context, const HttpRequest& request) {
  const std::filesystem::path& folder = context.options().slot_folder;
  if (folder.empty())
    return Unsupported("the server was started without --slot-save-path", "action");
  TENON_ASSIGN_OR_RETURN(const Json body, ParseJson(request.body));
  FieldReader fields(body);
  std::string name;
  fields.Required("filename");
  fields.String("filename", name);
  TENON_RETURN_IF_ERROR(fields.Finish());
  if (!IsFileName(name)) {
    return InvalidArgument(
        fmt::format("expected a name of letters, digits, '-', '_' and '.', at most {} of them",
                    kMaxFileName),
        "filename");
  }
  return folder / name;
}

Result<SlotOrder> ReadOrder(const ApiContext& context, const Model& model,
                            const HttpRequest& request) {
  SlotOrder order;
  TENON_ASSIGN_OR_RETURN(order.action, ReadAction(request));
  TENON_ASSIGN_OR_RETURN(order.slot, ReadSlot(request));
  order.scope.salt = CacheSalt(request.key_name, "");
  if (order.action == SlotAction::kErase)
    return order;
  TENON_ASSIGN_OR_RETURN(order.path, ReadPath(context, request));
  // One key's file is no other key's.
  order.identity.model = fmt::format("{} {}", ModelFingerprint(model), order.scope.salt);
  order.identity.vocab_size = model.tokenizer().vocab_size();
  return order;
}

Json ResultJson(const SlotOrder& order, const SlotResult& result) {
  const double milliseconds = result.seconds * 1e3;
  Json json{{"id_slot", order.slot}};
  if (order.action == SlotAction::kErase) {
    json["n_erased"] = result.tokens;
    return json;
  }
  const bool save = order.action == SlotAction::kSave;
  json["filename"] = order.path.filename().string();
  json[save ? "n_saved" : "n_restored"] = result.tokens;
  json[save ? "n_written" : "n_read"] = result.bytes;
  json["timings"] = {{save ? "save_ms" : "restore_ms", milliseconds}};
  return json;
}

void SendLogged(ApiContext& context, const HttpRequest& request, ResponseWriter& writer,
                HttpResponse response) {
  const int status = response.status;
  writer.Send(std::move(response));
  LogRequest(context, CallerOf(request), status);
}

// Files on the server's disk are not the client's: their folder stays out of the message.
Error WithoutFolder(Error error, const ApiContext& context) {
  const std::string folder = context.options().slot_folder.string() + "/";
  if (const size_t at = error.where.find(folder); at != std::string::npos)
    error.where.erase(at, folder.size());
  if (const size_t at = error.message.find(folder); at != std::string::npos)
    error.message.erase(at, folder.size());
  return error;
}

// A file that is not there, is damaged or belongs to another model is the client's mistake, in the
// field that names it.
HttpResponse Refusal(const ApiContext& context, const Error& error) {
  ApiError answer = ToApiError(WithoutFolder(error, context));
  const std::string folder = context.options().slot_folder.string();
  if (!folder.empty() && error.where.starts_with(folder))
    answer.param = "filename";
  if (error.code == ErrorCode::kCorrupt || error.code == ErrorCode::kIo) {
    answer.status = 400;
    answer.type = "invalid_request_error";
    answer.code.clear();
  }
  return ToResponse(ApiStyle::kOpenAi, answer);
}

}  // namespace

HttpHandler SlotHandler(ApiContext& context) {
  return [&context](HttpRequest request, std::shared_ptr<ResponseWriter> writer) {
    ServingEngine* engine = context.engine();
    if (engine == nullptr)
      return SendLogged(context, request, *writer, ToResponse(ApiStyle::kOpenAi, StillLoading()));
    auto order = ReadOrder(context, engine->model(), request);
    if (!order.ok())
      return SendLogged(context, request, *writer, Refusal(context, order.error()));
    const SlotOrder asked = *order;
    engine->OrderSlot(std::move(*order), [&context, request = std::move(request), writer,
                                          asked](const Result<SlotResult>& result) {
      SendLogged(context, request, *writer,
                 result.ok() ? JsonResponse(ResultJson(asked, *result))
                             : Refusal(context, result.error()));
    });
  };
}

}  // namespace tenon

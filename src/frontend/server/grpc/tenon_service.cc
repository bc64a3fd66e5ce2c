#include "frontend/server/grpc/tenon_service.h"

#include <algorithm>
#include <exception>

#include "frontend/server/api/answer_run.h"
#include "frontend/server/api/request_log.h"
#include "frontend/server/grpc/answer_events.h"
#include "frontend/server/grpc/embed_call.h"
#include "frontend/server/grpc/grpc_status.h"
#include "frontend/server/grpc/request_json.h"

namespace tenon {
namespace {

// Longer ids of clients are replaced: they stand in each line of the log.
constexpr size_t kMaxRequestId = 128;

HttpServerOptions GateOptions(const GrpcServerOptions& options) {
  HttpServerOptions gate;
  gate.api_keys = options.api_keys;
  return gate;
}

// The metadata that the gate reads, as HTTP's headers.
HttpHeaders HeadersOf(const grpc::CallbackServerContext& call) {
  HttpHeaders headers;
  for (const char* name : {"authorization", "x-api-key", "x-request-id"}) {
    const auto found = call.client_metadata().find(name);
    if (found != call.client_metadata().end())
      headers.emplace(name, std::string(found->second.data(), found->second.size()));
  }
  return headers;
}

std::chrono::steady_clock::time_point DeadlineOf(const grpc::CallbackServerContext& call) {
  const auto left = call.deadline() - std::chrono::system_clock::now();
  // gRPC's "never" is the end of its clock, which does not fit ours.
  if (left > std::chrono::hours(24 * 365))
    return std::chrono::steady_clock::time_point::max();
  return std::chrono::steady_clock::now() + left;
}

// Strings of a message must be UTF-8: bytes that are not come out as U+FFFD.
std::string ValidText(const std::string& text) {
  auto parsed = ParseJson(DumpJson(Json(text)));
  return parsed.ok() ? parsed->get<std::string>() : std::string();
}

grpc::Status InternalStatus(const std::exception& error) {
  return {grpc::StatusCode::INTERNAL, error.what()};
}

grpc::Status StatusOf(const Status& status) {
  return status.ok() ? grpc::Status::OK : ToGrpcStatus(ToApiError(status.error()));
}

// HTTP's status for the log and the metrics, which count both servers' requests.
int HttpStatus(const grpc::Status& status) {
  for (const int http : {400, 401, 404, 429, 501, 503}) {
    if (ToStatusCode(http) == status.error_code())
      return http;
  }
  return status.ok() ? 200 : 500;
}

v1::ModelInfo InfoOf(const Model& model, const std::string& name) {
  const ModelConfig& config = model.source().config;
  v1::ModelInfo info;
  info.set_name(name);
  info.set_context_tokens(model.context_tokens());
  info.set_trained_context_tokens(config.context_length);
  info.set_vocabulary(model.tokenizer().vocab_size());
  info.set_embedding_size(config.hidden_size);
  info.set_title(ValidText(config.name));
  return info;
}

}  // namespace

TenonService::TenonService(ApiContext& context, const GrpcServerOptions& options)
    : context_(context),
      gate_(GateOptions(options)),
      max_backlog_bytes_(options.max_backlog_bytes) {}

TenonService::Admission TenonService::Admit(const grpc::CallbackServerContext& call,
                                            const char* method) const {
  Admission admission;
  const HttpHeaders headers = HeadersOf(call);
  const auto id = headers.find(std::string_view("x-request-id"));
  const bool own_id =
      id == headers.end() || id->second.empty() || id->second.size() > kMaxRequestId;
  admission.caller.request_id = own_id ? NewId() : id->second;
  admission.caller.path = method;
  const auto key = gate_.FindKey(headers);
  admission.engine = context_.engine();
  if (!key.has_value()) {
    admission.status = {grpc::StatusCode::UNAUTHENTICATED,
                        "a valid API key is needed: metadata 'authorization: Bearer KEY'"};
    return admission;
  }
  admission.caller.key_name = *key;
  if (admission.engine == nullptr)
    admission.status = ToGrpcStatus(StillLoading());
  return admission;
}

grpc::ServerWriteReactor<v1::AnswerEvent>* TenonService::StartText(
    grpc::CallbackServerContext& call, const char* method, const Json& body, TextParser parse) {
  const std::shared_ptr<AnswerStream> stream = AnswerStream::Create(max_backlog_bytes_);
  Admission admission = Admit(call, method);
  grpc::Status& status = admission.status;
  try {
    if (status.ok()) {
      auto job = parse(context_, admission.engine->model(), body);
      if (job.ok()) {
        job->delivery = Delivery::kStream;
        job->format = MakeEventFormat(stream);
        for (ServingRequest& request : job->requests)
          request.deadline = DeadlineOf(call);
        StartAnswer(context_, *admission.engine, admission.caller, std::move(*job),
                    MakeEventChannel(stream));
        return stream.get();
      }
      status = ToGrpcStatus(ToApiError(job.error()));
    }
  } catch (const std::exception& error) {
    status = InternalStatus(error);
  }
  LogRequest(context_, admission.caller, HttpStatus(status));
  stream->End(status);
  return stream.get();
}

template <class Body>
grpc::ServerUnaryReactor* TenonService::Answer(grpc::CallbackServerContext& call,
                                               const char* method, const Body& body) {
  Admission admission = Admit(call, method);
  try {
    if (admission.status.ok())
      admission.status = StatusOf(body(*admission.engine));
  } catch (const std::exception& error) {
    admission.status = InternalStatus(error);
  }
  LogRequest(context_, admission.caller, HttpStatus(admission.status));
  grpc::ServerUnaryReactor* reactor = call.DefaultReactor();
  reactor->Finish(admission.status);
  return reactor;
}

grpc::ServerWriteReactor<v1::AnswerEvent>* TenonService::Generate(
    grpc::CallbackServerContext* call, const v1::GenerateRequest* request) {
  return StartText(*call, "/tenon.v1.Tenon/Generate", ToJson(*request), ParseCompletion);
}

grpc::ServerWriteReactor<v1::AnswerEvent>* TenonService::Chat(grpc::CallbackServerContext* call,
                                                              const v1::ChatRequest* request) {
  return StartText(*call, "/tenon.v1.Tenon/Chat", ToJson(*request), ParseChatCompletion);
}

grpc::ServerUnaryReactor* TenonService::Embed(grpc::CallbackServerContext* call,
                                              const v1::EmbedRequest* request,
                                              v1::EmbedResponse* response) {
  const std::shared_ptr<EmbedCall> answer = EmbedCall::Create(*response);
  Admission admission = Admit(*call, "/tenon.v1.Tenon/Embed");
  grpc::Status& status = admission.status;
  const auto start = [&]() -> Status {
    TENON_ASSIGN_OR_RETURN(std::string model, context_.ResolveModelName(request->model()));
    TENON_ASSIGN_OR_RETURN(auto inputs,
                           ReadPrompts(admission.engine->model(), InputsJson(*request), "inputs"));
    StartEmbeddings(context_, *admission.engine, admission.caller,
                    answer->MakeJob(std::move(model), std::move(inputs)), answer);
    return {};
  };
  try {
    if (status.ok())
      status = StatusOf(start());
  } catch (const std::exception& error) {
    status = InternalStatus(error);
  }
  if (!status.ok()) {
    LogRequest(context_, admission.caller, HttpStatus(status));
    answer->End(status);
  }
  return answer.get();
}

grpc::ServerUnaryReactor* TenonService::Tokenize(grpc::CallbackServerContext* call,
                                                 const v1::TokenizeRequest* request,
                                                 v1::TokenizeResponse* response) {
  return Answer(*call, "/tenon.v1.Tenon/Tokenize", [&](ServingEngine& engine) -> Status {
    TENON_RETURN_IF_ERROR(context_.ResolveModelName(request->model()));
    const Tokenizer& tokenizer = engine.model().tokenizer();
    const bool parse = !request->has_parse_special() || request->parse_special();
    const auto tokens =
        tokenizer.Encode(request->text(), parse ? SpecialText::kParse : SpecialText::kPlain,
                         request->add_special() ? AddSpecial::kModelDefault : AddSpecial::kNone);
    response->mutable_tokens()->Add(tokens.begin(), tokens.end());
    for (const int32_t token : tokens)
      response->add_pieces(tokenizer.TokenBytes(token, SpecialText::kParse));
    return {};
  });
}

grpc::ServerUnaryReactor* TenonService::Detokenize(grpc::CallbackServerContext* call,
                                                   const v1::DetokenizeRequest* request,
                                                   v1::DetokenizeResponse* response) {
  return Answer(*call, "/tenon.v1.Tenon/Detokenize", [&](ServingEngine& engine) -> Status {
    TENON_RETURN_IF_ERROR(context_.ResolveModelName(request->model()));
    const Tokenizer& tokenizer = engine.model().tokenizer();
    const std::vector<int32_t> tokens(request->tokens().begin(), request->tokens().end());
    for (const int32_t token : tokens) {
      if (token < 0 || token >= tokenizer.vocab_size())
        return InvalidArgument("holds an id outside the vocabulary", "tokens");
    }
    response->set_text(ValidText(tokenizer.Decode(tokens, SpecialText::kParse)));
    return {};
  });
}

grpc::ServerUnaryReactor* TenonService::Models(grpc::CallbackServerContext* call,
                                               const v1::ModelsRequest*,
                                               v1::ModelsResponse* response) {
  return Answer(*call, "/tenon.v1.Tenon/Models", [&](ServingEngine& engine) -> Status {
    for (const std::string& name : context_.options().model_names) {
      if (name != "*")
        *response->add_models() = InfoOf(engine.model(), name);
    }
    return {};
  });
}

}  // namespace tenon

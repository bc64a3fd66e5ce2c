// TenonService: the calls of proto/tenon/v1/tenon.proto, run as the jobs of the HTTP API.
//
// Threading: gRPC's threads, several at once.
#pragma once

#include <grpcpp/grpcpp.h>

#include "frontend/server/api/api_context.h"
#include "frontend/server/api/endpoints.h"
#include "frontend/server/grpc/grpc_server.h"
#include "frontend/server/http/request_gate.h"
#include "tenon/v1/tenon.grpc.pb.h"

namespace tenon {

class TenonService final : public v1::Tenon::CallbackService {
 public:
  // `context` must outlive the service.
  TenonService(ApiContext& context, const GrpcServerOptions& options);

  grpc::ServerWriteReactor<v1::AnswerEvent>* Generate(grpc::CallbackServerContext* call,
                                                      const v1::GenerateRequest* request) override;
  grpc::ServerWriteReactor<v1::AnswerEvent>* Chat(grpc::CallbackServerContext* call,
                                                  const v1::ChatRequest* request) override;
  grpc::ServerUnaryReactor* Embed(grpc::CallbackServerContext* call,
                                  const v1::EmbedRequest* request,
                                  v1::EmbedResponse* response) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* call,
                                     const v1::TokenizeRequest* request,
                                     v1::TokenizeResponse* response) override;
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* call,
                                       const v1::DetokenizeRequest* request,
                                       v1::DetokenizeResponse* response) override;
  grpc::ServerUnaryReactor* Models(grpc::CallbackServerContext* call,
                                   const v1::ModelsRequest* request,
                                   v1::ModelsResponse* response) override;

 private:
  // Who asks, and the engine; or the status that the call ends with.
  struct Admission {
    Caller caller;
    ServingEngine* engine = nullptr;
    grpc::Status status;
  };
  Admission Admit(const grpc::CallbackServerContext& call, const char* method) const;
  // Admits the call, runs `body` with the engine and counts the call.
  template <class Body>
  grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext& call, const char* method,
                                   const Body& body);
  grpc::ServerWriteReactor<v1::AnswerEvent>* StartText(grpc::CallbackServerContext& call,
                                                       const char* method, const Json& body,
                                                       TextParser parse);

  ApiContext& context_;
  RequestGate gate_;
  size_t max_backlog_bytes_;
};

}  // namespace tenon

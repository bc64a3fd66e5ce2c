#include "frontend/server/api/routes.h"

#include <exception>

#include "frontend/server/api/answer_run.h"
#include "frontend/server/api/endpoints.h"
#include "frontend/server/api/request_log.h"
#include "frontend/server/api/slot_endpoints.h"
#include "frontend/server/api/web_socket_api.h"

namespace tenon {
namespace {

void SendNow(ApiContext& context, const HttpRequest& request, ResponseWriter& writer,
             HttpResponse response) {
  const int status = response.status;
  writer.Send(std::move(response));
  LogRequest(context, CallerOf(request), status);
}

// Runs `body` with a ready engine; whatever it throws or returns as an error is answered.
template <class Body>
void Guard(ApiContext& context, ApiStyle style, const HttpRequest& request, ResponseWriter& writer,
           const Body& body) {
  ServingEngine* engine = context.engine();
  if (engine == nullptr)
    return SendNow(context, request, writer, ToResponse(style, StillLoading()));
  Status status;
  try {
    status = body(*engine);
  } catch (const std::exception& error) {
    status = MakeError(ErrorCode::kInternal, error.what());
  }
  if (!status.ok())
    SendNow(context, request, writer, ToResponse(style, ToApiError(status.error())));
}

HttpHandler TextHandler(ApiContext& context, HttpChannelOptions channel, TextParser parse) {
  channel.ping_interval = context.options().ping_interval;
  return [&context, channel, parse](HttpRequest request, std::shared_ptr<ResponseWriter> writer) {
    Guard(context, channel.style, request, *writer, [&](ServingEngine& engine) -> Status {
      TENON_ASSIGN_OR_RETURN(const Json body, ParseJson(request.body));
      TENON_ASSIGN_OR_RETURN(TextJob job, parse(context, engine.model(), body));
      StartAnswer(context, engine, CallerOf(request), std::move(job),
                  MakeHttpChannel(writer, channel));
      return {};
    });
  };
}

HttpHandler EmbeddingHandler(ApiContext& context, ApiStyle style, EmbeddingParser parse) {
  return [&context, style, parse](HttpRequest request, std::shared_ptr<ResponseWriter> writer) {
    Guard(context, style, request, *writer, [&](ServingEngine& engine) -> Status {
      TENON_ASSIGN_OR_RETURN(const Json body, ParseJson(request.body));
      TENON_ASSIGN_OR_RETURN(EmbeddingJob job, parse(context, engine.model(), body));
      HttpChannelOptions channel;
      channel.style = style;
      StartEmbeddings(context, engine, CallerOf(request), std::move(job),
                      MakeHttpChannel(writer, channel));
      return {};
    });
  };
}

HttpHandler JsonHandler(ApiContext& context, ApiStyle style, JsonEndpoint endpoint) {
  return [&context, style, endpoint](HttpRequest request, std::shared_ptr<ResponseWriter> writer) {
    Guard(context, style, request, *writer, [&](ServingEngine& engine) -> Status {
      TENON_ASSIGN_OR_RETURN(const Json body, ParseJson(request.body));
      TENON_ASSIGN_OR_RETURN(const Json answer, endpoint(context, engine, body));
      SendNow(context, request, *writer, JsonResponse(answer));
      return {};
    });
  };
}

HttpHandler InfoHandler(ApiContext& context, ApiStyle style, InfoEndpoint endpoint) {
  return [&context, style, endpoint](HttpRequest request, std::shared_ptr<ResponseWriter> writer) {
    Guard(context, style, request, *writer, [&](ServingEngine& engine) -> Status {
      TENON_ASSIGN_OR_RETURN(const Json answer, endpoint(context, engine, request));
      SendNow(context, request, *writer, JsonResponse(answer));
      return {};
    });
  };
}

HttpHandler NotImplementedHandler(ApiContext& context, std::string message) {
  return [&context, message](HttpRequest request, std::shared_ptr<ResponseWriter> writer) {
    SendNow(context, request, *writer, ToResponse(ApiStyle::kOpenAi, NotImplemented(message)));
  };
}

void AddOpenAi(ApiContext& context, Router& router) {
  const HttpChannelOptions plain;
  HttpChannelOptions named;
  named.framing = Framing::kNamedSse;
  router.Add("POST", "/v1/chat/completions", TextHandler(context, plain, ParseChatCompletion));
  router.Add("POST", "/v1/completions", TextHandler(context, plain, ParseCompletion));
  router.Add("POST", "/v1/responses", TextHandler(context, named, ParseResponses));
  router.Add("POST", "/v1/embeddings",
             EmbeddingHandler(context, ApiStyle::kOpenAi, ParseEmbeddings));
  for (const char* path : {"/v1/rerank", "/rerank", "/v1/reranking"})
    router.Add("POST", path, EmbeddingHandler(context, ApiStyle::kOpenAi, ParseRerank));
  for (const char* path : {"/v1/models", "/models"})
    router.Add("GET", path, InfoHandler(context, ApiStyle::kOpenAi, ListModels));
  router.Add("GET", "/v1/modules", InfoHandler(context, ApiStyle::kOpenAi, ListModules));
  router.Add("POST", "/v1/modules", JsonHandler(context, ApiStyle::kOpenAi, ChangeModules));
  router.Add("GET", "/v1/models/{id}", InfoHandler(context, ApiStyle::kOpenAi, DescribeModel));
}

void AddAnthropic(ApiContext& context, Router& router) {
  const HttpChannelOptions named{ApiStyle::kAnthropic, Framing::kNamedSse, {}};
  router.Add("POST", "/v1/messages", TextHandler(context, named, ParseMessages));
  router.Add("POST", "/v1/messages/count_tokens",
             JsonHandler(context, ApiStyle::kAnthropic, CountMessageTokens));
}

void AddOllama(ApiContext& context, Router& router) {
  const HttpChannelOptions lines{ApiStyle::kOllama, Framing::kNdjson, {}};
  router.Add("POST", "/api/generate", TextHandler(context, lines, ParseOllamaGenerate));
  router.Add("POST", "/api/chat", TextHandler(context, lines, ParseOllamaChat));
  router.Add("POST", "/api/embed", EmbeddingHandler(context, ApiStyle::kOllama, ParseOllamaEmbed));
  router.Add("POST", "/api/embeddings",
             EmbeddingHandler(context, ApiStyle::kOllama, ParseOllamaEmbeddings));
  router.Add("POST", "/api/show", JsonHandler(context, ApiStyle::kOllama, OllamaShow));
  router.Add("GET", "/api/tags", InfoHandler(context, ApiStyle::kOllama, OllamaTags));
  router.Add("GET", "/api/ps", InfoHandler(context, ApiStyle::kOllama, OllamaPs));
  router.Add("GET", "/api/version",
             [&context](HttpRequest request, std::shared_ptr<ResponseWriter> writer) {
               SendNow(context, request, *writer, JsonResponse({{"version", kTenonVersion}}));
             });
}

void AddLlama(ApiContext& context, Router& router) {
  router.Add("POST", "/tokenize", JsonHandler(context, ApiStyle::kOpenAi, Tokenize));
  router.Add("POST", "/detokenize", JsonHandler(context, ApiStyle::kOpenAi, Detokenize));
  router.Add("POST", "/apply-template", JsonHandler(context, ApiStyle::kOpenAi, ApplyTemplate));
  router.Add("GET", "/tokenizer_info", InfoHandler(context, ApiStyle::kOpenAi, TokenizerInfo));
  router.Add("GET", "/props", InfoHandler(context, ApiStyle::kOpenAi, Props));
  router.Add("GET", "/slots", InfoHandler(context, ApiStyle::kOpenAi, Slots));
  router.Add("POST", "/slots/{id}", SlotHandler(context));
  router.Add("POST", "/infill", NotImplementedHandler(context, "infill is not supported"));
  router.Add("GET", "/lora-adapters",
             [&context](HttpRequest request, std::shared_ptr<ResponseWriter> writer) {
               SendNow(context, request, *writer, JsonResponse(Json::array()));
             });
}

void AddOperations(ApiContext& context, Router& router) {
  for (const char* path : {"/health", "/v1/health"}) {
    // Not logged: probes come every second.
    router.Add(
        "GET", path,
        [&context](HttpRequest, std::shared_ptr<ResponseWriter> writer) {
          writer->Send(HealthResponse(context.engine()));
        },
        Router::Access::kPublic);
  }
  router.Add("GET", "/metrics", [&context](HttpRequest, std::shared_ptr<ResponseWriter> writer) {
    HttpResponse response;
    response.content_type = "text/plain; version=0.0.4; charset=utf-8";
    response.body = context.metrics().Text(context.engine());
    writer->Send(std::move(response));
  });
}

}  // namespace

void AddApiRoutes(ApiContext& context, Router& router) {
  AddOpenAi(context, router);
  AddAnthropic(context, router);
  AddOllama(context, router);
  AddLlama(context, router);
  AddOperations(context, router);
  router.AddWebSocket("/v1/ws", MakeWebSocketApi(context));
}

}  // namespace tenon

#include "frontend/server/api/routes.h"

#include <exception>
#include <optional>

#include "base/log.h"
#include "frontend/server/api/answer_run.h"
#include "frontend/server/api/endpoints.h"
#include "frontend/server/api/infill_prompt.h"
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

// Large bodies are read on the context's work thread.
HttpHandler ReadApart(ApiContext& context, ApiStyle style, HttpHandler handler) {
  return [&context, style, handler = std::move(handler)](HttpRequest request,
                                                         std::shared_ptr<ResponseWriter> writer) {
    if (request.body.size() <= kLargeBody)
      return handler(std::move(request), std::move(writer));
    const auto shared = std::make_shared<HttpRequest>(std::move(request));
    const auto work = [handler, shared, writer] {
      try {
        handler(std::move(*shared), writer);
      } catch (const std::exception& error) {
        // The writer answers 500 when it is dropped.
        Log(LogLevel::kError, "{}: the handler failed: {}", shared->request_id, error.what());
      }
    };
    if (context.work().Post(work))
      return;
    const Error full = MakeError(ErrorCode::kResourceExhausted, "too many large requests wait");
    SendNow(context, *shared, *writer, ToResponse(style, ToApiError(full)));
  };
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
  const auto handler = [&context, channel, parse](HttpRequest request,
                                                  std::shared_ptr<ResponseWriter> writer) {
    Guard(context, channel.style, request, *writer, [&](ServingEngine& engine) -> Status {
      TENON_ASSIGN_OR_RETURN(const Json body, ParseJson(request.body));
      TENON_ASSIGN_OR_RETURN(TextJob job, parse(context, engine.model(), body));
      StartAnswer(context, engine, CallerOf(request), std::move(job),
                  MakeHttpChannel(writer, channel));
      return {};
    });
  };
  return ReadApart(context, channel.style, handler);
}

HttpHandler EmbeddingHandler(ApiContext& context, ApiStyle style, EmbeddingParser parse) {
  const auto handler = [&context, style, parse](HttpRequest request,
                                                std::shared_ptr<ResponseWriter> writer) {
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
  return ReadApart(context, style, handler);
}

HttpHandler JsonHandler(ApiContext& context, ApiStyle style, JsonEndpoint endpoint) {
  const auto handler = [&context, style, endpoint](HttpRequest request,
                                                   std::shared_ptr<ResponseWriter> writer) {
    Guard(context, style, request, *writer, [&](ServingEngine& engine) -> Status {
      TENON_ASSIGN_OR_RETURN(const Json body, ParseJson(request.body));
      TENON_ASSIGN_OR_RETURN(const Json answer, endpoint(context, engine, body));
      SendNow(context, request, *writer, JsonResponse(answer));
      return {};
    });
  };
  return ReadApart(context, style, handler);
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

// Editors ask once, and look for 501 to know that a model can't.
HttpHandler InfillHandler(ApiContext& context, HttpHandler infill) {
  return [&context, infill = std::move(infill)](HttpRequest request,
                                                std::shared_ptr<ResponseWriter> writer) {
    const ServingEngine* engine = context.engine();
    if (engine == nullptr || CanInfill(engine->model().tokenizer()))
      return infill(std::move(request), std::move(writer));
    const ApiError error =
        NotImplemented("the model's vocabulary has no marks for filling in between");
    SendNow(context, request, *writer, ToResponse(ApiStyle::kOpenAi, error));
  };
}

// Ollama's clients load a model by a request without a text, and unload it so with keep_alive 0.
HttpHandler OllamaHandler(ApiContext& context, TextParser parse, OllamaText kind) {
  const HttpChannelOptions lines{ApiStyle::kOllama, Framing::kNdjson, {}};
  return [&context, kind, text = TextHandler(context, lines, parse)](
             HttpRequest request, std::shared_ptr<ResponseWriter> writer) {
    // Only a short body can be one.
    constexpr size_t kMaxLoadBytes = 4096;
    std::optional<Json> loaded;
    if (context.engine() != nullptr && request.body.size() <= kMaxLoadBytes)
      loaded = OllamaLoad(context, request.body, kind);
    if (!loaded.has_value())
      return text(std::move(request), std::move(writer));
    SendNow(context, request, *writer, JsonResponse(*loaded));
  };
}

void AddOpenAi(ApiContext& context, Router& router) {
  const HttpChannelOptions plain;
  HttpChannelOptions named;
  named.framing = Framing::kNamedSse;
  for (const char* path : {"/v1/chat/completions", "/chat/completions"})
    router.Add("POST", path, TextHandler(context, plain, ParseChatCompletion));
  router.Add("POST", "/v1/completions", TextHandler(context, plain, ParseCompletion));
  router.Add("POST", "/v1/responses", TextHandler(context, named, ParseResponses));
  router.Add("POST", "/v1/embeddings",
             EmbeddingHandler(context, ApiStyle::kOpenAi, ParseEmbeddings));
  for (const char* path : {"/v1/rerank", "/rerank", "/v1/reranking", "/reranking"})
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
  router.Add("POST", "/api/generate",
             OllamaHandler(context, ParseOllamaGenerate, OllamaText::kGenerate));
  router.Add("POST", "/api/chat", OllamaHandler(context, ParseOllamaChat, OllamaText::kChat));
  router.Add("POST", "/api/embed", EmbeddingHandler(context, ApiStyle::kOllama, ParseOllamaEmbed));
  router.Add("POST", "/api/embeddings",
             EmbeddingHandler(context, ApiStyle::kOllama, ParseOllamaEmbeddings));
  router.Add("POST", "/api/show", JsonHandler(context, ApiStyle::kOllama, OllamaShow));
  router.Add("GET", "/api/tags", InfoHandler(context, ApiStyle::kOllama, OllamaTags));
  router.Add("GET", "/api/ps", InfoHandler(context, ApiStyle::kOllama, OllamaPs));
  for (const char* path : {"/api/version", "/version"}) {  // the second one is vLLM's
    router.Add("GET", path,
               [&context](HttpRequest request, std::shared_ptr<ResponseWriter> writer) {
                 SendNow(context, request, *writer, JsonResponse({{"version", kTenonVersion}}));
               });
  }
}

void AddLlama(ApiContext& context, Router& router) {
  router.Add("POST", "/tokenize", JsonHandler(context, ApiStyle::kOpenAi, Tokenize));
  router.Add("POST", "/detokenize", JsonHandler(context, ApiStyle::kOpenAi, Detokenize));
  router.Add("POST", "/apply-template", JsonHandler(context, ApiStyle::kOpenAi, ApplyTemplate));
  router.Add("GET", "/tokenizer_info", InfoHandler(context, ApiStyle::kOpenAi, TokenizerInfo));
  router.Add("GET", "/props", InfoHandler(context, ApiStyle::kOpenAi, Props));
  router.Add("GET", "/slots", InfoHandler(context, ApiStyle::kOpenAi, Slots));
  router.Add("POST", "/slots/{id}", SlotHandler(context));
  HttpChannelOptions bare;
  bare.framing = Framing::kBareSse;
  for (const char* path : {"/completion", "/completions"})
    router.Add("POST", path, TextHandler(context, bare, ParseLlamaCompletion));
  router.Add("POST", "/infill", InfillHandler(context, TextHandler(context, bare, ParseInfill)));
  for (const char* path : {"/embedding", "/embeddings"})
    router.Add("POST", path, EmbeddingHandler(context, ApiStyle::kOpenAi, ParseLlamaEmbedding));
  router.Add("POST", "/lora-adapters", JsonHandler(context, ApiStyle::kOpenAi, SetAdapters));
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

// Parsers of the endpoints that generate or embed: from a JSON body to a job. Errors name the
// field.
//
// One file for each API: openai_chat.cc, openai_completions.cc, ... Threading: any thread.
#pragma once

#include <optional>
#include <string_view>

#include "frontend/server/api/api_context.h"
#include "frontend/server/api/embedding_run.h"
#include "frontend/server/api/json.h"
#include "frontend/server/api/text_job.h"

namespace tenon {

using TextParser = Result<TextJob> (*)(const ApiContext& context, const Model& model,
                                       const Json& body);
Result<TextJob> ParseChatCompletion(const ApiContext& context, const Model& model,
                                    const Json& body);
Result<TextJob> ParseCompletion(const ApiContext& context, const Model& model, const Json& body);
Result<TextJob> ParseLlamaCompletion(const ApiContext& context, const Model& model,
                                     const Json& body);
Result<TextJob> ParseInfill(const ApiContext& context, const Model& model, const Json& body);
Result<TextJob> ParseResponses(const ApiContext& context, const Model& model, const Json& body);
Result<TextJob> ParseMessages(const ApiContext& context, const Model& model, const Json& body);
Result<TextJob> ParseOllamaGenerate(const ApiContext& context, const Model& model,
                                    const Json& body);
Result<TextJob> ParseOllamaChat(const ApiContext& context, const Model& model, const Json& body);

// The answer to a body that only loads or unloads the model: one without a prompt, or with no
// messages. Nothing for any other body, right or wrong.
enum class OllamaText : uint8_t { kGenerate, kChat };
std::optional<Json> OllamaLoad(const ApiContext& context, std::string_view body, OllamaText kind);

using EmbeddingParser = Result<EmbeddingJob> (*)(const ApiContext& context, const Model& model,
                                                 const Json& body);
Result<EmbeddingJob> ParseEmbeddings(const ApiContext& context, const Model& model,
                                     const Json& body);
Result<EmbeddingJob> ParseLlamaEmbedding(const ApiContext& context, const Model& model,
                                         const Json& body);
Result<EmbeddingJob> ParseRerank(const ApiContext& context, const Model& model, const Json& body);
Result<EmbeddingJob> ParseOllamaEmbed(const ApiContext& context, const Model& model,
                                      const Json& body);
Result<EmbeddingJob> ParseOllamaEmbeddings(const ApiContext& context, const Model& model,
                                           const Json& body);

// Endpoints that answer at once from a body, or from nothing but the URL.
using JsonEndpoint = Result<Json> (*)(ApiContext& context, ServingEngine& engine, const Json& body);
Result<Json> Tokenize(ApiContext& context, ServingEngine& engine, const Json& body);
Result<Json> Detokenize(ApiContext& context, ServingEngine& engine, const Json& body);
Result<Json> ApplyTemplate(ApiContext& context, ServingEngine& engine, const Json& body);
Result<Json> SetAdapters(ApiContext& context, ServingEngine& engine, const Json& body);
Result<Json> CountMessageTokens(ApiContext& context, ServingEngine& engine, const Json& body);
Result<Json> ChangeModules(ApiContext& context, ServingEngine& engine, const Json& body);
Result<Json> OllamaShow(ApiContext& context, ServingEngine& engine, const Json& body);

using InfoEndpoint = Result<Json> (*)(ApiContext& context, ServingEngine& engine,
                                      const HttpRequest& request);
Result<Json> ListModels(ApiContext& context, ServingEngine& engine, const HttpRequest& request);
Result<Json> DescribeModel(ApiContext& context, ServingEngine& engine, const HttpRequest& request);
Result<Json> TokenizerInfo(ApiContext& context, ServingEngine& engine, const HttpRequest& request);
Result<Json> Props(ApiContext& context, ServingEngine& engine, const HttpRequest& request);
Result<Json> Slots(ApiContext& context, ServingEngine& engine, const HttpRequest& request);
Result<Json> ListModules(ApiContext& context, ServingEngine& engine, const HttpRequest& request);
Result<Json> OllamaTags(ApiContext& context, ServingEngine& engine, const HttpRequest& request);
Result<Json> OllamaPs(ApiContext& context, ServingEngine& engine, const HttpRequest& request);

// The status and body of /health.
HttpResponse HealthResponse(const ServingEngine* engine);

// Texts or token arrays of an "input" field: one string, an array of strings, of token ids, or of
// arrays of token ids; a mixed array of strings and token ids is one prompt.
Result<std::vector<std::vector<int32_t>>> ReadPrompts(const Model& model, const Json& input,
                                                      std::string_view field);

}  // namespace tenon

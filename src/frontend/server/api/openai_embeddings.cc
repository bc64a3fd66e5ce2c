// POST /v1/embeddings, llama-server's /embedding, and /v1/rerank.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "frontend/server/api/base64.h"
#include "frontend/server/api/endpoints.h"
#include "frontend/server/api/openai_fields.h"

namespace tenon {
namespace {

// A list of documents is compared at once; OpenAI's limit on inputs serves here too.
constexpr size_t kMaxDocuments = 2048;

enum class EncodingFormat : uint8_t { kFloat, kBase64 };

// Little-endian floats, as the openai SDK decodes them.
std::string Base64OfFloats(const std::vector<float>& vector) {
  static_assert(std::endian::native == std::endian::little);
  std::string bytes(vector.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), vector.data(), bytes.size());
  return EncodeBase64(bytes);
}

Json EmbeddingsBody(const std::string& model, std::vector<std::vector<float>> vectors,
                    int64_t tokens, EncodingFormat format, int64_t dimensions) {
  Json json;
  json["object"] = "list";
  json["data"] = Json::array();
  for (size_t i = 0; i < vectors.size(); ++i) {
    // The first part of a vector, made a unit again, as OpenAI documents it.
    if (dimensions > 0)
      vectors[i].resize(static_cast<size_t>(dimensions));
    Normalise(vectors[i]);
    Json entry;
    entry["object"] = "embedding";
    entry["index"] = i;
    if (format == EncodingFormat::kBase64)
      entry["embedding"] = Base64OfFloats(vectors[i]);
    else
      entry["embedding"] = vectors[i];
    json["data"].push_back(std::move(entry));
  }
  json["model"] = model;
  json["usage"] = {{"prompt_tokens", tokens}, {"total_tokens", tokens}};
  return json;
}

Result<std::string> DocumentText(const Json& document, size_t index) {
  const Json* text = document.is_string() ? &document : FindField(document, "text");
  if (text == nullptr || !text->is_string())
    return InvalidArgument("expected a string or an object with a string \"text\"",
                           fmt::format("documents[{}]", index));
  return text->get<std::string>();
}

struct RerankOptions {
  std::string model;
  std::vector<std::string> documents;
  int64_t top_n = 0;
  bool return_documents = false;
};

// Scores by the cosine between the query's vector, the first, and each document's.
Json RerankBody(const RerankOptions& options, std::vector<std::vector<float>> vectors,
                int64_t tokens) {
  for (std::vector<float>& vector : vectors)
    Normalise(vector);
  std::vector<std::pair<float, size_t>> ranked;
  for (size_t i = 1; i < vectors.size(); ++i) {
    const float score =
        std::inner_product(vectors[0].begin(), vectors[0].end(), vectors[i].begin(), 0.0F);
    ranked.emplace_back(-score, i - 1);
  }
  std::ranges::sort(ranked);
  ranked.resize(std::min(ranked.size(), static_cast<size_t>(options.top_n)));
  Json results = Json::array();
  for (const auto& [negative, index] : ranked) {
    Json entry;
    entry["index"] = index;
    entry["relevance_score"] = -negative;
    if (options.return_documents)
      entry["document"] = {{"text", options.documents[index]}};
    results.push_back(std::move(entry));
  }
  Json json;
  json["object"] = "list";
  json["model"] = options.model;
  json["results"] = std::move(results);
  json["usage"] = {{"prompt_tokens", tokens}, {"total_tokens", tokens}};
  return json;
}

Result<std::vector<int32_t>> EncodeNonEmpty(const Model& model, const std::string& text,
                                            std::string_view field) {
  auto tokens = model.tokenizer().Encode(text, SpecialText::kPlain, AddSpecial::kModelDefault);
  if (tokens.empty())
    return InvalidArgument("the text has no tokens", std::string(field));
  return tokens;
}

}  // namespace

Result<EmbeddingJob> ParseEmbeddings(const ApiContext& context, const Model& model,
                                     const Json& body) {
  FieldReader fields(body);
  TextJob named;
  TENON_RETURN_IF_ERROR(ReadModelName(fields, context, named));
  const Json* input = fields.Required("input");
  std::string format_name = "float";
  fields.String("encoding_format", format_name);
  if (format_name != "float" && format_name != "base64")
    fields.Fail("encoding_format",
                fmt::format("found '{}', expected float or base64", format_name));
  int64_t dimensions = 0;
  fields.Int("dimensions", dimensions, {1, model.source().config.hidden_size});
  IgnoreOpenAiFields(fields);
  RefusePriority(fields);
  TENON_RETURN_IF_ERROR(fields.Finish());
  EmbeddingJob job;
  TENON_ASSIGN_OR_RETURN(job.inputs, ReadPrompts(model, *input, "input"));
  const auto format = format_name == "float" ? EncodingFormat::kFloat : EncodingFormat::kBase64;
  job.finish = [name = named.model, format, dimensions](std::vector<std::vector<float>> vectors,
                                                        int64_t tokens) {
    return EmbeddingsBody(name, std::move(vectors), tokens, format, dimensions);
  };
  return job;
}

// llama-server's own: a list of {"index", "embedding": [vector]}, one vector as texts are pooled.
Result<EmbeddingJob> ParseLlamaEmbedding(const ApiContext& context, const Model& model,
                                         const Json& body) {
  FieldReader fields(body);
  TextJob named;
  TENON_RETURN_IF_ERROR(ReadModelName(fields, context, named));
  const char* name = FindField(body, "input") != nullptr ? "input" : "content";
  const Json* input = fields.Required(name);
  int64_t norm = 2;
  fields.Int("embd_normalize", norm, {-1, 2});
  if (norm == 0 || norm == 1)
    fields.Fail("embd_normalize", "expected 2 (of length 1) or -1 (as it is)",
                ErrorCode::kUnsupported);
  IgnoreOpenAiFields(fields);
  RefusePriority(fields);
  TENON_RETURN_IF_ERROR(fields.Finish());
  EmbeddingJob job;
  TENON_ASSIGN_OR_RETURN(job.inputs, ReadPrompts(model, *input, name));
  job.finish = [norm](std::vector<std::vector<float>> vectors, int64_t) {
    Json list = Json::array();
    for (size_t i = 0; i < vectors.size(); ++i) {
      if (norm == 2)
        Normalise(vectors[i]);
      list.push_back({{"index", i}, {"embedding", Json::array({vectors[i]})}});
    }
    return list;
  };
  return job;
}

Result<EmbeddingJob> ParseRerank(const ApiContext& context, const Model& model, const Json& body) {
  FieldReader fields(body);
  TextJob named;
  TENON_RETURN_IF_ERROR(ReadModelName(fields, context, named));
  RerankOptions options;
  options.model = named.model;
  std::string query;
  fields.Required("query");
  fields.String("query", query);
  fields.Required("documents");
  const Json* documents = fields.Array("documents");
  if (documents != nullptr && (documents->empty() || documents->size() > kMaxDocuments))
    fields.Fail("documents", fmt::format("found {} documents, expected 1 to {}", documents->size(),
                                         kMaxDocuments));
  options.top_n = documents == nullptr ? 0 : static_cast<int64_t>(documents->size());
  fields.Int("top_n", options.top_n, {1, 1'000'000});
  fields.Bool("return_documents", options.return_documents);
  fields.Refuse("max_chunks_per_doc", "documents are not split");
  IgnoreOpenAiFields(fields);
  RefusePriority(fields);
  TENON_RETURN_IF_ERROR(fields.Finish());
  EmbeddingJob job;
  TENON_ASSIGN_OR_RETURN(auto query_tokens, EncodeNonEmpty(model, query, "query"));
  job.inputs.push_back(std::move(query_tokens));
  for (size_t i = 0; i < documents->size(); ++i) {
    TENON_ASSIGN_OR_RETURN(std::string text, DocumentText((*documents)[i], i));
    TENON_ASSIGN_OR_RETURN(auto tokens,
                           EncodeNonEmpty(model, text, fmt::format("documents[{}]", i)));
    job.inputs.push_back(std::move(tokens));
    options.documents.push_back(std::move(text));
  }
  job.finish = [options](std::vector<std::vector<float>> vectors, int64_t tokens) {
    return RerankBody(options, std::move(vectors), tokens);
  };
  return job;
}

}  // namespace tenon

// Ollama's /api/embed, /api/embeddings, /api/tags, /api/show and /api/ps.
#include <fmt/format.h>

#include "frontend/server/api/endpoints.h"
#include "frontend/server/api/ollama_fields.h"

namespace tenon {
namespace {

uint64_t FileBytes(const Model& model) {
  uint64_t bytes = 0;
  for (const MappedFile& file : model.source().files)
    bytes += file.size();
  return bytes;
}

// "135M" or "7.2B", from the tensors' sizes.
std::string ParameterSize(const Model& model) {
  double count = 0.0;
  for (const TensorInfo& tensor : model.source().tensors)
    count += static_cast<double>(tensor.rows()) * static_cast<double>(tensor.columns());
  return count < 1e9 ? fmt::format("{:.0f}M", count / 1e6) : fmt::format("{:.1f}B", count / 1e9);
}

// "gguf" of "gguf v3": the format without its version, as Ollama says it.
std::string FileFormat(const Model& model) {
  const std::string& format = model.source().format;
  return format.substr(0, format.find(' '));
}

Json Details(const Model& model) {
  const std::string& family = model.source().config.architecture;
  Json json;
  json["parent_model"] = "";
  json["format"] = FileFormat(model);
  json["family"] = family;
  json["families"] = Json::array({family});
  json["parameter_size"] = ParameterSize(model);
  json["quantization_level"] = "unknown";
  return json;
}

Json TagJson(const ApiContext& context, const Model& model, const std::string& name) {
  Json json;
  json["name"] = name;
  json["model"] = name;
  json["modified_at"] = OllamaTime(context.start_time());
  json["size"] = FileBytes(model);
  json["digest"] = "";
  json["details"] = Details(model);
  return json;
}

Result<std::string> ReadName(FieldReader& fields, const ApiContext& context) {
  std::string name;
  fields.String("name", name);  // the older spelling
  fields.String("model", name);
  if (fields.ok() && name.empty())
    fields.Fail("model", "is missing");
  if (!fields.ok())
    return fields.Finish().error();
  return context.ResolveModelName(name);
}

}  // namespace

Result<Json> OllamaTags(ApiContext& context, ServingEngine& engine, const HttpRequest&) {
  Json models = Json::array();
  for (const std::string& name : context.options().model_names) {
    if (name != "*")
      models.push_back(TagJson(context, engine.model(), name));
  }
  return Json{{"models", std::move(models)}};
}

Result<Json> OllamaPs(ApiContext& context, ServingEngine& engine, const HttpRequest&) {
  Json entry = TagJson(context, engine.model(), context.model_name());
  // The model stays until the server ends.
  entry["expires_at"] = "9999-12-31T23:59:59Z";
  entry["size_vram"] = 0;
  entry["context_length"] = SequenceContext(engine);
  return Json{{"models", Json::array({std::move(entry)})}};
}

Result<Json> OllamaShow(ApiContext& context, ServingEngine& engine, const Json& body) {
  FieldReader fields(body);
  TENON_ASSIGN_OR_RETURN(const std::string name, ReadName(fields, context));
  fields.Ignore({"verbose"});
  TENON_RETURN_IF_ERROR(fields.Finish());
  const Model& model = engine.model();
  const ModelConfig& config = model.source().config;
  Json info;
  info["general.architecture"] = config.architecture;
  info["general.name"] = config.name;
  info[config.architecture + ".context_length"] = config.context_length;
  info[config.architecture + ".embedding_length"] = config.hidden_size;
  info[config.architecture + ".block_count"] = config.layer_count;
  Json capabilities = Json::array({"completion", "embedding"});
  if (model.source().chat_template.find("tools") != std::string::npos)
    capabilities.push_back("tools");
  if (model.source().chat_template.find("<think>") != std::string::npos)
    capabilities.push_back("thinking");
  Json json;
  json["modelfile"] = fmt::format("FROM {}", name);
  json["parameters"] = "";
  json["template"] = model.source().chat_template;
  json["license"] = config.licence;
  json["modified_at"] = OllamaTime(context.start_time());
  json["details"] = Details(model);
  json["model_info"] = std::move(info);
  json["capabilities"] = std::move(capabilities);
  return json;
}

Result<EmbeddingJob> ParseOllamaEmbed(const ApiContext& context, const Model& model,
                                      const Json& body) {
  FieldReader fields(body);
  TENON_ASSIGN_OR_RETURN(const std::string name, ReadName(fields, context));
  std::vector<std::string> texts;
  fields.Required("input");
  fields.Strings("input", texts);
  int64_t dimensions = 0;
  fields.Int("dimensions", dimensions, {1, model.source().config.hidden_size});
  ServingRequest unused;
  TENON_RETURN_IF_ERROR(ReadOllamaOptions(fields, model, unused));
  fields.Ignore({"keep_alive", "truncate"});  // what does not fit is refused
  TENON_RETURN_IF_ERROR(fields.Finish());
  EmbeddingJob job;
  TENON_ASSIGN_OR_RETURN(job.inputs, ReadPrompts(model, Json(texts), "input"));
  job.finish = [name, dimensions](std::vector<std::vector<float>> vectors, int64_t tokens) {
    for (std::vector<float>& vector : vectors) {
      if (dimensions > 0)
        vector.resize(static_cast<size_t>(dimensions));
      Normalise(vector);
    }
    Json json;
    json["model"] = name;
    json["embeddings"] = vectors;
    json["prompt_eval_count"] = tokens;
    return json;
  };
  return job;
}

Result<EmbeddingJob> ParseOllamaEmbeddings(const ApiContext& context, const Model& model,
                                           const Json& body) {
  FieldReader fields(body);
  TENON_ASSIGN_OR_RETURN(const std::string name, ReadName(fields, context));
  std::string prompt;
  fields.Required("prompt");
  fields.String("prompt", prompt);
  ServingRequest unused;
  TENON_RETURN_IF_ERROR(ReadOllamaOptions(fields, model, unused));
  fields.Ignore({"keep_alive"});
  TENON_RETURN_IF_ERROR(fields.Finish());
  EmbeddingJob job;
  TENON_ASSIGN_OR_RETURN(job.inputs, ReadPrompts(model, Json(prompt), "prompt"));
  job.finish = [](std::vector<std::vector<float>> vectors, int64_t) {
    return Json{{"embedding", std::move(vectors.front())}};
  };
  return job;
}

}  // namespace tenon

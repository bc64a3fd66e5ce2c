// GET /v1/models and /v1/models/{id}, in the shapes of OpenAI, Anthropic and llama-server at once.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include "frontend/server/api/endpoints.h"

namespace tenon {
namespace {

Json ModelJson(const ApiContext& context, const ServingEngine& engine, const std::string& name) {
  const Model& model = engine.model();
  const ModelConfig& config = model.source().config;
  uint64_t bytes = 0;
  for (const MappedFile& file : model.source().files)
    bytes += file.size();
  Json json;
  json["id"] = name;
  json["object"] = "model";
  json["created"] = context.start_time();
  json["owned_by"] = "tenon";
  json["type"] = "model";  // from here to created_at: Anthropic's
  json["display_name"] = config.name.empty() ? name : config.name;
  json["created_at"] = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(context.start_time()));
  json["max_model_len"] = SequenceContext(engine);
  json["meta"] = {{"n_vocab", model.tokenizer().vocab_size()},
                  {"n_ctx", SequenceContext(engine)},
                  {"n_ctx_train", config.context_length},
                  {"n_embd", config.hidden_size},
                  {"size", bytes}};
  return json;
}

}  // namespace

Result<Json> ListModels(ApiContext& context, ServingEngine& engine, const HttpRequest&) {
  Json data = Json::array();
  for (const std::string& name : context.options().model_names) {
    if (name != "*")
      data.push_back(ModelJson(context, engine, name));
  }
  Json json;
  json["object"] = "list";
  json["first_id"] = data.front()["id"];
  json["last_id"] = data.back()["id"];
  json["has_more"] = false;
  json["data"] = std::move(data);
  return json;
}

Result<Json> DescribeModel(ApiContext& context, ServingEngine& engine, const HttpRequest& request) {
  const auto id = request.parameters.find("id");
  TENON_ASSIGN_OR_RETURN(
      const std::string name,
      context.ResolveModelName(id == request.parameters.end() ? "" : id->second));
  return ModelJson(context, engine, name);
}

}  // namespace tenon

// llama-server's /tokenize, /detokenize, /apply-template, /props, /slots and /health; the first two
// also as vLLM has them ("prompt" in place of "content"), with its /tokenizer_info.
#include <fmt/format.h>

#include "frontend/server/api/chat_messages.h"
#include "frontend/server/api/endpoints.h"
#include "frontend/server/api/field_reader.h"

namespace tenon {
namespace {

// A piece that is no text alone comes as its bytes.
Json PieceJson(const std::string& bytes) {
  try {
    const Json text = bytes;
    static_cast<void>(text.dump());  // strict: throws when it is not UTF-8
    return text;
  } catch (const Json::type_error&) {
    Json list = Json::array();
    for (const char byte : bytes)
      list.push_back(static_cast<unsigned char>(byte));
    return list;
  }
}

std::string TokenOf(const Model& model, int32_t id) {
  return id < 0 ? "" : model.tokenizer().TokenBytes(id, SpecialText::kParse);
}

}  // namespace

Result<Json> Tokenize(ApiContext&, ServingEngine& engine, const Json& body) {
  FieldReader fields(body);
  std::string content;
  const bool is_vllm = FindField(body, "prompt") != nullptr;
  bool add_special = is_vllm;
  bool parse_special = true;
  bool with_pieces = false;
  fields.Required(is_vllm ? "prompt" : "content");
  fields.String(is_vllm ? "prompt" : "content", content);
  fields.Bool(is_vllm ? "add_special_tokens" : "add_special", add_special);
  fields.Bool("parse_special", parse_special);
  fields.Bool("with_pieces", with_pieces);
  fields.Ignore({"model"});
  TENON_RETURN_IF_ERROR(fields.Finish());
  const Tokenizer& tokenizer = engine.model().tokenizer();
  const auto tokens =
      tokenizer.Encode(content, parse_special ? SpecialText::kParse : SpecialText::kPlain,
                       add_special ? AddSpecial::kModelDefault : AddSpecial::kNone);
  if (is_vllm && !with_pieces) {
    return Json{
        {"count", tokens.size()}, {"max_model_len", SequenceContext(engine)}, {"tokens", tokens}};
  }
  if (!with_pieces)
    return Json{{"tokens", tokens}};
  Json list = Json::array();
  for (const int32_t token : tokens) {
    list.push_back(
        {{"id", token}, {"piece", PieceJson(tokenizer.TokenBytes(token, SpecialText::kParse))}});
  }
  return Json{{"tokens", std::move(list)}};
}

// Both names of the text: llama-server's and vLLM's.
Result<Json> Detokenize(ApiContext&, ServingEngine& engine, const Json& body) {
  FieldReader fields(body);
  std::vector<int32_t> tokens;
  fields.Required("tokens");
  fields.Tokens("tokens", tokens);
  fields.Ignore({"model"});
  TENON_RETURN_IF_ERROR(fields.Finish());
  const Tokenizer& tokenizer = engine.model().tokenizer();
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= tokenizer.vocab_size()) {
      return InvalidArgument(fmt::format("token {} is outside the vocabulary of {}", tokens[i],
                                         tokenizer.vocab_size()),
                             fmt::format("tokens[{}]", i));
    }
  }
  const std::string text = tokenizer.Decode(tokens, SpecialText::kParse);
  return Json{{"content", text}, {"prompt", text}};
}

Result<Json> TokenizerInfo(ApiContext&, ServingEngine& engine, const HttpRequest&) {
  const Model& model = engine.model();
  const auto token = [&](int32_t id) { return id < 0 ? Json() : Json(TokenOf(model, id)); };
  Json json;
  json["tokenizer_class"] = "Tenon";
  json["bos_token"] = token(model.tokenizer().bos_id());
  json["eos_token"] = token(model.tokenizer().eos_id());
  json["chat_template"] = model.source().chat_template;
  json["vocab_size"] = model.tokenizer().vocab_size();
  return json;
}

// The list of adapters is empty, so an empty list of scales is all that can be set.
Result<Json> SetAdapters(ApiContext&, ServingEngine&, const Json& body) {
  if (!body.is_array())
    return InvalidArgument(fmt::format("found {}, expected an array", JsonTypeName(body)), "body");
  if (!body.empty())
    return Unsupported("no adapter is loaded", "[0].id");
  return Json{{"success", true}};
}

Result<Json> ApplyTemplate(ApiContext&, ServingEngine& engine, const Json& body) {
  const Model& model = engine.model();
  FieldReader fields(body);
  Conversation conversation;
  if (const Json* messages = fields.Required("messages"); messages != nullptr) {
    TENON_ASSIGN_OR_RETURN(conversation.messages, ReadMessages(*messages));
  }
  ReadTemplateVariables(fields, conversation.variables);
  if (const Json* tools = fields.Any("tools"); tools != nullptr) {
    TENON_RETURN_IF_ERROR(CheckTools(*tools));
    TENON_RETURN_IF_ERROR(UseTools(model, *tools, conversation));
  }
  fields.Ignore({"model"});
  TENON_RETURN_IF_ERROR(fields.Finish());
  auto text = model.RenderChat(conversation.messages, conversation.variables);
  if (!text.ok())
    return InvalidArgument(text.error().ToString(), "messages");
  return Json{{"prompt", std::move(*text)}};
}

Result<Json> Props(ApiContext& context, ServingEngine& engine, const HttpRequest&) {
  const Model& model = engine.model();
  const SamplingParams defaults;
  Json params;
  params["temperature"] = defaults.temperature;
  params["top_k"] = defaults.top_k;
  params["top_p"] = defaults.top_p;
  params["min_p"] = defaults.min_p;
  params["repeat_penalty"] = defaults.repetition_penalty;
  Json json;
  json["default_generation_settings"] = {{"n_ctx", SequenceContext(engine)},
                                         {"params", std::move(params)}};
  json["total_slots"] = engine.options().max_batch;
  json["model_alias"] = context.model_name();
  json["model_path"] = context.options().model_path.string();
  json["modalities"] = {{"vision", false}, {"audio", false}};
  json["chat_template"] = model.source().chat_template;
  json["bos_token"] = TokenOf(model, model.tokenizer().bos_id());
  json["eos_token"] = TokenOf(model, model.tokenizer().eos_id());
  json["build_info"] = fmt::format("tenon {}", kTenonVersion);
  return json;
}

// Requests are not bound to slots: as many as run are shown as busy.
Result<Json> Slots(ApiContext&, ServingEngine& engine, const HttpRequest&) {
  const int64_t running = engine.stats().running;
  Json list = Json::array();
  for (int64_t i = 0; i < engine.options().max_batch; ++i) {
    list.push_back({{"id", i}, {"n_ctx", SequenceContext(engine)}, {"is_processing", i < running}});
  }
  return list;
}

HttpResponse HealthResponse(const ServingEngine* engine) {
  const Health health = engine == nullptr ? Health::kStarting : engine->health();
  if (health == Health::kReady)
    return JsonResponse({{"status", "ok"}});
  ApiError error = StillLoading();
  std::string status = "loading model";
  if (health != Health::kStarting) {
    status = HealthName(health);
    error.message = fmt::format("The engine is {}", status);
    error.code = status;
  }
  HttpResponse response = ToResponse(ApiStyle::kOpenAi, error);
  Json body{{"status", status}};
  body["error"] = ErrorBody(ApiStyle::kOpenAi, error)["error"];
  response.body = DumpJson(body);
  return response;
}

}  // namespace tenon

#include "frontend/server/grpc/request_json.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

namespace tenon {
namespace {

// Parsed and written by protobuf, whose limits on depth hold for it.
Json StructJson(const google::protobuf::Struct& value) {
  std::string text;
  if (!google::protobuf::util::MessageToJsonString(value, &text).ok())
    return Json::object();
  auto json = ParseJson(text);
  return json.ok() ? std::move(*json) : Json::object();
}

template <class Value>
void SetIf(bool present, const char* name, const Value& value, Json& body) {
  if (present)
    body[name] = value;
}

void AddText(const char* name, const std::string& value, Json& body) {
  SetIf(!value.empty(), name, value, body);
}

template <class List>
Json ListJson(const List& list) {
  Json json = Json::array();
  for (const auto& value : list)
    json.push_back(value);
  return json;
}

void AddFilters(const v1::Sampling& sampling, Json& body) {
  SetIf(sampling.has_temperature(), "temperature", sampling.temperature(), body);
  SetIf(sampling.has_top_k(), "top_k", sampling.top_k(), body);
  SetIf(sampling.has_top_p(), "top_p", sampling.top_p(), body);
  SetIf(sampling.has_min_p(), "min_p", sampling.min_p(), body);
  SetIf(sampling.has_typical_p(), "typical_p", sampling.typical_p(), body);
  SetIf(sampling.has_xtc_probability(), "xtc_probability", sampling.xtc_probability(), body);
  SetIf(sampling.has_xtc_threshold(), "xtc_threshold", sampling.xtc_threshold(), body);
  SetIf(sampling.has_mirostat(), "mirostat", sampling.mirostat(), body);
  SetIf(sampling.has_mirostat_tau(), "mirostat_tau", sampling.mirostat_tau(), body);
  SetIf(sampling.has_mirostat_eta(), "mirostat_eta", sampling.mirostat_eta(), body);
}

void AddPenalties(const v1::Sampling& sampling, Json& body) {
  SetIf(sampling.has_repetition_penalty(), "repetition_penalty", sampling.repetition_penalty(),
        body);
  SetIf(sampling.has_presence_penalty(), "presence_penalty", sampling.presence_penalty(), body);
  SetIf(sampling.has_frequency_penalty(), "frequency_penalty", sampling.frequency_penalty(), body);
  SetIf(sampling.has_repeat_last_n(), "repeat_last_n", sampling.repeat_last_n(), body);
  SetIf(sampling.has_dry_multiplier(), "dry_multiplier", sampling.dry_multiplier(), body);
  SetIf(sampling.has_dry_base(), "dry_base", sampling.dry_base(), body);
  SetIf(sampling.has_dry_allowed_length(), "dry_allowed_length", sampling.dry_allowed_length(),
        body);
  SetIf(sampling.has_dry_penalty_last_n(), "dry_penalty_last_n", sampling.dry_penalty_last_n(),
        body);
  SetIf(sampling.dry_sequence_breakers_size() > 0, "dry_sequence_breakers",
        ListJson(sampling.dry_sequence_breakers()), body);
}

void AddSampling(const v1::Sampling& sampling, Json& body) {
  AddFilters(sampling, body);
  AddPenalties(sampling, body);
  // Pairs: an object would be searched through for each of its keys.
  Json biases = Json::array();
  for (const auto& [token, bias] : sampling.logit_bias())
    biases.push_back(Json::array({token, bias}));
  SetIf(!biases.empty(), "logit_bias", biases, body);
  SetIf(sampling.has_seed(), "seed", sampling.seed(), body);
  SetIf(sampling.stop_size() > 0, "stop", ListJson(sampling.stop()), body);
  SetIf(sampling.has_ignore_eos(), "ignore_eos", sampling.ignore_eos(), body);
  SetIf(sampling.has_max_tokens(), "max_tokens", sampling.max_tokens(), body);
  SetIf(sampling.has_n(), "n", sampling.n(), body);
  SetIf(sampling.has_cache_prompt(), "cache_prompt", sampling.cache_prompt(), body);
}

// A text that is no JSON stays one, which is then refused as no schema.
void AddForm(const v1::StructuredOutputs& form, Json& body) {
  Json json = Json::object();
  if (!form.json().empty()) {
    auto schema = ParseJson(form.json());
    json["json"] = schema.ok() ? std::move(*schema) : Json(form.json());
  }
  AddText("regex", form.regex(), json);
  SetIf(form.choice_size() > 0, "choice", ListJson(form.choice()), json);
  AddText("grammar", form.grammar(), json);
  SetIf(!json.empty(), "structured_outputs", json, body);
}

Json MessageJson(const v1::Message& message) {
  Json json;
  json["role"] = message.role();
  json["content"] = message.content();
  AddText("name", message.name(), json);
  AddText("reasoning_content", message.reasoning_content(), json);
  AddText("tool_call_id", message.tool_call_id(), json);
  for (const v1::ToolCall& call : message.tool_calls()) {
    Json entry;
    AddText("id", call.id(), entry);
    entry["type"] = "function";
    entry["function"] = {{"name", call.function().name()},
                         {"arguments", call.function().arguments()}};
    json["tool_calls"].push_back(std::move(entry));
  }
  return json;
}

Json ToolJson(const v1::Tool& tool) {
  Json function;
  function["name"] = tool.name();
  AddText("description", tool.description(), function);
  if (tool.has_parameters())
    function["parameters"] = StructJson(tool.parameters());
  return {{"type", "function"}, {"function", std::move(function)}};
}

}  // namespace

Json ToJson(const v1::GenerateRequest& request) {
  Json body = Json::object();
  AddText("model", request.model(), body);
  if (request.prompt_case() == v1::GenerateRequest::kText)
    body["prompt"] = request.text();
  else if (request.prompt_case() == v1::GenerateRequest::kTokens)
    body["prompt"] = ListJson(request.tokens().ids());
  AddSampling(request.sampling(), body);
  SetIf(request.has_logprobs(), "logprobs", request.logprobs(), body);
  AddForm(request.structured_outputs(), body);
  AddText("cache_salt", request.cache_salt(), body);
  return body;
}

Json ToJson(const v1::ChatRequest& request) {
  Json body = Json::object();
  AddText("model", request.model(), body);
  body["messages"] = Json::array();
  for (const v1::Message& message : request.messages())
    body["messages"].push_back(MessageJson(message));
  AddSampling(request.sampling(), body);
  SetIf(request.has_top_logprobs(), "logprobs", true, body);
  SetIf(request.has_top_logprobs(), "top_logprobs", request.top_logprobs(), body);
  for (const v1::Tool& tool : request.tools())
    body["tools"].push_back(ToolJson(tool));
  AddText("tool_choice", request.tool_choice(), body);
  AddText("reasoning_format", request.reasoning_format(), body);
  if (request.has_chat_template_kwargs())
    body["chat_template_kwargs"] = StructJson(request.chat_template_kwargs());
  AddForm(request.structured_outputs(), body);
  AddText("cache_salt", request.cache_salt(), body);
  return body;
}

Json InputsJson(const v1::EmbedRequest& request) {
  Json inputs = Json::array();
  for (const v1::EmbedInput& input : request.inputs()) {
    if (input.input_case() == v1::EmbedInput::kTokens)
      inputs.push_back(ListJson(input.tokens().ids()));
    else
      inputs.push_back(input.text());
  }
  return inputs;
}

}  // namespace tenon

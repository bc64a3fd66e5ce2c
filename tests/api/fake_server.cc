#include "api/fake_server.h"

#include "frontend/server/api/routes.h"

namespace tenon::testing {
namespace {

// Byte-level BPE's spelling of each byte: itself where it is printable, else the next code point
// from 256 on, as UTF-8.
std::vector<std::string> ByteSpellings() {
  std::vector<std::string> spellings;
  uint32_t next = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    const uint32_t point = printable ? byte : next++;
    if (point < 0x80)
      spellings.emplace_back(1, static_cast<char>(point));
    else
      spellings.push_back(
          {static_cast<char>(0xC0U | point >> 6), static_cast<char>(0x80U | (point & 0x3FU))});
  }
  return spellings;
}

ApiOptions TestOptions() {
  ApiOptions options;
  options.model_names = {"tiny", "alias"};
  return options;
}

std::vector<std::string> Segments(const std::string& path) {
  std::vector<std::string> segments;
  size_t begin = 1;
  while (begin <= path.size()) {
    const size_t end = std::min(path.find('/', begin), path.size());
    segments.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return segments;
}

}  // namespace

std::unique_ptr<Model> ByteModel(const std::string& chat_template,
                                 const std::vector<std::string>& controls) {
  const uint64_t vocabulary = 259 + controls.size();
  std::vector<std::string> tokens = ByteSpellings();
  std::vector<int32_t> types(tokens.size(), 1);
  for (const char* control : {"<|im_start|>", "<|im_end|>"}) {
    tokens.emplace_back(control);
    types.push_back(3);
  }
  // Byte-level BPE needs a merge; texts of the tests don't hold this one.
  tokens.emplace_back("zq");
  types.push_back(1);
  for (const std::string& control : controls) {
    tokens.push_back(control);
    types.push_back(3);
  }
  GgufWriter writer = TinyLlama();
  writer.tensors[0].dimensions = {32, vocabulary};
  writer.tensors[0].bytes = 32 * vocabulary * sizeof(float);
  writer.Set("llama.context_length", 512U);
  writer.Set("tokenizer.ggml.pre", "gpt-2");
  writer.SetStrings("tokenizer.ggml.tokens", tokens);
  writer.SetArray<int32_t>("tokenizer.ggml.token_type", types);
  writer.SetStrings("tokenizer.ggml.merges", {"z q"});
  writer.Set("tokenizer.ggml.eos_token_id", 257U);
  if (!chat_template.empty())
    writer.Set("tokenizer.chat_template", chat_template.c_str());
  const TempFolder folder;
  const auto path = folder.Write("tiny.gguf", writer.Build());
  auto model = Model::Open(path);
  EXPECT_TRUE(model.ok()) << model.error().ToString();
  return std::move(*model);
}

Result<RequestId> FakeEngine::Submit(ServingRequest request, EventSink sink) {
  if (refusal.has_value())
    return *refusal;
  submitted.push_back({std::move(request), std::move(sink)});
  return RequestId{submitted.size()};
}

Result<RequestId> FakeEngine::SubmitEmbedding(EmbeddingRequest request, EmbeddingSink sink) {
  if (refusal.has_value())
    return *refusal;
  embeddings.push_back({std::move(request), std::move(sink)});
  return RequestId{1000 + embeddings.size()};
}

void FakeEngine::Send(size_t index, ServingEvent event) {
  event.id = index + 1;
  const EventSink sink = submitted.at(index).sink;  // it may submit more
  sink(std::move(event));
}

void FakeEngine::Start(size_t index, int64_t cached_tokens) {
  ServingEvent event;
  event.kind = ServingEvent::Kind::kStarted;
  event.prompt_tokens = static_cast<int64_t>(submitted.at(index).request.prompt.size());
  event.cached_tokens = cached_tokens;
  Send(index, std::move(event));
}

void FakeEngine::Text(size_t index, const std::string& text, int32_t choice) {
  ServingEvent event;
  event.kind = ServingEvent::Kind::kText;
  event.choice = choice;
  event.text = text;
  event.tokens = model_.tokenizer().Encode(text, SpecialText::kPlain, AddSpecial::kNone);
  for (const int32_t token : event.tokens) {
    const int32_t logprobs = submitted.at(index).request.sampling.logprobs;
    if (logprobs > 0)
      event.sampled.push_back({token, -0.5F, {{token, -0.5F}, {10, -2.0F}}});
  }
  Send(index, std::move(event));
}

void FakeEngine::Done(size_t index, FinishReason reason, int32_t choice) {
  ServingEvent event;
  event.kind = ServingEvent::Kind::kDone;
  event.choice = choice;
  event.finish_reason = reason;
  event.completion_tokens = 7;
  Send(index, std::move(event));
}

void FakeEngine::Finish(size_t index) {
  ServingEvent event;
  event.kind = ServingEvent::Kind::kFinished;
  event.prompt_tokens = static_cast<int64_t>(submitted.at(index).request.prompt.size());
  event.completion_tokens = 7;
  Send(index, std::move(event));
}

void FakeEngine::Fail(size_t index, Error error) {
  ServingEvent event;
  event.kind = ServingEvent::Kind::kError;
  event.error = std::move(error);
  Send(index, std::move(event));
}

void FakeEngine::Answer(size_t index, const std::vector<std::string>& pieces) {
  Start(index);
  for (const std::string& piece : pieces)
    Text(index, piece);
  Done(index);
  Finish(index);
}

void FakeWriter::Send(HttpResponse response) {
  status = response.status;
  content_type = response.content_type;
  body = response.body;
  headers = response.headers;
  ended = true;
}

void FakeWriter::BeginStream(int given_status, std::string type, HttpHeaders given_headers) {
  status = given_status;
  content_type = std::move(type);
  headers = std::move(given_headers);
}

std::vector<Json> FakeWriter::Events() const {
  const bool lines = content_type == "application/x-ndjson";
  const std::string prefix = lines ? "" : "data: ";
  std::vector<Json> events;
  size_t begin = 0;
  while (begin < body.size()) {
    const size_t end = body.find('\n', begin);
    const std::string line = body.substr(begin, end - begin);
    begin = end + 1;
    if (line.starts_with(prefix) && line.size() > prefix.size() && line != "data: [DONE]")
      events.push_back(Json::parse(line.substr(prefix.size())));
  }
  return events;
}

Json FakeWriter::Body() const {
  return Json::parse(body);
}

ApiTest::ApiTest(const std::string& chat_template, const std::vector<std::string>& controls)
    : model_(ByteModel(chat_template, controls)), engine_(*model_), context_(TestOptions()) {
  context_.SetEngine(&engine_);
  Router router;
  AddApiRoutes(context_, router);
  routes_ = std::make_unique<RouteTable>(std::move(router));
}

std::vector<std::vector<int32_t>> ApiTest::PromptsOf(const std::string& path,
                                                     const std::string& prompt) {
  engine_.submitted.clear();
  Call("POST", path, R"({"prompt":)" + prompt + "}");
  std::vector<std::vector<int32_t>> prompts;
  for (const auto& submitted : engine_.submitted)
    prompts.push_back(submitted.request.prompt);
  return prompts;
}

std::shared_ptr<FakeWriter> ApiTest::Call(const std::string& method, const std::string& path,
                                          const std::string& body) {
  auto writer = std::make_shared<FakeWriter>();
  HttpRequest request;
  request.method = method;
  request.path = path;
  request.body = body;
  request.request_id = "test";
  request.key_name = key_name_;
  const std::vector<std::string> segments = Segments(path);
  const RouteMatch match = routes_->Find(method, segments);
  request.parameters = match.parameters;
  EXPECT_NE(match.handler, nullptr) << method << " " << path;
  if (match.handler != nullptr)
    (*match.handler)(std::move(request), writer);
  return writer;
}

}  // namespace tenon::testing

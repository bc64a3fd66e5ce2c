#include "frontend/server/grpc/answer_events.h"

#include "frontend/server/grpc/grpc_status.h"

namespace tenon {
namespace {

v1::FinishReason ReasonOf(const AnswerChoice& choice) {
  if (choice.finish_reason == FinishReason::kLength)
    return v1::FINISH_REASON_LENGTH;
  return choice.tool_calls.empty() ? v1::FINISH_REASON_STOP : v1::FINISH_REASON_TOOL_CALLS;
}

void AddCall(const ToolCall& call, v1::Piece& piece) {
  v1::ToolCall& added = *piece.add_tool_calls();
  added.set_id(call.id);
  added.mutable_function()->set_name(call.name);
  added.mutable_function()->set_arguments(call.arguments);
}

void Fill(const Tokenizer& tokenizer, int32_t token, float logprob, v1::TokenLogprob& entry) {
  entry.set_token(token);
  entry.set_piece(tokenizer.TokenBytes(token, SpecialText::kParse));
  entry.set_logprob(logprob);
}

class EventFormat final : public AnswerFormat {
 public:
  explicit EventFormat(std::shared_ptr<AnswerStream> stream) : stream_(std::move(stream)) {}

  Json Whole(const ApiAnswer&) override { return nullptr; }  // answers are always streamed

  void OnStarted(const ApiAnswer& answer, size_t prompt, AnswerChannel&) override {
    v1::AnswerEvent event;
    v1::Started& started = *event.mutable_started();
    started.set_model(answer.model);
    started.set_request_id(answer.request_id);
    started.set_prompt_tokens(answer.prompts[prompt].tokens);
    started.set_cached_tokens(answer.prompts[prompt].cached_tokens);
    stream_->Push(std::move(event));
  }

  void OnPiece(const ApiAnswer& answer, const AnswerPiece& piece, AnswerChannel&) override {
    v1::AnswerEvent event;
    v1::Piece& out = *event.mutable_piece();
    out.set_choice(static_cast<int32_t>(piece.choice));
    for (const MessageDelta& delta : piece.deltas) {
      if (delta.kind == MessageDelta::Kind::kContent)
        out.mutable_text()->append(delta.text);
      else if (delta.kind == MessageDelta::Kind::kReasoning)
        out.mutable_reasoning()->append(delta.text);
      else
        AddCall(delta.call, out);
    }
    out.mutable_tokens()->Add(piece.tokens.begin(), piece.tokens.end());
    for (const SampledToken& token : piece.sampled) {
      v1::TokenLogprob& entry = *out.add_logprobs();
      Fill(*answer.tokenizer, token.token, token.logprob, entry);
      for (const TokenLogprob& other : token.top)
        Fill(*answer.tokenizer, other.token, other.logprob, *entry.add_top());
    }
    stream_->Push(std::move(event));
  }

  void OnChoiceEnd(const ApiAnswer& answer, size_t index, AnswerChannel&) override {
    const AnswerChoice& choice = answer.choices[index];
    v1::AnswerEvent event;
    v1::ChoiceEnd& end = *event.mutable_choice_end();
    end.set_choice(static_cast<int32_t>(index));
    end.set_finish_reason(ReasonOf(choice));
    end.set_stop_text(choice.stop_text);
    end.set_completion_tokens(choice.completion_tokens);
    stream_->Push(std::move(event));
  }

  void OnEnd(const ApiAnswer& answer, AnswerChannel&) override {
    const RequestTimings timings = answer.timings();
    v1::AnswerEvent event;
    v1::Finished& finished = *event.mutable_finished();
    finished.set_prompt_tokens(answer.prompt_tokens());
    finished.set_cached_tokens(answer.cached_tokens());
    finished.set_completion_tokens(answer.completion_tokens());
    finished.mutable_timings()->set_queue_s(timings.queue_s);
    finished.mutable_timings()->set_prefill_s(timings.prefill_s);
    finished.mutable_timings()->set_first_token_s(timings.first_token_s);
    finished.mutable_timings()->set_decode_s(timings.decode_s);
    finished.mutable_timings()->set_total_s(timings.total_s);
    stream_->Push(std::move(event));
  }

 private:
  std::shared_ptr<AnswerStream> stream_;
};

class EventChannel final : public AnswerChannel {
 public:
  explicit EventChannel(std::shared_ptr<AnswerStream> stream) : stream_(std::move(stream)) {}

  void SendWhole(const Json&) override { stream_->End(grpc::Status::OK); }
  void BeginEvents() override {}
  void SendEvent(std::string_view, const Json&) override {}
  void EndEvents() override { stream_->End(grpc::Status::OK); }
  void SendError(const ApiError& error) override { stream_->End(ToGrpcStatus(error)); }
  void OnClose(std::function<void()> callback) override {
    stream_->SetOnClose(std::move(callback));
  }

 private:
  std::shared_ptr<AnswerStream> stream_;
};

}  // namespace

std::unique_ptr<AnswerFormat> MakeEventFormat(std::shared_ptr<AnswerStream> stream) {
  return std::make_unique<EventFormat>(std::move(stream));
}

std::shared_ptr<AnswerChannel> MakeEventChannel(std::shared_ptr<AnswerStream> stream) {
  return std::make_shared<EventChannel>(std::move(stream));
}

}  // namespace tenon

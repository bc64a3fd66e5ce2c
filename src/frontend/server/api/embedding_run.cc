#include "frontend/server/api/embedding_run.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>

#include "frontend/server/api/request_log.h"

namespace tenon {
namespace {

// A list of inputs takes this many places of the queue at once, whatever its length.
constexpr size_t kInFlight = 16;

class EmbeddingRun final : public std::enable_shared_from_this<EmbeddingRun> {
 public:
  EmbeddingRun(ApiContext& context, ServingEngine& engine, Caller caller, EmbeddingJob job,
               std::shared_ptr<AnswerChannel> channel)
      : context_(context),
        engine_(engine),
        caller_(std::move(caller)),
        job_(std::move(job)),
        channel_(std::move(channel)),
        vectors_(job_.inputs.size()),
        deadline_(RequestDeadline(context)) {}

  void Start();

 private:
  bool CheckInputs();
  void SubmitNext();
  void OnVector(size_t input, Result<std::vector<float>> vector);
  void Store(size_t input, Result<std::vector<float>> vector);
  void CancelRequests();
  void Fail(const ApiError& error);

  ApiContext& context_;
  ServingEngine& engine_;
  Caller caller_;
  EmbeddingJob job_;
  std::shared_ptr<AnswerChannel> channel_;
  std::atomic<bool> client_gone_ = false;

  std::mutex ids_mutex_;
  std::vector<RequestId> ids_;  // guarded by ids_mutex_

  std::mutex mutex_;  // guards all below
  std::vector<std::vector<float>> vectors_;
  const std::chrono::steady_clock::time_point deadline_;  // of all inputs together
  int64_t tokens_ = 0;
  size_t next_ = 0;  // the first input that was not submitted
  size_t done_ = 0;
  bool ended_ = false;
};

bool EmbeddingRun::CheckInputs() {
  const int64_t context = SequenceContext(engine_);
  for (const auto& input : job_.inputs) {
    const auto length = static_cast<int64_t>(input.size());
    tokens_ += length;
    if (length <= context)
      continue;
    ApiError error = PromptTooLong(length, context);
    error.param = "input";
    Fail(error);
    return false;
  }
  return true;
}

void EmbeddingRun::Start() {
  {
    const std::lock_guard lock(mutex_);
    if (!CheckInputs())
      return;
  }
  channel_->OnClose([weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      self->client_gone_ = true;
      self->CancelRequests();
    }
  });
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < std::min(kInFlight, job_.inputs.size()) && !ended_; ++i)
    SubmitNext();
}

void EmbeddingRun::SubmitNext() {
  const size_t i = next_++;
  auto id = engine_.SubmitEmbedding({std::move(job_.inputs[i]), caller_.key_name, deadline_},
                                    [self = shared_from_this(), i](Result<std::vector<float>> v) {
                                      self->OnVector(i, std::move(v));
                                    });
  if (!id.ok()) {
    CancelRequests();
    return Fail(ToApiError(id.error()));
  }
  const std::lock_guard lock(ids_mutex_);
  ids_.push_back(*id);
}

void EmbeddingRun::OnVector(size_t input, Result<std::vector<float>> vector) {
  const std::lock_guard lock(mutex_);
  if (ended_)
    return;
  try {
    Store(input, std::move(vector));
  } catch (const std::exception& error) {
    Fail(ToApiError(MakeError(ErrorCode::kInternal, error.what())));
  }
}

void EmbeddingRun::Store(size_t input, Result<std::vector<float>> vector) {
  if (!vector.ok()) {
    CancelRequests();
    return Fail(EndError(vector.error(), engine_.health()));
  }
  vectors_[input] = std::move(*vector);
  if (++done_ < vectors_.size()) {
    if (next_ < vectors_.size() && !client_gone_)
      SubmitNext();
    return;
  }
  ended_ = true;
  if (!client_gone_)
    channel_->SendWhole(job_.finish(std::move(vectors_), tokens_));
  LogRequest(context_, caller_, 200);
}

void EmbeddingRun::CancelRequests() {
  std::vector<RequestId> ids;
  {
    const std::lock_guard lock(ids_mutex_);
    ids = ids_;
  }
  for (const RequestId id : ids)
    engine_.Cancel(id);
}

void EmbeddingRun::Fail(const ApiError& error) {
  if (ended_)
    return;
  ended_ = true;
  if (!client_gone_)
    channel_->SendError(error);
  LogRequest(context_, caller_, client_gone_ ? kClientClosed : error.status);
}

}  // namespace

void StartEmbeddings(ApiContext& context, ServingEngine& engine, Caller caller, EmbeddingJob job,
                     std::shared_ptr<AnswerChannel> channel) {
  std::make_shared<EmbeddingRun>(context, engine, std::move(caller), std::move(job),
                                 std::move(channel))
      ->Start();
}

void Normalise(std::vector<float>& vector) {
  double squares = 0.0;
  for (const float value : vector)
    squares += static_cast<double>(value) * static_cast<double>(value);
  if (squares <= 0.0)
    return;
  const auto scale = static_cast<float>(1.0 / std::sqrt(squares));
  for (float& value : vector)
    value *= scale;
}

}  // namespace tenon

// EmbedCall: one Embed call. Its answer is written once, by whoever comes first: the engine's
// vectors, an error, or the end of the call.
//
// Threading: the channel's functions from any thread; the rest is gRPC's.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "frontend/server/api/answer_channel.h"
#include "frontend/server/api/embedding_run.h"
#include "tenon/v1/tenon.pb.h"

namespace tenon {

class EmbedCall final : public grpc::ServerUnaryReactor,
                        public AnswerChannel,
                        public std::enable_shared_from_this<EmbedCall> {
 public:
  // `response` is gRPC's and lives until the call is finished.
  static std::shared_ptr<EmbedCall> Create(v1::EmbedResponse& response);

  // The job whose answer this call gives.
  EmbeddingJob MakeJob(std::string model, std::vector<std::vector<int32_t>> inputs);

  void SendWhole(const Json& body) override;  // the vectors came before, by MakeJob's function
  void BeginEvents() override {}
  void SendEvent(std::string_view, const Json&) override {}
  void EndEvents() override {}
  void SendError(const ApiError& error) override;
  void OnClose(std::function<void()> callback) override;
  void End(grpc::Status status);

  void OnCancel() override;
  void OnDone() override;

 private:
  explicit EmbedCall(v1::EmbedResponse& response) : response_(response) {}
  void Fill();

  v1::EmbedResponse& response_;
  std::string model_;
  std::vector<std::vector<float>> vectors_;
  int64_t tokens_ = 0;

  std::mutex mutex_;  // guards all below
  std::shared_ptr<EmbedCall> self_;
  bool finished_ = false;
  bool cancelled_ = false;
  std::function<void()> on_close_;
};

}  // namespace tenon

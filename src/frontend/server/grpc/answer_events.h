// The answer to a text job as the events of a stream.
#pragma once

#include <memory>

#include "frontend/server/api/answer.h"
#include "frontend/server/api/answer_channel.h"
#include "frontend/server/grpc/answer_stream.h"

namespace tenon {

// The events; and the end or error, which comes through the channel.
std::unique_ptr<AnswerFormat> MakeEventFormat(std::shared_ptr<AnswerStream> stream);
std::shared_ptr<AnswerChannel> MakeEventChannel(std::shared_ptr<AnswerStream> stream);

}  // namespace tenon

// Errors as gRPC's status codes.
#pragma once

#include <grpcpp/support/status.h>

#include "frontend/server/api/api_error.h"

namespace tenon {

inline grpc::StatusCode ToStatusCode(int http_status) {
  switch (http_status) {
    case 400:
    case 413:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case 401:
      return grpc::StatusCode::UNAUTHENTICATED;
    case 404:
      return grpc::StatusCode::NOT_FOUND;
    case 429:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case 499:
      return grpc::StatusCode::CANCELLED;
    case 501:
      return grpc::StatusCode::UNIMPLEMENTED;
    case 503:
      return grpc::StatusCode::UNAVAILABLE;
    case 504:
      return grpc::StatusCode::DEADLINE_EXCEEDED;
    default:
      return grpc::StatusCode::INTERNAL;
  }
}

inline grpc::Status ToGrpcStatus(const ApiError& error) {
  return {ToStatusCode(error.status), error.message};
}

}  // namespace tenon

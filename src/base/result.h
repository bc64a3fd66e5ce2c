// Result<T>: the value of an operation, or the Error that says why there is none.
//
// Used for everything that can go wrong from the outside: input, files, requests, limits. A broken
// invariant of our own is TENON_CHECK's (check.h). Nothing is thrown across a folder's edge.
// Threading: values; as safe as T.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace tenon {

enum class ErrorCode {
  kInvalidArgument,    // a flag, request field or configuration value is wrong
  kNotFound,           // a file, model or tensor that was named does not exist
  kCorrupt,            // a file's bytes contradict its format
  kUnsupported,        // valid, but outside what this build can do
  kIo,                 // the operating system or the network refused
  kResourceExhausted,  // does not fit the memory, context or queue that was reserved
  kCancelled,          // the caller asked to stop
  kInternal,           // our own fault, reported instead of aborting
};

// The lower-case name of a code, such as "invalid argument".
std::string_view ErrorCodeName(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;  // what was found and what was expected
  std::string where;    // file, offset, field or flag; may be empty

  // "where: message", or the message alone.
  std::string ToString() const;
};

inline Error MakeError(ErrorCode code, std::string message, std::string where = {}) {
  return Error{code, std::move(message), std::move(where)};
}
inline Error InvalidArgument(std::string message, std::string where = {}) {
  return MakeError(ErrorCode::kInvalidArgument, std::move(message), std::move(where));
}
inline Error Corrupt(std::string message, std::string where = {}) {
  return MakeError(ErrorCode::kCorrupt, std::move(message), std::move(where));
}
inline Error Unsupported(std::string message, std::string where = {}) {
  return MakeError(ErrorCode::kUnsupported, std::move(message), std::move(where));
}
inline Error NotFound(std::string message, std::string where = {}) {
  return MakeError(ErrorCode::kNotFound, std::move(message), std::move(where));
}

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // REQUIRES: ok().
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // REQUIRES: !ok().
  Error& error() & { return std::get<1>(state_); }
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

// The result of an operation without a value.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }

  // REQUIRES: !ok().
  Error& error() & { return *error_; }
  const Error& error() const& { return *error_; }
  Error&& error() && { return *std::move(error_); }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace tenon

#define TENON_CONCAT_INNER(a, b) a##b
#define TENON_CONCAT(a, b) TENON_CONCAT_INNER(a, b)

// Leaves the function with the error of `expr` (a Result of any type), if it has one.
#define TENON_RETURN_IF_ERROR(expr)                                  \
  do {                                                               \
    if (auto tenon_status = (expr); !tenon_status.ok()) [[unlikely]] \
      return std::move(tenon_status).error();                        \
  } while (false)

// TENON_ASSIGN_OR_RETURN(auto x, Make()): x is the value, or the function leaves with the error.
#define TENON_ASSIGN_OR_RETURN(target, expr) \
  TENON_ASSIGN_OR_RETURN_IMPL(TENON_CONCAT(tenon_result_, __LINE__), target, expr)
#define TENON_ASSIGN_OR_RETURN_IMPL(result, target, expr) \
  auto result = (expr);                                   \
  if (!result.ok()) [[unlikely]]                          \
    return std::move(result).error();                     \
  target = std::move(result).value()

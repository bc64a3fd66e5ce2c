// JSON of the API's bodies. What comes in is untrusted: strict UTF-8, bounded depth, no field
// twice.
//
// Objects keep the order of their fields, as templates print them to the model; they are vectors of
// pairs, so nothing here looks up by name in an object of unbounded size. Threading: functions from
// any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tenon {

using Json = nlohmann::ordered_json;

// Fails with kInvalidArgument, giving the byte, for what is not JSON, is nested too deep or names a
// field twice. Linear in the text, whatever it holds.
Result<Json> ParseJson(std::string_view text);

// One line. Bytes that are not UTF-8 come out as U+FFFD.
std::string DumpJson(const Json& value);

// "a boolean", "a string", ...: for messages.
std::string_view JsonTypeName(const Json& value);

// Value of an object's field; null when it is absent, null itself, or `object` is no object.
const Json* FindField(const Json& object, std::string_view name);
// The same for text; empty when there is none, or something else.
std::string StringField(const Json& object, std::string_view name);

}  // namespace tenon

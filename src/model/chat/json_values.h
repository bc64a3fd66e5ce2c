// JSON in and out: the variables of a rendering, and the tojson filter.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "model/chat/runtime.h"
#include "model/chat/value.h"

namespace tenon::chat {

// The JSON as values. Texts are pointed to, so it must outlive the rendering.
Value FromJson(Runtime& rt, const nlohmann::ordered_json& json);

struct JsonStyle {
  bool indented = false;
  std::string_view indent;  // of one level
  std::string_view item_separator = ", ";
  std::string_view key_separator = ": ";
  bool ascii = false;
  bool sorted = false;
};

// Python's json.dumps. Fails for what JSON cannot hold.
void WriteJson(Runtime& rt, TextBuilder& out, const Value& value, const JsonStyle& style);

}  // namespace tenon::chat

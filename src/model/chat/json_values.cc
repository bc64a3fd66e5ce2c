#include "model/chat/json_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "model/chat/operators.h"
#include "model/chat/sorting.h"
#include "model/chat/text_of.h"
#include "model/chat/unicode.h"

namespace tenon::chat {
namespace {

using Json = nlohmann::ordered_json;

// Python's JSONEncoder.
class JsonWriter {
 public:
  JsonWriter(Runtime& rt, TextBuilder& out, const JsonStyle& style)
      : rt_(rt), out_(out), style_(style) {}

  void Write(const Value& value) {
    const DepthGuard guard(rt_);
    rt_.budget().Step();
    switch (value.kind) {
      case Kind::kString:
        WriteText(value.text());
        return;
      case Kind::kList:
      case Kind::kTuple:
        WriteArray(value);
        return;
      case Kind::kDict:
        WriteObject(*value.dict);
        return;
      default:
        out_.Append(Scalar(value));
    }
  }

 private:
  // Values without elements; NaN and infinities as Python writes them.
  static std::string Scalar(const Value& value) {
    switch (value.kind) {
      case Kind::kNone:
        return "null";
      case Kind::kBool:
        return value.boolean ? "true" : "false";
      case Kind::kInt:
      case Kind::kUint:
        return IntegerText(value);
      case Kind::kFloat:
        if (std::isnan(value.real))
          return "NaN";
        if (std::isinf(value.real))
          return value.real < 0 ? "-Infinity" : "Infinity";
        return FloatText(value.real);
      default:
        Fail(fmt::format("Object of type {} is not JSON serializable", TypeName(value)));
    }
  }

  // A new line and its indent, where the style has them.
  void Break() {
    if (style_.indented)
      out_.Append('\n').Repeat(level_, style_.indent);
  }

  void WriteArray(const Value& value) {
    if (value.sequence->size == 0) {
      out_.Append("[]");
      return;
    }
    out_.Append('[');
    ++level_;
    bool first = true;
    for (const Value& item : value) {
      if (!first)
        out_.Append(style_.item_separator);
      first = false;
      Break();
      Write(item);
    }
    --level_;
    Break();
    out_.Append(']');
  }

  void WriteObject(const Dict& dict) {
    if (dict.size == 0) {
      out_.Append("{}");
      return;
    }
    std::vector<DictEntry> entries(dict.entries, dict.entries + dict.size);
    if (style_.sorted)
      StableSort(entries, [this](const DictEntry& a, const DictEntry& b) {
        rt_.budget().Step();
        return Ordered(rt_, Operator::kLess, a.key, b.key);
      });
    out_.Append('{');
    ++level_;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0)
        out_.Append(style_.item_separator);
      Break();
      WriteKey(entries[i].key);
      out_.Append(style_.key_separator);
      Write(entries[i].value);
    }
    --level_;
    Break();
    out_.Append('}');
  }

  // Keys become texts: true, null, 1.
  void WriteKey(const Value& key) {
    if (IsString(key))
      return WriteText(key.text());
    if (!IsNumber(key) && !key.Is(Kind::kNone))
      Fail(fmt::format("keys must be str, int, float, bool or None, not {}", TypeName(key)));
    out_.Append('"').Append(Scalar(key)).Append('"');
  }

  // Only what JSON demands is escaped, unless the style asks for ASCII.
  void WriteText(std::string_view text) {
    out_.Append('"');
    size_t plain = 0;  // the start of what needs no escape
    for (size_t pos = 0; pos < text.size();) {
      const size_t start = pos;
      const auto byte = static_cast<unsigned char>(text[pos]);
      if (byte >= 0x20 && byte != '"' && byte != '\\' && (byte < 0x7F || !style_.ascii)) {
        ++pos;
        continue;
      }
      const char32_t c = DecodeAt(text, pos);
      out_.Append(text.substr(plain, start - plain)).Append(Escape(c));
      plain = pos;
    }
    out_.Append(text.substr(plain)).Append('"');
  }

  static std::string Escape(char32_t c) {
    constexpr std::string_view kNames = "\"\\nrtfb";
    constexpr std::string_view kValues = "\"\\\n\r\t\f\b";
    const size_t at = c < 0x80 ? kValues.find(static_cast<char>(c)) : std::string_view::npos;
    if (at != std::string_view::npos)
      return {'\\', kNames[at]};
    if (c == 0x7F)
      return "\x7F";
    if (c < 0x10000)
      return fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    const uint32_t offset = static_cast<uint32_t>(c) - 0x10000;  // a pair of surrogates
    return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (offset >> 10), 0xDC00 + (offset & 0x3FFU));
  }

  Runtime& rt_;
  TextBuilder& out_;
  const JsonStyle& style_;
  int64_t level_ = 0;
};

Value FromJsonArray(Runtime& rt, const Json& json) {
  Value* items = rt.arena().NewArray<Value>(json.size());
  size_t i = 0;
  for (const Json& item : json)
    items[i++] = FromJson(rt, item);
  return rt.Sequence(Kind::kList, items, i);
}

Value FromJsonObject(Runtime& rt, const Json& json) {
  Dict* dict = rt.NewDict();
  for (auto entry = json.begin(); entry != json.end(); ++entry)
    dict->Set(rt, rt.View(entry.key()), FromJson(rt, entry.value()));
  return rt.Wrap(dict);
}

// nlohmann keeps non-negative integers as unsigned.
Value FromJsonUnsigned(uint64_t number) {
  if (number <= static_cast<uint64_t>(INT64_MAX))
    return Value::Int(static_cast<int64_t>(number));
  Value value;
  value.kind = Kind::kUint;
  value.unsigned_integer = number;
  return value;
}

}  // namespace

Value FromJson(Runtime& rt, const Json& json) {
  const DepthGuard guard(rt);
  rt.budget().Step();
  switch (json.type()) {
    case Json::value_t::null:
      return Value::None();
    case Json::value_t::boolean:
      return Value::Bool(json.get<bool>());
    case Json::value_t::number_integer:
      return Value::Int(json.get<int64_t>());
    case Json::value_t::number_unsigned:
      return FromJsonUnsigned(json.get<uint64_t>());
    case Json::value_t::number_float:
      return Value::Float(json.get<double>());
    case Json::value_t::string:
      return rt.View(json.get_ref<const std::string&>());
    case Json::value_t::array:
      return FromJsonArray(rt, json);
    case Json::value_t::object:
      return FromJsonObject(rt, json);
    default:
      Fail("a variable holds binary data, which a template cannot use");
  }
}

void WriteJson(Runtime& rt, TextBuilder& out, const Value& value, const JsonStyle& style) {
  JsonWriter(rt, out, style).Write(value);
}

}  // namespace tenon::chat

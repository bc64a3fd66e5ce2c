#include "model/chat/text_of.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "model/chat/ast.h"
#include "model/chat/loop_object.h"
#include "model/chat/unicode.h"

namespace tenon::chat {
namespace {

// The elements of a list or tuple, as repr shows them.
void WriteItems(Runtime& rt, TextBuilder& out, const Value& sequence) {
  bool first = true;
  for (const Value& item : sequence) {
    if (!first)
      out.Append(", ");
    first = false;
    WriteRepr(rt, out, item);
  }
}

void WriteDict(Runtime& rt, TextBuilder& out, const Dict& dict) {
  out.Append('{');
  for (size_t i = 0; i < dict.size; ++i) {
    if (i > 0)
      out.Append(", ");
    WriteRepr(rt, out, dict.entries[i].key);
    out.Append(": ");
    WriteRepr(rt, out, dict.entries[i].value);
  }
  out.Append('}');
}

void WriteNamespace(Runtime& rt, TextBuilder& out, NamespaceObject& names) {
  if (names.printing) {
    out.Append("<Namespace {...}>");
    return;
  }
  names.printing = true;  // stays so after a failure, which ends the rendering
  out.Append("<Namespace ");
  WriteDict(rt, out, names.attributes);
  out.Append('>');
  names.printing = false;
}

void WriteView(Runtime& rt, TextBuilder& out, const Value& value) {
  const DictViewObject& view = *value.view;
  out.Append(TypeName(value)).Append("([");
  for (size_t i = 0; i < view.dict->size; ++i) {
    if (i > 0)
      out.Append(", ");
    const DictEntry& entry = view.dict->entries[i];
    if (view.kind == ViewKind::kItems) {
      WriteRepr(rt, out.Append('('), entry.key);
      WriteRepr(rt, out.Append(", "), entry.value);
      out.Append(')');
    } else {
      WriteRepr(rt, out, view.kind == ViewKind::kKeys ? entry.key : entry.value);
    }
  }
  out.Append("])");
}

void WriteRange(TextBuilder& out, const RangeObject& range) {
  out.Append(range.step == 1
                 ? fmt::format("range({}, {})", range.start, range.stop)
                 : fmt::format("range({}, {}, {})", range.start, range.stop, range.step));
}

// \x, \u or \U, as short as possible.
std::string NumericEscape(uint32_t c) {
  if (c < 0x100)
    return fmt::format("\\x{:02x}", c);
  return c < 0x10000 ? fmt::format("\\u{:04x}", c) : fmt::format("\\U{:08x}", c);
}

void WriteCharacter(TextBuilder& out, std::string_view bytes, char32_t c, char quote) {
  constexpr std::string_view kNames = "tnr";
  constexpr std::string_view kValues = "\t\n\r";
  if (c == static_cast<char32_t>(quote) || c == '\\')
    out.Append('\\').Append(static_cast<char>(c));
  else if (const size_t at = c < 0x80 ? kValues.find(static_cast<char>(c)) : std::string_view::npos;
           at != std::string_view::npos)
    out.Append('\\').Append(kNames[at]);
  else if (IsPrintable(c))
    out.Append(bytes);
  else
    out.Append(NumericEscape(static_cast<uint32_t>(c)));
}

}  // namespace

void WriteQuoted(TextBuilder& out, std::string_view text) {
  const bool single = text.find('\'') != std::string_view::npos;
  const bool has_double = text.find('"') != std::string_view::npos;
  const char quote = single && !has_double ? '"' : '\'';
  out.Append(quote);
  for (size_t pos = 0; pos < text.size();) {
    const size_t start = pos;
    const char32_t c = DecodeAt(text, pos);
    WriteCharacter(out, text.substr(start, pos - start), c, quote);
  }
  out.Append(quote);
}

void WriteEscaped(TextBuilder& out, std::string_view text) {
  for (const char c : text) {
    switch (c) {
      case '&':
        out.Append("&amp;");
        break;
      case '<':
        out.Append("&lt;");
        break;
      case '>':
        out.Append("&gt;");
        break;
      case '\'':
        out.Append("&#39;");
        break;
      case '"':
        out.Append("&#34;");
        break;
      default:
        out.Append(c);
    }
  }
}

std::string IntegerText(const Value& value) {
  if (value.Is(Kind::kBool))
    return value.boolean ? "1" : "0";
  return value.Is(Kind::kUint) ? std::to_string(value.unsigned_integer)
                               : std::to_string(value.integer);
}

// The shortest digits that read back, in Python's layout.
std::string FloatText(double real) {
  if (std::isnan(real))
    return "nan";
  if (std::isinf(real))
    return real < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto end =
      std::to_chars(buffer, buffer + sizeof(buffer), real, std::chars_format::scientific);
  std::string text(buffer, end.ptr);
  const size_t e = text.find('e');
  const int exponent = std::atoi(text.c_str() + e + 1);
  constexpr int kSmallest = -4;  // outside [1e-4, 1e16) Python's repr has an exponent
  constexpr int kLargest = 16;
  if (exponent < kSmallest || exponent >= kLargest)
    return text;
  const auto fixed = std::to_chars(buffer, buffer + sizeof(buffer), real, std::chars_format::fixed);
  std::string plain(buffer, fixed.ptr);
  return plain.find('.') == std::string::npos ? plain + ".0" : plain;
}

std::string ObjectTypeName(const Value& value) {
  switch (value.kind) {
    case Kind::kNone:
      return "None";
    case Kind::kNamespace:
      return "jinja2.utils.Namespace object";
    case Kind::kCycler:
      return "jinja2.utils.Cycler object";
    case Kind::kJoiner:
      return "jinja2.utils.Joiner object";
    case Kind::kLoop:
      return "jinja2.runtime.LoopContext object";
    case Kind::kMacro:
      return "jinja2.runtime.Macro object";
    case Kind::kUndefined:
      return "jinja2.runtime.Undefined object";
    case Kind::kString:
      return value.string->markup ? "markupsafe.Markup object" : "str object";
    default:
      return fmt::format("{} object", TypeName(value));
  }
}

namespace {

void WriteScalarRepr(TextBuilder& out, const Value& value) {
  switch (value.kind) {
    case Kind::kMissing:
    case Kind::kUndefined:
      out.Append("Undefined");
      return;
    case Kind::kNone:
      out.Append("None");
      return;
    case Kind::kBool:
      out.Append(value.boolean ? "True" : "False");
      return;
    case Kind::kInt:
    case Kind::kUint:
      out.Append(IntegerText(value));
      return;
    case Kind::kFloat:
      out.Append(FloatText(value.real));
      return;
    case Kind::kString:
      if (value.string->markup)
        out.Append("Markup(");
      WriteQuoted(out, value.text());
      if (value.string->markup)
        out.Append(')');
      return;
    default:
      return;
  }
}

void WriteContainerRepr(Runtime& rt, TextBuilder& out, const Value& value) {
  switch (value.kind) {
    case Kind::kList:
      out.Append('[');
      WriteItems(rt, out, value);
      out.Append(']');
      return;
    case Kind::kTuple:
      out.Append('(');
      WriteItems(rt, out, value);
      out.Append(value.sequence->size == 1 ? ",)" : ")");
      return;
    case Kind::kDict:
      WriteDict(rt, out, *value.dict);
      return;
    case Kind::kDictView:
      WriteView(rt, out, value);
      return;
    case Kind::kRange:
      WriteRange(out, *value.range);
      return;
    case Kind::kNamespace:
      WriteNamespace(rt, out, *value.names);
      return;
    default:
      return;
  }
}

}  // namespace

void WriteRepr(Runtime& rt, TextBuilder& out, const Value& value) {
  const DepthGuard guard(rt);
  rt.budget().Step();
  switch (value.kind) {
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kNone:
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kUint:
    case Kind::kFloat:
    case Kind::kString:
      WriteScalarRepr(out, value);
      return;
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kDictView:
    case Kind::kRange:
    case Kind::kNamespace:
      WriteContainerRepr(rt, out, value);
      return;
    case Kind::kMacro:
      out.Append(value.macro->node->name.empty()
                     ? "<Macro anonymous>"
                     : fmt::format("<Macro '{}'>", value.macro->node->name));
      return;
    case Kind::kLoop:
      out.Append(DescribeLoop(rt, *value.loop));
      return;
    case Kind::kFunction:
      out.Append(fmt::format("<function {}>", value.function->name));
      return;
    case Kind::kMethod:
      out.Append(fmt::format("<method {}>", value.method->method->name));
      return;
    case Kind::kIterator:
    case Kind::kCycler:
    case Kind::kJoiner:
      out.Append(fmt::format("<{} object>", TypeName(value)));
      return;
  }
}

void WriteText(Runtime& rt, TextBuilder& out, const Value& value) {
  if (IsString(value))
    out.Append(value.text());
  else if (!IsUndefined(value))
    WriteRepr(rt, out, value);
}

Value TextOf(Runtime& rt, const Value& value) {
  if (IsString(value))
    return value;
  TextBuilder out(rt);
  WriteText(rt, out, value);
  return out.Finish();
}

std::string ReprOf(Runtime& rt, const Value& value) {
  TextBuilder out(rt);
  WriteRepr(rt, out, value);
  return out.Take();
}

}  // namespace tenon::chat

#include "model/chat/format_text.h"

#include <fmt/format.h>

#include <cmath>

#include "model/chat/attributes.h"
#include "model/chat/format_spec.h"
#include "model/chat/operators.h"
#include "model/chat/text_of.h"
#include "model/chat/unicode.h"

namespace tenon::chat {
namespace {

// What follows a "%".
struct PercentField {
  bool named = false;
  std::string_view name;
  FormatSpec spec;
};

// The % operator. Source: Python's printf-style String Formatting.
class PercentFormatter {
 public:
  PercentFormatter(Runtime& rt, std::string_view text, const Value& values)
      : rt_(rt), text_(text), values_(values), out_(rt) {}

  Value Run() {
    rt_.budget().Decode(text_.size());
    while (pos_ < text_.size()) {
      const size_t percent = std::min(text_.find('%', pos_), text_.size());
      out_.Append(text_.substr(pos_, percent - pos_));
      pos_ = percent + 1;
      if (percent < text_.size())
        WriteField();
    }
    const bool lookup = values_.Is(Kind::kDict) || values_.Is(Kind::kList) ||
                        values_.Is(Kind::kRange) || IsUndefined(values_);
    if (used_ < Available() && !lookup && !mapping_used_)
      Fail("not all arguments converted during string formatting");
    return out_.Finish();
  }

 private:
  size_t Available() const { return values_.Is(Kind::kTuple) ? values_.sequence->size : 1; }

  Value NextValue() {
    if (used_ >= Available() || mapping_used_)
      Fail("not enough arguments for format string");
    const size_t at = used_++;
    return values_.Is(Kind::kTuple) ? values_.sequence->items[at] : values_;
  }

  bool At(std::string_view chars) const {
    return pos_ < text_.size() && chars.find(text_[pos_]) != std::string_view::npos;
  }

  Value NamedValue() {
    const size_t start = ++pos_;
    for (int open = 1; open > 0; ++pos_) {
      if (pos_ >= text_.size())
        Fail("incomplete format key");
      open += text_[pos_] == '(' ? 1 : text_[pos_] == ')' ? -1 : 0;
    }
    const Value key = rt_.View(text_.substr(start, pos_ - 1 - start));
    if (!values_.Is(Kind::kDict))
      Fail("format requires a mapping");
    const Value* found = values_.dict->Find(rt_, key);
    if (found == nullptr)
      Fail(ReprOf(rt_, key));
    mapping_used_ = true;
    return *found;
  }

  void ReadFlags(FormatSpec& spec) {
    for (; At("-+ #0"); ++pos_) {
      switch (text_[pos_]) {
        case '-':
          spec.align = '<';
          break;
        case '#':
          spec.alternate = true;
          break;
        case '0':
          zero_ = true;
          break;
        case '+':
          spec.sign = '+';
          break;
        default:
          spec.sign = spec.sign == '+' ? '+' : ' ';
      }
    }
  }

  int64_t ReadCount() {
    if (At("*")) {
      ++pos_;
      const Value value = NextValue();
      if (!value.Is(Kind::kInt))
        Fail("* wants int");
      return value.integer;
    }
    int64_t count = 0;
    for (; At("0123456789"); ++pos_) {
      count = count * 10 + (text_[pos_] - '0');
      if (count > INT32_MAX)
        Fail("width too big");
    }
    return count;
  }

  void WriteField() {
    FormatSpec spec;
    zero_ = false;
    bool named = false;
    Value value;
    if (At("(")) {
      value = NamedValue();
      named = true;
    }
    ReadFlags(spec);
    spec.width = ReadCount();
    if (spec.width < 0) {
      spec.align = '<';
      spec.width = spec.width == INT64_MIN ? INT64_MAX : -spec.width;
    }
    if (At(".")) {
      ++pos_;
      spec.precision = std::max<int64_t>(0, ReadCount());
    }
    while (At("hlL"))
      ++pos_;
    if (pos_ >= text_.size())
      Fail("incomplete format");
    spec.type = text_[pos_++];
    if (spec.type == '%') {
      out_.Append('%');
      return;
    }
    WriteConverted(named ? value : NextValue(), spec);
  }

  void WriteConverted(const Value& value, FormatSpec spec) {
    constexpr std::string_view kTexts = "sra";
    constexpr std::string_view kIntegers = "diuoxX";
    constexpr std::string_view kFloats = "eEfFgG";
    if (spec.align == '\0' && kTexts.find(spec.type) != std::string_view::npos)
      spec.align = '>';
    if (kTexts.find(spec.type) != std::string_view::npos) {
      const Value text = spec.type == 's' ? TextOf(rt_, value) : rt_.Text(ReprOf(rt_, value));
      return WriteFormattedText(rt_, out_, text, spec);
    }
    if (spec.type == 'c')
      return WriteCharacter(value, spec);
    if (zero_ && spec.align != '<') {
      spec.align = '=';
      spec.fill = "0";
    }
    if (kIntegers.find(spec.type) != std::string_view::npos)
      return WriteInteger(value, spec);
    if (kFloats.find(spec.type) == std::string_view::npos)
      Fail(fmt::format("unsupported format character '{}' (0x{:x}) at index {}", spec.type,
                       static_cast<unsigned>(static_cast<unsigned char>(spec.type)), pos_ - 1));
    if (IsUndefined(value))
      FailUndefined(rt_, value);
    if (!IsNumber(value))
      Fail(fmt::format("must be real number, not {}", TypeName(value)));
    WriteFormattedFloat(rt_, out_, ToDouble(value), spec);
  }

  void WriteCharacter(const Value& value, FormatSpec spec) {
    spec.align = spec.align == '\0' ? '>' : spec.align;
    if (IsString(value) && CharacterCount(rt_, value) == 1)
      return WriteFormattedText(rt_, out_, value, spec);
    if (!IsInteger(value))
      Fail("%c requires int or char");
    spec.precision = -1;
    WriteFormattedInteger(rt_, out_, value, spec);
  }

  void WriteInteger(const Value& value, FormatSpec spec) {
    const bool decimal = spec.type == 'd' || spec.type == 'i' || spec.type == 'u';
    const char type = spec.type;
    spec.type = decimal ? 'd' : spec.type;
    if (IsUndefined(value) && decimal)
      FailUndefined(rt_, value);
    if (decimal && value.Is(Kind::kFloat)) {
      constexpr double kLimit = 9.2e18;  // below 2^63
      if (!(std::fabs(value.real) < kLimit))
        Fail("cannot convert the float to a 64-bit integer");
      return WriteFormattedInteger(rt_, out_, Value::Int(static_cast<int64_t>(value.real)), spec);
    }
    if (!IsInteger(value))
      Fail(fmt::format("%{} format: {} is required, not {}", type,
                       decimal ? "a real number" : "an integer", TypeName(value)));
    WriteFormattedInteger(rt_, out_, value, spec);
  }

  Runtime& rt_;
  std::string_view text_;
  const Value& values_;
  TextBuilder out_;
  size_t pos_ = 0;
  size_t used_ = 0;
  bool mapping_used_ = false;
  bool zero_ = false;
};

// Fields are numbered by Python or by the template, not both.
enum class Numbering : uint8_t { kUnknown, kAutomatic, kManual };

// str.format. Source: Python's Format String Syntax; attributes are looked up as in a template.
class BraceFormatter {
 public:
  BraceFormatter(Runtime& rt, const Arguments& arguments) : rt_(rt), arguments_(arguments) {}

  // `depth` levels of fields inside fields are left.
  std::string Run(std::string_view text, int depth) {
    if (depth < 0)
      Fail("Max string recursion exceeded");
    rt_.budget().Decode(text.size());
    TextBuilder out(rt_);
    size_t pos = 0;
    while (pos < text.size()) {
      const char c = text[pos++];
      if (c != '{' && c != '}') {
        const size_t end = std::min(text.find_first_of("{}", pos), text.size());
        out.Append(text.substr(pos - 1, end - pos + 1));
        pos = end;
      } else if (pos < text.size() && text[pos] == c) {
        out.Append(c);
        ++pos;
      } else if (c == '}') {
        Fail("Single '}' encountered in format string");
      } else {
        const std::string_view field = TakeField(text, pos);
        WriteField(out, field, depth);
      }
    }
    return out.Take();
  }

 private:
  // The text up to the brace that closes the field.
  static std::string_view TakeField(std::string_view text, size_t& pos) {
    const size_t start = pos;
    if (pos >= text.size())
      Fail("Single '{' encountered in format string");
    for (int open = 1; pos < text.size();) {
      const char c = text[pos++];
      open += c == '{' ? 1 : c == '}' ? -1 : 0;
      if (open == 0)
        return text.substr(start, pos - 1 - start);
    }
    Fail("expected '}' before end of string");
  }

  void WriteField(TextBuilder& out, std::string_view field, int depth) {
    // A name may hold ":" or "!" inside brackets.
    size_t end = 0;
    for (bool bracket = false; end < field.size(); ++end) {
      if (!bracket && (field[end] == ':' || field[end] == '!'))
        break;
      bracket = field[end] == '[' || (bracket && field[end] != ']');
    }
    char conversion = '\0';
    std::string_view rest = field.substr(end);
    if (rest.substr(0, 1) == "!") {
      if (rest.size() < 2 || (rest.size() > 2 && rest[2] != ':'))
        Fail("expected ':' after conversion specifier");
      conversion = rest[1];
      rest.remove_prefix(2);
    }
    Value value = Lookup(field.substr(0, end));
    if (conversion == 'r' || conversion == 'a')
      value = rt_.Text(ReprOf(rt_, value));
    else if (conversion == 's')
      value = TextOf(rt_, value);
    else if (conversion != '\0')
      Fail(fmt::format("Unknown conversion specifier {}", conversion));
    std::string spec;
    if (!rest.empty())
      spec = Run(rest.substr(1), depth - 1);
    WriteFormatted(rt_, out, value, spec);
  }

  Value Lookup(std::string_view path) {
    const size_t end = std::min(path.find_first_of(".["), path.size());
    Value value = First(path.substr(0, end));
    size_t pos = end;
    while (pos < path.size()) {
      const bool attribute = path[pos] == '.';
      const size_t stop = attribute ? std::min(path.find_first_of(".[", pos + 1), path.size())
                                    : path.find(']', pos);
      if (stop == std::string_view::npos)
        Fail("Missing ']' in format string");
      const std::string_view name = path.substr(pos + 1, stop - pos - 1);
      if (name.empty())
        Fail("Empty attribute in format string");
      value = Step(value, name, attribute);
      pos = attribute ? stop : stop + 1;
      if (pos < path.size() && path[pos] != '.' && path[pos] != '[')
        Fail("Only '.' or '[' may follow ']' in format field specifier");
    }
    return value;
  }

  Value Step(const Value& value, std::string_view name, bool attribute) {
    if (attribute)
      return GetAttribute(rt_, value, rt_.Text(name));
    const int64_t index = NumberOf(name);
    return GetItem(rt_, value, index >= 0 ? Value::Int(index) : rt_.Text(name));
  }

  // A name of digits as a number; -1 for any other.
  static int64_t NumberOf(std::string_view name) {
    if (name.empty() || name.size() > 9 ||
        name.find_first_not_of("0123456789") != std::string_view::npos)
      return -1;
    int64_t number = 0;
    for (const char c : name)
      number = number * 10 + (c - '0');
    return number;
  }

  Value First(std::string_view name) {
    const int64_t number = NumberOf(name);
    if (!name.empty() && number < 0) {
      for (const auto& [key, value] : arguments_.keywords) {
        if (key == name)
          return value;
      }
      Fail(fmt::format("'{}'", name));
    }
    const Numbering numbering = name.empty() ? Numbering::kAutomatic : Numbering::kManual;
    if (numbering_ != Numbering::kUnknown && numbering_ != numbering)
      Fail("cannot switch from manual field specification to automatic field numbering");
    numbering_ = numbering;
    const size_t at = name.empty() ? next_++ : static_cast<size_t>(number);
    if (at >= arguments_.positional.size())
      Fail(fmt::format("Replacement index {} out of range for positional args tuple", at));
    return arguments_.positional[at];
  }

  Runtime& rt_;
  const Arguments& arguments_;
  Numbering numbering_ = Numbering::kUnknown;
  size_t next_ = 0;
};

}  // namespace

Value FormatPercent(Runtime& rt, const Value& text, const Value& values) {
  return PercentFormatter(rt, text.text(), values).Run();
}

Value FormatBraces(Runtime& rt, std::string_view text, const Arguments& arguments) {
  return rt.Adopt(BraceFormatter(rt, arguments).Run(text, 1));
}

}  // namespace tenon::chat

// One value in one field of a format: fill, sign, width, precision and type.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model/chat/runtime.h"
#include "model/chat/value.h"

namespace tenon::chat {

struct FormatSpec {
  std::string_view fill = " ";  // one character; not owned
  char align = '\0';            // < > ^ =; '\0': as the type has it
  char sign = '-';              // + - or space
  bool alternate = false;
  char grouping = '\0';  // , or _
  int64_t width = 0;
  int64_t precision = -1;  // -1: none
  char type = '\0';
};

// [[fill]align][sign][#][0][width][grouping][.precision][type]. Fails for anything else.
FormatSpec ParseFormatSpec(std::string_view text);

void WriteFormattedText(Runtime& rt, TextBuilder& out, const Value& text, const FormatSpec& spec);
// REQUIRES: IsInteger(value); type one of b c d o x X n or none.
void WriteFormattedInteger(Runtime& rt, TextBuilder& out, const Value& value,
                           const FormatSpec& spec);
// type one of e E f F g G n % or none.
void WriteFormattedFloat(Runtime& rt, TextBuilder& out, double real, const FormatSpec& spec);
// By the type of the value, as format(value, spec).
void WriteFormatted(Runtime& rt, TextBuilder& out, const Value& value, std::string_view spec);

}  // namespace tenon::chat

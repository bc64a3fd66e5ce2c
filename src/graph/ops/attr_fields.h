// The fields of an attribute struct by name, so that one list serves printing and parsing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "graph/ops/attrs.h"

namespace tenon {

enum class FieldShown : uint8_t {
  kAlways,
  kWhenChanged,  // left out of the text while it has its default
};

// One field of a struct that the caller owns; valid as long as the struct is.
struct AttrField {
  std::string_view name;
  std::variant<int64_t*, float*, bool*, uint8_t*, Epilogue*> value;
  FieldShown shown = FieldShown::kAlways;
};

// Appends the fields of `rope`, each shown only when changed.
void AppendRopeFields(RopeParams& rope, std::vector<AttrField>& fields);

// "eps=1e-05, group=576"; empty when there is nothing to show. Floats read back to the same bits.
std::string PrintAttrs(const OpAttrs& attrs);

// Sets the field `name` of `attrs` from its text. Fails for an unknown name or a malformed value.
Status SetAttr(OpAttrs& attrs, std::string_view name, std::string_view text);

}  // namespace tenon

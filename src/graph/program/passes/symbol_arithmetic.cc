#include "graph/program/passes/symbol_arithmetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace tenon {

Symbol Combine(std::string_view op, const Symbol& a, const Symbol& b) {
  if (a.number && b.number) {
    const int64_t x = *a.number;
    const int64_t y = *b.number;
    int64_t out = 0;
    if (op == "Add" && !__builtin_add_overflow(x, y, &out))
      return Number(out);
    if (op == "Sub" && !__builtin_sub_overflow(x, y, &out))
      return Number(out);
    if (op == "Mul" && !__builtin_mul_overflow(x, y, &out))
      return Number(out);
    if (op == "Div" && y > 0)
      return Number(x / y);
  }
  if (b.number && *b.number == (op == "Mul" || op == "Div" ? 1 : 0))
    return a;
  if (a.number && (op == "Add" || op == "Mul") && *a.number == (op == "Mul" ? 1 : 0))
    return b;
  const auto text = [](const Symbol& s) { return s.number ? std::to_string(*s.number) : s.name; };
  std::string left = text(a);
  std::string right = text(b);
  if ((op == "Add" || op == "Mul") && right < left)
    std::swap(left, right);
  return {std::nullopt, fmt::format("({} {} {})", left, op, right)};
}

std::optional<int64_t> AreEqual(const Symbol& a, const Symbol& b) {
  if (a.number && b.number)
    return *a.number == *b.number ? 1 : 0;
  if (a == b)
    return 1;
  const bool negative = (a.number && *a.number < 0) || (b.number && *b.number < 0);
  const bool sum =
      a.name.find("Sub") != std::string::npos || b.name.find("Sub") != std::string::npos;
  return negative && !sum ? std::optional<int64_t>(0) : std::nullopt;
}

std::optional<Symbol> OpenDimension(const Symbols& from, const Symbols& to) {
  int64_t have = 1;
  int64_t need = 1;
  Symbols wanted;
  for (const Symbol& dim : to) {
    if (dim.number == -1)
      continue;
    if (dim.number && __builtin_mul_overflow(need, *dim.number, &need))
      return std::nullopt;
    if (!dim.number)
      wanted.push_back(dim);
  }
  Symbols left;
  for (const Symbol& dim : from) {
    const auto same = std::find(wanted.begin(), wanted.end(), dim);
    if (dim.number && __builtin_mul_overflow(have, *dim.number, &have))
      return std::nullopt;
    if (dim.number)
      continue;
    if (same != wanted.end())
      wanted.erase(same);
    else
      left.push_back(dim);
  }
  if (!wanted.empty() || need <= 0 || have % need != 0)
    return std::nullopt;
  if (left.empty())
    return Number(have / need);
  return left.size() == 1 && have == need ? std::optional(left[0]) : std::nullopt;
}

}  // namespace tenon

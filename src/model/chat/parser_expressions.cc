#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "model/chat/parser_internal.h"
#include "model/chat/template_failure.h"
#include "model/chat/unicode.h"

namespace tenon::chat {
namespace {

constexpr int kMaxHeight = 200;  // as kMaxNesting, for chains such as a + b + c

void SetText(Expr& node, std::string text) {
  node.text = std::move(text);
  node.literal.data = node.text.data();
  node.literal.bytes = node.text.size();
  node.literal.length = CountCodePoints(node.text);  // now: threads share the node later
  node.constant.kind = Kind::kString;
  node.constant.string = &node.literal;
}

std::string_view KindName(ExprKind kind) {
  switch (kind) {
    case ExprKind::kConst:
      return "const";
    case ExprKind::kList:
      return "list";
    case ExprKind::kDict:
      return "dict";
    default:
      return "expression";
  }
}

}  // namespace

// A node without children; its height stays 1.
ExprPtr Parser::Make(ExprKind kind, int line) const {
  auto node = std::make_unique<Expr>();
  node->kind = kind;
  node->line = line;
  return node;
}

ExprPtr Parser::Finish(ExprPtr node) const {
  int height = 0;
  const auto visit = [&height](const ExprPtr& child) {
    height = child ? std::max(height, child->height) : height;
  };
  for (const ExprPtr& child : node->children)
    visit(child);
  for (const KeywordArgument& keyword : node->keywords)
    visit(keyword.value);
  visit(node->star);
  visit(node->double_star);
  node->height = height + 1;
  if (node->height > kMaxHeight)
    Fail(fmt::format("an expression is nested deeper than {} levels", kMaxHeight), node->line);
  return node;
}

// A node of two operands at the line of the left one.
ExprPtr Parser::Binary(ExprKind kind, ExprPtr left, ExprPtr right) const {
  ExprPtr node = Make(kind, left->line);
  node->children.push_back(std::move(left));
  node->children.push_back(std::move(right));
  return Finish(std::move(node));
}

// expression: conditional, or `or` where an `if` would start something else.
ExprPtr Parser::ParseExpression(Conditional conditional) {
  return conditional == Conditional::kAllowed ? ParseConditional() : ParseOr();
}

// conditional: or {"if" or ["else" conditional]}. Without an else it may be undefined.
ExprPtr Parser::ParseConditional() {
  const Nesting nesting(*this);
  ExprPtr value = ParseOr();
  while (SkipName("if")) {
    ExprPtr node = Make(ExprKind::kConditional, value->line);
    node->children.push_back(ParseOr());
    node->children.push_back(std::move(value));
    node->children.push_back(SkipName("else") ? ParseConditional() : nullptr);
    value = Finish(std::move(node));
  }
  return value;
}

// or: and {"or" and}.
ExprPtr Parser::ParseOr() {
  ExprPtr left = ParseAnd();
  while (SkipName("or"))
    left = Binary(ExprKind::kOr, std::move(left), ParseAnd());
  return left;
}

// and: not {"and" not}.
ExprPtr Parser::ParseAnd() {
  ExprPtr left = ParseNot();
  while (SkipName("and"))
    left = Binary(ExprKind::kAnd, std::move(left), ParseNot());
  return left;
}

// not: "not" not | compare.
ExprPtr Parser::ParseNot() {
  if (!AtName("not"))
    return ParseCompare();
  const Nesting nesting(*this);
  ExprPtr node = Make(ExprKind::kNot, Next().line);
  node->children.push_back(ParseNot());
  return Finish(std::move(node));
}

// Takes a comparison operator, "in" or "not in"; false if none stands here.
bool Parser::ParseCompareOperator(std::vector<Operator>& operators) {
  static constexpr std::pair<std::string_view, Operator> kOperators[] = {
      {"==", Operator::kEqual},     {"!=", Operator::kNotEqual}, {"<", Operator::kLess},
      {"<=", Operator::kLessEqual}, {">", Operator::kGreater},   {">=", Operator::kGreaterEqual},
  };
  for (const auto& [text, op] : kOperators) {
    if (SkipOperator(text)) {
      operators.push_back(op);
      return true;
    }
  }
  if (SkipName("in")) {
    operators.push_back(Operator::kIn);
    return true;
  }
  if (AtName("not") && Ahead().kind == TokenKind::kName && Ahead().text == "in") {
    position_ += 2;
    operators.push_back(Operator::kNotIn);
    return true;
  }
  return false;
}

// compare: sum {operator sum}, a chain as in Python: a < b < c.
ExprPtr Parser::ParseCompare() {
  ExprPtr first = ParseSum();
  ExprPtr node = Make(ExprKind::kCompare, first->line);
  while (ParseCompareOperator(node->operators))
    node->children.push_back(ParseSum());
  if (node->operators.empty())
    return first;
  node->children.insert(node->children.begin(), std::move(first));
  return Finish(std::move(node));
}

// sum: concat {("+" | "-") concat}.
ExprPtr Parser::ParseSum() {
  ExprPtr left = ParseConcat();
  while (AtOperator("+") || AtOperator("-")) {
    const Operator op = Next().text == "+" ? Operator::kAdd : Operator::kSubtract;
    left = Binary(ExprKind::kArithmetic, std::move(left), ParseConcat());
    left->operators.push_back(op);
  }
  return left;
}

// concat: product {"~" product}. It binds more tightly than + and -.
ExprPtr Parser::ParseConcat() {
  ExprPtr first = ParseProduct();
  if (!AtOperator("~"))
    return first;
  ExprPtr node = Make(ExprKind::kConcat, first->line);
  node->children.push_back(std::move(first));
  while (SkipOperator("~"))
    node->children.push_back(ParseProduct());
  return Finish(std::move(node));
}

// product: power {("*" | "/" | "//" | "%") power}.
ExprPtr Parser::ParseProduct() {
  static constexpr std::pair<std::string_view, Operator> kOperators[] = {
      {"*", Operator::kMultiply},
      {"/", Operator::kDivide},
      {"//", Operator::kFloorDivide},
      {"%", Operator::kModulo},
  };
  const auto at = [this](const auto& entry) { return AtOperator(entry.first); };
  ExprPtr left = ParsePower();
  const auto* found = std::find_if(std::begin(kOperators), std::end(kOperators), at);
  while (found != std::end(kOperators)) {
    Next();
    left = Binary(ExprKind::kArithmetic, std::move(left), ParsePower());
    left->operators.push_back(found->second);
    found = std::find_if(std::begin(kOperators), std::end(kOperators), at);
  }
  return left;
}

// power: unary {"**" unary}, from the left, unlike Python's.
ExprPtr Parser::ParsePower() {
  ExprPtr left = ParseUnary();
  while (SkipOperator("**")) {
    left = Binary(ExprKind::kArithmetic, std::move(left), ParseUnary());
    left->operators.push_back(Operator::kPower);
  }
  return left;
}

// unary: ("-" | "+") unary | primary, then what follows an operand. Filters apply to the signed
// value: -1|abs is 1.
ExprPtr Parser::ParseUnary(FilterUse filters) {
  const Nesting nesting(*this);
  ExprPtr node;
  if (AtOperator("-") || AtOperator("+")) {
    const Token sign = Next();
    node = Make(sign.text == "-" ? ExprKind::kNegate : ExprKind::kPlus, sign.line);
    node->children.push_back(ParseUnary(FilterUse::kExcluded));
    node = Finish(std::move(node));
  } else {
    node = ParsePrimary();
  }
  node = ParsePostfix(std::move(node));
  return filters == FilterUse::kAllowed ? ParseFilters(std::move(node)) : std::move(node);
}

// primary: name | literal | (tuple) | [list] | {dict}.
ExprPtr Parser::ParsePrimary(TargetUse targets) {
  switch (Current().kind) {
    case TokenKind::kName:
      return ParseNameOrConstant(targets);
    case TokenKind::kString:
      return ParseStringLiteral();
    case TokenKind::kInteger: {
      ExprPtr node = Make(ExprKind::kConst, Current().line);
      node->constant = Value::Int(Next().integer);
      return node;
    }
    case TokenKind::kFloat: {
      ExprPtr node = Make(ExprKind::kConst, Current().line);
      node->constant = Value::Float(Next().real);
      return node;
    }
    default:
      break;
  }
  if (AtOperator("("))
    return ParseParenthesized();
  if (AtOperator("["))
    return ParseList();
  if (AtOperator("{"))
    return ParseDict();
  FailExpected("");
}

// A name, true, false or none; as a target also name.attribute.
ExprPtr Parser::ParseNameOrConstant(TargetUse targets) {
  const Token token = Next();
  const std::string& text = token.text;
  ExprPtr node = Make(ExprKind::kConst, token.line);
  if (text == "true" || text == "True" || text == "false" || text == "False") {
    node->constant = Value::Bool(text == "true" || text == "True");
  } else if (text == "none" || text == "None") {
    node->constant = Value::None();
  } else if (targets == TargetUse::kNamesAndNamespaces && SkipOperator(".")) {
    node->kind = ExprKind::kNamespaceRef;
    node->text = text;
    node->attribute = Expect(TokenKind::kName).text;
    SetText(*node, text);
  } else {
    node->kind = ExprKind::kName;
    SetText(*node, text);
  }
  return node;
}

ExprPtr Parser::ParseStringLiteral() {
  ExprPtr node = Make(ExprKind::kConst, Current().line);
  std::string text;
  while (Current().kind == TokenKind::kString)  // neighbours join, as in Python
    text += Next().text;
  SetText(*node, std::move(text));
  return node;
}

// list: "[" [expression {"," expression} [","]] "]".
ExprPtr Parser::ParseList() {
  ExprPtr node = Make(ExprKind::kList, Next().line);
  while (!AtOperator("]")) {
    if (!node->children.empty())
      ExpectOperator(",");
    if (AtOperator("]"))
      break;
    node->children.push_back(ParseExpression());
  }
  ExpectOperator("]");
  return Finish(std::move(node));
}

// dict: "{" [expression ":" expression {"," ...} [","]] "}".
ExprPtr Parser::ParseDict() {
  ExprPtr node = Make(ExprKind::kDict, Next().line);
  while (!AtOperator("}")) {
    if (!node->children.empty())
      ExpectOperator(",");
    if (AtOperator("}"))
      break;
    node->children.push_back(ParseExpression());
    ExpectOperator(":");
    node->children.push_back(ParseExpression());
  }
  ExpectOperator("}");
  return Finish(std::move(node));
}

// Any number of .name, [index] and (arguments) after an operand.
ExprPtr Parser::ParsePostfix(ExprPtr node) {
  while (true) {
    if (AtOperator(".") || AtOperator("["))
      node = ParseSubscript(std::move(node));
    else if (AtOperator("("))
      node = ParseCall(std::move(node));
    else
      return node;
  }
}

// .name, .3 or [index].
ExprPtr Parser::ParseSubscript(ExprPtr object) {
  const Token opener = Next();
  if (opener.text == "[")
    return ParseBracketed(std::move(object));
  const Token name = Next();
  ExprPtr node = Make(ExprKind::kAttribute, opener.line);
  node->children.push_back(std::move(object));
  if (name.kind == TokenKind::kName) {
    SetText(*node, name.text);
  } else if (name.kind == TokenKind::kInteger) {
    node->kind = ExprKind::kItem;
    ExprPtr index = Make(ExprKind::kConst, name.line);
    index->constant = Value::Int(name.integer);
    node->children.push_back(std::move(index));
  } else {
    Fail("expected name or number", name.line);
  }
  return Finish(std::move(node));
}

// After the "[": an index, a tuple of them, or a slice.
ExprPtr Parser::ParseBracketed(ExprPtr object) {
  const int line = Current().line;
  std::vector<ExprPtr> items;
  while (!AtOperator("]")) {
    if (!items.empty())
      ExpectOperator(",");
    ExprPtr start = AtOperator(":") ? nullptr : ParseExpression();
    if (SkipOperator(":")) {
      ExprPtr slice = ParseSlice(std::move(object), std::move(start));
      if (!items.empty() || !AtOperator("]"))
        Fail("a slice cannot be part of a tuple index", line);
      ExpectOperator("]");
      return slice;
    }
    items.push_back(std::move(start));
  }
  ExpectOperator("]");
  if (items.size() == 1)
    return Binary(ExprKind::kItem, std::move(object), std::move(items[0]));
  ExprPtr index = Make(ExprKind::kTuple, line);
  index->children = std::move(items);
  return Binary(ExprKind::kItem, std::move(object), Finish(std::move(index)));
}

// After the first colon.
ExprPtr Parser::ParseSlice(ExprPtr object, ExprPtr start) {
  ExprPtr node = Make(ExprKind::kSlice, object->line);
  const auto at_end = [this] { return AtOperator("]") || AtOperator(","); };
  ExprPtr stop = at_end() || AtOperator(":") ? nullptr : ParseExpression();
  ExprPtr step = SkipOperator(":") && !at_end() ? ParseExpression() : nullptr;
  node->children.push_back(std::move(object));
  node->children.push_back(std::move(start));
  node->children.push_back(std::move(stop));
  node->children.push_back(std::move(step));
  return Finish(std::move(node));
}

// Any number of filters, tests and calls after an operand.
ExprPtr Parser::ParseFilters(ExprPtr node) {
  while (true) {
    if (SkipOperator("|"))
      node = ParseFilter(std::move(node));
    else if (AtName("is"))
      node = ParseTest(std::move(node));
    else if (AtOperator("("))
      node = ParseCall(std::move(node));
    else
      return node;
  }
}

// The name of a filter or test: jinja2 allows dots in it.
std::string Parser::ParseDottedName() {
  std::string name = Expect(TokenKind::kName).text;
  while (SkipOperator("."))
    name += fmt::format(".{}", Expect(TokenKind::kName).text);
  return name;
}

// After the "|".
ExprPtr Parser::ParseFilter(ExprPtr input) {
  ExprPtr node = Make(ExprKind::kFilter, Current().line);
  node->text = ParseDottedName();
  node->children.push_back(std::move(input));
  if (AtOperator("("))
    ParseArguments(*node);
  return Finish(std::move(node));
}

// After an operand: "is" ["not"] name, with arguments in parentheses or one without them.
ExprPtr Parser::ParseTest(ExprPtr input) {
  ExprPtr node = Make(ExprKind::kTest, Next().line);
  const bool negated = SkipName("not");
  node->text = ParseDottedName();
  node->children.push_back(std::move(input));
  const TokenKind kind = Current().kind;
  const bool operand = kind == TokenKind::kName || kind == TokenKind::kString ||
                       kind == TokenKind::kInteger || kind == TokenKind::kFloat ||
                       AtOperator("[") || AtOperator("{");
  if (AtOperator("(")) {
    ParseArguments(*node);
  } else if (operand && !AtName("else") && !AtName("or") && !AtName("and")) {
    if (AtName("is"))
      Fail("You cannot chain multiple tests with is", Current().line);
    node->children.push_back(ParsePostfix(ParsePrimary()));
  }
  node = Finish(std::move(node));
  if (!negated)
    return node;
  ExprPtr inverse = Make(ExprKind::kNot, node->line);
  inverse->children.push_back(std::move(node));
  return Finish(std::move(inverse));
}

// A call of what stands before the "(".
ExprPtr Parser::ParseCall(ExprPtr callee) {
  ExprPtr node = Make(ExprKind::kCall, Current().line);
  node->children.push_back(std::move(callee));
  ParseArguments(*node);
  return Finish(std::move(node));
}

// "(" [argument {"," argument} [","]] ")".
void Parser::ParseArguments(Expr& call) {
  const int line = Current().line;
  ExpectOperator("(");
  bool first = true;
  while (!AtOperator(")")) {
    if (!first)
      ExpectOperator(",");
    if (AtOperator(")"))
      break;
    ParseArgument(call, line);
    first = false;
  }
  ExpectOperator(")");
}

// One argument: by position, name=value, *sequence or **mapping, in Python's order.
void Parser::ParseArgument(Expr& call, int line) {
  const auto ensure = [line](bool valid) {
    if (!valid)
      Fail("invalid syntax for function call expression", line);
  };
  if (SkipOperator("*")) {
    ensure(!call.star && !call.double_star);
    call.star = ParseExpression();
  } else if (SkipOperator("**")) {
    ensure(!call.double_star);
    call.double_star = ParseExpression();
  } else if (Current().kind == TokenKind::kName && Ahead().kind == TokenKind::kOperator &&
             Ahead().text == "=") {
    ensure(!call.double_star);
    std::string name = Current().text;
    for (const KeywordArgument& keyword : call.keywords) {
      if (keyword.name == name)
        Fail(fmt::format("keyword argument repeated: {}", name), line);
    }
    if (call.keywords.size() == kMaxNamed)
      Fail(fmt::format("a call has more than {} named arguments", kMaxNamed), line);
    position_ += 2;
    call.keywords.push_back({std::move(name), ParseExpression()});
  } else {
    ensure(!call.star && !call.double_star && call.keywords.empty());
    call.children.push_back(ParseExpression());
  }
}

// Whether no further element of an unparenthesised tuple can follow.
bool Parser::AtTupleEnd(std::string_view end_name) const {
  return AtEndOfCode() || AtOperator(")") || (!end_name.empty() && AtName(end_name));
}

// One expression, or several parted by commas, which make a tuple.
ExprPtr Parser::ParseTuple(Conditional conditional, std::string_view end_name) {
  ExprPtr node = Make(ExprKind::kTuple, Current().line);
  bool is_tuple = false;
  while (!AtTupleEnd(end_name)) {
    node->children.push_back(ParseExpression(conditional));
    if (!SkipOperator(","))
      break;
    is_tuple = true;
  }
  if (is_tuple)
    return Finish(std::move(node));
  if (node->children.empty())
    FailExpected("an expression");
  return std::move(node->children[0]);
}

// A group, a tuple, or () the empty tuple.
ExprPtr Parser::ParseParenthesized() {
  ExprPtr empty = Make(ExprKind::kTuple, Next().line);
  ExprPtr node = AtOperator(")") ? std::move(empty) : ParseTuple();
  ExpectOperator(")");
  return node;
}

// Refuses what cannot be assigned to: literals, lists and so on.
void Parser::CheckTarget(const Expr& target) const {
  if (target.kind == ExprKind::kTuple) {
    for (const ExprPtr& item : target.children)
      CheckTarget(*item);
  } else if (target.kind != ExprKind::kName && target.kind != ExprKind::kNamespaceRef) {
    Fail(fmt::format("can't assign to '{}'", KindName(target.kind)), target.line);
  }
}

// The left side of an assignment or the variables of a loop.
ExprPtr Parser::ParseTarget(TargetUse targets, std::string_view end_name) {
  ExprPtr node = Make(ExprKind::kTuple, Current().line);
  bool is_tuple = false;
  while (!AtTupleEnd(end_name)) {
    node->children.push_back(ParsePrimary(targets));
    if (!SkipOperator(","))
      break;
    is_tuple = true;
  }
  if (node->children.empty())
    FailExpected("an expression");
  node = is_tuple ? Finish(std::move(node)) : std::move(node->children[0]);
  CheckTarget(*node);
  return node;
}

// A single name, such as that of a macro or of its parameter.
ExprPtr Parser::ParseNameTarget() {
  const Token token = Expect(TokenKind::kName);
  ExprPtr node = Make(ExprKind::kName, token.line);
  SetText(*node, token.text);
  static constexpr std::string_view kConstants[] = {"true",  "True", "false",
                                                    "False", "none", "None"};
  if (std::find(std::begin(kConstants), std::end(kConstants), token.text) != std::end(kConstants))
    Fail("can't assign to 'name'", token.line);
  return node;
}

}  // namespace tenon::chat

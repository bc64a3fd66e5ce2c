#include "model/chat/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "model/chat/parser_internal.h"
#include "model/chat/template_failure.h"

namespace tenon::chat {
namespace {

std::string Describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kData:
      return "template data / text";
    case TokenKind::kVariableBegin:
      return "begin of print statement";
    case TokenKind::kVariableEnd:
      return "end of print statement";
    case TokenKind::kBlockBegin:
      return "begin of statement block";
    case TokenKind::kBlockEnd:
      return "end of statement block";
    case TokenKind::kString:
      return "string";
    case TokenKind::kInteger:
      return "integer";
    case TokenKind::kFloat:
      return "float";
    case TokenKind::kEnd:
      return "end of template";
    case TokenKind::kName:
    case TokenKind::kOperator:
      return token.text;
  }
  return token.text;
}

// Tags of jinja2 that have no meaning for a single template without HTML.
constexpr std::string_view kRefusedTags[] = {"include", "import",     "from",
                                             "extends", "autoescape", "block"};

}  // namespace

Parser::Nesting::Nesting(Parser& parser) : parser_(parser) {
  if (++parser_.nesting_ > kMaxNesting)
    Fail(fmt::format("the template is nested deeper than {} levels", kMaxNesting),
         parser_.Current().line);
}

// The token after the current one.
const Token& Parser::Ahead() const {
  return tokens_[std::min(position_ + 1, tokens_.size() - 1)];
}

// The current token, which is passed; the end is never passed.
Token Parser::Next() {
  const size_t taken = position_;
  if (position_ + 1 < tokens_.size())
    ++position_;
  return tokens_[taken];
}

bool Parser::AtName(std::string_view name) const {
  return Current().kind == TokenKind::kName && Current().text == name;
}

bool Parser::AtOperator(std::string_view op) const {
  return Current().kind == TokenKind::kOperator && Current().text == op;
}

bool Parser::AtEndOfCode() const {
  return Current().kind == TokenKind::kVariableEnd || Current().kind == TokenKind::kBlockEnd;
}

bool Parser::SkipName(std::string_view name) {
  const bool found = AtName(name);
  position_ += found ? 1 : 0;
  return found;
}

bool Parser::SkipOperator(std::string_view op) {
  const bool found = AtOperator(op);
  position_ += found ? 1 : 0;
  return found;
}

// `expected`: the token that should stand here, or empty where nothing may begin with this one.
void Parser::FailExpected(std::string_view expected) const {
  const int line = Current().line;
  if (Current().kind == TokenKind::kEnd && !expected.empty())
    Fail(fmt::format("unexpected end of template, expected '{}'.", expected), line);
  if (expected.empty())
    Fail(fmt::format("unexpected '{}'", Describe(Current())), line);
  if (expected == "an expression")
    Fail(fmt::format("Expected an expression, got '{}'", Describe(Current())), line);
  Fail(fmt::format("expected token '{}', got '{}'", expected, Describe(Current())), line);
}

Token Parser::Expect(TokenKind kind) {
  if (Current().kind != kind)
    FailExpected(kind == TokenKind::kName ? "name" : Describe(Token{kind, 0, {}, 0, 0}));
  return Next();
}

void Parser::ExpectName(std::string_view name) {
  if (!SkipName(name))
    FailExpected(name);
}

void Parser::ExpectOperator(std::string_view op) {
  if (!SkipOperator(op))
    FailExpected(op);
}

// With jinja2's hints on what is open. An empty name: the source ended.
void Parser::FailUnknownTag(const std::string& name, int line) const {
  std::string message = name.empty() ? "Unexpected end of template."
                                     : fmt::format("Encountered unknown tag '{}'.", name);
  if (!expected_ends_.empty()) {
    const auto& ends = expected_ends_.back();
    const std::string list = fmt::format("'{}'", fmt::join(ends, "' or '"));
    const bool nested_wrongly =
        !name.empty() && std::any_of(expected_ends_.begin(), expected_ends_.end(), [&](auto& all) {
          return std::find(all.begin(), all.end(), name) != all.end();
        });
    message += nested_wrongly
                   ? " You probably made a nesting mistake. Jinja is expecting this tag, but "
                     "currently looking for " +
                         list + "."
                   : " Jinja was looking for the following tags: " + list + ".";
  }
  if (!open_tags_.empty())
    message +=
        fmt::format(" The innermost block that needs to be closed is '{}'.", open_tags_.back());
  Fail(std::move(message), line);
}

Template Parser::ParseAll() {
  Template result;
  result.body = ParseUntil({});
  return result;
}

bool Parser::AtAnyName(Ends ends) const {
  return std::any_of(ends.begin(), ends.end(), [this](auto end) { return AtName(end); });
}

// From the end of the opening tag to the name of the closing one, which becomes Current().
Body Parser::ParseBody(Ends ends) {
  const Nesting nesting(*this);
  SkipOperator(":");
  Expect(TokenKind::kBlockEnd);
  expected_ends_.emplace_back(ends.begin(), ends.end());
  Body body = ParseUntil(ends);
  if (Current().kind == TokenKind::kEnd)
    FailUnknownTag("", Current().line);
  expected_ends_.pop_back();
  return body;
}

// Statements up to one of the end names, or to the end of the source.
Body Parser::ParseUntil(Ends ends) {
  Body body;
  while (Current().kind != TokenKind::kEnd) {
    if (Current().kind == TokenKind::kData) {
      auto statement = std::make_unique<Statement>();
      statement->line = Current().line;
      statement->text = Next().text;
      body.push_back(std::move(statement));
    } else if (Current().kind == TokenKind::kVariableBegin) {
      body.push_back(ParseOutput());
    } else {
      Expect(TokenKind::kBlockBegin);
      if (AtAnyName(ends))
        return body;
      body.push_back(ParseStatement());
      Expect(TokenKind::kBlockEnd);
    }
  }
  return body;
}

// One {% tag ... %}, from its name on.
std::unique_ptr<Statement> Parser::ParseStatement() {
  const Token tag = Current();
  if (tag.kind != TokenKind::kName)
    Fail("tag name expected", tag.line);
  if (std::find(std::begin(kRefusedTags), std::end(kRefusedTags), tag.text) !=
      std::end(kRefusedTags))
    Fail(fmt::format("the '{}' tag is not supported: a chat template is a single text", tag.text),
         tag.line);
  open_tags_.push_back(tag.text);
  std::unique_ptr<Statement> statement = ParseTag(tag.text);
  open_tags_.pop_back();
  if (!statement)
    FailUnknownTag(tag.text, tag.line);
  statement->line = tag.line;
  return statement;
}

// Null for a tag that does not exist.
std::unique_ptr<Statement> Parser::ParseTag(const std::string& tag) {
  using Parse = std::unique_ptr<Statement> (Parser::*)();
  static constexpr std::pair<std::string_view, Parse> kTags[] = {
      {"if", &Parser::ParseIf},
      {"for", &Parser::ParseFor},
      {"set", &Parser::ParseSet},
      {"macro", &Parser::ParseMacro},
      {"call", &Parser::ParseCallBlock},
      {"generation", &Parser::ParseGeneration},
      {"filter", &Parser::ParseFilterBlock},
      {"with", &Parser::ParseWith},
      {"print", &Parser::ParsePrint},
  };
  for (const auto& [name, parse] : kTags) {
    if (tag == name) {
      Next();
      return (this->*parse)();
    }
  }
  if (tag == "break" || tag == "continue")
    return ParseLoopControl(tag == "break" ? StatementKind::kBreak : StatementKind::kContinue);
  return nullptr;
}

// break or continue.
std::unique_ptr<Statement> Parser::ParseLoopControl(StatementKind kind) {
  const Token tag = Next();
  if (loops_ == 0)
    Fail(fmt::format("'{}' outside loop", tag.text), tag.line);
  auto statement = std::make_unique<Statement>();
  statement->kind = kind;
  return statement;
}

// {{ expression }}.
std::unique_ptr<Statement> Parser::ParseOutput() {
  auto statement = std::make_unique<Statement>();
  statement->kind = StatementKind::kOutput;
  statement->line = Next().line;
  statement->expressions.push_back(ParseTuple());
  Expect(TokenKind::kVariableEnd);
  return statement;
}

// {% print a, b %}.
std::unique_ptr<Statement> Parser::ParsePrint() {
  auto statement = std::make_unique<Statement>();
  statement->kind = StatementKind::kOutput;
  while (Current().kind != TokenKind::kBlockEnd) {
    if (!statement->expressions.empty())
      ExpectOperator(",");
    statement->expressions.push_back(ParseExpression());
  }
  return statement;
}

// if, any number of elif, else.
std::unique_ptr<Statement> Parser::ParseIf() {
  auto statement = std::make_unique<Statement>();
  statement->kind = StatementKind::kIf;
  while (true) {
    Branch branch;
    branch.test = ParseTuple(Conditional::kExcluded);
    branch.body = ParseBody({"elif", "else", "endif"});
    statement->branches.push_back(std::move(branch));
    const Token end = Next();
    if (end.text == "elif")
      continue;
    if (end.text == "else") {
      Branch otherwise;
      otherwise.body = ParseBody({"endif"});
      statement->branches.push_back(std::move(otherwise));
      Next();
    }
    return statement;
  }
}

// for TARGET in VALUE [if TEST] [recursive], with an optional else.
std::unique_ptr<Statement> Parser::ParseFor() {
  auto statement = std::make_unique<Statement>();
  statement->kind = StatementKind::kFor;
  statement->loop = std::make_unique<LoopNode>();
  statement->target = ParseTarget(TargetUse::kNames, "in");
  ExpectName("in");
  statement->value = ParseTuple(Conditional::kExcluded, "recursive");
  if (SkipName("if"))
    statement->loop->test = ParseExpression();
  statement->loop->recursive = SkipName("recursive");
  // A recursive loop is a function of its own: its else branch belongs to no outer loop.
  const int outer_loops = loops_;
  loops_ = statement->loop->recursive ? 1 : loops_ + 1;
  statement->branches.resize(2);
  statement->branches[0].body = ParseBody({"endfor", "else"});
  loops_ = statement->loop->recursive ? 0 : outer_loops;
  if (Next().text == "else") {
    statement->branches[1].body = ParseBody({"endfor"});
    Next();
  }
  loops_ = outer_loops;
  return statement;
}

// set TARGET = VALUE, or a block whose text is assigned.
std::unique_ptr<Statement> Parser::ParseSet() {
  auto statement = std::make_unique<Statement>();
  statement->kind = StatementKind::kSet;
  statement->target = ParseTarget(TargetUse::kNamesAndNamespaces);
  if (SkipOperator("=")) {
    statement->value = ParseTuple();
    return statement;
  }
  statement->kind = StatementKind::kSetBlock;
  while (SkipOperator("|"))
    statement->value = ParseFilter(std::move(statement->value));
  statement->branches.resize(1);
  statement->branches[0].body = ParseBody({"endset"});
  Next();
  return statement;
}

// A body that is called: no loop around it reaches inside.
Body Parser::ParseFunctionBody(std::string_view end) {
  const int outer_loops = std::exchange(loops_, 0);
  Body body = ParseBody({end});
  Next();
  loops_ = outer_loops;
  return body;
}

// "(" [name [= default] {"," ...}] ")".
void Parser::ParseSignature(MacroNode& macro) {
  ExpectOperator("(");
  while (!AtOperator(")")) {
    if (!macro.parameters.empty())
      ExpectOperator(",");
    if (macro.parameters.size() == kMaxNamed)
      Fail(fmt::format("a macro has more than {} parameters", kMaxNamed), Current().line);
    Parameter parameter;
    parameter.line = Current().line;
    parameter.name = ParseNameTarget()->text;
    const bool defaults_begun =
        !macro.parameters.empty() && macro.parameters.back().default_value != nullptr;
    if (SkipOperator("="))
      parameter.default_value = ParseExpression();
    else if (defaults_begun)
      Fail("non-default argument follows default argument", Current().line);
    for (const Parameter& other : macro.parameters) {
      if (other.name == parameter.name)
        Fail(fmt::format("duplicate argument '{}' in a macro", parameter.name), parameter.line);
    }
    macro.parameters.push_back(std::move(parameter));
  }
  ExpectOperator(")");
}

// macro NAME(parameters).
std::unique_ptr<Statement> Parser::ParseMacro() {
  auto statement = std::make_unique<Statement>();
  statement->kind = StatementKind::kMacro;
  statement->target = ParseNameTarget();
  statement->macro = std::make_unique<MacroNode>();
  statement->macro->name = statement->target->text;
  statement->macro->line = statement->target->line;
  ParseSignature(*statement->macro);
  statement->macro->body = ParseFunctionBody("endmacro");
  return statement;
}

// call[(parameters)] macro(arguments): the body becomes the macro's caller().
std::unique_ptr<Statement> Parser::ParseCallBlock() {
  auto statement = std::make_unique<Statement>();
  statement->kind = StatementKind::kCallBlock;
  statement->macro = std::make_unique<MacroNode>();
  statement->macro->line = Current().line;
  if (AtOperator("("))
    ParseSignature(*statement->macro);
  statement->value = ParseExpression();
  if (statement->value->kind != ExprKind::kCall)
    Fail("expected call", statement->macro->line);
  statement->macro->body = ParseFunctionBody("endcall");
  return statement;
}

// The block that marks a model's own words: a body without arguments, called once.
std::unique_ptr<Statement> Parser::ParseGeneration() {
  auto statement = std::make_unique<Statement>();
  statement->kind = StatementKind::kGeneration;
  statement->macro = std::make_unique<MacroNode>();
  statement->macro->line = Current().line;
  statement->macro->body = ParseFunctionBody("endgeneration");
  return statement;
}

// filter f|g: the text of the body goes through the filters.
std::unique_ptr<Statement> Parser::ParseFilterBlock() {
  auto statement = std::make_unique<Statement>();
  statement->kind = StatementKind::kFilterBlock;
  statement->value = ParseFilter(nullptr);
  while (SkipOperator("|"))
    statement->value = ParseFilter(std::move(statement->value));
  statement->branches.resize(1);
  statement->branches[0].body = ParseBody({"endfilter"});
  Next();
  return statement;
}

// with a = 1, b = 2: variables for the body only.
std::unique_ptr<Statement> Parser::ParseWith() {
  auto statement = std::make_unique<Statement>();
  statement->kind = StatementKind::kWith;
  while (Current().kind != TokenKind::kBlockEnd) {
    if (!statement->targets.empty())
      ExpectOperator(",");
    statement->targets.push_back(ParseTarget(TargetUse::kNames));
    ExpectOperator("=");
    statement->expressions.push_back(ParseExpression());
  }
  statement->branches.resize(1);
  statement->branches[0].body = ParseBody({"endwith"});
  Next();
  return statement;
}

Template ParseTemplate(std::string_view source) {
  return Parser(Tokenize(source)).ParseAll();
}

}  // namespace tenon::chat

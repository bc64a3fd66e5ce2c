// The state of the parser, shared by its two halves.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "model/chat/ast.h"
#include "model/chat/lexer.h"

namespace tenon::chat {

enum class Conditional : uint8_t { kAllowed, kExcluded };  // "a if b" in this place
enum class FilterUse : uint8_t { kAllowed, kExcluded };    // "|f" and "is t" after an operand
enum class TargetUse : uint8_t { kNames, kNamesAndNamespaces };

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Template ParseAll();

 private:
  // Deeper nesting is refused; Python's own limit for brackets is 200.
  static constexpr int kMaxNesting = 200;
  // Parameters of a macro or named arguments of a call, which are compared pairwise.
  static constexpr size_t kMaxNamed = 500;

  class Nesting {
   public:
    explicit Nesting(Parser& parser);
    ~Nesting() { --parser_.nesting_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    Parser& parser_;
  };

  // Tokens (parser.cc).
  const Token& Current() const { return tokens_[position_]; }
  const Token& Ahead() const;
  Token Next();
  bool AtName(std::string_view name) const;
  bool AtOperator(std::string_view op) const;
  bool AtEndOfCode() const;
  bool SkipName(std::string_view name);
  bool SkipOperator(std::string_view op);
  Token Expect(TokenKind kind);
  void ExpectName(std::string_view name);
  void ExpectOperator(std::string_view op);
  [[noreturn]] void FailExpected(std::string_view expected) const;
  [[noreturn]] void FailUnknownTag(const std::string& name, int line) const;

  // Statements (parser.cc). The name tokens in `ends` close a body.
  using Ends = std::initializer_list<std::string_view>;
  Body ParseBody(Ends ends);
  Body ParseUntil(Ends ends);
  bool AtAnyName(Ends ends) const;
  std::unique_ptr<Statement> ParseStatement();
  std::unique_ptr<Statement> ParseTag(const std::string& tag);
  std::unique_ptr<Statement> ParseOutput();
  std::unique_ptr<Statement> ParsePrint();
  std::unique_ptr<Statement> ParseIf();
  std::unique_ptr<Statement> ParseFor();
  std::unique_ptr<Statement> ParseSet();
  std::unique_ptr<Statement> ParseMacro();
  std::unique_ptr<Statement> ParseCallBlock();
  std::unique_ptr<Statement> ParseGeneration();
  std::unique_ptr<Statement> ParseFilterBlock();
  std::unique_ptr<Statement> ParseWith();
  std::unique_ptr<Statement> ParseLoopControl(StatementKind kind);
  Body ParseFunctionBody(std::string_view end);
  void ParseSignature(MacroNode& macro);

  // Expressions (parser_expressions.cc).
  ExprPtr ParseExpression(Conditional conditional = Conditional::kAllowed);
  ExprPtr ParseConditional();
  ExprPtr ParseOr();
  ExprPtr ParseAnd();
  ExprPtr ParseNot();
  ExprPtr ParseCompare();
  bool ParseCompareOperator(std::vector<Operator>& operators);
  ExprPtr ParseSum();
  ExprPtr ParseConcat();
  ExprPtr ParseProduct();
  ExprPtr ParsePower();
  ExprPtr ParseUnary(FilterUse filters = FilterUse::kAllowed);
  ExprPtr ParsePrimary(TargetUse targets = TargetUse::kNames);
  ExprPtr ParseNameOrConstant(TargetUse targets);
  ExprPtr ParseStringLiteral();
  ExprPtr ParseList();
  ExprPtr ParseDict();
  ExprPtr ParsePostfix(ExprPtr node);
  ExprPtr ParseSubscript(ExprPtr node);
  ExprPtr ParseBracketed(ExprPtr node);
  ExprPtr ParseSlice(ExprPtr node, ExprPtr start);
  ExprPtr ParseFilters(ExprPtr node);
  ExprPtr ParseFilter(ExprPtr input);
  ExprPtr ParseTest(ExprPtr input);
  ExprPtr ParseCall(ExprPtr callee);
  void ParseArguments(Expr& call);
  void ParseArgument(Expr& call, int line);
  std::string ParseDottedName();
  // `end_name`: a name token that also ends the tuple, or empty.
  ExprPtr ParseTuple(Conditional conditional = Conditional::kAllowed,
                     std::string_view end_name = {});
  ExprPtr ParseParenthesized();
  ExprPtr ParseTarget(TargetUse targets, std::string_view end_name = {});
  ExprPtr ParseNameTarget();
  void CheckTarget(const Expr& target) const;
  bool AtTupleEnd(std::string_view end_name) const;
  ExprPtr Make(ExprKind kind, int line) const;
  ExprPtr Binary(ExprKind kind, ExprPtr left, ExprPtr right) const;
  // Sets the height from the children; every finished inner node passes here.
  ExprPtr Finish(ExprPtr node) const;

  std::vector<Token> tokens_;
  size_t position_ = 0;
  int nesting_ = 0;
  int loops_ = 0;  // open in the current function: where break and continue may stand
  std::vector<std::string> open_tags_;
  std::vector<std::vector<std::string>> expected_ends_;
};

}  // namespace tenon::chat

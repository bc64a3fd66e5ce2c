#include "graph/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "graph/ops/registry.h"

namespace tenon {
namespace {

using testing::HasSubstr;

constexpr Dim kN{Symbol::kTokens, 1};

std::vector<Dim> Shape(int64_t rows, int64_t columns) {
  return {{Symbol::kNone, rows}, {Symbol::kNone, columns}};
}

TEST(TextTest, PrintsTheDocumentedLine) {
  Graph graph;
  const ValueId tokens = graph.AddInput("tokens", DType::kI32, {kN});
  const ValueId table = graph.AddWeight("token_embd.weight", DType::kQ8_0, Shape(100, 576));
  const ValueId norm =
      graph.AddWeight("blk.0.attn_norm.weight", DType::kF32, {{Symbol::kNone, 576}});
  const ValueId x = graph.AddOp("embedding", EmbedAttrs{}, {tokens, table}).value()[0];
  const RmsNormAttrs attrs{1e-5F, 576, false};
  graph.MarkOutput(graph.AddOp("layer 0 attention norm", attrs, {x, norm}).value()[0]);
  EXPECT_EQ(PrintGraph(graph),
            "%0: i32[N] = input  # tokens\n"
            "@token_embd.weight: q8_0[100,576]\n"
            "%1: f32[N,576] = embed(%0, @token_embd.weight)  # embedding\n"
            "@blk.0.attn_norm.weight: f32[576]\n"
            "%2: f32[N,576] = rms_norm(%1, @blk.0.attn_norm.weight) {eps=1e-05, group=576}"
            "  # layer 0 attention norm\n"
            "return %2\n");
}

TEST(TextTest, TypesShowSymbolsAndFactors) {
  EXPECT_EQ(TypeText(ValueType{DType::kActI8, {{Symbol::kTokens, 1}, {Symbol::kNone, 64}}}),
            "act_i8[N,64]");
  EXPECT_EQ(TypeText(ValueType{DType::kF32, {{Symbol::kOutputs, 3}}}), "f32[R*3]");
  EXPECT_EQ(TypeText(ValueType{DType::kIQ4_NL, {}}), "iq4_nl[]");
}

// Every op, every field away from its default, read back to the same text and the same attributes.
TEST(TextTest, EveryAttributeIsReadBack) {
  for (const OpSchema* schema : OpSchemas()) {
    OpAttrs attrs = schema->make();
    int next = 3;
    for (const AttrField& field : schema->fields(attrs)) {
      const std::string number = std::to_string(next++);
      for (const std::string& text : {std::string("true"), std::string("gelu_mul"), number}) {
        if (SetAttr(attrs, field.name, text).ok())
          break;
      }
    }
    OpAttrs read = schema->make();
    std::string text = PrintAttrs(attrs);
    EXPECT_EQ(text.empty(), schema->fields(attrs).empty()) << schema->name;
    while (!text.empty()) {
      const size_t equals = text.find('=');
      const size_t end = std::min(text.find(", "), text.size());
      ASSERT_TRUE(
          SetAttr(read, text.substr(0, equals), text.substr(equals + 1, end - equals - 1)).ok());
      text.erase(0, std::min(end + 2, text.size()));
    }
    EXPECT_EQ(read, attrs) << schema->name;
    EXPECT_EQ(read == schema->make(), schema->fields(attrs).empty()) << schema->name;
  }
}

TEST(TextTest, FloatsKeepTheirBits) {
  OpAttrs attrs = ScaleAttrs{0.1F + 0.2F};
  const std::string text = PrintAttrs(attrs);
  OpAttrs read = ScaleAttrs{};
  ASSERT_TRUE(SetAttr(read, "factor", text.substr(text.find('=') + 1)).ok());
  EXPECT_EQ(read, attrs);
}

TEST(TextTest, AnyNameStaysOnOneLineAndIsReadBack) {
  const std::string name = "odd \"name\" # with\n\\x41 \x7f and % @ [0:1]";
  Graph graph;
  const ValueId x = graph.AddInput(name, DType::kF32, {kN, {Symbol::kNone, 32}});
  const ValueId weight = graph.AddWeight(name, DType::kF32, Shape(8, 32));
  const ValueId colon = graph.AddWeight("ends in:", DType::kF32, Shape(8, 32));
  const ValueId tight = graph.AddWeight("colon:", DType::kF32, Shape(8, 32));
  const auto outputs =
      graph.AddOp(name, LinearAttrs{3, false, Epilogue::kNone}, {x, weight, colon, tight});
  for (const ValueId output : outputs.value())
    graph.MarkOutput(output);
  const std::string text = PrintGraph(graph);
  const Result<Graph> read = ParseGraph(text);
  ASSERT_TRUE(read.ok()) << read.error().ToString() << "\n" << text;
  EXPECT_EQ(PrintGraph(*read), text);
  EXPECT_EQ(read->ops()[0].name, name);
  EXPECT_EQ(read->value(read->ops()[0].inputs[0]).name, name);
  EXPECT_EQ(read->value(read->ops()[0].inputs[1]).weight->tensor, name);
  EXPECT_EQ(read->value(read->ops()[0].inputs[3]).weight->tensor, "colon:");
}

// A whole tensor and its first rows would look alike without the rows.
TEST(TextTest, RowsAreShownWhereTheyTellWeightsApart) {
  Graph graph;
  const ValueId x = graph.AddInput("x", DType::kF32, {kN, {Symbol::kNone, 32}});
  const ValueId all = graph.AddWeight("w", DType::kF32, Shape(16, 32));
  const ValueId part = graph.AddWeightRows({"w", 0, 8}, DType::kF32, Shape(8, 32));
  graph.MarkOutput(
      graph.AddOp("both", LinearAttrs{2, false, Epilogue::kNone}, {x, all, part}).value()[0]);
  const std::string text = PrintGraph(graph);
  EXPECT_THAT(text, HasSubstr("linear(%0, @w[0:16], @w[0:8])"));
  const Result<Graph> read = ParseGraph(text);
  ASSERT_TRUE(read.ok()) << read.error().ToString();
  EXPECT_EQ(PrintGraph(*read), text);
  EXPECT_EQ(read->value(read->ops()[0].inputs[2]).weight, (WeightRef{"w", 0, 8}));
}

TEST(TextTest, PrintsBrokenGraphsWithoutFollowingBadIds) {
  Graph graph;
  const ValueId x = graph.AddInput("x", DType::kF32, {kN, {Symbol::kNone, 32}});
  graph.MarkOutput(graph.AddOp("silu", SiluAttrs{}, {x}).value()[0]);
  graph.mutable_ops()[0].inputs[0] = ValueId(77);
  graph.mutable_ops()[0].outputs[0] = ValueId();
  EXPECT_THAT(PrintGraph(graph), HasSubstr("%invalid: ? = silu(%invalid)"));
}

struct BadText {
  const char* text;
  const char* where;
  const char* message;
};

// Line 1 of each is the input %0.
class ParseErrorTest : public testing::TestWithParam<BadText> {};

TEST_P(ParseErrorTest, NamesLineAndCause) {
  const std::string text = "%0: f32[N,32] = input  # x\n" + std::string(GetParam().text);
  const Result<Graph> graph = ParseGraph(text);
  ASSERT_FALSE(graph.ok());
  EXPECT_EQ(graph.error().where, GetParam().where);
  EXPECT_THAT(graph.error().message, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Texts, ParseErrorTest,
    testing::Values(
        BadText{"%1: f32[N,32] = silo(%0)", "line 2", "no op \"silo\""},
        BadText{"\n%1: f32[N,32] = silu(%2)", "line 3", "%2 is not defined"},
        BadText{"%0: f32[N,32] = silu(%0)", "line 2", "%0 is defined twice"},
        BadText{"%1: f32[N,31] = silu(%0)", "line 2",
                "%1 is written as f32[N,31], but is f32[N,32]"},
        BadText{"%1: f64[N,32] = silu(%0)", "line 2", "\"F64\" is no dtype"},
        BadText{"%1: f32[N,32 = silu(%0)", "line 2", "expected , or ]"},
        BadText{"%1: f32[N,x] = silu(%0)", "line 2", "expected a number, N or R"},
        BadText{"%1: f32[N,32] silu(%0)", "line 2", "expected ="},
        BadText{"%1: f32[N,32] = silu %0", "line 2", "expected ("},
        BadText{"%1: f32[N,32] = silu(%0) {a=1}", "line 2", "silu has no attribute \"a\""},
        BadText{"%1: f32[N,32] = scale(%0) {factor=x}", "line 2", "\"x\" is no value for factor"},
        BadText{"%1: f32[N,32] = scale(%0) {factor=1,}", "line 2", "expected attribute=value"},
        BadText{"%1: f32[N,32] = scale(%0) {factor=2} x", "line 2", "expected the end of the line"},
        BadText{"%1: f32[N,32] = silu(%0)  # \\x4", "line 2", "malformed"},
        BadText{"%1: f32[N,8] = linear(%0, @w)", "line 2", "weight w is not declared"},
        BadText{"@w: f32[8,32]\n@w: f32[8,32]", "line 3", "declared twice"},
        BadText{"@w[0:]: f32[8,32]", "line 2", "expected the end of the rows"},
        BadText{"@: f32[8,32]", "line 2", "expected a tensor's name"},
        BadText{"%1: act_i8[N,32] = silu(%0)\nreturn %1", "", "expected f32[N,32]"},
        BadText{"%1: f32[N,32], %2: f32[N,32] = silu(%0)", "line 2", "2 values are written"},
        BadText{"%1: f32[N,99999999999999999999] = silu(%0)", "line 2", "expected a number"},
        BadText{"%1: f32[N,32] = silu(%0)", "", "no outputs"}));

}  // namespace
}  // namespace tenon

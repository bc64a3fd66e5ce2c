// What shape functions refuse, as texts of one op on the declarations below.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "graph/ops/registry.h"
#include "graph/text.h"

namespace tenon {
namespace {

constexpr const char* kDeclarations =
    "%0: i32[N] = input  # tokens\n"
    "%1: i32[R] = input  # rows\n"
    "%2: f32[N,32] = input  # x\n"
    "%3: f32[N,16] = input  # narrow\n"
    "%4: f32[R,32] = input  # selected\n"
    "%5: i32[N,32] = input  # integers\n"
    "%6: f32[N] = input  # vector\n"
    "%7: f32[N,24] = input  # odd\n"
    "%8: f32[32,N] = input  # symbolic columns\n"
    "@table: f32[100,32]\n@w: f32[8,32]\n@q: q8_0[8,32]\n@other: f32[9,32]\n@wide: f32[8,64]\n"
    "@ragged: q8_0[8,24]\n@norm: f32[32]\n@half: f16[32]\n@bias: f32[8]\n@freqs: f32[4]\n"
    "@ints: i32[8,32]\n@stack: f32[64,32]\n@qstack: q8_0[64,32]\n";

struct Refused {
  const char* op;       // with inputs and attributes
  const char* message;  // part of the error
};

class ShapeErrorTest : public testing::TestWithParam<Refused> {};

TEST_P(ShapeErrorTest, NamesInputFoundAndExpected) {
  const std::string text =
      kDeclarations + std::string("%20: f32[1,1] = ") + GetParam().op + "  # name\nreturn %20\n";
  const Result<Graph> graph = ParseGraph(text);
  ASSERT_FALSE(graph.ok());
  EXPECT_THAT(graph.error().message, testing::HasSubstr(GetParam().message));
}

// @q and @other stand for 2 experts of 4 rows and 3 of 3; @norm for too long a bias.
INSTANTIATE_TEST_SUITE_P(
    Experts, ShapeErrorTest,
    testing::Values(
        Refused{"route(%3) {used=0}", "used is 0, expected 1 to the 16 experts"},
        Refused{"route(%3) {used=17}", "used is 17, expected 1 to the 16 experts"},
        Refused{"route(%3) {used=2, groups=3}", "groups is 3, expected a divisor of the 16"},
        Refused{"route(%3) {used=2, groups=4, used_groups=5}", "used_groups is 5, expected 1 to"},
        Refused{"route(%3) {used=5, groups=4}", "used is 5, expected 1 to the 4 experts"},
        Refused{"route(%3) {used=2, groups=4, group_best=5}", "group_best is 5, expected 1 to"},
        Refused{"route(%3, @norm) {used=2}", "input 1 (norm) is f32[32], expected f32[16]"},
        Refused{"route(%3) {used=2, scale=inf}", "scale is inf, expected a finite number"},
        Refused{"experts(%2, %3, @w, @w, @w) {experts=0, used=1}", "experts is 0, expected"},
        Refused{"experts(%2, %3, @w, @w, @w) {experts=16, used=17}", "used is 17, expected"},
        Refused{"experts(%2, %3, @w, @w, @w) {experts=16, used=1}",
                "input 2 (w) is f32[8,32], expected equal rows for each of 16 experts"},
        Refused{"experts(%2, %3, @w, @w, @w) {experts=8, used=1}",
                "input 1 (narrow) is f32[N,16], expected f32[N,8]"},
        Refused{"experts(%2, %2, @half, @w, @w) {experts=32, used=1}", "expected a matrix"},
        Refused{"experts(%2, %2, @stack, @w, @w) {experts=32, used=1}",
                "input 3 (w) is f32[8,32], expected [64,32]"},
        Refused{"experts(%2, %2, @stack, @stack, @w) {experts=32, used=1}",
                "input 4 (w) is f32[8,32], expected [1024,2]"},
        Refused{"experts(%2, %2, @stack, @qstack, @w) {experts=32, used=1}",
                "expected of the same class (quantized, 16 bits, F32) as input 2"},
        Refused{"experts(%2, %2, @stack, @stack, @w) {experts=32, used=1, activation=none}",
                "activation is 0, expected silu_mul or gelu_mul"},
        Refused{"permute(%2, @bias)", "input 1 (bias) is f32[8], expected f32[32]"},
        Refused{"permute(%2)", "number of inputs is 1, expected 2"},
        Refused{"permute(%5, @norm)", "input 0 (integers) is i32[N,32]"},
        Refused{"gate_rows(%2, %3)", "input 1 (narrow) is f32[N,16], expected f32[N,1]"}));

INSTANTIATE_TEST_SUITE_P(
    Simple, ShapeErrorTest,
    testing::Values(
        Refused{"embed(%0)", "embed \"name\": number of inputs is 1, expected 2"},
        Refused{"embed(%2, @table)", "input 0 (x) is f32[N,32], expected i32[tokens]"},
        Refused{"embed(%0, @norm)", "input 1 (norm) is f32[32], expected a matrix"},
        Refused{"embed(%0, @ints)", "input 1 (ints) is i32[8,32], expected a float"},
        Refused{"embed(%0, @ragged)", "q8_0[8,24], expected columns in whole blocks of 32"},
        Refused{"embed(%0, @table) {scale=inf}", "scale is inf, expected a finite number"},
        Refused{"rms_norm(%2, @norm) {group=0}", "group is 0, expected a divisor of the 32"},
        Refused{"rms_norm(%2, @norm) {group=12}", "group is 12, expected a divisor"},
        Refused{"rms_norm(%2, @norm) {group=16}", "input 1 (norm) is f32[32], expected f32[16]"},
        Refused{"rms_norm(%2, @half) {group=32}", "input 1 (half) is f16[32], expected f32[32]"},
        Refused{"rms_norm(%2, @norm) {group=32, eps=-1}", "eps is -1, expected"},
        Refused{"rms_norm(%2, @norm, %2) {group=32}", "number of inputs is 3, expected 2"},
        Refused{"rms_norm(%2, @norm) {group=32, add_residual=true}", "is 2, expected 3"},
        Refused{"rms_norm(%2, @norm, %4) {group=32, add_residual=true}",
                "input 2 (selected) is f32[R,32], expected f32[N,32]"},
        Refused{"rms_norm(%6, @norm) {group=32}", "input 0 (vector) is f32[N], expected f32[rows"},
        Refused{"quantize(%7)", "input 0 (odd) is f32[N,24], expected columns in whole groups"},
        Refused{"quantize(%5)", "input 0 (integers) is i32[N,32], expected f32[rows,columns]"},
        Refused{"add(%2, %3)", "add \"name\": input 1 (narrow) is f32[N,16], expected f32[N,32]"},
        Refused{"add(%2, %4)", "input 1 (selected) is f32[R,32], expected f32[N,32]"},
        Refused{"mul(%2)", "number of inputs is 1, expected 2"},
        Refused{"mul(%5, %5)", "input 0 (integers) is i32[N,32]"},
        Refused{"silu(%8)", "input 0 (symbolic columns) is f32[32,N]"},
        Refused{"gelu(%2, %2)", "number of inputs is 2, expected 1"},
        Refused{"scale(%2) {factor=nan}", "factor is nan, expected a finite number"},
        Refused{"softcap(%2)", "cap is 0, expected a number above 0"},
        Refused{"select_rows(%2, %2)", "input 1 (x) is f32[N,32], expected i32[rows]"},
        Refused{"select_rows(%6, %1)", "input 0 (vector) is f32[N]"}));

INSTANTIATE_TEST_SUITE_P(
    Linear, ShapeErrorTest,
    testing::Values(
        Refused{"linear(%2)", "number of inputs is 1, expected 2"},
        Refused{"linear(%2, @w) {weight_count=0}", "weight_count is 0"},
        Refused{"linear(%2, @w) {weight_count=9223372036854775807}", "weight_count is 9223372036"},
        Refused{"linear(%2, @w) {weight_count=2}", "number of inputs is 2, expected 3"},
        Refused{"linear(%2, @w) {has_bias=true}", "number of inputs is 2, expected 3"},
        Refused{"linear(%2, @w, @norm) {has_bias=true}", "(norm) is f32[32], expected f32[8]"},
        Refused{"linear(%2, @w) {epilogue=add_residual}", "number of inputs is 2, expected 3"},
        Refused{"linear(%2, @w, %2) {epilogue=add_residual}",
                "(x) is f32[N,32], expected f32[N,8]"},
        Refused{"linear(%2, @w, @w, %2) {weight_count=2, epilogue=add_residual}",
                "weight_count is 2, expected 1 with a residual"},
        Refused{"linear(%2, @w) {epilogue=silu_mul}", "weight_count is 1, expected 2 with a gated"},
        Refused{"linear(%2, @w, @other) {weight_count=2, epilogue=gelu_mul}",
                "input 2 (other) is f32[9,32], expected 8 rows"},
        Refused{"linear(%2, @wide)", "input 1 (wide) is f32[8,64], expected 32 columns"},
        Refused{"linear(%7, @ragged)", "input 1 (ragged) is q8_0[8,24], expected columns in whole"},
        Refused{"linear(%5, @w)", "input 0 (integers) is i32[N,32]"},
        Refused{"linear(%2, %2)", "input 1 (x) is f32[N,32], expected a matrix"}));

INSTANTIATE_TEST_SUITE_P(
    RopeAndAttention, ShapeErrorTest,
    testing::Values(
        Refused{"rope(%2, %0) {head_dim=0}", "head_dim is 0, expected a divisor"},
        Refused{"rope(%2, %0) {head_dim=8}", "rotary_dim is 0, expected an even number from 2 to"},
        Refused{"rope(%2, %0) {head_dim=8, rotary_dim=10}", "rotary_dim is 10"},
        Refused{"rope(%2, %0) {head_dim=8, rotary_dim=7}", "rotary_dim is 7"},
        Refused{"rope(%2, %0) {head_dim=8, rotary_dim=8, base=0}", "base is 0, expected"},
        Refused{"rope(%2, %0) {head_dim=8, rotary_dim=8, factor=-2}", "factor is -2, expected"},
        Refused{"rope(%2, %0) {head_dim=8, rotary_dim=8, scaling=4}", "scaling is 4, expected 0"},
        Refused{"rope(%2, %0) {head_dim=8, rotary_dim=8, scaling=3}", "original_context is 0"},
        Refused{"rope(%2, %1) {head_dim=8, rotary_dim=8}", "(rows) is i32[R], expected i32[N]"},
        Refused{"rope(%2, %0, @norm) {head_dim=8, rotary_dim=8}", "is f32[32], expected f32[4]"},
        Refused{"attention(%2, %3, %3, %0) {heads=4, kv_heads=2}", "head_dim is 0, expected"},
        Refused{"attention(%2, %3, %3, %0) {head_dim=8, kv_heads=2}", "heads is 0, expected"},
        Refused{"attention(%2, %3, %3, %0) {heads=4, kv_heads=3, head_dim=8}", "kv_heads is 3"},
        Refused{"attention(%2, %2, %3, %0) {heads=4, kv_heads=2, head_dim=8}",
                "input 1 (x) is f32[N,32], expected f32[N,16]"},
        Refused{"attention(%2, %3, %3, %1) {heads=4, kv_heads=2, head_dim=8}",
                "input 3 (rows) is i32[R], expected i32[N]"},
        Refused{"attention(%2, %3, %3, %0, @freqs) {heads=4, kv_heads=2, head_dim=8}",
                "number of inputs is 5, expected 4"},
        Refused{"attention(%2, %3, %3, %0) {heads=4, kv_heads=2, head_dim=8, fused_rope=true}",
                "rotary_dim is 0"},
        Refused{"attention(%2, %3, %3, %0) {layer=-1, heads=4, kv_heads=2, head_dim=8}",
                "layer is"},
        Refused{"attention(%2, %3, %3, %0) {window=-1, heads=4, kv_heads=2, head_dim=8}", "window"},
        Refused{"attention(%2, %3, %3, %0) {scale=nan, heads=4, kv_heads=2, head_dim=8}", "scale"},
        Refused{"attention(%2, %3, %3, %0) {softcap=-1, heads=4, kv_heads=2, head_dim=8}",
                "softcap is -1"},
        Refused{"attention(%4, %3, %3, %0) {heads=4, kv_heads=2, head_dim=8}",
                "input 1 (narrow) is f32[N,16], expected f32[R,16]"}));

TEST(ShapeTest, AddOpRefusesIdsOutsideTheGraph) {
  Graph graph;
  EXPECT_FALSE(graph.AddOp("silu", SiluAttrs{}, {ValueId()}).ok());
  const auto result = graph.AddOp("silu", SiluAttrs{}, {ValueId(5)});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().message, "silu \"silu\": input 0 is no value of the graph");
  EXPECT_TRUE(graph.ops().empty());
}

TEST(ShapeTest, QuantizedActivationsNeedQuantizedWeights) {
  const Result<Graph> graph = ParseGraph(
      "%0: f32[N,32] = input  # x\n@w: f32[8,32]\n%1: act_i8[N,32] = quantize(%0)  # q\n"
      "%2: f32[N,8] = linear(%1, @w)  # linear\nreturn %2\n");
  ASSERT_FALSE(graph.ok());
  EXPECT_THAT(graph.error().message,
              testing::HasSubstr("input 1 (w) is f32[8,32], expected a block-quantized dtype"));
}

TEST(ShapeTest, ActivationsOf16BitsNeedWeightsOf16Bits) {
  const std::string before = "%0: f32[N,32] = input  # x\n@w: ";
  const std::string after =
      "[8,32]\n%1: act_i16[N,32] = quantize(%0) {bits=16}  # q\n"
      "%2: f32[N,8] = linear(%1, @w)  # linear\nreturn %2\n";
  EXPECT_TRUE(ParseGraph(before + "f16" + after).ok());
  EXPECT_TRUE(ParseGraph(before + "bf16" + after).ok());
  for (const char* dtype : {"f32", "q8_0"}) {
    const Result<Graph> graph = ParseGraph(before + dtype + after);
    ASSERT_FALSE(graph.ok()) << dtype;
    EXPECT_THAT(graph.error().message, testing::HasSubstr("expected f16 or bf16"));
  }
  const Result<Graph> nine = ParseGraph(
      "%0: f32[N,32] = input  # x\n%1: act_i8[N,32] = quantize(%0) {bits=9}  # q\nreturn %1\n");
  ASSERT_FALSE(nine.ok());
  EXPECT_THAT(nine.error().message, testing::HasSubstr("bits is 9, expected 8 or 16"));
}

TEST(ShapeTest, OutputsTakeTheRowsOfTheirInputs) {
  const Result<Graph> graph = ParseGraph(
      "%0: f32[N,32] = input  # x\n%1: i32[R] = input  # rows\n@a: f32[8,32]\n@b: q8_0[4,32]\n"
      "%2: f32[R,32] = select_rows(%0, %1)  # rows\n"
      "%3: f32[R,8], %4: f32[R,4] = linear(%2, @a, @b) {weight_count=2}  # both\nreturn %3, %4\n");
  EXPECT_TRUE(graph.ok()) << graph.error().ToString();
}

TEST(RegistryTest, SchemasStandAtTheirAlternative) {
  for (size_t i = 0; i < OpSchemas().size(); ++i) {
    const OpSchema& schema = *OpSchemas()[i];
    EXPECT_EQ(schema.make().index(), i) << schema.name;
    EXPECT_EQ(FindOpSchema(schema.name), &schema);
    EXPECT_EQ(&SchemaOf(schema.make()), &schema);
  }
  EXPECT_EQ(FindOpSchema("conv"), nullptr);
}

}  // namespace
}  // namespace tenon

// Ops of plug-ins in graphs: types by the plug-in's shape function, text, and what passes leave
// alone. How the executor runs them: tests/arch/plugin_model_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "graph/ops/registry.h"
#include "graph/passes/optimize.h"
#include "graph/test_operators.h"
#include "graph/text.h"
#include "graph/verify.h"

namespace tenon {
namespace {

constexpr const char* kHead =
    "%0: i32[N] = input  # tokens\n"
    "@table: f32[8,32]\n"
    "%1: f32[N,32] = embed(%0, @table)  # embedding\n";

std::string ErrorOf(const std::string& lines) {
  const Result<Graph> graph = ParseGraph(kHead + lines, &TestOperators());
  return graph.ok() ? "none" : graph.error().ToString();
}

std::string OddError(const std::string& how) {
  return ErrorOf("%2: f32[N,32] = plugin(%1) {domain=test, operator=Odd, how=\"" + how +
                 "\"}  # odd\nreturn %2\n");
}

TEST(PluginTest, TypesFollowTheShapeFunction) {
  Graph graph;
  const ValueId x = graph.AddInput("x", DType::kI32, {{Symbol::kTokens, 1}});
  const ValueId table =
      graph.AddWeight("table", DType::kF32, {{Symbol::kNone, 8}, {Symbol::kNone, 32}});
  const ValueId embedded = (*graph.AddOp("embedding", EmbedAttrs{}, {x, table}))[0];
  const auto halves =
      AddPluginOp(graph, TestOperators(), "halves", {"test", "Halves", {}}, {embedded});
  ASSERT_TRUE(halves.ok()) << halves.error().ToString();
  ASSERT_EQ(halves->size(), 2U);
  EXPECT_EQ(TypeText(graph.value((*halves)[1])), "f32[N,16]");
  const ValueId rows = graph.AddInput("output_rows", DType::kI32, {{Symbol::kOutputs, 1}});
  const ValueId chosen = (*graph.AddOp("rows", SelectRowsAttrs{}, {(*halves)[0], rows}))[0];
  const ValueId shift = graph.AddWeight("shift", DType::kF16, {{Symbol::kNone, 16}});
  const auto blend = AddPluginOp(graph, TestOperators(), "blend", {"test", "Blend", {{"by", 2.5F}}},
                                 {chosen, shift});
  ASSERT_TRUE(blend.ok()) << blend.error().ToString();
  EXPECT_EQ(TypeText(graph.value((*blend)[0])), "f32[R,16]");
  graph.MarkOutput((*blend)[0]);
  EXPECT_TRUE(VerifyGraph(graph).ok());
}

TEST(PluginTest, EveryKindOfAttributeIsReadBack) {
  const std::string text = std::string(kHead) +
                           "@shift: f32[32]\n"
                           "%2: f32[N,32] = plugin(%1, @shift) {domain=test, operator=Blend, "
                           "by=float(0.1), n=int(-9223372036854775808), none=ints(), some=ints(1 "
                           "-2), floats=floats(inf 1e-45 3), operator=\"a # \\x22b\\x22, c}\", "
                           "\"an other\"=\"\"}  # blend\n"
                           "return %2\n";
  const Result<Graph> graph = ParseGraph(text, &TestOperators());
  ASSERT_TRUE(graph.ok()) << graph.error().ToString();
  EXPECT_EQ(PrintGraph(*graph), text);
  const auto& attrs = std::get<PluginAttrs>(graph->ops()[1].attrs);
  ASSERT_EQ(attrs.values.size(), 7U);
  EXPECT_EQ(std::get<std::string>(attrs.values[5].value), "a # \"b\", c}");
  EXPECT_EQ(std::get<float>(attrs.values[0].value), 0.1F);
}

TEST(PluginTest, WhatIsWrongIsSaid) {
  EXPECT_THAT(OddError("type"), testing::HasSubstr("type 10 and rank 2, a graph takes float32"));
  EXPECT_THAT(OddError("rank"), testing::HasSubstr("rank 1, a graph takes float32 of rank 2"));
  EXPECT_THAT(OddError("unknown type"), testing::HasSubstr("the plugin says type 1000"));
  EXPECT_THAT(OddError("no rank"), testing::HasSubstr("rank 99"));
  EXPECT_THAT(OddError("negative"), testing::HasSubstr("the plugin says -32 for dimension 1"));
  EXPECT_THAT(OddError("huge"), testing::HasSubstr("the plugin says 9223372036854775807"));
  EXPECT_THAT(OddError("square"), testing::HasSubstr("dimension 1 of output 0 is no number"));
  EXPECT_THAT(OddError("few rows"), testing::HasSubstr("dimension 0 of output 0 is no number"));
  EXPECT_THAT(OddError("one row"), testing::HasSubstr("has to be [rows of the step, a number]"));
  EXPECT_THAT(OddError("wide"), testing::HasSubstr("has to be [rows of the step, a number]"));
  EXPECT_EQ(OddError("nothing"), "none");
  EXPECT_THAT(ErrorOf("%2: f32[N,32] = plugin(%1) {domain=test, operator=Odd}\n"),
              testing::HasSubstr("test.Odd \"\": the plugin refuses the inputs: how is missing"));
  EXPECT_THAT(ErrorOf("%2: f32[N,32] = plugin(%1) {domain=test, operator=Blend}\n"),
              testing::HasSubstr("1 inputs, 2 to 2 expected"));
  EXPECT_THAT(ErrorOf("%2: f32[N,32] = plugin(%1, %1) {domain=test, operator=Blend}\n"),
              testing::HasSubstr("shift has to have x's columns"));
  EXPECT_THAT(ErrorOf("%2: f32[N,32] = plugin(%1) {domain=test, operator=Halves, a=int(1), "
                      "a=int(2)}\n"),
              testing::HasSubstr("\"a\" has no name or is there twice"));
}

TEST(PluginTest, MalformedTextsAreRefused) {
  const std::string start = "%2: f32[N,32] = plugin(%1) ";
  for (const std::string attrs :
       {"", "{}", "{domain=test}", "{operator=Odd, domain=test}", "{domain=test, operator=None}",
        "{domain=test, operator=Odd, how}", "{domain=test, operator=Odd, how=1}",
        "{domain=test, operator=Odd, how=int(1 2)}", "{domain=test, operator=Odd, how=int()}",
        "{domain=test, operator=Odd, how=ints(1.5)}", "{domain=test, operator=Odd, how=int(1",
        "{domain=test, operator=Odd, how=word(1)}", "{domain=test, operator=Odd, how=\"type}",
        "{domain=test, operator=Odd, how=float(1e99999)}"})
    EXPECT_THAT(ErrorOf(start + attrs + "\nreturn %2\n"), testing::StartsWith("line 4: ")) << attrs;
  const std::string known = std::string(kHead) + start + "{domain=test, operator=Odd, how=\"\"}\n";
  EXPECT_EQ(ParseGraph(known).error().message, "no plugin has the operator test.Odd");
}

// Quantized inputs are for kernels that know them.
TEST(PluginTest, InputsAreFloatsIdsOrWeights) {
  EXPECT_THAT(ErrorOf("%2: act_i8[N,32] = quantize(%1)\n"
                      "%3: f32[N,16], %4: f32[N,16] = plugin(%2) {domain=test, operator=Halves}\n"),
              testing::HasSubstr("expected f32[rows,columns]"));
}

// Equal ones are not merged and unused ones stay: what they do beside their result is not known.
TEST(PluginTest, PassesLeaveThemAlone) {
  const std::string text = std::string(kHead) +
                           "@shift: f32[32]\n"
                           "%2: f32[N,32] = plugin(%1, @shift) {domain=test, operator=Blend}  # a\n"
                           "%3: f32[N,32] = plugin(%1, @shift) {domain=test, operator=Blend}  # b\n"
                           "%4: f32[N,32] = plugin(%1, @shift) {domain=test, operator=Blend}  # c\n"
                           "%5: f32[N,32] = add(%2, %3)  # sum\n"
                           "return %5\n";
  Result<Graph> graph = ParseGraph(text, &TestOperators());
  ASSERT_TRUE(graph.ok()) << graph.error().ToString();
  ASSERT_TRUE(Optimize(*graph, {}).ok());
  EXPECT_EQ(PrintGraph(*graph), text);
}

TEST(PluginTest, TwoOfOneNameAreRefused) {
  PluginOperators operators;
  const TenonOperator* blend = *TestOperators().Find("test", "Blend");
  EXPECT_TRUE(operators.Add(*blend).ok());
  EXPECT_EQ(operators.Add(*blend).error().message, "another plugin has test.Blend already");
}

}  // namespace
}  // namespace tenon

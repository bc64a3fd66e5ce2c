// Costs against numbers worked out by hand.
#include "graph/cost.h"

#include <gtest/gtest.h>

#include "base/check.h"
#include "graph/text.h"

namespace tenon {
namespace {

constexpr CostPoint kPoint{
    .tokens = 3, .outputs = 2, .context = 10, .sequences = 2, .kv_value_bytes = 2};

Graph Parse(const char* text) {
  Result<Graph> graph = ParseGraph(text);
  TENON_CHECK(graph.ok());
  return std::move(graph).value();
}

// %0 tokens, %1 rows, %2 x [N,32].
Cost CostOf(const std::string& line, const CostPoint& point = kPoint) {
  const std::string text =
      "%0: i32[N] = input  # tokens\n%1: i32[R] = input  # rows\n%2: f32[N,32] = input  # x\n"
      "@q: q8_0[8,32]\n@f: f16[8,32]\n@bias: f32[8]\n@norm: f32[32]\n@table: q8_0[100,32]\n"
      "%4: f32[N,8] = linear(%2, @f)  # first\n" +
      line + "\nreturn %9\n";
  Result<Graph> graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.error().ToString();
  return OpCost(*graph, graph->ops().back(), point);
}

TEST(CostTest, Linear) {
  // 2 * 3 * 32 * 8 FLOPs; 8 rows of 34 bytes; 3 rows of 32 and of 8 floats.
  EXPECT_EQ(CostOf("%9: f32[N,8] = linear(%2, @q)"), (Cost{1536, 272, 480, 0}));
  // A bias adds 24 FLOPs and 32 bytes, a residual 24 FLOPs and 3 * 8 floats.
  EXPECT_EQ(CostOf("%9: f32[N,8] = linear(%2, @q, @bias) {has_bias=true}"),
            (Cost{1560, 304, 480, 0}));
  EXPECT_EQ(CostOf("%9: f32[N,8] = linear(%2, @f, %4) {epilogue=add_residual}"),
            (Cost{1560, 512, 576, 0}));
  // Two products, then 5 or 10 FLOPs for each of the 24 results.
  EXPECT_EQ(CostOf("%9: f32[N,8] = linear(%2, @q, @f) {weight_count=2, epilogue=silu_mul}"),
            (Cost{3192, 784, 480, 0}));
  EXPECT_EQ(CostOf("%9: f32[N,8] = linear(%2, @q, @f) {weight_count=2, epilogue=gelu_mul}"),
            (Cost{3312, 784, 480, 0}));
  EXPECT_EQ(CostOf("%9: f32[N,8], %10: f32[N,8] = linear(%2, @q, @f) {weight_count=2}"),
            (Cost{3072, 784, 576, 0}));
}

TEST(CostTest, Elementwise) {
  EXPECT_EQ(CostOf("%9: f32[N,32] = add(%2, %2)"), (Cost{96, 0, 1152, 0}));
  EXPECT_EQ(CostOf("%9: f32[N,32] = mul(%2, %2)"), (Cost{96, 0, 1152, 0}));
  EXPECT_EQ(CostOf("%9: f32[N,32] = scale(%2) {factor=2}"), (Cost{96, 0, 768, 0}));
  EXPECT_EQ(CostOf("%9: f32[N,32] = silu(%2)"), (Cost{384, 0, 768, 0}));
  EXPECT_EQ(CostOf("%9: f32[N,32] = gelu(%2)"), (Cost{864, 0, 768, 0}));
  EXPECT_EQ(CostOf("%9: f32[N,32] = softcap(%2) {cap=30}"), (Cost{288, 0, 768, 0}));
}

TEST(CostTest, NormAndQuantize) {
  EXPECT_EQ(CostOf("%9: f32[N,32] = rms_norm(%2, @norm) {group=32}"), (Cost{384, 128, 768, 0}));
  EXPECT_EQ(CostOf("%9: f32[N,32] = rms_norm(%2, @norm, %2) {group=32, add_residual=true}"),
            (Cost{480, 128, 1152, 0}));
  // A quantized row of 32 values is 92 bytes.
  EXPECT_EQ(CostOf("%9: act_i8[N,32] = quantize(%2)"), (Cost{384, 0, 660, 0}));
}

TEST(CostTest, RowsReadAreRowsCounted) {
  // 3 rows of 34 bytes, 3 ids, 3 rows of floats.
  EXPECT_EQ(CostOf("%9: f32[N,32] = embed(%0, @table)"), (Cost{0, 102, 396, 0}));
  EXPECT_EQ(CostOf("%9: f32[N,32] = embed(%0, @table) {scale=2}"), (Cost{96, 102, 396, 0}));
  // 2 rows read and written, 2 indices.
  EXPECT_EQ(CostOf("%9: f32[R,32] = select_rows(%2, %1)"), (Cost{0, 0, 520, 0}));
}

TEST(CostTest, RopeAndAttention) {
  // 4 heads of 3 tokens, 2 pairs of 6 FLOPs each; x twice and the positions.
  EXPECT_EQ(CostOf("%9: f32[N,32] = rope(%2, %0) {head_dim=8, rotary_dim=4}"),
            (Cost{144, 0, 780, 0}));
  // 3 tokens * 4 heads * 10 keys * (4 * 8 + 4); q, k, v, output and positions;
  // (2 * 10 + 3) keys and values of 32 values of 2 bytes.
  const std::string attention =
      "%9: f32[N,32] = attention(%2, %2, %2, %0) {heads=4, kv_heads=4, head_dim=8";
  EXPECT_EQ(CostOf(attention + "}"), (Cost{4320, 0, 1548, 2944}));
  EXPECT_EQ(CostOf(attention + ", softcap=30}"), (Cost{4680, 0, 1548, 2944}));
  // A window of 4 keys; a window longer than the context.
  EXPECT_EQ(CostOf(attention + ", window=4}"), (Cost{1728, 0, 1548, 1408}));
  EXPECT_EQ(CostOf(attention + ", window=40}"), (Cost{4320, 0, 1548, 2944}));
  // The rotation of q and k.
  EXPECT_EQ(CostOf(attention + ", fused_rope=true, rotary_dim=4}"), (Cost{4608, 0, 1548, 2944}));
}

TEST(CostTest, GraphIsTheSumOfItsOps) {
  const Graph graph = Parse(
      "%0: f32[N,32] = input  # x\n@w: f32[32,32]\n%1: f32[N,32] = linear(%0, @w)\n"
      "%2: f32[N,32] = add(%1, %0)\nreturn %2\n");
  // One token: 2048 + 32 FLOPs, 4096 bytes of weights, 256 + 384 bytes of activations.
  EXPECT_EQ(GraphCost(graph, {}), (Cost{2080, 4096, 640, 0}));
  EXPECT_EQ(GraphCost(graph, {}).bytes(), 4736);
}

}  // namespace
}  // namespace tenon

#include "graph/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "base/check.h"
#include "graph/text.h"

namespace tenon {
namespace {

// Ops: 0 norm, 1 linear, 2 attention, 3 add. Values: 0 x, 1 positions, 2 norm's weight, 3 norm,
// 4 linear's weight, 5 linear, 6 attention, 7 add.
Graph Valid() {
  Result<Graph> graph = ParseGraph(
      "%0: f32[N,32] = input  # x\n"
      "%1: i32[N] = input  # positions\n"
      "@norm: f32[32]\n"
      "%2: f32[N,32] = rms_norm(%0, @norm) {group=32}  # norm\n"
      "@w: q8_0[32,32]\n"
      "%3: f32[N,32] = linear(%2, @w)  # linear\n"
      "%4: f32[N,32] = attention(%3, %3, %3, %1) {heads=1, kv_heads=1, head_dim=32}  # attention\n"
      "%5: f32[N,32] = add(%4, %0)  # add\n"
      "return %5\n");
  TENON_CHECK(graph.ok());
  return std::move(graph).value();
}

constexpr ValueId kX(0);
constexpr ValueId kNormWeight(2);
constexpr ValueId kNorm(3);
constexpr ValueId kWeight(4);
constexpr ValueId kLinear(5);
constexpr ValueId kSum(7);

struct Broken {
  const char* name;
  std::function<void(Graph&)> breaks;
  const char* message;
};

class VerifyErrorTest : public testing::TestWithParam<Broken> {};

TEST_P(VerifyErrorTest, NamesTheRule) {
  Graph graph = Valid();
  ASSERT_TRUE(VerifyGraph(graph).ok());
  GetParam().breaks(graph);
  const Status status = VerifyGraph(graph);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, testing::HasSubstr(GetParam().message));
}

void SwapOps(Graph& graph, size_t a, size_t b) {
  std::swap(graph.mutable_ops()[a], graph.mutable_ops()[b]);
  graph.RefreshProducers();
}

const Broken kBroken[] = {
    {"NoSuchInput", [](Graph& g) { g.mutable_ops()[3].inputs[1] = ValueId(99); },
     "op 3 (add \"add\"): input 1 is no value of the graph"},
    {"InvalidInput", [](Graph& g) { g.mutable_ops()[0].inputs[0] = ValueId(); },
     "op 0 (rms_norm \"norm\"): input 0 is no value"},
    {"NoSuchOutput", [](Graph& g) { g.mutable_ops()[3].outputs[0] = ValueId(99); },
     "output 0 is no value of the graph"},
    {"OrderOfUse", [](Graph& g) { SwapOps(g, 0, 1); },
     "op 0 (linear \"linear\"): input 0 (norm) is used before it is defined"},
    {"OwnInput", [](Graph& g) { g.mutable_ops()[3].inputs[1] = kSum; },
     "input 1 (add) is used before it is defined"},
    {"RemovedProducer",
     [](Graph& g) {
       g.mutable_ops().erase(g.mutable_ops().begin());
       g.RefreshProducers();
     },
     "input 0 (norm) is used before it is defined"},
    {"DefinedTwice", [](Graph& g) { g.mutable_ops()[3].outputs[0] = kLinear; },
     "output 0 (linear) is defined twice"},
    {"WritesInput", [](Graph& g) { g.mutable_ops()[3].outputs[0] = kX; },
     "output 0 (x) is an input or weight"},
    {"StaleProducer", [](Graph& g) { g.mutable_value(kSum).producer = OpId(0); },
     "output 0 (add) names another producer"},
    {"ProducerOfAnInput", [](Graph& g) { g.mutable_value(kX).producer = OpId(0); },
     "value 0 (x) names op 0 as its producer"},
    {"ProducerOfAnUnusedValue",
     [](Graph& g) {
       Value value;
       value.name = "lost";
       value.producer = OpId(1);
       g.AddValue(value);
     },
     "(lost) names op 1 as its producer"},
    {"OutputShape", [](Graph& g) { g.mutable_value(kLinear).shape[1].extent = 31; },
     "op 1 (linear \"linear\"): output 0 (linear) is f32[N,31], expected f32[N,32]"},
    {"OutputDType", [](Graph& g) { g.mutable_value(kSum).dtype = DType::kF16; },
     "output 0 (add) is f16[N,32], expected f32[N,32]"},
    {"QuantizedPlainLinear", [](Graph& g) { g.mutable_value(kLinear).dtype = DType::kActI8; },
     "output 0 (linear) is act_i8[N,32], expected f32[N,32]"},
    {"OutputCount", [](Graph& g) { g.mutable_ops()[1].outputs.push_back(kSum); },
     "has 2 outputs, expected 1"},
    {"InputShape", [](Graph& g) { g.mutable_value(kX).shape[1].extent = 16; }, "rms_norm \"norm\""},
    {"Attributes", [](Graph& g) { std::get<RmsNormAttrs>(g.mutable_ops()[0].attrs).group = 5; },
     "group is 5"},
    {"SameLayerTwice",
     [](Graph& g) {
       g.MarkOutput(g.AddOp("again", g.ops()[2].attrs, g.ops()[2].inputs).value()[0]);
     },
     "op 4 (attention \"again\"): layer 0 already belongs to op 2"},
    {"NoOutputs", [](Graph& g) { g.mutable_outputs().clear(); }, "the graph has no outputs"},
    {"OutputOutside", [](Graph& g) { g.MarkOutput(ValueId(99)); }, "graph output 1 is no value"},
    {"OutputIsInput", [](Graph& g) { g.MarkOutput(kX); },
     "graph output 1 (x) is produced by no op"},
    {"InputNames", [](Graph& g) { g.AddInput("x", DType::kI32, {{Symbol::kTokens, 1}}); },
     "two graph inputs have the name \"x\""},
    {"WeightWithoutTensor", [](Graph& g) { g.mutable_value(kWeight).weight.reset(); },
     "weight \"w\" does not say its tensor"},
    {"WeightRows", [](Graph& g) { g.mutable_value(kWeight).weight->row_end = 31; },
     "weight w takes rows [0,31) but is q8_0[32,32]"},
    {"WeightRowsNegative",
     [](Graph& g) { g.mutable_value(kWeight).weight = WeightRef{"w", -32, 0}; }, "rows [-32,0)"},
    {"WeightSymbol", [](Graph& g) { g.mutable_value(kWeight).shape[0].symbol = Symbol::kTokens; },
     "weight w is q8_0[N*32,32], expected positive numbers"},
    {"TensorOfTwoTypes",
     [](Graph& g) { g.AddWeight("w", DType::kF32, {{Symbol::kNone, 4}, {Symbol::kNone, 32}}); },
     "tensor w is used as f32[4,32] and with another dtype"},
};

INSTANTIATE_TEST_SUITE_P(Rules, VerifyErrorTest, testing::ValuesIn(kBroken),
                         [](const auto& broken) { return broken.param.name; });

TEST(VerifyTest, QuantizedOutputsWhereTheyMayBe) {
  Graph graph = Valid();
  graph.mutable_value(kNorm).dtype = DType::kActI8;
  EXPECT_TRUE(VerifyGraph(graph).ok());
}

// 24 columns are no whole number of groups of 16.
TEST(VerifyTest, QuantizedOutputsHaveWholeGroups) {
  Graph graph;
  const ValueId x = graph.AddInput("x", DType::kF32, {{Symbol::kTokens, 1}, {Symbol::kNone, 24}});
  const ValueId weight = graph.AddWeight("norm", DType::kF32, {{Symbol::kNone, 24}});
  const ValueId norm = graph.AddOp("norm", RmsNormAttrs{1e-5F, 24, false}, {x, weight}).value()[0];
  graph.MarkOutput(norm);
  EXPECT_TRUE(VerifyGraph(graph).ok());
  graph.mutable_value(norm).dtype = DType::kActI8;
  EXPECT_FALSE(VerifyGraph(graph).ok());
}

TEST(VerifyTest, RowsOfOneTensorMayBeSeveralWeights) {
  Graph graph = Valid();
  graph.AddWeightRows({"w", 0, 16}, DType::kQ8_0, {{Symbol::kNone, 16}, {Symbol::kNone, 32}});
  EXPECT_TRUE(VerifyGraph(graph).ok());
}

TEST(GraphTest, AWeightAskedForTwiceIsOneValue) {
  Graph graph = Valid();
  EXPECT_EQ(graph.AddWeight("norm", DType::kF32, {{Symbol::kNone, 32}}), kNormWeight);
  EXPECT_NE(graph.AddWeightRows({"norm", 0, 16}, DType::kF32, {{Symbol::kNone, 16}}), kNormWeight);
}

}  // namespace
}  // namespace tenon

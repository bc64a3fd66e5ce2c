#include "graph/random_graph.h"

#include <fmt/format.h>

#include <random>
#include <string>
#include <utility>

#include "base/check.h"
#include "graph/test_operators.h"

namespace tenon {
namespace {

constexpr int64_t kVocabulary = 8;
constexpr int64_t kColumns = 32;
constexpr int64_t kHeadDim = 8;
constexpr int64_t kRotary = 4;

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  Graph Run() {
    tokens_ = graph_.AddInput("tokens", DType::kI32, {{Symbol::kTokens, 1}});
    positions_ = graph_.AddInput("positions", DType::kI32, {{Symbol::kTokens, 1}});
    const ValueId rows = graph_.AddInput("rows", DType::kI32, {{Symbol::kOutputs, 1}});
    factors_ = graph_.AddWeight("rope_freqs", DType::kF32, {{Symbol::kNone, kRotary / 2}});
    pool_ = {Make(EmbedAttrs{}, {tokens_, NewMatrix(kVocabulary, DType::kQ8_0)})};
    const int steps = 3 + Pick(8);
    for (int i = 0; i < steps; ++i)
      Step();
    const ValueId selected = Make(SelectRowsAttrs{}, {pool_.back(), rows});
    graph_.MarkOutput(Make(LinearAttrs{}, {selected, NewMatrix(kVocabulary, RandomDType())}));
    if (Chance(3))
      graph_.MarkOutput(Any());
    return std::move(graph_);
  }

 private:
  int Pick(int count) { return std::uniform_int_distribution<int>(0, count - 1)(random_); }
  // True once in `one_in`.
  bool Chance(int one_in) { return Pick(one_in) == 0; }

  // A value of the pool, more often a late one.
  ValueId Any() {
    const size_t size = pool_.size();
    return Chance(2) ? pool_.back() : pool_[static_cast<size_t>(Pick(static_cast<int>(size)))];
  }
  DType RandomDType() {
    constexpr DType kDTypes[] = {DType::kBF16, DType::kF16,  DType::kQ8_0,
                                 DType::kQ8_0, DType::kQ4_0, DType::kQ8_0};
    return kDTypes[Pick(6)];
  }
  // Products of powers of two are exact, so folding them changes no bit.
  float Factor() {
    constexpr float kFactors[] = {1.0F, 0.5F, 2.0F, -0.25F};
    return kFactors[Pick(4)];
  }

  ValueId Make(OpAttrs attrs, std::vector<ValueId> inputs) {
    auto outputs = graph_.AddOp(fmt::format("op {}", graph_.ops().size()), std::move(attrs),
                                std::move(inputs));
    TENON_CHECK(outputs.ok());
    return (*outputs)[0];
  }
  std::string NewName() { return fmt::format("w{}", next_weight_++); }
  ValueId NewMatrix(int64_t rows, DType dtype, int64_t columns = kColumns) {
    return graph_.AddWeight(NewName(), dtype, {{Symbol::kNone, rows}, {Symbol::kNone, columns}});
  }
  ValueId NewVector(int64_t size) {
    return graph_.AddWeight(NewName(), DType::kF32, {{Symbol::kNone, size}});
  }

  ValueId Linear(ValueId x, int64_t rows) {
    const bool bias = Chance(3);
    if (Chance(8))
      x = Make(PermuteAttrs{}, {x, NewVector(kColumns)});
    std::vector<ValueId> inputs = {x, NewMatrix(rows, RandomDType())};
    if (bias)
      inputs.push_back(NewVector(rows));
    return Make(LinearAttrs{1, bias, Epilogue::kNone}, std::move(inputs));
  }
  ValueId Norm(ValueId x) {
    const int64_t group = Chance(3) ? kHeadDim : kColumns;
    return Make(RmsNormAttrs{1e-5F, group, false}, {x, NewVector(group)});
  }

  // Sometimes a second reader, which must stop a fusion.
  ValueId Leak(ValueId value) {
    if (Chance(6))
      pool_.push_back(value);
    if (Chance(15))
      graph_.MarkOutput(value);
    return value;
  }

  void Step() {
    switch (Pick(10)) {
      case 0:
        return pool_.push_back(Norm(Any()));
      case 1:
        return pool_.push_back(Make(AddAttrs{}, {Any(), Any()}));
      case 2:
        return pool_.push_back(
            Make(ScaleAttrs{Factor()}, {Leak(Make(ScaleAttrs{Factor()}, {Any()}))}));
      case 3:
        return Repeat();
      case 4:
        return Residual();
      case 5:
        return FeedForward();
      case 6:
        return Experts();
      case 7:
        return Plugin();
      default:
        return Attention();
    }
  }

  // The same op twice, for common subexpressions; one of the two may be dead.
  void Repeat() {
    const ValueId a = Any();
    const ValueId b = Any();
    const ValueId first = Make(MulAttrs{}, {a, b});
    const ValueId second = Make(MulAttrs{}, {b, a});
    const ValueId sum = Make(AddAttrs{}, {first, Chance(2) ? second : first});
    pool_.push_back(Norm(Make(SoftcapAttrs{4.0F}, {sum})));
  }

  void Residual() {
    const ValueId x = Any();
    ValueId branch = Linear(Chance(2) ? Norm(x) : x, kColumns);
    if (Chance(2))
      branch = Norm(Leak(branch));
    const ValueId other = Chance(4) ? Linear(x, kColumns) : x;
    pool_.push_back(Chance(2) ? Make(AddAttrs{}, {Leak(branch), other})
                              : Make(AddAttrs{}, {other, Leak(branch)}));
  }

  void FeedForward() {
    const ValueId x = Norm(Any());
    const ValueId gate = Leak(Linear(x, kColumns));
    const ValueId up = Leak(Linear(Chance(8) ? pool_[0] : x, kColumns));
    const ValueId activated =
        Leak(Chance(2) ? Make(SiluAttrs{}, {gate}) : Make(GeluAttrs{}, {gate}));
    const ValueId product =
        Chance(2) ? Make(MulAttrs{}, {activated, up}) : Make(MulAttrs{}, {up, activated});
    pool_.push_back(Linear(Leak(product), kColumns));
  }

  void Experts() {
    constexpr int64_t kExperts = 4;
    const ValueId x = Norm(Any());
    RouteAttrs route;
    route.used = 1 + Pick(2);
    route.sigmoid = Chance(2);
    route.normalized = Chance(2);
    route.scale = Factor();
    route.groups = Chance(2) ? 2 : 1;
    std::vector<ValueId> logits = {Linear(x, kExperts)};
    if (Chance(2))
      logits.push_back(NewVector(kExperts));
    const ValueId weights = Make(route, std::move(logits));
    const DType dtype = Chance(2) ? DType::kQ8_0 : DType::kF16;
    const ValueId gate = NewMatrix(kExperts * kColumns, dtype);
    const ValueId up = NewMatrix(kExperts * kColumns, dtype);
    ValueId mixed = Make(
        ExpertsAttrs{kExperts, route.used, Chance(2) ? Epilogue::kSiluMul : Epilogue::kGeluMul},
        {x, weights, gate, up, NewMatrix(kExperts * kColumns, RandomDType())});
    if (Chance(2))
      mixed = Make(GateRowsAttrs{}, {Leak(mixed), Linear(x, 1)});
    pool_.push_back(mixed);
  }

  // Between other ops' patterns; one of two results may be dead.
  void Plugin() {
    const TenonOperator* halves = *TestOperators().Find("test", "Halves");
    const TenonOperator* blend = *TestOperators().Find("test", "Blend");
    const auto both =
        graph_.AddOp("halves", PluginAttrs{halves, {}}, {Linear(Any(), 2 * kColumns)});
    TENON_CHECK(both.ok());
    const ValueId shift = NewVector(kColumns);
    pool_.push_back(Make(PluginAttrs{blend, {{"by", Factor()}}}, {(*both)[1], shift}));
    if (Chance(2))
      pool_.push_back(Make(AddAttrs{}, {Leak((*both)[0]), pool_.back()}));
  }

  ValueId MaybeScale(ValueId x) { return Chance(2) ? Make(ScaleAttrs{Factor()}, {x}) : x; }

  ValueId Rope(ValueId x, float base, bool with_factors) {
    RopeAttrs attrs;
    attrs.head_dim = kHeadDim;
    attrs.rope.rotary_dim = kRotary;
    attrs.rope.base = base;
    attrs.rope.interleaved = base > 500.0F;
    std::vector<ValueId> inputs = {x, positions_};
    if (with_factors)
      inputs.push_back(factors_);
    return Make(attrs, std::move(inputs));
  }

  void Attention() {
    const ValueId x = Norm(Any());
    ValueId q = MaybeScale(Leak(Linear(x, kColumns)));
    ValueId k = Linear(x, kColumns / 2);
    const ValueId v = Linear(x, kColumns / 2);
    const float base = Chance(2) ? 100.0F : 1000.0F;
    const bool with_factors = Chance(2);
    q = Rope(q, base, with_factors);
    if (!Chance(8))
      k = Rope(k, Chance(6) ? 10.0F : base, Chance(6) ? !with_factors : with_factors);
    AttentionAttrs attrs;
    attrs.layer = next_layer_++;
    attrs.heads = kColumns / kHeadDim;
    attrs.kv_heads = attrs.heads / 2;
    attrs.head_dim = kHeadDim;
    attrs.scale = 0.5F;
    attrs.softcap = Chance(3) ? 2.0F : 0.0F;
    attrs.window = Chance(3) ? 2 : 0;
    const ValueId mixed = Make(attrs, {MaybeScale(Leak(q)), k, v, positions_});
    pool_.push_back(Linear(Leak(mixed), kColumns));
  }

  std::mt19937_64 random_;
  Graph graph_;
  std::vector<ValueId> pool_;  // F32 [N, kColumns]
  ValueId tokens_;
  ValueId positions_;
  ValueId factors_;
  int next_weight_ = 0;
  int64_t next_layer_ = 0;
};

}  // namespace

Graph RandomGraph(uint64_t seed) {
  return Generator(seed).Run();
}

}  // namespace tenon

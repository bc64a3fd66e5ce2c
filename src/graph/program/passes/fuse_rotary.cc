// fuse_rotary: x*cos + concat(-x[.., h:], x[.., :h])*sin becomes tenon.Rotary(x, cos, sin).
#include "graph/program/passes/patterns.h"
#include "graph/program/passes/program_pass.h"

namespace tenon {
namespace {

// x[.., begin:end] of the last dimension: x and begin.
struct LastSlice {
  ProgramValueId x;
  int64_t begin = 0;
  int64_t end = 0;
};

std::optional<LastSlice> MatchLastSlice(ProgramIndex& index, ProgramValueId id) {
  ProgramNode* node = index.ProducerOf(id, "Slice");
  if (node == nullptr || node->inputs.size() < 4)
    return std::nullopt;
  const auto starts = index.Integers(node->Input(1));
  const auto ends = index.Integers(node->Input(2));
  const auto axes = index.Integers(node->Input(3));
  const auto steps = index.Integers(node->Input(4));
  const int64_t rank = KnownRank(index.program(), node->inputs[0]);
  if (!starts || !ends || !axes || starts->size() != 1 || ends->size() != 1 || axes->size() != 1 ||
      ((*axes)[0] != -1 && (*axes)[0] != rank - 1) || (steps && *steps != std::vector<int64_t>{1}))
    return std::nullopt;
  return LastSlice{node->inputs[0], (*starts)[0], (*ends)[0]};
}

// concat(-x[.., h:], x[.., :h]): x.
ProgramValueId RotatedHalf(ProgramIndex& index, ProgramValueId id) {
  ProgramNode* concat = index.ProducerOf(id, "Concat");
  if (concat == nullptr || concat->inputs.size() != 2)
    return {};
  ProgramNode* negative = index.ProducerOf(concat->inputs[0], "Neg");
  const auto high = negative == nullptr ? std::nullopt : MatchLastSlice(index, negative->inputs[0]);
  const auto low = MatchLastSlice(index, concat->inputs[1]);
  if (!high || !low || high->x != low->x)
    return {};
  const int64_t width = KnownExtent(index.program(), low->x, -1);
  const int64_t axis = concat->Integer("axis", 0);
  const bool last = axis == -1 || axis == KnownRank(index.program(), low->x) - 1;
  const bool halves = width > 0 && low->begin == 0 && low->end * 2 == width &&
                      high->begin == low->end && high->end >= width;
  return last && halves ? low->x : ProgramValueId();
}

void FuseRotaryAt(ProgramIndex& index, ProgramNode& sum) {
  for (const size_t i : {size_t{0}, size_t{1}}) {
    ProgramNode* turned = index.ProducerOf(sum.inputs[i], "Mul");
    ProgramNode* plain = index.ProducerOf(sum.inputs[1 - i], "Mul");
    if (turned == nullptr || plain == nullptr)
      continue;
    for (const size_t j : {size_t{0}, size_t{1}}) {
      const ProgramValueId x = RotatedHalf(index, turned->inputs[j]);
      const ProgramValueId cos = x.valid() ? OtherInput(*plain, x) : ProgramValueId();
      if (!cos.valid() || !IsF32(index.program(), x) ||
          !SameShape(index.program(), x, sum.outputs[0]))
        continue;
      ProgramNode rotary;
      rotary.domain = "tenon";
      rotary.op = "Rotary";
      rotary.name = sum.name;
      rotary.version = 1;
      rotary.inputs = {x, cos, turned->inputs[1 - j]};
      rotary.outputs = sum.outputs;
      index.Replace(sum, std::move(rotary));
      return;
    }
  }
}

}  // namespace

Status FuseRotary(Program& program, const ProgramPassContext&) {
  RewriteEach(program, "Add", FuseRotaryAt);
  return {};
}

}  // namespace tenon

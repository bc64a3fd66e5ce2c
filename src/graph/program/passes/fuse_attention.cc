// fuse_rotary and fuse_attention.
//
// fuse_rotary: x*cos + concat(-x[.., h:], x[.., :h])*sin becomes tenon.Rotary(x, cos, sin).
// fuse_attention: softmax(q k^T * s + mask) v becomes tenon.Attention(q, k, v, mask);
// transpositions of q, k, v and the result between [batch, rows, heads, width] and [batch, heads,
// rows, width], and the repetition of key and value heads (Unsqueeze, Expand, Reshape), become
// attributes or nothing.
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

bool HasPermutation(const ProgramNode& node, std::vector<int64_t> wanted) {
  const auto* perm = node.Integers("perm");
  return perm != nullptr && *perm == wanted;
}

// What a transposition of rows and heads was made from; invalid when it is none.
ProgramValueId RowsFirst(ProgramIndex& index, ProgramValueId id) {
  ProgramNode* node = index.ProducerOf(id, "Transpose");
  return node != nullptr && HasPermutation(*node, {0, 2, 1, 3}) ? node->inputs[0]
                                                                : ProgramValueId();
}

// [b, heads, t, d] repeated to [b, heads * n, t, d]: the former.
ProgramValueId UnrepeatedHeads(ProgramIndex& index, ProgramValueId id) {
  const Program& program = index.program();
  ProgramNode* merge = index.ProducerOf(id, "Reshape");
  ProgramNode* expand = merge == nullptr ? nullptr : index.ProducerOf(merge->inputs[0], "Expand");
  ProgramNode* split =
      expand == nullptr ? nullptr : index.ProducerOf(expand->inputs[0], "Unsqueeze");
  if (split == nullptr)
    return {};
  const ProgramValueId x = split->inputs[0];
  auto axes = index.Integers(split->Input(1));
  if (const auto* list = split->Integers("axes"))
    axes = *list;
  const int64_t before = KnownExtent(program, x, 1);
  const int64_t after = KnownExtent(program, id, 1);
  if (!axes || *axes != std::vector<int64_t>{2} || KnownRank(program, x) != 4 ||
      KnownRank(program, id) != 4 || before < 1 || after % before != 0)
    return {};
  const auto& from = *program.value(x).shape;
  const auto& to = *program.value(id).shape;
  return from[0] == to[0] && from[2] == to[2] && from[3] == to[3] ? x : ProgramValueId();
}

struct AttentionMatch {
  ProgramValueId q;
  ProgramValueId k;  // [b, heads, t, d], or rows first
  bool k_rows_first = false;
  ProgramValueId mask;
  double scale = 1.0;
};

bool MatchKey(ProgramIndex& index, ProgramValueId transposed, AttentionMatch& match) {
  ProgramNode* node = index.ProducerOf(transposed, "Transpose");
  if (node == nullptr)
    return false;
  match.k = node->inputs[0];
  match.k_rows_first = HasPermutation(*node, {0, 2, 3, 1});
  return match.k_rows_first || HasPermutation(*node, {0, 1, 3, 2});
}

bool MaskFits(const Program& program, ProgramValueId mask, ProgramValueId scores) {
  const int64_t rank = KnownRank(program, mask);
  if (rank < 1 || rank > 4 || !IsF32(program, mask))
    return false;
  if (rank < 4)
    return true;
  const ProgramDim& batch = program.value(mask).shape->front();
  const int64_t heads = KnownExtent(program, mask, 1);
  return (batch.value == 1 || batch == program.value(scores).shape->front()) &&
         (heads == 1 || heads == KnownExtent(program, scores, 1));
}

// q k^T scaled and masked, from the softmax's input back.
std::optional<AttentionMatch> MatchScores(ProgramIndex& index, ProgramValueId id) {
  const Program& program = index.program();
  AttentionMatch match;
  if (ProgramNode* sum = index.ProducerOf(id, "Add")) {
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const ProgramValueId scores = sum->inputs[i];
      const bool product = index.ProducerOf(scores, "MatMul") != nullptr ||
                           MatchScalar(index, scores, "Mul") || MatchScalar(index, scores, "Div");
      if (!match.mask.valid() && product && KnownRank(program, scores) == 4 &&
          MaskFits(program, sum->inputs[1 - i], scores)) {
        id = scores;
        match.mask = sum->inputs[1 - i];
      }
    }
    if (!match.mask.valid())
      return std::nullopt;
  }
  if (const auto scaled = MatchScalar(index, id, "Mul")) {
    match.scale = scaled->scalar;
    id = scaled->value;
  } else if (const auto divided = MatchScalar(index, id, "Div")) {
    match.scale = 1.0 / divided->scalar;
    id = divided->value;
  }
  ProgramNode* product = index.ProducerOf(id, "MatMul");
  if (product == nullptr || KnownRank(program, product->inputs[0]) != 4 ||
      !MatchKey(index, product->inputs[1], match))
    return std::nullopt;
  match.q = product->inputs[0];
  return match;
}

// The value without its transposition, where there is one, with the attribute that says so.
void TakeLayout(ProgramIndex& index, ProgramValueId& id, const char* attribute, ProgramNode& node) {
  const ProgramValueId rows_first = RowsFirst(index, id);
  if (!rows_first.valid())
    return;
  id = rows_first;
  node.attributes.emplace_back(attribute, int64_t{1});
}

void FuseAttentionAt(ProgramIndex& index, ProgramNode& product) {
  const Program& program = index.program();
  ProgramNode* softmax = index.ProducerOf(product.inputs[0], "Softmax");
  const int64_t axis = softmax == nullptr ? 0 : softmax->Integer("axis", -1);
  if (softmax == nullptr || softmax->version < 13 || (axis != -1 && axis != 3))
    return;
  const auto match = MatchScores(index, softmax->inputs[0]);
  if (!match || KnownRank(program, match->k) != 4 || KnownRank(program, product.inputs[1]) != 4 ||
      !IsF32(program, match->q) ||
      !(program.value(match->q).shape->front() == program.value(match->k).shape->front()))
    return;
  ProgramNode fused;
  fused.domain = "tenon";
  fused.op = "Attention";
  fused.name = product.name;
  fused.version = 1;
  fused.outputs = product.outputs;
  fused.attributes.emplace_back("scale", static_cast<float>(match->scale));
  ProgramValueId q = match->q;
  ProgramValueId k = match->k;
  ProgramValueId v = product.inputs[1];
  const ProgramValueId bare_k = match->k_rows_first ? ProgramValueId() : UnrepeatedHeads(index, k);
  const ProgramValueId bare_v = UnrepeatedHeads(index, v);
  if (bare_k.valid() && bare_v.valid()) {
    k = bare_k;
    v = bare_v;
  }
  TakeLayout(index, q, "q_rows_first", fused);
  if (match->k_rows_first)
    fused.attributes.emplace_back("k_rows_first", int64_t{1});
  else
    TakeLayout(index, k, "k_rows_first", fused);
  TakeLayout(index, v, "v_rows_first", fused);
  fused.inputs = {q, k, v};
  if (match->mask.valid())
    fused.inputs.push_back(match->mask);
  const auto users = index.Users(product.outputs[0]);
  if (users.size() == 1 && index.HasOneUse(product.outputs[0]) && users[0]->Is("Transpose") &&
      HasPermutation(*users[0], {0, 2, 1, 3})) {
    fused.attributes.emplace_back("out_rows_first", int64_t{1});
    fused.outputs = users[0]->outputs;
    index.Remove(product);
    index.Replace(*users[0], std::move(fused));
    return;
  }
  index.Replace(product, std::move(fused));
}

}  // namespace

Status FuseRotary(Program& program, const ProgramPassContext&) {
  ProgramIndex index(program);
  for (ProgramNode& node : program.nodes) {
    if (!index.IsRemoved(node) && node.Is("Add"))
      FuseRotaryAt(index, node);
  }
  index.Finish();
  return {};
}

Status FuseAttention(Program& program, const ProgramPassContext&) {
  ProgramIndex index(program);
  for (ProgramNode& node : program.nodes) {
    if (!index.IsRemoved(node) && node.Is("MatMul"))
      FuseAttentionAt(index, node);
  }
  index.Finish();
  return {};
}

}  // namespace tenon

// fuse_attention: softmax(q k^T * s + mask) v becomes tenon.Attention(q, k, v, mask);
// transpositions of q, k, v and the result between [batch, rows, heads, width] and [batch, heads,
// rows, width], and the repetition of key and value heads (Unsqueeze, Expand, Reshape), become
// attributes or nothing. The scale may be on the scores, on q, on k or on both (torch's
// scaled_dot_product_attention multiplies each by its root). Exporters of that function also put 0
// where softmax gave no number, in rows that see no key: the fused operator has 0 there anyway.
#include "graph/program/no_key.h"
#include "graph/program/passes/patterns.h"
#include "graph/program/passes/program_pass.h"

namespace tenon {
namespace {

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

// Takes factors off the value: "Mul" or "Div" by a scalar.
void TakeScale(ProgramIndex& index, ProgramValueId& id, double& scale) {
  if (const auto scaled = MatchScalar(index, id, "Mul")) {
    scale *= scaled->scalar;
    id = scaled->value;
  } else if (const auto divided = MatchScalar(index, id, "Div")) {
    scale /= divided->scalar;
    id = divided->value;
  }
}

// What softmax gave, where 0 replaces what is no number: Where(IsNaN(p), 0, p).
ProgramValueId Unguarded(ProgramIndex& index, ProgramValueId id) {
  ProgramNode* choice = index.ProducerOf(id, "Where");
  ProgramNode* test = choice == nullptr ? nullptr : index.ProducerOf(choice->Input(0), "IsNaN");
  const bool guard = test != nullptr && choice->inputs.size() == 3 &&
                     test->Input(0) == choice->inputs[2] && index.HasOneUse(choice->inputs[0]) &&
                     index.Scalar(choice->inputs[1]) == 0.0;
  return guard ? choice->inputs[2] : id;
}

struct AttentionMatch {
  ProgramValueId q;
  ProgramValueId k;  // [b, heads, t, d], or rows first
  bool k_rows_first = false;
  ProgramValueId mask;
  ProgramNode* choice = nullptr;  // the mask in another form (ChoiceOfScores)
  double scale = 1.0;
};

bool MatchKey(ProgramIndex& index, ProgramValueId transposed, AttentionMatch& match) {
  TakeScale(index, transposed, match.scale);
  ProgramNode* node = index.ProducerOf(transposed, "Transpose");
  if (node == nullptr)
    return false;
  match.k = node->inputs[0];
  match.k_rows_first = HasPermutation(*node, {0, 2, 3, 1});
  if (!match.k_rows_first && !HasPermutation(*node, {0, 1, 3, 2}))
    return false;
  TakeScale(index, match.k, match.scale);
  return true;
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

// A choice between scores and a number so low that no key is left, Where(sees, scores, low), which
// only the softmax reads; null when it is none.
ProgramNode* ChoiceOfScores(ProgramIndex& index, ProgramValueId id) {
  const Program& program = index.program();
  ProgramNode* choice = index.ProducerOf(id, "Where");
  if (choice == nullptr || choice->inputs.size() != 3 || !index.HasOneUse(id))
    return nullptr;
  const ProgramValueId sees = choice->inputs[0];
  const auto low = index.Scalar(choice->inputs[2]);
  const int64_t heads = KnownRank(program, sees) < 4 ? 1 : KnownExtent(program, sees, 1);
  const bool fits = low && static_cast<float>(*low) <= kNoKey && program.value(sees).shape &&
                    heads == 1 && KnownRank(program, choice->inputs[1]) == 4 &&
                    SameShape(program, choice->inputs[1], id);
  return fits ? choice : nullptr;
}

// The choice as something to add: Where(sees, 0, low).
ProgramValueId MaskOfChoice(ProgramIndex& index, ProgramNode& choice) {
  Program& program = index.program();
  const float zero = 0.0F;
  ProgramNode mask;
  mask.op = "Where";
  mask.name = choice.name;
  mask.version = choice.version;
  mask.inputs = {
      choice.inputs[0],
      program.AddConstant("nothing", ElementType::kF32, {}, std::as_bytes(std::span(&zero, 1))),
      choice.inputs[2]};
  const ProgramValueId made = program.AddValue(choice.name + " mask", ElementType::kF32);
  program.value(made).shape = program.value(choice.inputs[0]).shape;
  mask.outputs = {made};
  index.Replace(choice, std::move(mask));
  return made;
}

// q k^T scaled and masked, from the softmax's input back.
std::optional<AttentionMatch> MatchScores(ProgramIndex& index, ProgramValueId id) {
  const Program& program = index.program();
  AttentionMatch match;
  match.choice = ChoiceOfScores(index, id);
  if (match.choice != nullptr) {
    id = match.choice->inputs[1];
  } else if (ProgramNode* sum = index.ProducerOf(id, "Add")) {
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
  TakeScale(index, id, match.scale);
  ProgramNode* product = index.ProducerOf(id, "MatMul");
  if (product == nullptr || KnownRank(program, product->inputs[0]) != 4 ||
      !MatchKey(index, product->inputs[1], match))
    return std::nullopt;
  match.q = product->inputs[0];
  TakeScale(index, match.q, match.scale);
  return KnownRank(program, match.q) == 4 ? std::optional(match) : std::nullopt;
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
  ProgramNode* softmax = index.ProducerOf(Unguarded(index, product.inputs[0]), "Softmax");
  const int64_t axis = softmax == nullptr ? 0 : softmax->Integer("axis", -1);
  if (softmax == nullptr || softmax->version < 13 || (axis != -1 && axis != 3))
    return;
  const auto match = MatchScores(index, softmax->inputs[0]);
  if (!match || KnownRank(program, match->k) != 4 || KnownRank(program, product.inputs[1]) != 4 ||
      !IsF32(program, match->q) ||
      !(program.value(match->q).shape->front() == program.value(match->k).shape->front()))
    return;
  // A choice that becomes a mask leaves the softmax without its input.
  const bool guarded = softmax->outputs[0] != product.inputs[0];
  if (match->choice != nullptr &&
      (!index.HasOneUse(product.inputs[0]) || index.Uses(softmax->outputs[0]) != (guarded ? 2 : 1)))
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
  if (match->choice != nullptr)
    fused.inputs.push_back(MaskOfChoice(index, *match->choice));
  else if (match->mask.valid())
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

Status FuseAttention(Program& program, const ProgramPassContext&) {
  RewriteEach(program, "MatMul", FuseAttentionAt);
  return {};
}

}  // namespace tenon

// merge_linears and fuse_linears: products with constant matrices.
//
// merge_linears: x w1 (+ b1), x w2 (+ b2), ... become tenon.Linear(x, [w1 w2 ..], [b1 b2 ..]) with
// an output for each. The joined weights are a copy. fuse_linears: act(x w + b) + r becomes
// tenon.Linear(x, w, b, r), Gemm of plain factors too.
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "graph/program/passes/patterns.h"
#include "graph/program/passes/program_pass.h"

namespace tenon {
namespace {

// A constant F32 matrix.
const Constant* MatrixOf(const Program& program, ProgramValueId id) {
  const Constant* constant = program.ConstantOf(id);
  return constant != nullptr && constant->type == ElementType::kF32 && constant->shape.size() == 2
             ? constant
             : nullptr;
}

bool IsBias(const Program& program, ProgramValueId id, int64_t columns) {
  const Constant* constant = program.ConstantOf(id);
  return constant != nullptr && constant->type == ElementType::kF32 &&
         constant->shape == std::vector<int64_t>{columns};
}

// A product, the Add of a bias that alone reads it, and both constants.
struct Product {
  ProgramNode* node = nullptr;
  ProgramNode* add = nullptr;
  ProgramValueId weight;
  ProgramValueId bias;
  int64_t columns = 0;
};

std::optional<Product> MatchProduct(ProgramIndex& index, ProgramNode& node) {
  const Program& program = index.program();
  const Constant* weight = node.Is("MatMul") ? MatrixOf(program, node.Input(1)) : nullptr;
  if (weight == nullptr || !IsF32(program, node.inputs[0]) ||
      KnownRank(program, node.inputs[0]) < 2)
    return std::nullopt;
  Product product;
  product.node = &node;
  product.weight = node.inputs[1];
  product.columns = weight->shape[1];
  if (!index.HasOneUse(node.outputs[0]))
    return product;
  const auto users = index.Users(node.outputs[0]);
  if (users.size() != 1 || !users[0]->Is("Add"))
    return product;
  const ProgramValueId bias = OtherInput(*users[0], node.outputs[0]);
  if (IsBias(program, bias, product.columns)) {
    product.add = users[0];
    product.bias = bias;
  }
  return product;
}

// The columns of all, one after the other.
ProgramValueId JoinWeights(Program& program, const std::vector<Product>& products, int64_t total) {
  const int64_t rows = program.ConstantOf(products[0].weight)->shape[0];
  std::vector<float> joined(static_cast<size_t>(rows * total));
  int64_t first = 0;
  for (const Product& product : products) {
    const Constant& weight = *program.ConstantOf(product.weight);
    const auto bytes = static_cast<size_t>(product.columns) * sizeof(float);
    for (int64_t r = 0; r < rows; ++r)
      std::memcpy(joined.data() + r * total + first,
                  weight.bytes.data() + static_cast<size_t>(r) * bytes, bytes);
    first += product.columns;
  }
  return program.AddConstant("joined_" + program.value(products[0].weight).name, ElementType::kF32,
                             {rows, total}, std::as_bytes(std::span(joined)));
}

ProgramValueId JoinBiases(Program& program, const std::vector<Product>& products) {
  std::vector<std::byte> joined;
  for (const Product& product : products) {
    const auto bytes = program.ConstantOf(product.bias)->bytes;
    joined.insert(joined.end(), bytes.begin(), bytes.end());
  }
  const auto total = static_cast<int64_t>(joined.size() / sizeof(float));
  return program.AddConstant("joined_" + program.value(products[0].bias).name, ElementType::kF32,
                             {total}, joined);
}

void Merge(ProgramIndex& index, const std::vector<Product>& products) {
  Program& program = index.program();
  const bool biased = products[0].bias.valid();
  ProgramNode merged;
  merged.domain = "tenon";
  merged.op = "Linear";
  merged.name = products[0].node->name;
  merged.version = 1;
  std::vector<int64_t> sizes;
  int64_t total = 0;
  for (const Product& product : products) {
    sizes.push_back(product.columns);
    total += product.columns;
    merged.outputs.push_back((biased ? product.add : product.node)->outputs[0]);
  }
  merged.inputs = {products[0].node->inputs[0], JoinWeights(program, products, total)};
  if (biased)
    merged.inputs.push_back(JoinBiases(program, products));
  merged.attributes.emplace_back("sizes", std::move(sizes));
  for (const Product& product : products) {
    if (product.node != products[0].node)
      index.Remove(*product.node);
    if (biased)
      index.Remove(*product.add);
  }
  index.Replace(*products[0].node, std::move(merged));
}

// The node that reads the fused one's output alone, where it is `op`.
ProgramNode* OnlyUser(ProgramIndex& index, const ProgramNode& node, std::string_view op) {
  if (!index.HasOneUse(node.outputs[0]))
    return nullptr;
  const auto users = index.Users(node.outputs[0]);
  return users.size() == 1 && users[0]->Is(op) ? users[0] : nullptr;
}

// Puts `fused` in the place of `user`, whose output it takes; the old place is removed.
ProgramNode* MoveTo(ProgramIndex& index, ProgramNode* place, ProgramNode* user) {
  ProgramNode fused = std::move(*place);
  // What was moved from has no inputs any more; its counted reads move along.
  fused.outputs = user->outputs;
  const std::vector<ProgramValueId> inputs = fused.inputs;
  place->inputs = inputs;
  index.Remove(*place);
  index.Replace(*user, std::move(fused));
  return user;
}

std::string ActivationOf(const ProgramNode& node) {
  if (node.op == "Gelu")
    return node.Text("approximate", "none") == "tanh" ? "gelu_tanh" : "gelu";
  if (node.op == "Swish")
    return node.Float("alpha", 1.0F) == 1.0F ? "silu" : "";
  return node.op == "Relu" ? "relu" : "tanh";
}

bool TakeActivation(ProgramIndex& index, ProgramNode*& place) {
  for (const char* op : {"Gelu", "Swish", "Relu", "Tanh"}) {
    ProgramNode* user = OnlyUser(index, *place, op);
    const std::string activation = user == nullptr ? std::string() : ActivationOf(*user);
    if (activation.empty())
      continue;
    place->attributes.emplace_back("activation", activation);
    place = MoveTo(index, place, user);
    return true;
  }
  return false;
}

bool TakeResidual(ProgramIndex& index, ProgramNode*& place) {
  ProgramNode* user = OnlyUser(index, *place, "Add");
  const ProgramValueId other =
      user == nullptr ? ProgramValueId() : OtherInput(*user, place->outputs[0]);
  if (!other.valid() || !IsF32(index.program(), other) ||
      !SameShape(index.program(), other, place->outputs[0]))
    return false;
  // The residual's own count stays: the Add's read of it ends with Replace, the fused node's
  // begins.
  ProgramNode fused = std::move(*place);
  place->inputs = fused.inputs;
  fused.inputs.resize(4);
  fused.inputs[3] = other;
  fused.outputs = user->outputs;
  index.Remove(*place);
  index.Replace(*user, std::move(fused));
  place = user;
  return true;
}

bool IsPlainGemm(const Program& program, const ProgramNode& node) {
  const Constant* weight = node.Is("Gemm") ? MatrixOf(program, node.Input(1)) : nullptr;
  return weight != nullptr && node.Integer("transA", 0) == 0 && node.Integer("transB", 0) == 0 &&
         node.Float("alpha", 1.0F) == 1.0F && node.Float("beta", 1.0F) == 1.0F &&
         IsF32(program, node.inputs[0]) && IsBias(program, node.Input(2), weight->shape[1]);
}

void Fuse(ProgramIndex& index, ProgramNode& node) {
  const bool gemm = IsPlainGemm(index.program(), node);
  const auto product = gemm ? std::nullopt : MatchProduct(index, node);
  if (!gemm && !product)
    return;
  ProgramNode* place = gemm || product->add == nullptr ? &node : product->add;
  ProgramNode fused;
  fused.domain = "tenon";
  fused.op = "Linear";
  fused.name = node.name;
  fused.version = 1;
  fused.inputs = {node.inputs[0], node.inputs[1]};
  if (gemm)
    fused.inputs.push_back(node.inputs[2]);
  else if (product->bias.valid())
    fused.inputs.push_back(product->bias);
  fused.outputs = place->outputs;
  if (place != &node)
    index.Remove(node);
  index.Replace(*place, std::move(fused));
  TakeActivation(index, place);
  TakeResidual(index, place);
}

}  // namespace

Status MergeProducts(Program& program, const ProgramPassContext&) {
  ProgramIndex index(program);
  // By x and whether a bias follows; in the order of nodes.
  std::vector<std::vector<Product>> groups;
  std::unordered_map<uint64_t, size_t> group_of;
  for (ProgramNode& node : program.nodes) {
    const auto product = MatchProduct(index, node);
    if (!product)
      continue;
    const uint64_t key = uint64_t{node.inputs[0].index()} * 2 + (product->bias.valid() ? 1 : 0);
    const auto [found, is_new] = group_of.emplace(key, groups.size());
    if (is_new)
      groups.emplace_back();
    groups[found->second].push_back(*product);
  }
  for (const auto& group : groups) {
    if (group.size() > 1)
      Merge(index, group);
  }
  index.Finish();
  return {};
}

Status FuseProducts(Program& program, const ProgramPassContext&) {
  ProgramIndex index(program);
  for (ProgramNode& node : program.nodes) {
    if (!index.IsRemoved(node))
      Fuse(index, node);
  }
  index.Finish();
  return {};
}

}  // namespace tenon

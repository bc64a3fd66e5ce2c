#include "graph/program/passes/symbolic_shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "graph/program/passes/symbol_arithmetic.h"

namespace tenon {
namespace {

// Shapes and index lists; longer tensors are data.
constexpr size_t kMostElements = 64;

// A count that the file gives, known and from 0 to `most`.
bool Within(const Symbol& count, int64_t most) {
  return count.number && *count.number >= 0 && *count.number <= most;
}

bool OneOf(std::string_view op, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), op) != names.end();
}

// A dimension that may be counted from the end.
int64_t FromFront(int64_t dimension, int64_t rank) {
  return dimension < 0 ? dimension + rank : dimension;
}

class Inference {
 public:
  explicit Inference(const Program& program) : program_(program), values_(program.value_count()) {}

  std::vector<SymbolicValue> Run();

 private:
  void Declared(ProgramValueId id);
  void Node(const ProgramNode& node);
  bool MakerNode(const ProgramNode& node);
  bool MovingNode(const ProgramNode& node);
  void Elements(const ProgramNode& node);
  void Elementwise(const ProgramNode& node);
  void MatMul(const ProgramNode& node);
  void Gemm(const ProgramNode& node);
  void Gather(const ProgramNode& node);
  void GatherNd(const ProgramNode& node);
  void Concat(const ProgramNode& node);
  void Reshape(const ProgramNode& node);
  void Resqueeze(const ProgramNode& node);
  void Reduce(const ProgramNode& node);
  void Slice(const ProgramNode& node);

  const SymbolicValue& In(const ProgramNode& node, size_t i) const {
    static const SymbolicValue none;
    const ProgramValueId id = node.Input(i);
    return id.valid() ? values_[id.index()] : none;
  }
  SymbolicValue& Out(const ProgramNode& node) { return values_[node.outputs[0].index()]; }
  Symbol Fresh() { return {std::nullopt, fmt::format("?{}", next_++)}; }
  Symbols FreshShape(size_t rank);
  Symbols Broadcast(const Symbols& a, const Symbols& b);
  // A constant list at input `i`, or an attribute.
  std::optional<std::vector<int64_t>> List(const ProgramNode& node, size_t i,
                                           std::string_view attribute) const;

  const Program& program_;
  std::vector<SymbolicValue> values_;
  int next_ = 0;
};

Symbols Inference::FreshShape(size_t rank) {
  Symbols shape;
  for (size_t i = 0; i < rank; ++i)
    shape.push_back(Fresh());
  return shape;
}

Symbols Inference::Broadcast(const Symbols& a, const Symbols& b) {
  Symbols out(std::max(a.size(), b.size()));
  for (size_t i = 0; i < out.size(); ++i) {
    const Symbol one = Number(1);
    const Symbol& x = i < a.size() ? a[a.size() - 1 - i] : one;
    const Symbol& y = i < b.size() ? b[b.size() - 1 - i] : one;
    Symbol& to = out[out.size() - 1 - i];
    if (x == y || y.number == 1)
      to = x;
    else if (x.number == 1)
      to = y;
    // A known extent above 1 wins; two names may each be 1.
    else if (x.number && *x.number > 1)
      to = x;
    else if (y.number && *y.number > 1)
      to = y;
    else
      to = Fresh();
  }
  return out;
}

std::optional<std::vector<int64_t>> Inference::List(const ProgramNode& node, size_t i,
                                                    std::string_view attribute) const {
  if (const Constant* constant = program_.ConstantOf(node.Input(i)))
    return ConstantIntegers(*constant, kMostElements);
  const auto* list = node.Integers(attribute);
  return list == nullptr ? std::nullopt : std::optional(*list);
}

void Inference::Declared(ProgramValueId id) {
  const ProgramValue& value = program_.value(id);
  SymbolicValue& known = values_[id.index()];
  known.type = value.type;
  if (value.constant) {
    known.type = value.constant->type;
    known.shape.emplace();
    for (const int64_t extent : value.constant->shape)
      known.shape->push_back(Number(extent));
    const bool list = value.constant->shape.size() <= 1 && !IsFloat(known.type);
    const auto numbers = list ? ConstantIntegers(*value.constant, kMostElements) : std::nullopt;
    if (numbers) {
      known.elements.emplace();
      for (const int64_t number : *numbers)
        known.elements->push_back(Number(number));
    }
  } else if (value.shape) {
    known.shape.emplace();
    for (const ProgramDim& dim : *value.shape) {
      if (dim.value >= 0)
        known.shape->push_back(Number(dim.value));
      else
        known.shape->push_back(dim.name.empty() ? Fresh() : Symbol{std::nullopt, dim.name});
    }
  }
}

// Small integer tensors through the operators that shapes are computed with.
void Inference::Elements(const ProgramNode& node) {
  SymbolicValue& out = Out(node);
  const auto& a = In(node, 0).elements;
  const auto& b = In(node, 1).elements;
  const bool keeps = OneOf(node.op, {"Unsqueeze", "Squeeze", "Identity", "Reshape", "Cast"});
  if (keeps && a && !IsFloat(out.type) && out.shape && out.shape->size() <= 1)
    out.elements = a;
  if (OneOf(node.op, {"Add", "Sub", "Mul", "Div", "Equal"}) && a && b && !IsFloat(out.type)) {
    Symbols made;
    const size_t count = std::max(a->size(), b->size());
    if (a->empty() || b->empty() || count > kMostElements)
      return;
    for (size_t i = 0; i < count; ++i) {
      const Symbol& x = (*a)[a->size() == 1 ? 0 : i];
      const Symbol& y = (*b)[b->size() == 1 ? 0 : i];
      if (node.op != "Equal") {
        made.push_back(Combine(node.op, x, y));
        continue;
      }
      const auto equal = AreEqual(x, y);
      if (!equal)
        return;
      made.push_back(Number(*equal));
    }
    out.elements = std::move(made);
  }
  const auto& c = In(node, 2).elements;
  if (node.op == "Where" && a && b && c && a->size() == b->size() && b->size() == c->size()) {
    out.elements.emplace();
    for (size_t i = 0; i < a->size(); ++i) {
      if (!(*a)[i].number) {
        out.elements.reset();
        return;
      }
      out.elements->push_back(*(*a)[i].number != 0 ? (*b)[i] : (*c)[i]);
    }
  }
}

void Inference::Elementwise(const ProgramNode& node) {
  SymbolicValue& out = Out(node);
  const bool compares = OneOf(node.op, {"Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual",
                                        "And", "Or", "Xor", "IsNaN", "IsInf"});
  out.type = compares ? ElementType::kBool : In(node, node.op == "Where" ? 1 : 0).type;
  if (node.op == "Cast")
    out.type = static_cast<ElementType>(std::clamp<int64_t>(node.Integer("to", 0), 0, 26));
  Symbols shape;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!In(node, i).shape)
      return;
    shape = Broadcast(shape, *In(node, i).shape);
  }
  out.shape = std::move(shape);
}

void Inference::MatMul(const ProgramNode& node) {
  const auto& a = In(node, 0).shape;
  const auto& b = In(node, 1).shape;
  if (!a || !b || a->size() < 2 || b->size() < 2)
    return;
  Symbols batch = Broadcast({a->begin(), a->end() - 2}, {b->begin(), b->end() - 2});
  batch.push_back((*a)[a->size() - 2]);
  batch.push_back(b->back());
  Out(node).shape = std::move(batch);
}

void Inference::Gemm(const ProgramNode& node) {
  const auto& a = In(node, 0).shape;
  const auto& b = In(node, 1).shape;
  if (!a || !b || a->size() != 2 || b->size() != 2)
    return;
  Out(node).shape = Symbols{(*a)[node.Integer("transA", 0) != 0 ? 1 : 0],
                            (*b)[node.Integer("transB", 0) != 0 ? 0 : 1]};
}

void Inference::Gather(const ProgramNode& node) {
  const SymbolicValue& x = In(node, 0);
  const SymbolicValue& indices = In(node, 1);
  SymbolicValue& out = Out(node);
  if (!x.shape || !indices.shape)
    return;
  const auto rank = static_cast<int64_t>(x.shape->size());
  const int64_t axis = FromFront(node.Integer("axis", 0), rank);
  if (axis < 0 || axis >= rank)
    return;
  Symbols shape(x.shape->begin(), x.shape->begin() + axis);
  shape.insert(shape.end(), indices.shape->begin(), indices.shape->end());
  shape.insert(shape.end(), x.shape->begin() + axis + 1, x.shape->end());
  out.shape = std::move(shape);
  if (!x.elements || !indices.elements || rank != 1)
    return;
  Symbols picked;
  for (const Symbol& index : *indices.elements) {
    if (!index.number)
      return;
    const auto size = static_cast<int64_t>(x.elements->size());
    const int64_t at = *index.number < 0 ? *index.number + size : *index.number;
    if (at < 0 || at >= size)
      return;
    picked.push_back((*x.elements)[static_cast<size_t>(at)]);
  }
  out.elements = std::move(picked);
}

// The index's last dimension picks as many of the data's; the rest of both is the shape.
void Inference::GatherNd(const ProgramNode& node) {
  const auto& x = In(node, 0).shape;
  const auto& indices = In(node, 1).shape;
  if (!x || !indices || indices->empty() || node.Integer("batch_dims", 0) != 0 ||
      !Within(indices->back(), static_cast<int64_t>(x->size())))
    return;
  Symbols shape(indices->begin(), indices->end() - 1);
  shape.insert(shape.end(), x->begin() + *indices->back().number, x->end());
  Out(node).shape = std::move(shape);
}

void Inference::Concat(const ProgramNode& node) {
  SymbolicValue& out = Out(node);
  bool listed = true;
  Symbols all;
  Symbols shape;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const SymbolicValue& x = In(node, i);
    if (!x.shape || x.shape->empty())
      return;
    const auto rank = static_cast<int64_t>(x.shape->size());
    const auto axis = static_cast<size_t>(FromFront(node.Integer("axis", 0), rank));
    if (axis >= x.shape->size() || (i > 0 && shape.size() != x.shape->size()))
      return;
    if (i == 0)
      shape = *x.shape;
    else
      shape[axis] = Combine("Add", shape[axis], (*x.shape)[axis]);
    listed = listed && x.elements && rank == 1;
    if (listed)
      all.insert(all.end(), x.elements->begin(), x.elements->end());
  }
  out.shape = std::move(shape);
  if (listed && all.size() <= kMostElements)
    out.elements = std::move(all);
}

void Inference::Reshape(const ProgramNode& node) {
  const auto& x = In(node, 0).shape;
  const auto& target = In(node, 1).elements;
  SymbolicValue& out = Out(node);
  if (!target) {
    const auto& list = In(node, 1).shape;
    if (list && list->size() == 1 && Within((*list)[0], 16))
      out.shape = FreshShape(static_cast<size_t>(*(*list)[0].number));
    return;
  }
  Symbols shape = *target;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i].number == 0 && node.Integer("allowzero", 0) == 0)
      shape[i] = x && i < x->size() ? (*x)[i] : Fresh();
  }
  for (Symbol& dim : shape) {
    if (dim.number != -1)
      continue;
    const auto open = x ? OpenDimension(*x, shape) : std::nullopt;
    dim = open ? *open : Fresh();
    break;
  }
  out.shape = std::move(shape);
}

void Inference::Resqueeze(const ProgramNode& node) {
  const auto& x = In(node, 0).shape;
  const bool adds = node.op == "Unsqueeze";
  auto axes = List(node, 1, "axes");
  // Without axes all dimensions of 1 go: of one dimension that is known.
  const bool listed = node.Input(1).valid() || node.Find("axes") != nullptr;
  if (x && !adds && !listed && x->size() == 1 && (*x)[0].number == 1)
    axes = std::vector<int64_t>{0};
  if (!x || !axes)
    return;
  const auto rank = static_cast<int64_t>(x->size() + (adds ? axes->size() : 0));
  std::vector<bool> named(static_cast<size_t>(rank));
  for (const int64_t axis : *axes) {
    const int64_t d = FromFront(axis, rank);
    if (d < 0 || d >= rank)
      return;
    named[static_cast<size_t>(d)] = true;
  }
  Symbols shape;
  size_t next = 0;
  for (size_t d = 0; d < named.size(); ++d) {
    if (adds)
      shape.push_back(named[d] || next == x->size() ? Number(1) : (*x)[next++]);
    else if (!named[d])
      shape.push_back((*x)[d]);
  }
  Out(node).shape = std::move(shape);
}

void Inference::Reduce(const ProgramNode& node) {
  const auto& x = In(node, 0).shape;
  const bool arg = node.op.starts_with("Arg");
  const auto axes =
      arg ? std::optional(std::vector<int64_t>{node.Integer("axis", 0)}) : List(node, 1, "axes");
  Out(node).type = arg ? ElementType::kI64 : In(node, 0).type;
  if (!x || (!axes && node.Input(1).valid()))
    return;
  const auto rank = static_cast<int64_t>(x->size());
  std::vector<bool> reduced(x->size(), !axes || axes->empty());
  if (axes) {
    for (const int64_t axis : *axes) {
      const int64_t d = FromFront(axis, rank);
      if (d < 0 || d >= rank)
        return;
      reduced[static_cast<size_t>(d)] = true;
    }
  }
  Symbols shape;
  for (size_t d = 0; d < reduced.size(); ++d) {
    if (!reduced[d])
      shape.push_back((*x)[d]);
    else if (node.Integer("keepdims", 1) != 0)
      shape.push_back(Number(1));
  }
  Out(node).shape = std::move(shape);
}

void Inference::Slice(const ProgramNode& node) {
  const SymbolicValue& x = In(node, 0);
  SymbolicValue& out = Out(node);
  if (!x.shape)
    return;
  const auto starts = List(node, 1, "starts");
  const auto ends = List(node, 2, "ends");
  auto axes = List(node, 3, "axes");
  const auto steps = List(node, 4, "steps");
  out.shape = x.shape;
  const auto& axes_shape = In(node, 1).shape;
  if (!starts || !ends || (node.Input(4).valid() && !steps)) {
    // Only the named axes change.
    const bool one = axes && axes_shape;
    for (size_t d = 0; d < x.shape->size(); ++d) {
      const auto signed_d = static_cast<int64_t>(d);
      const bool named = !one || std::find(axes->begin(), axes->end(), signed_d) != axes->end() ||
                         std::find(axes->begin(), axes->end(),
                                   signed_d - static_cast<int64_t>(x.shape->size())) != axes->end();
      if (named)
        (*out.shape)[d] = Fresh();
    }
    return;
  }
  for (size_t i = 0; i < starts->size() && i < ends->size(); ++i) {
    const auto rank = static_cast<int64_t>(x.shape->size());
    int64_t axis = axes && i < axes->size() ? (*axes)[i] : static_cast<int64_t>(i);
    axis = FromFront(axis, rank);
    if (axis < 0 || axis >= rank)
      return;
    Symbol& dim = (*out.shape)[static_cast<size_t>(axis)];
    const int64_t step = steps && i < steps->size() ? (*steps)[i] : 1;
    const int64_t start = (*starts)[i];
    const int64_t end = (*ends)[i];
    if (start == 0 && step == 1 && end >= INT32_MAX)
      continue;
    if (step != 1 || !dim.number) {
      dim = Fresh();
      continue;
    }
    const int64_t extent = *dim.number;
    const auto clamp = [&](int64_t at) {
      return std::clamp<int64_t>(at < 0 ? std::max<int64_t>(at, -extent) + extent : at, 0, extent);
    };
    const int64_t first = clamp(start);
    const int64_t last = std::max(clamp(end), first);
    dim = Number(last - first);
    if (x.elements && rank == 1 && starts->size() == 1)
      out.elements = Symbols(x.elements->begin() + first, x.elements->begin() + last);
  }
}

bool Inference::MakerNode(const ProgramNode& node) {
  SymbolicValue& out = Out(node);
  if (node.op == "Shape") {
    out.type = ElementType::kI64;
    out.shape = FreshShape(1);
    const auto& x = In(node, 0).shape;
    if (!x)
      return true;
    const auto rank = static_cast<int64_t>(x->size());
    const auto at = [&](std::string_view name, int64_t otherwise) {
      const int64_t given = node.Integer(name, otherwise);
      return std::clamp<int64_t>(FromFront(given, rank), 0, rank);
    };
    const int64_t begin = at("start", 0);
    const int64_t end = std::max(at("end", rank), begin);
    out.shape = Symbols{Number(end - begin)};
    out.elements = Symbols(x->begin() + begin, x->begin() + end);
    return true;
  }
  if (node.op == "ConstantOfShape") {
    const ProgramAttribute* found = node.Find("value");
    const Constant* value = found == nullptr ? nullptr : std::get_if<Constant>(found);
    out.type = value == nullptr ? ElementType::kF32 : value->type;
    out.shape = In(node, 0).elements;
    const auto filler = value == nullptr ? std::nullopt : ConstantIntegers(*value, 1);
    if (filler && out.shape && out.shape->size() == 1 &&
        Within((*out.shape)[0], static_cast<int64_t>(kMostElements)))
      out.elements = Symbols(static_cast<size_t>(*(*out.shape)[0].number), Number((*filler)[0]));
    return true;
  }
  if (node.op == "Range") {
    out.type = In(node, 0).type;
    out.shape = FreshShape(1);
    const auto& start = In(node, 0).elements;
    const auto& end = In(node, 1).elements;
    const auto& step = In(node, 2).elements;
    if (start && end && step && start->size() == 1 && step->size() == 1 &&
        (*start)[0].number == 0 && (*step)[0].number == 1 && end->size() == 1)
      out.shape = *end;
    return true;
  }
  return false;
}

bool Inference::MovingNode(const ProgramNode& node) {
  SymbolicValue& out = Out(node);
  const auto& x = In(node, 0).shape;
  if (node.op == "Transpose") {
    const auto* perm = node.Integers("perm");
    if (!x || perm == nullptr || perm->size() != x->size())
      return true;
    out.shape.emplace();
    for (const int64_t d : *perm)
      out.shape->push_back((
          *x)[static_cast<size_t>(std::clamp<int64_t>(d, 0, static_cast<int64_t>(x->size()) - 1))]);
    return true;
  }
  if (node.op == "Expand") {
    const auto& target = In(node, 1).elements;
    if (x && target)
      out.shape = Broadcast(*x, *target);
    return true;
  }
  if (node.op == "Split") {
    const auto rank = static_cast<int64_t>(x ? x->size() : 0);
    const int64_t axis = FromFront(node.Integer("axis", 0), rank);
    const auto sizes = List(node, 1, "split");
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (!node.outputs[i].valid() || axis < 0 || axis >= rank)
        continue;
      SymbolicValue& part = values_[node.outputs[i].index()];
      part.type = In(node, 0).type;
      part.shape = x;
      const bool listed = sizes && i < sizes->size() && (*sizes)[i] >= 0;
      (*part.shape)[static_cast<size_t>(axis)] = listed ? Number((*sizes)[i]) : Fresh();
    }
    return true;
  }
  return false;
}

void Inference::Node(const ProgramNode& node) {
  for (const ProgramValueId id : node.outputs) {
    if (id.valid())
      values_[id.index()] = {};
  }
  if (!node.outputs[0].valid() || !node.domain.empty())
    return;
  SymbolicValue& out = Out(node);
  out.type = In(node, 0).type;
  if (MakerNode(node) || MovingNode(node)) {
    Elements(node);
    return;
  }
  if (node.op == "MatMul")
    MatMul(node);
  else if (node.op == "Gemm")
    Gemm(node);
  else if (node.op == "Flatten" && In(node, 0).shape)
    out.shape = FreshShape(2);
  else if (node.op == "Gather")
    Gather(node);
  else if (node.op == "GatherND")
    GatherNd(node);
  else if (node.op == "Concat")
    Concat(node);
  else if (node.op == "Reshape")
    Reshape(node);
  else if (OneOf(node.op, {"Unsqueeze", "Squeeze"}))
    Resqueeze(node);
  else if (node.op.starts_with("Reduce") || node.op.starts_with("Arg"))
    Reduce(node);
  else if (node.op == "Slice")
    Slice(node);
  else if (OneOf(node.op, {"LayerNormalization", "RMSNormalization", "Softmax", "LogSoftmax",
                           "Trilu", "CumSum", "ScatterND", "SimplifiedLayerNormalization"}))
    out.shape = In(node, 0).shape;
  else if (OneOf(node.op,
                 {"Add",   "Sub",      "Mul",   "Div",  "Pow",     "Equal",       "Less",
                  "And",   "Or",       "Xor",   "Not",  "Greater", "LessOrEqual", "GreaterOrEqual",
                  "Where", "Cast",     "Neg",   "Abs",  "Sqrt",    "Exp",         "Log",
                  "Erf",   "Tanh",     "Sin",   "Cos",  "Sigmoid", "Relu",        "Reciprocal",
                  "Gelu",  "Identity", "Floor", "Ceil", "IsNaN",   "Min",         "Max"}))
    Elementwise(node);
  else
    out.type = ElementType::kUndefined;
  Elements(node);
}

std::vector<SymbolicValue> Inference::Run() {
  for (uint32_t i = 0; i < values_.size(); ++i) {
    if (program_.value(ProgramValueId(i)).constant)
      Declared(ProgramValueId(i));
  }
  for (const ProgramValueId id : program_.inputs)
    Declared(id);
  for (const ProgramNode& node : program_.nodes) {
    if (!node.outputs.empty())
      Node(node);
  }
  return std::move(values_);
}

}  // namespace

std::vector<SymbolicValue> InferSymbolic(const Program& program) {
  return Inference(program).Run();
}

}  // namespace tenon

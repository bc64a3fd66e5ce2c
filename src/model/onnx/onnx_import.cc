#include "model/onnx/onnx_import.h"

#include <fmt/format.h>

#include <unordered_map>
#include <unordered_set>

namespace tenon {
namespace {

// AttributeProto.AttributeType
enum AttributeType : int64_t {
  kFloat = 1,
  kInt = 2,
  kString = 3,
  kTensor = 4,
  kGraph = 5,
  kFloats = 6,
  kInts = 7,
  kStrings = 8,
};

// The newest operator set whose operators were compared with the table of kernels.
constexpr int64_t kNewestOpset = 28;

// Inputs that passes and shape inference take for granted.
struct RequiredInputs {
  std::string_view op;
  size_t count;
};
constexpr RequiredInputs kRequired[] = {
    {"Identity", 1}, {"Dropout", 1},   {"Cast", 1},       {"Concat", 1},  {"Add", 2},
    {"Sub", 2},      {"Mul", 2},       {"Div", 2},        {"Pow", 2},     {"MatMul", 2},
    {"Gemm", 2},     {"Gather", 2},    {"Reshape", 1},    {"Expand", 2},  {"Unsqueeze", 1},
    {"Squeeze", 1},  {"Transpose", 1}, {"ReduceMean", 1}, {"Sqrt", 1},    {"Reciprocal", 1},
    {"Erf", 1},      {"Tanh", 1},      {"Sigmoid", 1},    {"Softmax", 1}, {"Slice", 1},
    {"Neg", 1},      {"Gelu", 1},      {"Relu", 1},       {"Swish", 1},
};

using Names = std::unordered_map<std::string, ProgramValueId>;

class Importer {
 public:
  explicit Importer(OnnxFile& file) : file_(file) {}

  Status Graph(const OnnxGraph& graph, Program& program);

 private:
  // A graph that is being read, and what it reads of the one around it.
  struct Frame {
    Program* program;
    Names names;
    std::vector<ProgramValueId> captures;  // values of the graph around it
  };

  Status Body(const OnnxGraph& graph, Frame& frame);
  // Of the innermost graph, or of one around it; then the value becomes an input of all between.
  // Invalid when there is none.
  ProgramValueId Lookup(size_t depth, const std::string& name);
  ProgramValueId Lookup(const std::string& name) { return Lookup(frames_.size() - 1, name); }
  Status Bodies(const OnnxNode& node, ProgramNode& out);
  Result<ProgramValueId> TensorValue(const OnnxTensor& tensor, Program& program);
  Result<Constant> TensorConstant(const OnnxTensor& tensor, Program& program);
  Status Inputs(const OnnxGraph& graph, Frame& frame);
  Status Node(const OnnxNode& node, Frame& frame);
  Result<ProgramAttribute> Attribute(const OnnxAttribute& attribute, Program& program);
  Error Wrong(const OnnxNode& node, std::string_view message) const {
    return Corrupt(std::string(message),
                   fmt::format("{}: node '{}' ({})", file_.name(), node.name, node.op));
  }
  void Declare(const OnnxValueInfo& info, ProgramValue& value) const;

  OnnxFile& file_;
  std::vector<Frame*> frames_;  // outermost first
};

// One byte an element from packed 4- or 2-bit ones; signed types are sign-extended.
std::vector<std::byte> Unpack(ElementType type, int64_t count, std::span<const std::byte> packed) {
  const auto bits = static_cast<size_t>(ElementBits(type));
  const unsigned mask = (1U << bits) - 1;
  const unsigned sign = ClassOf(type) == NumberClass::kSigned ? 1U << (bits - 1) : 0;
  std::vector<std::byte> out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i) {
    const auto byte = static_cast<unsigned>(packed[i * bits / 8]);
    const unsigned value = byte >> (i * bits % 8) & mask;
    out[i] = static_cast<std::byte>((value & sign) != 0 ? value | (0xFFU & ~mask) : value);
  }
  return out;
}

Result<Constant> Importer::TensorConstant(const OnnxTensor& tensor, Program& program) {
  TENON_ASSIGN_OR_RETURN(const OnnxTensorData data, file_.Data(tensor));
  Constant constant{data.type, data.shape, data.bytes};
  const bool packed = ElementBits(data.type) < 8;
  // Bytes of a model in memory, and unaligned ones, are copied.
  const auto address = reinterpret_cast<uintptr_t>(data.bytes.data());
  const bool aligned = address % static_cast<uintptr_t>(ElementBytes(data.type)) == 0;
  if (packed) {
    TENON_ASSIGN_OR_RETURN(const int64_t count, CountElements(data.shape));
    program.owned.push_back(Unpack(data.type, count, data.bytes));
    constant.bytes = program.owned.back();
  } else if (data.file == OnnxTensorData::kMemory || !aligned) {
    program.owned.emplace_back(data.bytes.begin(), data.bytes.end());
    constant.bytes = program.owned.back();
  }
  return constant;
}

Result<ProgramValueId> Importer::TensorValue(const OnnxTensor& tensor, Program& program) {
  TENON_ASSIGN_OR_RETURN(Constant constant, TensorConstant(tensor, program));
  const ProgramValueId id = program.AddValue(tensor.name, constant.type);
  program.value(id).constant = std::move(constant);
  return id;
}

void Importer::Declare(const OnnxValueInfo& info, ProgramValue& value) const {
  if (info.element_type > 0 && info.element_type < kElementTypeCount)
    value.type = static_cast<ElementType>(info.element_type);
  if (!info.has_shape)
    return;
  value.shape.emplace();
  for (const OnnxDimension& dimension : info.shape)
    value.shape->push_back({dimension.value.value_or(-1), dimension.name});
}

Result<ProgramAttribute> Importer::Attribute(const OnnxAttribute& attribute, Program& program) {
  switch (attribute.type) {
    case kFloat:
      return ProgramAttribute(attribute.f);
    case kInt:
      return ProgramAttribute(attribute.i);
    case kString:
      return ProgramAttribute(attribute.s);
    case kFloats:
      return ProgramAttribute(attribute.floats);
    case kInts:
      return ProgramAttribute(attribute.ints);
    case kStrings:
      return ProgramAttribute(attribute.strings);
    case kTensor: {
      if (attribute.tensor == nullptr)
        return Corrupt(fmt::format("the attribute '{}' has no tensor", attribute.name));
      TENON_ASSIGN_OR_RETURN(Constant constant, TensorConstant(*attribute.tensor, program));
      return ProgramAttribute(std::move(constant));
    }
    default:
      return Unsupported(
          fmt::format("the attribute '{}' of type {}", attribute.name, attribute.type));
  }
}

Status Importer::Inputs(const OnnxGraph& graph, Frame& frame) {
  Program& program = *frame.program;
  Names& names = frame.names;
  for (const OnnxTensor& tensor : graph.initializers) {
    TENON_ASSIGN_OR_RETURN(const ProgramValueId id, TensorValue(tensor, program));
    if (!names.emplace(tensor.name, id).second)
      return Corrupt(fmt::format("the initializer '{}' is there twice", tensor.name), file_.name());
  }
  for (const OnnxValueInfo& info : graph.inputs) {
    // Files of IR version 3 list initializers as inputs too.
    if (names.contains(info.name))
      continue;
    if (info.other_type)
      return Unsupported(fmt::format("the input '{}' is no tensor", info.name), file_.name());
    const ProgramValueId id = program.AddValue(info.name);
    // Of a body they are what the node gives, whatever it declares.
    if (frames_.size() == 1)
      Declare(info, program.value(id));
    if (program.value(id).type == ElementType::kString)
      return Unsupported(fmt::format("the input '{}' has strings", info.name), file_.name());
    names.emplace(info.name, id);
    program.inputs.push_back(id);
  }
  return {};
}

ProgramValueId Importer::Lookup(size_t depth, const std::string& name) {
  Frame& frame = *frames_[depth];
  const auto found = frame.names.find(name);
  if (found != frame.names.end())
    return found->second;
  const ProgramValueId outer = depth == 0 ? ProgramValueId() : Lookup(depth - 1, name);
  if (!outer.valid())
    return outer;
  const ProgramValue& value = frames_[depth - 1]->program->value(outer);
  const ProgramValueId id = frame.program->AddValue(name, value.type);
  frame.names.emplace(name, id);
  if (value.constant) {
    // Its bytes stay with the graph around, which lives as long.
    frame.program->value(id).constant = value.constant;
    return id;
  }
  frame.program->inputs.push_back(id);
  frame.captures.push_back(outer);
  return id;
}

// The graphs among the node's attributes, and what they read of the graph around as further inputs.
Status Importer::Bodies(const OnnxNode& node, ProgramNode& out) {
  for (const OnnxAttribute& attribute : node.attributes) {
    if (attribute.type != kGraph)
      continue;
    if (attribute.graph == nullptr)
      return Wrong(node, fmt::format("the attribute '{}' has no graph", attribute.name));
    auto program = std::make_unique<Program>();
    Frame frame{program.get(), {}, {}};
    frames_.push_back(&frame);
    const Status read = Body(*attribute.graph, frame);
    frames_.pop_back();
    TENON_RETURN_IF_ERROR(read);
    out.inputs.insert(out.inputs.end(), frame.captures.begin(), frame.captures.end());
    out.attributes.emplace_back(attribute.name, std::move(program));
  }
  return {};
}

Status Importer::Node(const OnnxNode& node, Frame& frame) {
  Program& program = *frame.program;
  Names& names = frame.names;
  ProgramNode out;
  out.domain = node.domain;
  out.op = node.op;
  out.name = node.name.empty() && !node.outputs.empty() ? node.outputs[0] : node.name;
  out.version = file_.model().Opset(node.domain);
  if (out.version < 1)
    return Wrong(node, fmt::format("the model imports no operator set '{}'", node.domain));
  if (node.outputs.empty())
    return Wrong(node, "a node without outputs");
  for (const RequiredInputs& required : kRequired) {
    for (size_t i = 0; node.domain.empty() && node.op == required.op && i < required.count; ++i) {
      if (i >= node.inputs.size() || node.inputs[i].empty())
        return Wrong(node, fmt::format("input {} is missing", i));
    }
  }
  for (const std::string& input : node.inputs) {
    const ProgramValueId found = input.empty() ? ProgramValueId() : Lookup(input);
    if (!input.empty() && !found.valid())
      return Wrong(node, fmt::format("nothing before it makes the value '{}'", input));
    out.inputs.push_back(found);
  }
  const auto own_inputs = static_cast<int64_t>(out.inputs.size());
  TENON_RETURN_IF_ERROR(Bodies(node, out));
  if (!out.attributes.empty())
    out.attributes.emplace_back("own_inputs", own_inputs);
  for (const OnnxAttribute& attribute : node.attributes) {
    if (attribute.type == kGraph)
      continue;
    auto value = Attribute(attribute, program);
    if (!value.ok()) {
      Error error = Wrong(node, value.error().message);
      error.code = value.error().code;
      return error;
    }
    out.attributes.emplace_back(attribute.name, std::move(value).value());
  }
  for (const std::string& output : node.outputs) {
    if (output.empty()) {
      // The first output is always a value; the others may be left out.
      out.outputs.push_back(out.outputs.empty() ? program.AddValue(out.name + "_unused")
                                                : ProgramValueId());
      continue;
    }
    const ProgramValueId id = program.AddValue(output);
    if (!names.emplace(output, id).second)
      return Wrong(node, fmt::format("the value '{}' is made twice", output));
    out.outputs.push_back(id);
  }
  program.nodes.push_back(std::move(out));
  return {};
}

Status Importer::Graph(const OnnxGraph& graph, Program& program) {
  Frame frame{&program, {}, {}};
  frames_ = {&frame};
  return Body(graph, frame);
}

Status Importer::Body(const OnnxGraph& graph, Frame& frame) {
  if (graph.has_sparse_initializers)
    return Unsupported("sparse initializers", file_.name());
  TENON_RETURN_IF_ERROR(Inputs(graph, frame));
  for (const OnnxNode& node : graph.nodes)
    TENON_RETURN_IF_ERROR(Node(node, frame));
  // Declared types of values inside (graph.values) are not believed: passes infer their own.
  for (const OnnxValueInfo& info : graph.outputs) {
    const ProgramValueId found = Lookup(info.name);
    if (!found.valid())
      return Corrupt(fmt::format("nothing makes the output '{}'", info.name), file_.name());
    frame.program->outputs.push_back(found);
  }
  return {};
}

Status CheckModel(const OnnxFile& file) {
  const OnnxModel& model = file.model();
  if (model.function_count > 0)
    return Unsupported(fmt::format("{} functions of the model's own", model.function_count),
                       file.name());
  if (model.Opset("") > kNewestOpset)
    return Unsupported(fmt::format("operator set {}, newer than {}", model.Opset(""), kNewestOpset),
                       file.name());
  return {};
}

}  // namespace

Result<Program> ImportOnnx(OnnxFile file) {
  TENON_RETURN_IF_ERROR(CheckModel(file));
  Program program;
  TENON_RETURN_IF_ERROR(Importer(file).Graph(file.model().graph, program));
  program.files = std::move(file).TakeFiles();
  TENON_RETURN_IF_ERROR(VerifyProgram(program));
  return program;
}

}  // namespace tenon

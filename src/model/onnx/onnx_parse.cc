// Field numbers are those of onnx.proto (ONNX 1.16 and later add fields, which are skipped).
#include <fmt/format.h>

#include "model/onnx/onnx_proto.h"
#include "model/onnx/wire_reader.h"

namespace tenon {
namespace {

// If in Loop in Scan ... real models have two or three.
constexpr int kMostNestedGraphs = 16;
// A scale of nodes far above real exports (some 10,000), so that a small file can't ask for much.
constexpr size_t kMostNodes = 1 << 20;
constexpr int64_t kExternal = 1;  // TensorProto.DataLocation

Status ReadText(const WireReader& reader, const WireField& field, std::string& out) {
  TENON_ASSIGN_OR_RETURN(const std::string_view text, reader.Text(field));
  out = text;
  return {};
}

Status ReadInteger(const WireReader& reader, const WireField& field, int64_t& out) {
  TENON_ASSIGN_OR_RETURN(out, reader.Integer(field));
  return {};
}

Status AppendText(const WireReader& reader, const WireField& field, std::vector<std::string>& out) {
  TENON_ASSIGN_OR_RETURN(const std::string_view text, reader.Text(field));
  out.emplace_back(text);
  return {};
}

// Calls visit(reader, field) for each field of the message in `field`.
template <class Visit>
Status ForNested(const WireReader& parent, const WireField& field, Visit visit) {
  TENON_RETURN_IF_ERROR(parent.Bytes(field));
  WireReader reader = parent.Nested(field);
  while (!reader.AtEnd()) {
    TENON_ASSIGN_OR_RETURN(const WireField next, reader.Next());
    TENON_RETURN_IF_ERROR(visit(static_cast<const WireReader&>(reader), next));
  }
  return {};
}

// StringStringEntryProto
Status AppendPair(const WireReader& parent, const WireField& field,
                  std::vector<std::pair<std::string, std::string>>& out) {
  auto& pair = out.emplace_back();
  return ForNested(parent, field, [&](const WireReader& r, const WireField& f) -> Status {
    if (f.number == 1)
      return ReadText(r, f, pair.first);
    return f.number == 2 ? ReadText(r, f, pair.second) : Status();
  });
}

Status ReadTensorField(const WireReader& r, const WireField& f, OnnxTensor& tensor) {
  switch (f.number) {
    case 1:
      return r.AppendIntegers(f, tensor.dims);
    case 2:
      return ReadInteger(r, f, tensor.data_type);
    case 3:
      return r.Wrong("a tensor in segments");
    case 4:
      return r.AppendFloats(f, tensor.floats);
    case 5:
      return r.AppendIntegers(f, tensor.int32s);
    case 6:
      return AppendText(r, f, tensor.strings);
    case 7:
      return r.AppendIntegers(f, tensor.int64s);
    case 8:
      return ReadText(r, f, tensor.name);
    case 9: {
      TENON_ASSIGN_OR_RETURN(tensor.raw, r.Bytes(f));
      return {};
    }
    case 10:
      return r.AppendDoubles(f, tensor.doubles);
    case 11:
      return r.AppendIntegers(f, tensor.uint64s);
    case 13:
      return AppendPair(r, f, tensor.external_data);
    case 14: {
      TENON_ASSIGN_OR_RETURN(const int64_t location, r.Integer(f));
      tensor.external = location == kExternal;
      return {};
    }
    default:
      return {};
  }
}

Status ReadTensor(const WireReader& parent, const WireField& field, OnnxTensor& tensor) {
  return ForNested(parent, field, [&](const WireReader& r, const WireField& f) {
    return ReadTensorField(r, f, tensor);
  });
}

// TensorShapeProto
Status ReadShape(const WireReader& parent, const WireField& field, OnnxValueInfo& info) {
  info.has_shape = true;
  return ForNested(parent, field, [&](const WireReader& r, const WireField& f) -> Status {
    if (f.number != 1)
      return {};
    OnnxDimension& dimension = info.shape.emplace_back();
    return ForNested(r, f, [&](const WireReader& rr, const WireField& ff) -> Status {
      if (ff.number == 1) {
        TENON_ASSIGN_OR_RETURN(dimension.value, rr.Integer(ff));
        return {};
      }
      return ff.number == 2 ? ReadText(rr, ff, dimension.name) : Status();
    });
  });
}

// TypeProto
Status ReadType(const WireReader& parent, const WireField& field, OnnxValueInfo& info) {
  return ForNested(parent, field, [&](const WireReader& r, const WireField& f) -> Status {
    if (f.number != 1) {
      info.other_type |= f.number == 4 || f.number == 5 || f.number == 8 || f.number == 9;
      return {};
    }
    return ForNested(r, f, [&](const WireReader& rr, const WireField& ff) -> Status {
      if (ff.number == 1)
        return ReadInteger(rr, ff, info.element_type);
      return ff.number == 2 ? ReadShape(rr, ff, info) : Status();
    });
  });
}

Status ReadValueInfo(const WireReader& parent, const WireField& field,
                     std::vector<OnnxValueInfo>& out) {
  OnnxValueInfo& info = out.emplace_back();
  return ForNested(parent, field, [&](const WireReader& r, const WireField& f) -> Status {
    if (f.number == 1)
      return ReadText(r, f, info.name);
    return f.number == 2 ? ReadType(r, f, info) : Status();
  });
}

Status ReadGraph(const WireReader& parent, const WireField& field, int depth, OnnxGraph& graph);

Status ReadAttributeField(const WireReader& r, const WireField& f, int depth,
                          OnnxAttribute& attribute) {
  switch (f.number) {
    case 1:
      return ReadText(r, f, attribute.name);
    case 2: {
      TENON_ASSIGN_OR_RETURN(attribute.f, r.Float(f));
      return {};
    }
    case 3:
      return ReadInteger(r, f, attribute.i);
    case 4:
      return ReadText(r, f, attribute.s);
    case 5:
      attribute.tensor = std::make_unique<OnnxTensor>();
      return ReadTensor(r, f, *attribute.tensor);
    case 6:
      attribute.graph = std::make_unique<OnnxGraph>();
      return ReadGraph(r, f, depth + 1, *attribute.graph);
    case 7:
      return r.AppendFloats(f, attribute.floats);
    case 8:
      return r.AppendIntegers(f, attribute.ints);
    case 9:
      return AppendText(r, f, attribute.strings);
    case 20:
      return ReadInteger(r, f, attribute.type);
    case 21:
      return ReadText(r, f, attribute.reference);
    default:
      return {};
  }
}

// The module in "['', 'model', 'model.layers.0.mlp.up_proj', 'linear']", which torch's exporter
// writes beside each node: the last but one of the scopes. Empty when the text is not of that form.
std::string ModuleInScopes(std::string_view text) {
  constexpr std::string_view kBetween = "', '";
  const size_t last = text.rfind(kBetween);
  if (last == std::string_view::npos || last == 0)
    return {};
  const size_t before = text.rfind(kBetween, last - 1);
  if (before == std::string_view::npos)
    return {};
  const size_t begin = before + kBetween.size();
  return begin > last ? std::string() : std::string(text.substr(begin, last - begin));
}

Status ReadNodeMetadata(const WireReader& r, const WireField& f, OnnxNode& node) {
  std::vector<std::pair<std::string, std::string>> entry;
  TENON_RETURN_IF_ERROR(AppendPair(r, f, entry));
  if (entry.back().first == "pkg.torch.onnx.name_scopes")
    node.scope = ModuleInScopes(entry.back().second);
  return {};
}

Status ReadNodeField(const WireReader& r, const WireField& f, int depth, OnnxNode& node) {
  switch (f.number) {
    case 1:
      return AppendText(r, f, node.inputs);
    case 2:
      return AppendText(r, f, node.outputs);
    case 3:
      return ReadText(r, f, node.name);
    case 4:
      return ReadText(r, f, node.op);
    case 5: {
      OnnxAttribute& attribute = node.attributes.emplace_back();
      return ForNested(r, f, [&](const WireReader& rr, const WireField& ff) {
        return ReadAttributeField(rr, ff, depth, attribute);
      });
    }
    case 7:
      TENON_RETURN_IF_ERROR(ReadText(r, f, node.domain));
      if (node.domain == "ai.onnx")
        node.domain.clear();
      return {};
    case 9:
      return ReadNodeMetadata(r, f, node);
    default:
      return {};
  }
}

Status ReadGraphField(const WireReader& r, const WireField& f, int depth, OnnxGraph& graph) {
  switch (f.number) {
    case 1: {
      if (graph.nodes.size() == kMostNodes)
        return r.Wrong(fmt::format("more than {} nodes", kMostNodes));
      OnnxNode& node = graph.nodes.emplace_back();
      return ForNested(r, f, [&](const WireReader& rr, const WireField& ff) {
        return ReadNodeField(rr, ff, depth, node);
      });
    }
    case 2:
      return ReadText(r, f, graph.name);
    case 5:
      return ReadTensor(r, f, graph.initializers.emplace_back());
    case 11:
      return ReadValueInfo(r, f, graph.inputs);
    case 12:
      return ReadValueInfo(r, f, graph.outputs);
    case 13:
      return ReadValueInfo(r, f, graph.values);
    case 15:
      graph.has_sparse_initializers = true;
      return {};
    default:
      return {};
  }
}

Status ReadGraph(const WireReader& parent, const WireField& field, int depth, OnnxGraph& graph) {
  if (depth > kMostNestedGraphs)
    return parent.Wrong(fmt::format("graphs nested more than {} deep", kMostNestedGraphs));
  return ForNested(parent, field, [&](const WireReader& r, const WireField& f) {
    return ReadGraphField(r, f, depth, graph);
  });
}

Status ReadOpset(const WireReader& parent, const WireField& field, OnnxModel& model) {
  auto& opset = model.opsets.emplace_back();  // domain, version
  TENON_RETURN_IF_ERROR(
      ForNested(parent, field, [&](const WireReader& r, const WireField& f) -> Status {
        if (f.number == 1)
          return ReadText(r, f, opset.first);
        return f.number == 2 ? ReadInteger(r, f, opset.second) : Status();
      }));
  if (opset.first == "ai.onnx")
    opset.first.clear();
  return {};
}

Status ReadModelField(const WireReader& r, const WireField& f, OnnxModel& model) {
  switch (f.number) {
    case 1:
      return ReadInteger(r, f, model.ir_version);
    case 2:
      return ReadText(r, f, model.producer);
    case 7:
      return ReadGraph(r, f, 1, model.graph);
    case 8:
      return ReadOpset(r, f, model);
    case 14:
      return AppendPair(r, f, model.metadata);
    case 25:
      ++model.function_count;
      return {};
    default:
      return {};
  }
}

}  // namespace

int64_t OnnxModel::Opset(std::string_view domain) const {
  for (const auto& [name, version] : opsets) {
    if (name == domain)
      return version;
  }
  return 0;
}

Result<OnnxModel> ParseOnnx(std::span<const std::byte> bytes, const std::string& file) {
  OnnxModel model;
  WireReader reader(bytes, 0, &file);
  while (!reader.AtEnd()) {
    TENON_ASSIGN_OR_RETURN(const WireField field, reader.Next());
    TENON_RETURN_IF_ERROR(ReadModelField(reader, field, model));
  }
  if (model.ir_version < 1 || model.opsets.empty())
    return Corrupt("no ONNX model: the IR version or the operator set is missing", file);
  return model;
}

}  // namespace tenon

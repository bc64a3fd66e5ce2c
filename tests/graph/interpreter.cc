#include "graph/interpreter.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "base/check.h"
#include "graph/plugin/plugin_graph_node.h"

namespace tenon {
namespace {

// Deterministic on one platform, which is all the comparison needs; in [-0.5, 0.5).
double MadeUp(const std::string& name, int64_t row, int64_t column) {
  const size_t hash =
      std::hash<std::string>{}(name + "/" + std::to_string(row) + "/" + std::to_string(column));
  return static_cast<double>(hash % 100003) / 100003.0 - 0.5;
}

Matrix Zeros(int64_t rows, int64_t columns) {
  return {rows, columns, std::vector<double>(static_cast<size_t>(rows * columns), 0.0)};
}

double Silu(double x) {
  return x / (1 + std::exp(-x));
}
double Gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

double GeluErf(double x) {
  return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
}

class Interpreter {
 public:
  Interpreter(const Graph& graph, const InterpreterOptions& options)
      : graph_(graph), options_(options), values_(graph.values().size()) {}

  std::vector<Matrix> Run() {
    for (size_t i = 0; i < graph_.values().size(); ++i)
      values_[i] = Source(graph_.values()[i]);
    for (const Op& op : graph_.ops())
      std::visit([&](const auto& attrs) { Eval(op, attrs); }, op.attrs);
    std::vector<Matrix> outputs;
    for (const ValueId id : graph_.outputs())
      outputs.push_back(values_[id.index()]);
    return outputs;
  }

 private:
  int64_t Size(const Dim& dim) const {
    if (dim.symbol == Symbol::kNone)
      return dim.extent;
    return dim.extent * (dim.symbol == Symbol::kTokens ? options_.tokens : options_.outputs);
  }

  // Inputs and weights; vectors are one row.
  Matrix Source(const Value& value) const {
    if (value.kind == ValueKind::kTemporary)
      return {};
    const bool vector = value.shape.size() == 1;
    Matrix matrix = Zeros(vector ? 1 : Size(value.shape[0]), Size(value.shape.back()));
    const int64_t first_row = value.weight && !vector ? value.weight->row_begin : 0;
    const int64_t first_column = value.weight && vector ? value.weight->row_begin : 0;
    for (int64_t r = 0; r < matrix.rows; ++r) {
      for (int64_t c = 0; c < matrix.columns; ++c)
        matrix.at(r, c) = value.dtype == DType::kI32
                              ? Index(value.name, c)
                              : MadeUp(value.name, first_row + r, first_column + c);
    }
    return matrix;
  }

  double Index(const std::string& input, int64_t i) const {
    if (input == "tokens")
      return static_cast<double>(i * 3 % 7);
    if (input == "rows")
      return static_cast<double>(options_.tokens - 1 - i);
    return static_cast<double>(i);
  }

  const Matrix& In(const Op& op, size_t i) const { return values_[op.inputs[i].index()]; }
  Matrix& Out(const Op& op, size_t i = 0) { return values_[op.outputs[i].index()]; }

  template <class F>
  void Map(const Op& op, F function) {
    Matrix result = In(op, 0);
    for (double& x : result.data)
      x = function(x);
    Out(op) = std::move(result);
  }

  template <class F>
  void Zip(const Op& op, F function) {
    Matrix result = In(op, 0);
    for (size_t i = 0; i < result.data.size(); ++i)
      result.data[i] = function(result.data[i], In(op, 1).data[i]);
    Out(op) = std::move(result);
  }

  // What the plug-in says, in its float.
  void Eval(const Op& op, const PluginAttrs& attrs) {
    std::vector<std::vector<float>> floats;
    std::vector<std::vector<int64_t>> shapes;
    const auto floats_of = [&](ValueId id) {
      Matrix& matrix = values_[id.index()];
      floats.emplace_back(matrix.data.begin(), matrix.data.end());
      shapes.push_back(PluginExtents(graph_.value(id).shape, {options_.tokens, options_.outputs}));
    };
    for (const ValueId id : op.inputs)
      floats_of(id);
    for (const ValueId id : op.outputs) {
      const std::vector<Dim>& shape = graph_.value(id).shape;
      values_[id.index()] = Zeros(Size(shape[0]), Size(shape[1]));
      floats_of(id);
    }
    std::vector<TenonTensor> tensors;
    for (size_t i = 0; i < floats.size(); ++i)
      tensors.push_back(
          {TENON_F32, static_cast<int32_t>(shapes[i].size()), shapes[i].data(), floats[i].data()});
    const size_t inputs = op.inputs.size();
    const PluginGraphNode node(attrs,
                               {tensors.begin(), tensors.begin() + static_cast<ptrdiff_t>(inputs)});
    TENON_CHECK(PluginRun(*attrs.op, node, std::span(tensors).subspan(inputs)).ok());
    for (size_t i = 0; i < op.outputs.size(); ++i)
      Out(op, i).data.assign(floats[inputs + i].begin(), floats[inputs + i].end());
  }

  void Eval(const Op& op, const AddAttrs&) { Zip(op, std::plus<>()); }
  void Eval(const Op& op, const MulAttrs&) { Zip(op, std::multiplies<>()); }
  void Eval(const Op& op, const SiluAttrs&) { Map(op, Silu); }
  void Eval(const Op& op, const GeluAttrs& attrs) { Map(op, attrs.exact ? GeluErf : Gelu); }
  void Eval(const Op& op, const ReluAttrs&) {
    Map(op, [](double x) { return std::max(x, 0.0); });
  }
  void Eval(const Op& op, const QuantizeAttrs&) { Map(op, std::identity()); }
  void Eval(const Op& op, const ScaleAttrs& attrs) {
    Map(op, [&](double x) { return x * static_cast<double>(attrs.factor); });
  }
  void Eval(const Op& op, const SoftcapAttrs& attrs) {
    const double cap = static_cast<double>(attrs.cap);
    Map(op, [&](double x) { return cap * std::tanh(x / cap); });
  }

  // Rows of input 1's matrix (or of input 0's, by input 1) times a factor.
  static Matrix Gather(const Matrix& table, const Matrix& rows, double factor) {
    Matrix result = Zeros(rows.columns, table.columns);
    for (int64_t r = 0; r < result.rows; ++r) {
      for (int64_t c = 0; c < result.columns; ++c)
        result.at(r, c) = table.at(static_cast<int64_t>(rows.at(0, r)), c) * factor;
    }
    return result;
  }
  void Eval(const Op& op, const EmbedAttrs& attrs) {
    Matrix ids = In(op, 0);
    for (double& id : ids.data)
      id = attrs.only_row < 0 ? id + static_cast<double>(attrs.offset)
                              : static_cast<double>(attrs.only_row);
    Out(op) = Gather(In(op, 1), ids, static_cast<double>(attrs.scale));
  }
  void Eval(const Op& op, const SelectRowsAttrs& attrs) {
    Matrix rows = In(op, 0);
    for (int64_t r = 0; attrs.pooling != 0 && r < rows.rows; ++r) {
      for (int64_t c = 0; c < rows.columns; ++c) {
        double sum = 0;
        for (int64_t i = 0; i < rows.rows; ++i)
          sum += In(op, 0).at(i, c);
        rows.at(r, c) =
            attrs.pooling == 2 ? In(op, 0).at(0, c) : sum / static_cast<double>(rows.rows);
      }
    }
    Out(op) = Gather(rows, In(op, 1), 1.0);
  }

  void Eval(const Op& op, const RmsNormAttrs& attrs) {
    const Matrix& x = In(op, 0);
    Matrix result = x;
    for (size_t begin = 0; begin < x.data.size(); begin += static_cast<size_t>(attrs.group)) {
      const size_t group = static_cast<size_t>(attrs.group);
      double squares = 0;
      for (size_t i = 0; i < group; ++i)
        squares += x.data[begin + i] * x.data[begin + i];
      const double rms =
          std::sqrt(squares / static_cast<double>(group) + static_cast<double>(attrs.eps));
      for (size_t i = 0; i < group; ++i)
        result.data[begin + i] = x.data[begin + i] / rms * In(op, 1).data[i];
    }
    for (size_t i = 0; attrs.add_residual && i < result.data.size(); ++i)
      result.data[i] += In(op, 2).data[i];
    Out(op) = std::move(result);
  }

  static Matrix Product(const Matrix& x, const Matrix& weight) {
    Matrix result = Zeros(x.rows, weight.rows);
    for (int64_t r = 0; r < result.rows; ++r) {
      for (int64_t c = 0; c < result.columns; ++c) {
        for (int64_t k = 0; k < x.columns; ++k)
          result.at(r, c) += x.at(r, k) * weight.at(c, k);
      }
    }
    return result;
  }

  void Eval(const Op& op, const LinearAttrs& attrs) {
    const size_t count = static_cast<size_t>(attrs.weight_count);
    std::vector<Matrix> results;
    for (size_t i = 1; i <= count; ++i) {
      results.push_back(Product(In(op, 0), In(op, i)));
      for (int64_t j = 0; attrs.has_bias && j < results.back().rows * results.back().columns; ++j) {
        const size_t column = static_cast<size_t>(j % results.back().columns);
        results.back().data[static_cast<size_t>(j)] += In(op, i + count).data[column];
      }
    }
    ApplyEpilogue(op, attrs.epilogue, results);
    for (size_t i = 0; i < op.outputs.size(); ++i)
      Out(op, i) = std::move(results[i]);
  }

  void ApplyEpilogue(const Op& op, Epilogue epilogue, std::vector<Matrix>& results) const {
    for (size_t i = 0; epilogue != Epilogue::kNone && i < results[0].data.size(); ++i) {
      double& x = results[0].data[i];
      if (epilogue == Epilogue::kAddResidual)
        x += In(op, op.inputs.size() - 1).data[i];
      else
        x = (epilogue == Epilogue::kSiluMul ? Silu(x) : Gelu(x)) * results[1].data[i];
    }
  }

  // Every parameter has an effect, so that a pass that loses one is seen.
  static double Angle(const RopeParams& rope, double position, int64_t pair,
                      const Matrix* factors) {
    const double exponent = 2.0 * static_cast<double>(pair) / static_cast<double>(rope.rotary_dim);
    const double frequency = std::pow(static_cast<double>(rope.base), -exponent);
    const double divisor = factors == nullptr ? 1.0 : 2.0 + factors->at(0, pair);
    return position * frequency / static_cast<double>(rope.factor) / divisor;
  }

  static void Rotate(Matrix& x, int64_t head_dim, const RopeParams& rope, const Matrix& positions,
                     const Matrix* factors) {
    const int64_t pairs = rope.rotary_dim / 2;
    for (int64_t r = 0; r < x.rows; ++r) {
      for (int64_t head = 0; head < x.columns; head += head_dim) {
        for (int64_t p = 0; p < pairs; ++p) {
          const double angle = Angle(rope, positions.at(0, r), p, factors);
          double& a = x.at(r, head + (rope.interleaved ? 2 * p : p));
          double& b = x.at(r, head + (rope.interleaved ? 2 * p + 1 : p + pairs));
          const double rotated = a * std::cos(angle) - b * std::sin(angle);
          b = a * std::sin(angle) + b * std::cos(angle);
          a = rotated;
        }
      }
    }
  }

  void Eval(const Op& op, const RopeAttrs& attrs) {
    Matrix result = In(op, 0);
    Rotate(result, attrs.head_dim, attrs.rope, In(op, 1),
           op.inputs.size() > 2 ? &In(op, 2) : nullptr);
    Out(op) = std::move(result);
  }

  void Eval(const Op& op, const AttentionAttrs& attrs) {
    Matrix q = In(op, 0);
    Matrix k = In(op, 1);
    if (attrs.fused_rope) {
      const Matrix* factors = op.inputs.size() > 4 ? &In(op, 4) : nullptr;
      Rotate(q, attrs.head_dim, attrs.rope, In(op, 3), factors);
      Rotate(k, attrs.head_dim, attrs.rope, In(op, 3), factors);
    }
    Matrix result = Zeros(q.rows, q.columns);
    for (int64_t token = 0; token < q.rows; ++token) {
      for (int64_t head = 0; head < attrs.heads; ++head)
        Attend(attrs, {q, k, In(op, 2)}, {token, head}, result);
    }
    Out(op) = std::move(result);
  }

  struct Streams {
    const Matrix& q;
    const Matrix& k;
    const Matrix& v;
  };
  struct Query {
    int64_t token;
    int64_t head;
  };

  static void Attend(const AttentionAttrs& attrs, const Streams& in, Query query, Matrix& result) {
    const int64_t dim = attrs.head_dim;
    const int64_t kv = query.head / (attrs.heads / attrs.kv_heads) * dim;
    const int64_t begin =
        attrs.window == 0 ? 0 : std::max<int64_t>(0, query.token + 1 - attrs.window);
    double sum = 0;
    const int64_t last = attrs.causal ? query.token : in.k.rows - 1;
    for (int64_t key = begin; key <= last; ++key) {
      double score = 0;
      for (int64_t d = 0; d < dim; ++d)
        score += in.q.at(query.token, query.head * dim + d) * in.k.at(key, kv + d);
      score *= static_cast<double>(attrs.scale);
      const double cap = static_cast<double>(attrs.softcap);
      const double weight = std::exp(cap > 0 ? cap * std::tanh(score / cap) : score);
      sum += weight;
      for (int64_t d = 0; d < dim; ++d)
        result.at(query.token, query.head * dim + d) += weight * in.v.at(key, kv + d);
    }
    for (int64_t d = 0; d < dim; ++d)
      result.at(query.token, query.head * dim + d) /= sum;
  }

  void Eval(const Op& op, const LayerNormAttrs& attrs) {
    Matrix result = In(op, 0);
    const double columns = static_cast<double>(result.columns);
    for (int64_t r = 0; r < result.rows; ++r) {
      double mean = 0;
      double squares = 0;
      for (int64_t c = 0; c < result.columns; ++c)
        mean += result.at(r, c) / columns;
      for (int64_t c = 0; c < result.columns; ++c)
        squares += (result.at(r, c) - mean) * (result.at(r, c) - mean);
      const double deviation = std::sqrt(squares / columns + static_cast<double>(attrs.eps));
      for (int64_t c = 0; c < result.columns; ++c)
        result.at(r, c) =
            (result.at(r, c) - mean) / deviation * In(op, 1).at(0, c) + In(op, 2).at(0, c);
    }
    Out(op) = std::move(result);
  }

  void Eval(const Op& op, const SliceHeadsAttrs& attrs) {
    const Matrix& x = In(op, 0);
    Matrix result = Zeros(x.rows, attrs.heads * attrs.count);
    for (int64_t r = 0; r < x.rows; ++r) {
      for (int64_t c = 0; c < result.columns; ++c)
        result.at(r, c) =
            x.at(r, c / attrs.count * (x.columns / attrs.heads) + attrs.begin + c % attrs.count);
    }
    Out(op) = std::move(result);
  }

  void Eval(const Op& op, const JoinHeadsAttrs& attrs) {
    const Matrix& a = In(op, 0);
    const Matrix b = op.inputs.size() > 1 ? In(op, 1) : Zeros(a.rows, 0);
    const int64_t first = a.columns / attrs.heads;
    const int64_t second = attrs.shared ? b.columns : b.columns / attrs.heads;
    const int64_t width = first + second + attrs.zeros;
    Matrix result = Zeros(a.rows, attrs.heads * width);
    for (int64_t r = 0; r < a.rows; ++r) {
      for (int64_t head = 0; head < attrs.heads; ++head) {
        for (int64_t c = 0; c < first; ++c)
          result.at(r, head * width + c) = a.at(r, head * first + c);
        for (int64_t c = 0; c < second; ++c)
          result.at(r, head * width + first + c) = b.at(r, (attrs.shared ? 0 : head * second) + c);
      }
    }
    Out(op) = std::move(result);
  }

  // Indices of the `count` largest of `values`, the first of equals.
  static std::vector<size_t> Largest(const std::vector<double>& values, int64_t count) {
    std::vector<size_t> order(values.size());
    for (size_t i = 0; i < order.size(); ++i)
      order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return values[a] > values[b]; });
    order.resize(static_cast<size_t>(count));
    return order;
  }

  static std::vector<double> RouteRow(const RouteAttrs& attrs, std::vector<double> scores,
                                      const Matrix* bias) {
    double sum = 0;
    for (double& score : scores) {
      score = attrs.sigmoid ? 1 / (1 + std::exp(-score)) : std::exp(score);
      sum += score;
    }
    for (double& score : scores)
      score /= attrs.sigmoid ? 1 : sum;
    std::vector<double> choice = scores;
    for (size_t i = 0; bias != nullptr && i < choice.size(); ++i)
      choice[i] += bias->data[i];
    const size_t size = choice.size() / static_cast<size_t>(attrs.groups);
    std::vector<double> groups;
    for (size_t begin = 0; begin < choice.size(); begin += size) {
      const std::vector<double> group(&choice[begin], &choice[begin] + size);
      groups.push_back(0);
      for (const size_t i : Largest(group, attrs.group_best))
        groups.back() += group[i];
    }
    const std::vector<size_t> kept = Largest(groups, attrs.used_groups);
    for (size_t i = 0; i < choice.size(); ++i) {
      if (std::count(kept.begin(), kept.end(), i / size) == 0)
        choice[i] = -1e300;
    }
    std::vector<double> result(scores.size(), 0.0);
    double chosen = 0;
    for (const size_t i : Largest(choice, attrs.used))
      chosen += result[i] = scores[i];
    for (double& weight : result)
      weight *= static_cast<double>(attrs.scale) / (attrs.normalized ? chosen : 1);
    return result;
  }

  void Eval(const Op& op, const RouteAttrs& attrs) {
    Matrix result = In(op, 0);
    for (int64_t r = 0; r < result.rows; ++r) {
      std::vector<double> row;
      for (int64_t c = 0; c < result.columns; ++c)
        row.push_back(result.at(r, c));
      row = RouteRow(attrs, row, op.inputs.size() > 1 ? &In(op, 1) : nullptr);
      for (int64_t c = 0; c < result.columns; ++c)
        result.at(r, c) = row[static_cast<size_t>(c)];
    }
    Out(op) = std::move(result);
  }

  // All experts for all tokens, then weighted: 0 for those that the router did not choose.
  void Eval(const Op& op, const ExpertsAttrs& attrs) {
    Matrix gate = Product(In(op, 0), In(op, 2));
    const Matrix up = Product(In(op, 0), In(op, 3));
    for (size_t i = 0; i < gate.data.size(); ++i) {
      const double x = gate.data[i];
      gate.data[i] = (attrs.activation == Epilogue::kGeluMul ? Gelu(x) : Silu(x)) * up.data[i];
    }
    const int64_t middle = gate.columns / attrs.experts;
    Matrix result = Zeros(In(op, 0).rows, In(op, 0).columns);
    for (int64_t r = 0; r < result.rows; ++r) {
      for (int64_t c = 0; c < result.columns; ++c) {
        for (int64_t i = 0; i < gate.columns; ++i) {
          const int64_t expert = i / middle;
          result.at(r, c) += In(op, 1).at(r, expert) * gate.at(r, i) *
                             In(op, 4).at(expert * result.columns + c, i % middle);
        }
      }
    }
    Out(op) = std::move(result);
  }

  void Eval(const Op& op, const GateRowsAttrs&) {
    Matrix result = In(op, 0);
    for (int64_t r = 0; r < result.rows; ++r) {
      for (int64_t c = 0; c < result.columns; ++c)
        result.at(r, c) /= 1 + std::exp(-In(op, 1).at(r, 0));
    }
    Out(op) = std::move(result);
  }

  // Made-up weights are no order: each stands for a column by its size.
  void Eval(const Op& op, const PermuteAttrs&) {
    Matrix result = In(op, 0);
    for (int64_t r = 0; r < result.rows; ++r) {
      for (int64_t c = 0; c < result.columns; ++c) {
        const double share = In(op, 1).at(0, c) + 0.5;
        const auto column = static_cast<int64_t>(share * static_cast<double>(result.columns));
        result.at(r, c) = In(op, 0).at(r, std::clamp<int64_t>(column, 0, result.columns - 1));
      }
    }
    Out(op) = std::move(result);
  }

  const Graph& graph_;
  InterpreterOptions options_;
  std::vector<Matrix> values_;
};

}  // namespace

std::vector<Matrix> Interpret(const Graph& graph, const InterpreterOptions& options) {
  return Interpreter(graph, options).Run();
}

}  // namespace tenon

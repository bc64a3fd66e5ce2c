// Attention and RotaryEmbedding of ONNX operator set 23 and later.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "engine/program/attend.h"
#include "engine/program/float_input.h"
#include "engine/program/op_table.h"
#include "engine/program/strides.h"

namespace tenon {
namespace {

// Query, key or value as [batch, heads, rows, width]: given so, or as [batch, rows, heads * width].
struct Heads {
  int64_t batch = 0;
  int64_t heads = 0;
  int64_t rows = 0;
  int64_t width = 0;
  HeadRows data;
};

Result<Heads> SplitHeads(const NodeCall& call, size_t input, int64_t head_count,
                         const float* data) {
  const Extents& s = call.input(input).shape;
  Heads h;
  if (s.size() == 4) {
    h = {s[0], s[1], s[2], s[3], {data, s[1] * s[2] * s[3], s[2] * s[3], s[3]}};
    return h;
  }
  if (s.size() != 3 || head_count < 1 || s[2] % head_count != 0)
    return call.Wrong(fmt::format("input {} of shape {} with {} heads", input, s, head_count));
  const int64_t width = s[2] / head_count;
  h = {s[0], head_count, s[1], width, {data, s[1] * s[2], width, s[2]}};
  return h;
}

// The output of a cache and the input with what it holds so far.
struct CacheSlots {
  size_t output;
  size_t past_input;
};

// past [batch, heads, past rows, width] with the new rows after it.
Result<TensorView> Present(NodeCall& call, const CacheSlots& slots, const Heads& rows,
                           ElementType type, std::vector<float>& out) {
  const size_t past_input = slots.past_input;
  int64_t past_rows = 0;
  if (call.Has(past_input)) {
    const Extents& s = call.input(past_input).shape;
    if (s.size() != 4 || s[0] != rows.batch || s[1] != rows.heads || s[3] != rows.width)
      return call.Wrong(fmt::format("a cache of shape {}", s));
    past_rows = s[2];
  }
  const int64_t all = past_rows + rows.rows;
  TENON_ASSIGN_OR_RETURN(
      const TensorView view,
      call.Output(slots.output, type, {rows.batch, rows.heads, all, rows.width}));
  out.resize(static_cast<size_t>(view.count()));
  const TensorView none{ElementType::kF32, {0}, nullptr};
  const FloatInput past(call.Has(past_input) ? call.input(past_input) : none);
  for (int64_t b = 0; b < rows.batch; ++b) {
    for (int64_t h = 0; h < rows.heads; ++h) {
      float* to = out.data() + (b * rows.heads + h) * all * rows.width;
      if (past_rows > 0)
        std::copy_n(past.data() + (b * rows.heads + h) * past_rows * rows.width,
                    past_rows * rows.width, to);
      for (int64_t r = 0; r < rows.rows; ++r)
        std::copy_n(rows.data.At(b, h, r), rows.width, to + (past_rows + r) * rows.width);
    }
  }
  FloatOutput result(view);
  std::copy(out.begin(), out.end(), result.data());
  result.Finish();
  return view;
}

// The mask as floats to add, [.., queries, keys] padded with minus infinity to all keys.
Status ReadMask(const NodeCall& call, AttendArgs& args, std::vector<float>& mask) {
  const TensorView& view = call.input(3);
  constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
  if (view.rank() < 1 || view.rank() > 4)
    return call.Wrong(fmt::format("a mask of shape {}", view.shape));
  const FloatInput values(view);
  const int64_t columns = view.shape.back();
  const int64_t rows = columns == 0 ? 0 : view.count() / columns;
  const bool broadcast = columns == 1 && args.keys != 1;
  const int64_t wanted = broadcast ? 1 : args.keys;
  mask.assign(static_cast<size_t>(rows * wanted), kMinusInfinity);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < std::min(columns, wanted); ++c) {
      const float value = values.data()[r * columns + c];
      float& to = mask[static_cast<size_t>(r * wanted + c)];
      to = view.type != ElementType::kBool ? value : (value != 0.0F ? 0.0F : kMinusInfinity);
    }
  }
  Extents shape = view.shape;
  shape.back() = wanted;
  const Extents whole = {args.batch, args.heads, args.queries, args.keys};
  const auto joined = BroadcastShape(shape, whole);
  if (!joined.ok() || *joined != whole)
    return call.Wrong(fmt::format("a mask of shape {} for {}", view.shape, whole));
  const Extents strides = BroadcastStrides(shape, whole);
  std::copy(strides.begin(), strides.end(), args.mask_strides);
  args.mask = mask.data();
  return {};
}

Status ReadWindows(const NodeCall& call, AttendArgs& args) {
  args.causal = call.node().Integer("is_causal", 0) != 0;
  args.left = call.node().Integer("left_window_size", -1);
  args.right = call.node().Integer("right_window_size", -1);
  if (call.Has(4))
    args.offset.assign(static_cast<size_t>(args.batch), call.input(4).shape[2]);
  if (!call.Has(6))
    return {};
  TENON_ASSIGN_OR_RETURN(args.valid, call.Integers(6));
  if (static_cast<int64_t>(args.valid.size()) != args.batch)
    return call.Wrong("one valid length for each batch expected");
  args.offset = args.valid;
  for (int64_t& offset : args.offset)
    offset -= args.queries;
  return {};
}

Status Attention(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(3));
  const ElementType type = call.input(0).type;
  if (!IsFloat(type))
    return call.NotSupported("elements that are no floats");
  const FloatInput q_data(call.input(0));
  const FloatInput k_data(call.input(1));
  const FloatInput v_data(call.input(2));
  const int64_t q_heads = call.node().Integer("q_num_heads", 0);
  const int64_t kv_heads = call.node().Integer("kv_num_heads", 0);
  TENON_ASSIGN_OR_RETURN(const Heads q, SplitHeads(call, 0, q_heads, q_data.data()));
  TENON_ASSIGN_OR_RETURN(const Heads k, SplitHeads(call, 1, kv_heads, k_data.data()));
  TENON_ASSIGN_OR_RETURN(const Heads v, SplitHeads(call, 2, kv_heads, v_data.data()));
  if (q.batch != k.batch || k.batch != v.batch || k.heads != v.heads || k.rows != v.rows ||
      k.width != q.width || k.heads == 0 || q.heads % k.heads != 0 || call.Has(4) != call.Has(5))
    return call.Wrong(fmt::format("query {}, key {} and value {} don't fit each other",
                                  call.input(0).shape, call.input(1).shape, call.input(2).shape));
  AttendArgs args;
  std::vector<float> keys;
  std::vector<float> values;
  TENON_ASSIGN_OR_RETURN(const TensorView present, Present(call, {1, 4}, k, type, keys));
  TENON_RETURN_IF_ERROR(Present(call, {2, 5}, v, call.input(2).type, values));
  args.batch = q.batch;
  args.heads = q.heads;
  args.kv_heads = k.heads;
  args.queries = q.rows;
  args.keys = present.shape[2];
  args.head_dim = q.width;
  args.value_dim = v.width;
  args.q = q.data;
  args.k = {keys.data(), k.heads * args.keys * k.width, args.keys * k.width, k.width};
  args.v = {values.data(), v.heads * args.keys * v.width, args.keys * v.width, v.width};
  args.scale = call.node().Float("scale", 1.0F / std::sqrt(static_cast<float>(q.width)));
  args.softcap = call.node().Float("softcap", 0.0F);
  TENON_RETURN_IF_ERROR(ReadWindows(call, args));
  std::vector<float> mask;
  if (call.Has(3))
    TENON_RETURN_IF_ERROR(ReadMask(call, args, mask));
  const bool flat = call.input(0).rank() == 3;
  const Extents shape = flat ? Extents{q.batch, q.rows, q.heads * v.width}
                             : Extents{q.batch, q.heads, q.rows, v.width};
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, type, shape));
  FloatOutput result(out);
  args.out = result.data();
  args.out_batch_stride = q.heads * q.rows * v.width;
  args.out_head_stride = flat ? v.width : q.rows * v.width;
  args.out_row_stride = flat ? q.heads * v.width : v.width;
  args.wanted = static_cast<ScoresWanted>(call.node().Integer("qk_matmul_output_mode", 0) & 3);
  TensorView scores;
  if (call.Wants(3)) {
    TENON_ASSIGN_OR_RETURN(scores, call.Output(3, type, {q.batch, q.heads, q.rows, args.keys}));
  }
  FloatOutput kept(scores);
  args.scores = call.Wants(3) ? kept.data() : nullptr;
  const int64_t pairs = Attend(args, call.pool());
  call.CountFlops(2.0 * static_cast<double>(pairs) * static_cast<double>(q.width + v.width));
  result.Finish();
  if (call.Wants(3))
    kept.Finish();
  return {};
}

struct RotaryPlan {
  int64_t batch;
  int64_t rows;
  int64_t heads;
  int64_t width;
  int64_t batch_stride;
  int64_t row_stride;
  int64_t head_stride;
};

Result<RotaryPlan> PlanRotary(const NodeCall& call, int64_t head_count, int64_t known_width) {
  const Extents& s = call.input(0).shape;
  if (s.size() == 4)
    return RotaryPlan{s[0], s[2], s[1], s[3], s[1] * s[2] * s[3], s[3], s[2] * s[3]};
  if (s.size() == 3 && head_count == 0 && known_width > 0 && s[2] % known_width == 0)
    head_count = s[2] / known_width;
  if (s.size() != 3 || head_count < 1 || s[2] % head_count != 0)
    return call.Wrong(fmt::format("a shape of {} with {} heads", s, head_count));
  const int64_t width = s[2] / head_count;
  return RotaryPlan{s[0], s[1], head_count, width, s[1] * s[2], s[2], width};
}

// Cosines and sines of (batch, row): caches [positions, half] with position ids, or [batch, rows,
// half] without.
struct RotaryTable {
  std::vector<int64_t> line;  // [batch * rows]
  int64_t half = 0;
};

Result<RotaryTable> ReadTable(const NodeCall& call, const RotaryPlan& plan, size_t cos,
                              int64_t position_input) {
  const Extents& s = call.input(cos).shape;
  RotaryTable table;
  table.half = s.empty() ? 0 : s.back();
  const int64_t lines = table.half == 0 ? 0 : call.input(cos).count() / table.half;
  if (call.input(cos + 1).shape != s)
    return call.Wrong("cosines and sines of different shapes");
  std::vector<int64_t> positions;
  const bool given = position_input >= 0 && call.Has(static_cast<size_t>(position_input));
  if (given) {
    const TensorView& view = call.input(static_cast<size_t>(position_input));
    positions.resize(static_cast<size_t>(view.count()));
    LoadIntegers(view.type, view.data, view.count(), positions.data());
  }
  for (int64_t i = 0; i < plan.batch * plan.rows; ++i) {
    int64_t line = i;
    // One position: of the first row, the others follow it.
    if (given && positions.size() == 1)
      line = positions[0] + i % plan.rows;
    else if (given)
      line = i < static_cast<int64_t>(positions.size()) ? positions[static_cast<size_t>(i)] : -1;
    if (line < 0 || line >= lines)
      return call.Wrong(fmt::format("position {} of {} in the caches", line, lines));
    table.line.push_back(line);
  }
  return table;
}

struct RotaryInputs {
  size_t cos;
  int64_t positions;  // -1: none
  int64_t width;      // of a head, 0: not said
};

Status Rotate(NodeCall& call, const RotaryInputs& inputs) {
  const TensorView x = call.input(0);
  TENON_ASSIGN_OR_RETURN(const RotaryPlan plan,
                         PlanRotary(call, call.node().Integer("num_heads", 0), inputs.width));
  TENON_ASSIGN_OR_RETURN(const RotaryTable table,
                         ReadTable(call, plan, inputs.cos, inputs.positions));
  const int64_t named = call.node().Integer("rotary_embedding_dim", 0);
  const int64_t half = named > 0 ? named / 2 : table.half;
  const bool interleaved = call.node().Integer("interleaved", 0) != 0;
  if (half > table.half || half * 2 > plan.width || !IsFloat(x.type))
    return call.Wrong(fmt::format("{} pairs in a head of {}", half, plan.width));
  const FloatInput values(x);
  const FloatInput cos(call.input(inputs.cos));
  const FloatInput sin(call.input(inputs.cos + 1));
  TENON_ASSIGN_OR_RETURN(const TensorView out, call.Output(0, x.type, x.shape));
  FloatOutput result(out);
  for (int64_t i = 0; i < plan.batch * plan.rows * plan.heads; ++i) {
    const int64_t h = i % plan.heads;
    const int64_t line = i / plan.heads;
    const int64_t at = line / plan.rows * plan.batch_stride + line % plan.rows * plan.row_stride +
                       h * plan.head_stride;
    const float* from = values.data() + at;
    float* to = result.data() + at;
    const int64_t t = table.line[static_cast<size_t>(line)] * table.half;
    if (to != from)
      std::copy_n(from, plan.width, to);
    for (int64_t p = 0; p < half; ++p) {
      const int64_t first = interleaved ? 2 * p : p;
      const int64_t second = interleaved ? 2 * p + 1 : p + half;
      const float a = from[first];
      const float b = from[second];
      to[first] = a * cos.data()[t + p] - b * sin.data()[t + p];
      to[second] = a * sin.data()[t + p] + b * cos.data()[t + p];
    }
  }
  result.Finish();
  return {};
}

Status RotaryEmbedding(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(3));
  return Rotate(call, {1, 3, 0});
}

// com.microsoft: position ids come before the caches.
Status ContribRotary(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(4));
  const int64_t rotated = call.node().Integer("rotary_embedding_dim", 0);
  const Extents& cache = call.input(2).shape;
  const int64_t width = rotated == 0 && !cache.empty() ? cache.back() * 2 : 0;
  return Rotate(call, {2, 1, width});
}

constexpr ProgramOp kOps[] = {
    {"", "Attention", 23, kEveryVersion, Attention, kPlainOp},
    {"", "RotaryEmbedding", 23, kEveryVersion, RotaryEmbedding, kInPlaceOp},
    {"com.microsoft", "RotaryEmbedding", 1, kEveryVersion, ContribRotary, kInPlaceOp},
};

}  // namespace

std::span<const ProgramOp> AttentionOps() {
  return kOps;
}

}  // namespace tenon

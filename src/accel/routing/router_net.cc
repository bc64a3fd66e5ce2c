#include "accel/routing/router_net.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "hal/pack.h"

namespace tenon {
namespace {

std::vector<std::byte> PackMatrix(const FloatMatrix& matrix) {
  const int64_t panel_bytes = PackedPanelBytes(PackedKind::kF32, matrix.columns);
  const int64_t panels = (matrix.rows + kPanelRows - 1) / kPanelRows;
  std::vector<std::byte> packed(static_cast<size_t>(panels * panel_bytes));
  for (int64_t p = 0; p < panels; ++p) {
    PanelSource source;
    source.rows = reinterpret_cast<const std::byte*>(matrix.row(p * kPanelRows).data());
    source.row_count = std::min(kPanelRows, matrix.rows - p * kPanelRows);
    source.k = matrix.columns;
    PackPanelF32(source, std::span(packed).subspan(static_cast<size_t>(p * panel_bytes),
                                                   static_cast<size_t>(panel_bytes)));
  }
  return packed;
}

}  // namespace

void Standardise(const RouterNet& net, FloatMatrix& hidden) {
  TENON_CHECK(hidden.columns == net.hidden_size());
  for (int64_t r = 0; r < hidden.rows; ++r) {
    const std::span<float> row = hidden.row(r);
    for (size_t i = 0; i < row.size(); ++i)
      row[i] = (row[i] - net.mean[i]) * net.scale[i];
  }
}

double Sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

RouterScorer::RouterScorer(RouterNet net, const KernelSet& kernels)
    : net_(std::move(net)),
      gemm_(kernels.gemm[static_cast<int>(PackedKind::kF32)]),
      panels1_(PackMatrix(net_.weight1)),
      panels2_(PackMatrix(net_.weight2)) {}

int64_t RouterScorer::bytes() const {
  return static_cast<int64_t>(2 * (panels1_.size() + panels2_.size()));
}

// out = relu(in w^T + bias), panel by panel.
void RouterScorer::Multiply(const Panels& panels, const FloatMatrix& in,
                            std::span<const float> bias, FloatMatrix& out) const {
  const int64_t panel_bytes = PackedPanelBytes(PackedKind::kF32, in.columns);
  std::vector<float> block(static_cast<size_t>(in.rows * kPanelRows));
  for (int64_t first = 0; first < out.columns; first += kPanelRows) {
    gemm_({panels.data() + first / kPanelRows * panel_bytes, in.columns,
           reinterpret_cast<const std::byte*>(in.values.data()),
           in.columns * static_cast<int64_t>(sizeof(float)), in.rows, nullptr, block.data(),
           kPanelRows});
    const int64_t count = std::min(kPanelRows, out.columns - first);
    for (int64_t r = 0; r < in.rows; ++r) {
      for (int64_t c = 0; c < count; ++c) {
        const float value =
            block[static_cast<size_t>(r * kPanelRows + c)] + bias[static_cast<size_t>(first + c)];
        out.row(r)[static_cast<size_t>(first + c)] = std::max(value, 0.0F);
      }
    }
  }
}

void RouterScorer::Score(std::span<const float> hidden, std::span<double> scores) const {
  const int64_t size = hidden_size();
  const auto rows = static_cast<int64_t>(scores.size());
  TENON_CHECK(static_cast<int64_t>(hidden.size()) == rows * size);
  if (rows == 0)
    return;
  FloatMatrix in(rows, size);
  std::memcpy(in.values.data(), hidden.data(), hidden.size_bytes());
  Standardise(net_, in);
  FloatMatrix first(rows, net_.weight1.rows);
  Multiply(panels1_, in, net_.bias1, first);
  FloatMatrix second(rows, net_.weight2.rows);
  Multiply(panels2_, first, net_.bias2, second);
  for (int64_t r = 0; r < rows; ++r) {
    double sum = static_cast<double>(net_.bias3);
    for (int64_t i = 0; i < size; ++i)
      sum += static_cast<double>(second.row(r)[static_cast<size_t>(i)] *
                                 net_.weight3.values[static_cast<size_t>(i)]);
    scores[static_cast<size_t>(r)] = Sigmoid(sum);
  }
}

}  // namespace tenon

#include "engine/program/node_call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "engine/program/number_convert.h"
#include "engine/program/program_runner.h"
#include "hal/pack.h"

namespace tenon {
namespace {

// Lists of axes and sizes have as many entries as a tensor has dimensions, or pads twice that;
// scales of Resize and sizes of Split are as short.
constexpr int64_t kMostListed = 4096;

}  // namespace

const ProgramNode& NodeCall::node() const {
  return runner_.program_.nodes[node_index_];
}

const TensorView& NodeCall::input(size_t i) const {
  return runner_.slots_[node().inputs[i].index()].view;
}

bool NodeCall::IsConstant(size_t i) const {
  return runner_.program_.ConstantOf(node().Input(i)) != nullptr;
}

std::string NodeCall::Where() const {
  return fmt::format("node '{}' ({})", node().name, node().op);
}

Error NodeCall::Wrong(std::string message) const {
  return InvalidArgument(std::move(message), Where());
}

Error NodeCall::NotSupported(std::string message) const {
  return Unsupported(std::move(message), Where());
}

Status NodeCall::Need(size_t count) const {
  for (size_t i = 0; i < count; ++i) {
    if (!Has(i))
      return Wrong(fmt::format("input {} is missing", i));
  }
  return {};
}

Result<std::vector<int64_t>> NodeCall::Integers(size_t i) const {
  const TensorView& view = input(i);
  if (!IsInteger(view.type) && view.type != ElementType::kBool)
    return Wrong(fmt::format("input {} is {}, integers expected", i, ElementTypeName(view.type)));
  if (view.count() > kMostListed)
    return Wrong(fmt::format("input {} has {} numbers", i, view.count()));
  std::vector<int64_t> out(static_cast<size_t>(view.count()));
  LoadIntegers(view.type, view.data, view.count(), out.data());
  return out;
}

Result<std::vector<double>> NodeCall::Numbers(size_t i) const {
  const TensorView& view = input(i);
  if (view.count() > kMostListed)
    return Wrong(fmt::format("input {} has {} numbers", i, view.count()));
  std::vector<double> out(static_cast<size_t>(view.count()));
  LoadDoubles(view.type, view.data, view.count(), out.data());
  return out;
}

Result<TensorView> NodeCall::Output(size_t i, ElementType type, Extents shape) {
  auto made = runner_.MakeOutput(node_index_, i, type, std::move(shape));
  if (!made.ok())
    made.error().where = Where();
  return made;
}

Status NodeCall::Share(Extents shape) {
  const TensorView from = input(0);
  if (ElementCount(shape) != from.count())
    return Wrong(fmt::format("{} elements can't take the shape {}", from.shape, shape));
  if (runner_.options_.views == Sharing::kOff) {
    TENON_ASSIGN_OR_RETURN(const TensorView to, Output(0, from.type, std::move(shape)));
    if (to.bytes() > 0)
      std::memcpy(to.data, from.data, static_cast<size_t>(to.bytes()));
    return {};
  }
  const ProgramRunner::Slot source = runner_.slots_[node().inputs[0].index()];
  if (source.storage >= 0)
    ++runner_.storages_[static_cast<size_t>(source.storage)].users;
  runner_.slots_[node().outputs[0].index()] = {TensorView{from.type, std::move(shape), from.data},
                                               source.storage};
  runner_.launched_ = false;
  return {};
}

Result<int64_t> NodeCall::Axis(int64_t axis, int64_t rank) const {
  if (axis < -rank || axis >= rank)
    return Wrong(fmt::format("axis {} of a tensor of rank {}", axis, rank));
  return axis < 0 ? axis + rank : axis;
}

ThreadPool& NodeCall::pool() const {
  return runner_.pool_;
}

const KernelSet& NodeCall::kernels() const {
  return runner_.kernels_;
}

void NodeCall::CountFlops(double flops) const {
  runner_.stats_.flops += flops;
}

Result<size_t> NodeCall::BodyInputs(std::string_view attribute) const {
  ProgramRunner* body = runner_.Body(node_index_, attribute);
  if (body == nullptr)
    return Wrong(fmt::format("the attribute '{}' is missing", attribute));
  return body->program().inputs.size();
}

Result<std::vector<TensorView>> NodeCall::RunBody(std::string_view attribute,
                                                  const std::vector<TensorView>& inputs) {
  ProgramRunner* body = runner_.Body(node_index_, attribute);
  if (body == nullptr)
    return Wrong(fmt::format("the attribute '{}' is missing", attribute));
  auto outputs = body->Run(inputs);
  runner_.stats_.flops += body->stats().flops;
  runner_.stats_.launches += body->stats().launches;
  return outputs;
}

Result<const PackedConstant*> NodeCall::Packed(Layout layout) const {
  const TensorView& b = input(1);
  if (runner_.options_.packing == Sharing::kOff || !IsConstant(1) || b.type != ElementType::kF32 ||
      b.rank() != 2 || b.count() == 0)
    return nullptr;
  auto& packed = runner_.packed_[node_index_];
  if (packed != nullptr)
    return packed.get();
  packed = std::make_unique<PackedConstant>();
  const bool rows = layout == Layout::kRows;
  packed->k = b.shape[rows ? 0 : 1];
  packed->n = b.shape[rows ? 1 : 0];
  const int64_t k = packed->k;
  const int64_t panel_bytes = PackedPanelBytes(PackedKind::kF32, k);
  const int64_t panels = (packed->n + kPanelRows - 1) / kPanelRows;
  packed->panels.resize(static_cast<size_t>(panels * panel_bytes));
  std::vector<float> gathered(static_cast<size_t>(kPanelRows * k));
  for (int64_t p = 0; p < panels; ++p) {
    const int64_t first = p * kPanelRows;
    const int64_t count = std::min(kPanelRows, packed->n - first);
    for (int64_t r = 0; r < count; ++r) {
      for (int64_t i = 0; i < k; ++i)
        gathered[static_cast<size_t>(r * k + i)] =
            b.As<float>()[rows ? i * packed->n + first + r : (first + r) * k + i];
    }
    PackPanel({DType::kF32, reinterpret_cast<const std::byte*>(gathered.data()), count, k},
              std::span(packed->panels)
                  .subspan(static_cast<size_t>(p * panel_bytes), static_cast<size_t>(panel_bytes)));
  }
  return packed.get();
}

}  // namespace tenon

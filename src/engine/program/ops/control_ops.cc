// Control flow (ONNX If, Loop). The importer adds to a node's inputs the values of the enclosing
// graph that its bodies read, in the order of the bodies, and the attribute "own_inputs": how many
// inputs the file gave the node.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "engine/program/number_convert.h"
#include "engine/program/op_table.h"

namespace tenon {
namespace {

// Trips of a loop whose condition may never end it.
constexpr int64_t kMostTrips = int64_t{1} << 24;
// Bytes that a loop's scans may gather.
constexpr size_t kMostScanned = size_t{1} << 32;

// A tensor that outlives the run that made it.
struct OwnedTensor {
  TensorView view;
  std::vector<std::byte> bytes;

  void Take(const TensorView& from) {
    bytes.assign(from.data, from.data + from.bytes());
    view = from;
    view.data = bytes.data();
  }
};

Result<bool> Condition(const NodeCall& call, const TensorView& view) {
  if (view.type != ElementType::kBool || view.count() != 1)
    return call.Wrong("a condition is not one bool");
  return view.data[0] != std::byte{0};
}

Status Give(NodeCall& call, size_t i, const TensorView& from) {
  TENON_ASSIGN_OR_RETURN(const TensorView to, call.Output(i, from.type, from.shape));
  if (to.bytes() > 0)
    std::memcpy(to.data, from.data, static_cast<size_t>(to.bytes()));
  return {};
}

// Values of the enclosing graph for the bodies before and after.
std::vector<TensorView> Captured(const NodeCall& call, size_t first, size_t count) {
  std::vector<TensorView> views;
  for (size_t i = first; i < first + count; ++i)
    views.push_back(call.input(i));
  return views;
}

Status If(NodeCall& call) {
  TENON_RETURN_IF_ERROR(call.Need(1));
  TENON_ASSIGN_OR_RETURN(const bool taken, Condition(call, call.input(0)));
  TENON_ASSIGN_OR_RETURN(const size_t then_count, call.BodyInputs("then_branch"));
  TENON_ASSIGN_OR_RETURN(const size_t else_count, call.BodyInputs("else_branch"));
  if (1 + then_count + else_count != call.input_count())
    return call.Wrong("branches that read what the node does not have");
  const auto inputs =
      taken ? Captured(call, 1, then_count) : Captured(call, 1 + then_count, else_count);
  TENON_ASSIGN_OR_RETURN(const auto outputs,
                         call.RunBody(taken ? "then_branch" : "else_branch", inputs));
  if (outputs.size() != call.output_count())
    return call.Wrong(
        fmt::format("a branch has {} outputs, the node {}", outputs.size(), call.output_count()));
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (call.Wants(i))
      TENON_RETURN_IF_ERROR(Give(call, i, outputs[i]));
  }
  return {};
}

class LoopRun {
 public:
  explicit LoopRun(NodeCall& call) : call_(call) {}
  Status Run();

 private:
  Status Start();
  Status Trip(int64_t trip);
  Status Gather(size_t scan, const TensorView& view);
  Status Finish();

  NodeCall& call_;
  size_t own_inputs_ = 0;
  bool goes_on_ = true;
  std::vector<OwnedTensor> carried_;
  std::vector<OwnedTensor> scans_;  // shape with the trips in front
  std::vector<TensorView> captured_;
};

Status LoopRun::Start() {
  const int64_t own = call_.node().Integer("own_inputs", 0);
  TENON_ASSIGN_OR_RETURN(const size_t body, call_.BodyInputs("body"));
  const auto all = static_cast<int64_t>(call_.input_count());
  if (own < 2 || own > all || static_cast<int64_t>(body) != all)
    return call_.Wrong(fmt::format("{} inputs for a body of {}", all, body));
  own_inputs_ = static_cast<size_t>(own);
  for (size_t i = 2; i < own_inputs_; ++i) {
    if (!call_.Has(i))
      return call_.Wrong(fmt::format("input {} is missing", i));
    carried_.emplace_back().Take(call_.input(i));
  }
  if (call_.output_count() < carried_.size())
    return call_.Wrong(fmt::format("{} outputs for {} values that are carried",
                                   call_.output_count(), carried_.size()));
  scans_.resize(call_.output_count() - carried_.size());
  captured_ = Captured(call_, own_inputs_, call_.input_count() - own_inputs_);
  return {};
}

Status LoopRun::Gather(size_t scan, const TensorView& view) {
  OwnedTensor& all = scans_[scan];
  Extents shape = view.shape;
  const bool first = all.view.shape.empty();
  shape.insert(shape.begin(), first ? 1 : all.view.shape[0] + 1);
  const bool same = first || (all.view.type == view.type &&
                              std::equal(shape.begin() + 1, shape.end(), all.view.shape.begin() + 1,
                                         all.view.shape.end()));
  if (!same || all.bytes.size() + static_cast<size_t>(view.bytes()) > kMostScanned)
    return call_.Wrong(fmt::format("a scan's value of {} after {}", view.shape, all.view.shape));
  all.bytes.insert(all.bytes.end(), view.data, view.data + view.bytes());
  all.view = {view.type, std::move(shape), nullptr};
  return {};
}

Status LoopRun::Trip(int64_t trip) {
  auto flag = static_cast<std::byte>(goes_on_);
  std::vector<TensorView> inputs = {{ElementType::kI64, {}, reinterpret_cast<std::byte*>(&trip)},
                                    {ElementType::kBool, {}, &flag}};
  for (const OwnedTensor& tensor : carried_)
    inputs.push_back(tensor.view);
  inputs.insert(inputs.end(), captured_.begin(), captured_.end());
  TENON_ASSIGN_OR_RETURN(const auto outputs, call_.RunBody("body", inputs));
  if (outputs.size() != 1 + call_.output_count())
    return call_.Wrong(fmt::format("a body of {} outputs", outputs.size()));
  TENON_ASSIGN_OR_RETURN(goes_on_, Condition(call_, outputs[0]));
  std::vector<OwnedTensor> next(carried_.size());
  for (size_t i = 0; i < next.size(); ++i)
    next[i].Take(outputs[1 + i]);
  for (size_t i = 0; i < scans_.size(); ++i)
    TENON_RETURN_IF_ERROR(Gather(i, outputs[1 + next.size() + i]));
  // Last: a body's outputs may lie in what it was given.
  carried_ = std::move(next);
  return {};
}

Status LoopRun::Finish() {
  for (size_t i = 0; i < carried_.size(); ++i) {
    if (call_.Wants(i))
      TENON_RETURN_IF_ERROR(Give(call_, i, carried_[i].view));
  }
  for (size_t i = 0; i < scans_.size(); ++i) {
    TensorView view = scans_[i].view;
    view.data = scans_[i].bytes.data();
    if (view.shape.empty())
      view = {ElementType::kF32, {0}, nullptr};
    if (call_.Wants(carried_.size() + i))
      TENON_RETURN_IF_ERROR(Give(call_, carried_.size() + i, view));
  }
  return {};
}

Status LoopRun::Run() {
  TENON_RETURN_IF_ERROR(Start());
  int64_t trips = INT64_MAX;
  if (call_.Has(0)) {
    TENON_ASSIGN_OR_RETURN(const auto count, call_.Integers(0));
    if (count.size() != 1)
      return call_.Wrong("a number of trips that is not one number");
    trips = count[0];
  }
  if (call_.Has(1)) {
    TENON_ASSIGN_OR_RETURN(goes_on_, Condition(call_, call_.input(1)));
  }
  for (int64_t trip = 0; trip < trips && goes_on_; ++trip) {
    if (trip >= kMostTrips)
      return call_.NotSupported(fmt::format("a loop of more than {} trips", kMostTrips));
    TENON_RETURN_IF_ERROR(Trip(trip));
  }
  return Finish();
}

Status Loop(NodeCall& call) {
  return LoopRun(call).Run();
}

constexpr ProgramOp kOps[] = {
    {"", "If", 1, kEveryVersion, If, kPlainOp},
    {"", "Loop", 1, kEveryVersion, Loop, kPlainOp},
};

}  // namespace

std::span<const ProgramOp> ControlOps() {
  return kOps;
}

}  // namespace tenon

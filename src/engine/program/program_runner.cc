#include "engine/program/program_runner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "engine/program/number_convert.h"

namespace tenon {
namespace {

// Above any tensor of a model; keeps products of extents inside 64 bits.
constexpr int64_t kMostElements = int64_t{1} << 40;

Status CheckExtents(const Extents& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) {
    if (extent < 0)
      return InvalidArgument(fmt::format("a shape of {}", shape));
    if (extent > 0 && count > kMostElements / extent)
      return InvalidArgument(fmt::format("a shape of {}, more than 2^40 elements", shape));
    count *= extent;
  }
  return {};
}

}  // namespace

ProgramRunner::ProgramRunner(Program program, const ProgramOptions& options, ThreadPool& pool,
                             const KernelSet& kernels)
    : program_(std::move(program)),
      options_(options),
      pool_(pool),
      kernels_(kernels),
      memory_(options.memory_limit, options.reuse),
      outputs_memory_(options.memory_limit, options.reuse) {}

Result<std::unique_ptr<ProgramRunner>> ProgramRunner::Create(Program program,
                                                             const ProgramOptions& options,
                                                             const OpTable& table, ThreadPool& pool,
                                                             const KernelSet& kernels) {
  TENON_RETURN_IF_ERROR(VerifyProgram(program));
  std::unique_ptr<ProgramRunner> runner(
      new ProgramRunner(std::move(program), options, pool, kernels));
  TENON_RETURN_IF_ERROR(runner->Bind(table));
  TENON_RETURN_IF_ERROR(runner->MakeBodies(table));
  runner->FindLastReaders();
  runner->PlaceConstants();
  return runner;
}

Status ProgramRunner::Bind(const OpTable& table) {
  std::set<std::string> missing;
  for (const ProgramNode& node : program_.nodes) {
    const ProgramOp* op = table.Find(node.domain, node.op, node.version);
    if (op == nullptr)
      missing.insert(fmt::format("{}{}{} of operator set {}", node.domain,
                                 node.domain.empty() ? "" : ".", node.op, node.version));
    ops_.push_back(op);
  }
  if (missing.empty())
    return {};
  return Unsupported(fmt::format("operators that are not supported: {}", fmt::join(missing, ", ")));
}

// Bodies move into runners of their own. Constants of this program that they read stay here.
Status ProgramRunner::MakeBodies(const OpTable& table) {
  for (size_t i = 0; i < program_.nodes.size(); ++i) {
    for (auto& [name, value] : program_.nodes[i].attributes) {
      auto* body = std::get_if<std::unique_ptr<Program>>(&value);
      if (body == nullptr || *body == nullptr)
        continue;
      TENON_ASSIGN_OR_RETURN(auto runner,
                             Create(std::move(**body), options_, table, pool_, kernels_));
      *body = std::make_unique<Program>();
      bodies_.push_back({i, name, std::move(runner)});
    }
  }
  return {};
}

ProgramRunner* ProgramRunner::Body(size_t node, std::string_view attribute) const {
  for (const NodeBody& body : bodies_) {
    if (body.node == node && body.attribute == attribute)
      return body.runner.get();
  }
  return nullptr;
}

void ProgramRunner::FindLastReaders() {
  last_reader_.assign(program_.value_count(), -1);
  for (size_t i = 0; i < program_.nodes.size(); ++i) {
    for (const auto* list : {&program_.nodes[i].outputs, &program_.nodes[i].inputs}) {
      for (const ProgramValueId id : *list) {
        if (id.valid())
          last_reader_[id.index()] = static_cast<int64_t>(i);
      }
    }
  }
  for (const ProgramValueId id : program_.outputs)
    last_reader_[id.index()] = INT64_MAX;
  ends_.resize(program_.nodes.size());
  for (uint32_t v = 0; v < last_reader_.size(); ++v) {
    if (last_reader_[v] >= 0 && last_reader_[v] != INT64_MAX)
      ends_[static_cast<size_t>(last_reader_[v])].push_back(v);
  }
}

void ProgramRunner::PlaceConstants() {
  slots_.resize(program_.value_count());
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    const auto& constant = program_.value(ProgramValueId(i)).constant;
    if (constant) {
      // Kernels read constants only.
      auto* data = const_cast<std::byte*>(constant->bytes.data());
      slots_[i].view = {constant->type, constant->shape, data};
    }
  }
}

Status ProgramRunner::TakeInputs(const std::vector<TensorView>& inputs) {
  if (inputs.size() != program_.inputs.size())
    return InvalidArgument(
        fmt::format("{} inputs, {} expected", inputs.size(), program_.inputs.size()));
  std::map<std::string_view, int64_t> named;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ProgramValue& value = program_.value(program_.inputs[i]);
    if (value.type != ElementType::kUndefined && value.type != inputs[i].type)
      return InvalidArgument(fmt::format("{} found, {} expected", ElementTypeName(inputs[i].type),
                                         ElementTypeName(value.type)),
                             fmt::format("input '{}'", value.name));
    bool fits = !value.shape || value.shape->size() == inputs[i].shape.size();
    for (size_t d = 0; fits && value.shape && d < value.shape->size(); ++d) {
      const ProgramDim& wanted = (*value.shape)[d];
      fits = wanted.value < 0 || wanted.value == inputs[i].shape[d];
      // Passes rely on a name standing for one number.
      if (wanted.value < 0 && !wanted.name.empty())
        fits = named.emplace(wanted.name, inputs[i].shape[d]).first->second == inputs[i].shape[d];
    }
    if (!fits)
      return InvalidArgument(fmt::format("the shape {} is not what is declared", inputs[i].shape),
                             fmt::format("input '{}'", value.name));
    TENON_RETURN_IF_ERROR(CheckExtents(inputs[i].shape));
    slots_[program_.inputs[i].index()] = {inputs[i], -1};
  }
  return {};
}

Result<std::vector<TensorView>> ProgramRunner::Run(const std::vector<TensorView>& inputs) {
  memory_.Clear();
  outputs_memory_.Clear();
  storages_.clear();
  stats_ = {};
  for (Slot& slot : slots_)
    slot.storage = -1;
  PlaceConstants();
  TENON_RETURN_IF_ERROR(TakeInputs(inputs));
  for (size_t i = 0; i < program_.nodes.size(); ++i)
    TENON_RETURN_IF_ERROR(RunNode(i));
  stats_.peak_bytes = memory_.peak_bytes();
  stats_.output_bytes = outputs_memory_.peak_bytes();
  std::vector<TensorView> outputs;
  for (const ProgramValueId id : program_.outputs)
    outputs.push_back(slots_[id.index()].view);
  return outputs;
}

Status ProgramRunner::RunNode(size_t index) {
  launched_ = true;
  NodeCall call(*this, index, ops_[index]->context);
  TENON_RETURN_IF_ERROR(ops_[index]->kernel(call));
  stats_.launches += launched_ ? 1 : 0;
  for (std::byte* piece : scratch_)
    memory_.Release(piece);
  scratch_.clear();
  for (const ProgramValueId id : program_.nodes[index].outputs) {
    if (id.valid() && slots_[id.index()].view.data == nullptr)
      return MakeError(ErrorCode::kInternal, "a kernel left an output out",
                       program_.value(id).name);
  }
  for (const uint32_t value : ends_[index])
    Unuse(slots_[value]);
  return {};
}

void ProgramRunner::Unuse(Slot& slot) {
  if (slot.storage < 0)
    return;
  Storage& storage = storages_[static_cast<size_t>(slot.storage)];
  if (--storage.users == 0)
    (storage.of_output ? outputs_memory_ : memory_).Release(storage.data);
  slot.storage = -1;
}

// The storage of an input that ends with the node and has the output's type and shape; -1: none.
int32_t ProgramRunner::StorageToReuse(size_t node, int64_t bytes, ElementType type,
                                      const Extents& shape) const {
  if (options_.in_place == Sharing::kOff || !ops_[node]->traits.in_place || bytes == 0)
    return -1;
  for (const ProgramValueId id : program_.nodes[node].inputs) {
    if (!id.valid() || last_reader_[id.index()] != static_cast<int64_t>(node))
      continue;
    const Slot& slot = slots_[id.index()];
    if (slot.storage >= 0 && storages_[static_cast<size_t>(slot.storage)].users == 1 &&
        slot.view.type == type && slot.view.shape == shape)
      return slot.storage;
  }
  return -1;
}

Result<TensorView> ProgramRunner::MakeOutput(size_t node, size_t i, ElementType type,
                                             Extents shape) {
  TENON_RETURN_IF_ERROR(CheckExtents(shape));
  const ProgramValueId id = program_.nodes[node].Output(i);
  TensorView view{type, std::move(shape), nullptr};
  const int64_t bytes = view.bytes();
  if (!id.valid()) {
    TENON_ASSIGN_OR_RETURN(view.data, memory_.Allocate(bytes));
    scratch_.push_back(view.data);
    return view;
  }
  // Outputs outlive the run: they have memory of their own.
  const bool of_output = last_reader_[id.index()] == INT64_MAX;
  int32_t storage = i == 0 && !of_output ? StorageToReuse(node, bytes, type, view.shape) : -1;
  if (storage < 0) {
    TensorMemory& memory = of_output ? outputs_memory_ : memory_;
    TENON_ASSIGN_OR_RETURN(view.data, memory.Allocate(bytes));
    storages_.push_back({view.data, 0, of_output});
    storage = static_cast<int32_t>(storages_.size() - 1);
  }
  Storage& owner = storages_[static_cast<size_t>(storage)];
  view.data = owner.data;
  ++owner.users;
  slots_[id.index()] = {view, storage};
  return view;
}

}  // namespace tenon

#include "engine/program/op_table.h"

#include <initializer_list>

namespace tenon {

OpTable::OpTable() {
  for (const auto group :
       {UnaryOps(), CastOps(), BinaryOps(), ShapeOps(), MovementOps(), IndexingOps(), ReduceOps(),
        SortingOps(), MatMulOps(), NormOps(), QuantizeOps(), AttentionOps(), ContribOps(),
        FusedOps(), ConvOps(), PoolOps(), ControlOps()})
    ops_.insert(ops_.end(), group.begin(), group.end());
}

const ProgramOp* OpTable::Find(std::string_view domain, std::string_view name,
                               int64_t version) const {
  for (const ProgramOp& op : ops_) {
    if (op.name == name && op.domain == domain && version >= op.first_version &&
        version <= op.last_version)
      return &op;
  }
  return nullptr;
}

}  // namespace tenon

// Matrices whose columns are stored in another order than the model's.
//
// GPTQ with desc_act spreads each group of inputs over a row. Its matrices keep their few bits when
// the columns are sorted by group: "blk.3.ffn_down.weight" then has a vector beside it,
// "blk.3.ffn_down.order" (F32 [columns]), that says which input each stored column is for, and
// DecoderBuilder::Linear permutes the inputs so. Several names may stand for one such vector.
#pragma once

#include <string_view>

#include "base/result.h"
#include "model/model_source.h"

namespace tenon {

inline constexpr std::string_view kOrderSuffix = ".order";

// Whether DecoderBuilder::Linear is the only reader of "<stem>.weight" in every family, so that its
// columns may be sorted. Experts' and heads' are not.
bool MayHaveColumnOrder(std::string_view stem);

// Such matrices become F32 in memory, their columns in the model's order, and the vectors leave the
// source: for writers of files, which know no order.
Status RestoreColumnOrder(ModelSource& source);

}  // namespace tenon

// The tensors of one HfTensorLayout: floats, or the parts of a packed matrix.
//
// Threading: one thread. The layout, source and supply must outlive what is made.
#pragma once

#include <optional>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"
#include "frontend/convert/hf_export.h"
#include "frontend/convert/hf_layout.h"
#include "frontend/convert/hf_tensor_files.h"
#include "frontend/convert/packed_form.h"

namespace tenon {

// The form that all rows of the layout have; F32 where they differ, for floats are common to all.
TensorForm CommonForm(const HfTensorLayout& layout, const TensorSupply& supply);

// Whether the layout can stay small integers.
bool CanPack(const HfTensorLayout& layout, const TensorSupply& supply);

// The layout as floats of this type.
PlannedTensor PlanFloats(const HfTensorLayout& layout, SafetensorsType type, TensorSupply& supply);

// The layout's integers, scales (of type `scales`, kF32 or kF16) and shape. REQUIRES: CanPack.
std::vector<PlannedTensor> PlanPacked(const HfTensorLayout& layout, SafetensorsType scales,
                                      TensorSupply& supply);

// A tensor of a safetensors file as it is, or a floating-point one as `floats`.
PlannedTensor PlanCopy(const SafetensorsTensor& tensor, const MappedFile& file,
                       std::optional<SafetensorsType> floats);

}  // namespace tenon

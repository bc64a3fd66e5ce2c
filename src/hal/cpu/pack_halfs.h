// Packing of 16-bit floats in blocks: PackedKind::kI14S32 and kF12S32.
#pragma once

#include <cstddef>

#include "hal/pack.h"

namespace tenon {

// F16 or BF16 rows to a panel of PackedPanelBytes(kind, k) bytes; rows past the last are left
// alone. REQUIRES: k % 32 == 0.
void PackI14(const PanelSource& source, std::byte* out);

// Levels are the same as PackI14's. False: one of them has more than 8 bits between its first and
// its last; the panel is then not to be used.
[[nodiscard]] bool PackF12(const PanelSource& source, std::byte* out);

}  // namespace tenon

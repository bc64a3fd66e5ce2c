// What masks say where a query does not see a key.
#pragma once

namespace tenon {

// Masks hold minus infinity or the lowest float; what is this far below any score leaves softmax an
// exact 0.
inline constexpr float kNoKey = -1e30F;

}  // namespace tenon

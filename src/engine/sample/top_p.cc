#include "engine/sample/top_p.h"

namespace tenon {

void TopP(Candidates& candidates, float top_p) {
  KeepFewestReaching(candidates, static_cast<double>(top_p), Better);
}

}  // namespace tenon

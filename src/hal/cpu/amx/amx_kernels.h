// Matrix products on AMX int8 tiles (Sapphire Rapids and later). Only the quantized kinds, and only
// calls with enough tokens to fill a tile; anything else is AVX-512's. Same floats as the ref set.
#pragma once

#include "hal/cpu/kernel_sets.h"

namespace tenon::amx {

void GemmU4S32(const GemmArgs& args);
void GemmU4S32M(const GemmArgs& args);
void GemmU4S16M(const GemmArgs& args);
void GemmCodebook4S32(const GemmArgs& args);
void GemmU5S32(const GemmArgs& args);
void GemmU5S32M(const GemmArgs& args);
void GemmU6S16(const GemmArgs& args);
void GemmU8S32(const GemmArgs& args);

}  // namespace tenon::amx

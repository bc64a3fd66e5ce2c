// AMX tiles in scalar code, from the Intel SDM (volume 1, chapter 18; volume 2, TDPBSUD): palette
// and shape rules, zeroing past the configured shape, and an abort where the hardware would fault.
// One set of tiles per thread, as the hardware has.
#pragma once

#include <cstdint>

namespace tenon_emulated {

void TileLoadConfig(const void* config);  // ldtilecfg
void TileRelease();                       // tilerelease
void TileZero(int tile);
void TileLoad(int tile, const void* base, int64_t stride);
void TileStore(int tile, void* base, int64_t stride);
void TileDotSignedUnsigned(int sums, int a, int b);  // tdpbsud

// Bytes of tile rows that loads have read so far in this thread; for tests that want to know
// whether a kernel used tiles at all.
int64_t TileBytesLoaded();

// True while this thread's tiles are configured.
bool TilesConfigured();

}  // namespace tenon_emulated

#define _tile_loadconfig(config) tenon_emulated::TileLoadConfig(config)
#define _tile_release() tenon_emulated::TileRelease()
#define _tile_zero(tile) tenon_emulated::TileZero(tile)
#define _tile_loadd(tile, base, stride) tenon_emulated::TileLoad(tile, base, stride)
#define _tile_stored(tile, base, stride) tenon_emulated::TileStore(tile, base, stride)
#define _tile_dpbsud(sums, a, b) tenon_emulated::TileDotSignedUnsigned(sums, a, b)

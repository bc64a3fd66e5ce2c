#include "emulated/shim/emulated_tiles.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tenon_emulated {
namespace {

constexpr int kTiles = 8;
constexpr int kMaxRows = 16;
constexpr int kRowBytes = 64;

struct Tile {
  int rows = 0;
  int column_bytes = 0;
  uint8_t bytes[kMaxRows][kRowBytes] = {};
};

struct TileUnit {
  bool configured = false;
  Tile tiles[kTiles];
  int64_t bytes_loaded = 0;
};

thread_local TileUnit unit;

// The hardware raises an exception, which ends the program.
void Demand(bool condition, const char* rule) {
  if (condition)
    return;
  std::fprintf(stderr, "emulated AMX fault: %s\n", rule);
  std::abort();
}

Tile& Configured(int tile) {
  Demand(unit.configured, "tiles are not configured");
  Demand(tile >= 0 && tile < kTiles, "tile number");
  Demand(unit.tiles[tile].rows > 0, "tile has no shape");
  return unit.tiles[tile];
}

// What lies past the written part of a tile reads as zero.
void Clear(Tile& tile) {
  std::memset(tile.bytes, 0, sizeof(tile.bytes));
}

void SetShape(int tile, int column_bytes, int rows) {
  Demand(tile < kTiles || (column_bytes == 0 && rows == 0), "shape of a tile beyond the palette");
  if (tile >= kTiles)
    return;
  Demand(column_bytes <= kRowBytes && rows <= kMaxRows, "shape larger than the palette's");
  Demand((column_bytes == 0) == (rows == 0), "rows and columns must both be set or neither");
  unit.tiles[tile] = {rows, column_bytes, {}};
}

}  // namespace

void TileLoadConfig(const void* config) {
  uint8_t bytes[64];
  std::memcpy(bytes, config, sizeof(bytes));
  if (bytes[0] == 0) {
    TileRelease();
    return;
  }
  Demand(bytes[0] == 1, "palette must be 0 or 1");
  for (int i = 2; i < 16; ++i)
    Demand(bytes[i] == 0, "reserved bytes must be zero");
  for (int tile = 0; tile < 16; ++tile) {
    uint16_t column_bytes;
    std::memcpy(&column_bytes, bytes + 16 + tile * 2, 2);
    SetShape(tile, column_bytes, bytes[48 + tile]);
  }
  unit.configured = true;
}

void TileRelease() {
  unit.configured = false;
  for (Tile& tile : unit.tiles)
    tile = {};
}

void TileZero(int tile) {
  Clear(Configured(tile));
}

void TileLoad(int tile, const void* base, int64_t stride) {
  Tile& target = Configured(tile);
  Clear(target);
  for (int row = 0; row < target.rows; ++row) {
    std::memcpy(target.bytes[row], static_cast<const char*>(base) + row * stride,
                static_cast<size_t>(target.column_bytes));
    unit.bytes_loaded += target.column_bytes;
  }
}

void TileStore(int tile, void* base, int64_t stride) {
  const Tile& source = Configured(tile);
  for (int row = 0; row < source.rows; ++row)
    std::memcpy(static_cast<char*>(base) + row * stride, source.bytes[row],
                static_cast<size_t>(source.column_bytes));
}

void TileDotSignedUnsigned(int sums, int a, int b) {
  Tile& c = Configured(sums);
  const Tile& x = Configured(a);
  const Tile& w = Configured(b);
  Demand(sums != a && sums != b && a != b, "the three tiles must differ");
  Demand(x.rows == c.rows && w.column_bytes == c.column_bytes && x.column_bytes % 4 == 0 &&
             w.rows == x.column_bytes / 4 && c.column_bytes % 4 == 0,
         "shapes of a product");
  for (int row = 0; row < c.rows; ++row) {
    for (int column = 0; column < c.column_bytes / 4; ++column) {
      uint32_t sum;
      std::memcpy(&sum, c.bytes[row] + column * 4, 4);
      for (int k = 0; k < x.column_bytes; ++k) {
        const int activation = static_cast<int8_t>(x.bytes[row][k]);
        const int weight = w.bytes[k / 4][column * 4 + k % 4];
        sum += static_cast<uint32_t>(activation * weight);
      }
      std::memcpy(c.bytes[row] + column * 4, &sum, 4);
    }
  }
}

int64_t TileBytesLoaded() {
  return unit.bytes_loaded;
}

bool TilesConfigured() {
  return unit.configured;
}

}  // namespace tenon_emulated

// WeightStore: the weights of a plan, packed for the kernels that were chosen, resident once.
//
// Owns one run of bytes with all packed matrices and vectors: a buffer, or a mapped file that an
// earlier process has left (WeightCache), or a file of this process alone that is read step by step
// (WeightSpill). Packing is parallel and hands the model's mapped pages back piece by piece, so
// that file and packed form are never both resident. A weight that lives elsewhere (another device,
// not loaded yet) will be another kind of PackedMatrix::data.
// Threading: const after Load.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "engine/plan/weight_cache.h"
#include "engine/plan/weight_source.h"
#include "graph/passes/optimize.h"
#include "hal/kernel_set.h"
#include "hal/pack.h"
#include "hal/thread_pool.h"
#include "tensor/buffer.h"
#include "tensor/spill_buffer.h"

namespace tenon {

// One matrix, or a stack of equal ones (experts), each of which begins a panel of its own.
struct PackedMatrix {
  PackedKind kind = PackedKind::kF32;
  int64_t count = 1;  // matrices
  int64_t rows = 0;   // of one
  int64_t columns = 0;
  int64_t panel_bytes = 0;
  const std::byte* data = nullptr;   // [count * panels] panels
  const int8_t* codebook = nullptr;  // [16] or null
  GemmFn gemm = nullptr;

  // Of one matrix.
  int64_t panels() const { return (rows + kPanelRows - 1) / kPanelRows; }
  const std::byte* Panel(int64_t index, int64_t panel) const {
    return data + (index * panels() + panel) * panel_bytes;
  }
};

// What becomes of weights when they are packed.
enum class WeightRounding : uint8_t {
  kNone,
  // Matrices that the file holds in more than 5 bits a weight are rounded to 4 bits in groups of 32
  // with a minimum each (Q4_1): for a draft of the same model, whose rejected guesses cost more
  // than the half bit that the minima take.
  kInt4,
};

// For packed weights that don't fit in memory: they lie in a nameless file of `directory`. The
// first `resident_bytes` of matrices stay in memory; the others leave it after each step of the
// plan. Every step visits all weights in one order, so what stays had better be always the same.
struct WeightSpill {
  std::filesystem::path directory;  // empty: all weights are in memory
  int64_t resident_bytes = 0;
};

class WeightStore {
 public:
  // Mapped bytes of a weight that are packed before their pages are handed back.
  static constexpr int64_t kReleaseBytes = int64_t{2} << 20;

  // `count` matrices, one below the other in one weight.
  struct Stack {
    std::string name;
    int64_t count = 1;
  };
  // Names of the matrices, stacks and vectors (norm weights, biases, rotary factors) of a plan.
  struct Names {
    std::vector<std::string> matrices;
    std::vector<Stack> stacks;
    std::vector<std::string> vectors;
    // The matrix that makes the logits: never rounded, since its error is theirs.
    std::string head;
  };

  // Sizes everything; reads no more than a row of each F16 matrix, from which it guesses whether
  // the weights come from BF16 and take 12 bits each (kF12S32). With ActivationMode::kFloat every
  // matrix is dequantized to float: the reference mode. Fails when a weight is missing or no kernel
  // takes it. `kernels` is borrowed until Load.
  static Result<WeightStore> Prepare(const WeightSource& source, const Names& names,
                                     const KernelSet& kernels, ActivationMode mode,
                                     WeightRounding rounding = WeightRounding::kNone);

  // Takes the image that `cache` has, or allocates and packs, and gives the cache the result. Null:
  // no cache. Where a guess of Prepare was wrong, bytes() and offsets grow. REQUIRES: called once;
  // a cache that was given does not outlive the store.
  Status Load(const WeightSource& source, ThreadPool& pool, WeightCache* cache = nullptr);
  // The same, with matrices that leave memory by Release.
  Status LoadSpilled(const WeightSource& source, ThreadPool& pool, const WeightSpill& spill);
  // The matrix has been read and will be in the next step. Nothing without a spill, or when it is
  // one of those that stay.
  void Release(const PackedMatrix& matrix) const;
  // Bytes of the matrix that Release would take out of memory with this spill.
  int64_t SpilledBytes(const PackedMatrix& matrix, const WeightSpill& spill) const;

  // Bytes that Load allocates or maps.
  int64_t bytes() const { return bytes_; }
  // Of vectors among them.
  int64_t vector_bytes() const;

  // What the packed bytes depend on beside the weights themselves: a line for each matrix and
  // vector with its form and place.
  std::string LayoutText() const;

  // Null when the name was not in Names. Addresses are stable from Prepare on; `data` is set by
  // Load.
  const PackedMatrix* FindMatrix(std::string_view name) const;
  // Empty until Load.
  std::span<const float> FindVector(std::string_view name) const;

 private:
  struct Matrix {
    std::string name;
    DType packed_from = DType::kF32;  // the file's type, or what it is rounded to
    PackedMatrix packed;
    int64_t offset = 0;       // from base_
    bool is_guessed = false;  // kF12S32 by a row alone
  };
  struct Vector {
    std::string name;
    int64_t size = 0;
    int64_t offset = 0;
  };

  Status AddStack(const WeightSource& source, const Stack& stack);
  Status AddVector(const WeightSource& source, const std::string& name);
  static int64_t BytesOf(const PackedMatrix& matrix) {
    return matrix.count * matrix.panels() * matrix.panel_bytes;
  }
  int64_t OffsetOf(const PackedMatrix& matrix) const;
  // Whether the row in the middle of an F16 matrix has no more bits than BF16.
  Result<bool> LooksLikeBF16(const WeightSource& source, const std::string& name,
                             const WeightView& view) const;
  // All guessed matrices to one kind, which moves what follows them.
  void SetGuessed(PackedKind kind);
  void SetKind(Matrix& matrix, PackedKind kind) const;
  void Place();
  bool TakeImage(WeightCache& cache, ThreadPool& pool);
  // Whether all weights fitted their kinds.
  enum class Fit : uint8_t { kAll, kNotGuessed };
  // Packs to what `allocate` makes, once more when a guess was wrong.
  Status PackTo(const std::function<Status()>& allocate, const WeightSource& source,
                ThreadPool& pool);
  Result<Fit> Pack(const WeightSource& source, ThreadPool& pool);
  static bool PackPanelOf(const Matrix& matrix, const PanelSource& rows, std::span<std::byte> out);
  // The image's bytes into the buffer; the file is let go.
  Status CopyImage(ThreadPool& pool);
  void SetBase(const std::byte* base);
  Result<Fit> PackMatrix(const WeightSource& source, const Matrix& matrix, ThreadPool& pool) const;
  Result<Fit> PackOne(const WeightSource& source, const Matrix& matrix, int64_t index,
                      ThreadPool& pool) const;
  Status LoadVector(const WeightSource& source, const Vector& vector) const;

  DType PackedFrom(const WeightView& view, std::string_view name) const;

  const KernelSet* kernels_ = nullptr;
  ActivationMode mode_ = ActivationMode::kInt8;
  WeightRounding rounding_ = WeightRounding::kNone;
  std::string head_;
  Buffer buffer_;                     // either this
  std::optional<WeightImage> image_;  // or this
  std::optional<SpillBuffer> spill_;  // or this holds the bytes
  int64_t resident_bytes_ = 0;        // of spill_
  std::byte* target_ = nullptr;       // while packing
  const std::byte* base_ = nullptr;   // of one of the three; null until Load
  int64_t bytes_ = 0;
  std::vector<Matrix> matrices_;
  std::vector<Vector> vectors_;
  std::unordered_map<std::string, size_t> matrix_index_;
  std::unordered_map<std::string, size_t> vector_index_;
};

}  // namespace tenon

#include "engine/plan/weight_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "base/check.h"
#include "quant/dequantize.h"
#include "quant/quantize.h"

namespace tenon {
namespace {

int64_t AlignUp(int64_t value) {
  constexpr auto kAlignment = static_cast<int64_t>(Buffer::kAlignment);
  return (value + kAlignment - 1) / kAlignment * kAlignment;
}

// Packs the rows as if the file held them in `dtype`.
void PackRounded(const PanelSource& source, DType dtype, std::span<std::byte> out) {
  const auto stored = static_cast<size_t>(DTypeRowBytes(source.dtype, source.k));
  const auto rounded = static_cast<size_t>(DTypeRowBytes(dtype, source.k));
  std::vector<float> values(static_cast<size_t>(source.k));
  std::vector<std::byte> rows(rounded * static_cast<size_t>(source.row_count));
  for (size_t row = 0; row < static_cast<size_t>(source.row_count); ++row) {
    DequantizeRow(source.dtype, {source.rows + row * stored, stored}, values);
    QuantizeRow(dtype, values, std::span(rows).subspan(row * rounded, rounded));
  }
  PackPanel({dtype, rows.data(), source.row_count, source.k}, out);
}

}  // namespace

// The type that a matrix is packed from.
DType WeightStore::PackedFrom(const WeightView& view, std::string_view name) const {
  constexpr int64_t kGroup = 32;  // values in a block of Q4_1
  const bool fits =
      rounding_ == WeightRounding::kInt4 && name != head_ && view.columns % kGroup == 0;
  const int64_t bits = 8 * DTypeRowBytes(view.dtype, view.columns);
  return fits && bits > 5 * view.columns ? DType::kQ4_1 : view.dtype;
}

// The row in the middle: WeightIdentity of the frontend has read from there already.
Result<bool> WeightStore::LooksLikeBF16(const WeightSource& source, const std::string& name,
                                        const WeightView& view) const {
  const auto row_bytes = static_cast<size_t>(DTypeRowBytes(view.dtype, view.columns));
  const auto panel_bytes = static_cast<size_t>(PackedPanelBytes(PackedKind::kF12S32, view.columns));
  std::vector<std::byte> row(row_bytes);
  std::vector<std::byte> panel(panel_bytes);
  TENON_RETURN_IF_ERROR(source.ReadAt(name, static_cast<size_t>(view.rows / 2) * row_bytes, row));
  return PackPanelF12({view.dtype, row.data(), 1, view.columns}, panel);
}

Result<WeightStore> WeightStore::Prepare(const WeightSource& source, const Names& names,
                                         const KernelSet& kernels, ActivationMode mode,
                                         WeightRounding rounding) {
  WeightStore store;
  store.kernels_ = &kernels;
  store.mode_ = mode;
  store.rounding_ = rounding;
  store.head_ = names.head;
  for (const std::string& name : names.matrices)
    TENON_RETURN_IF_ERROR(store.AddStack(source, {name, 1}));
  for (const Stack& stack : names.stacks)
    TENON_RETURN_IF_ERROR(store.AddStack(source, stack));
  for (const std::string& name : names.vectors)
    TENON_RETURN_IF_ERROR(store.AddVector(source, name));
  store.Place();
  return store;
}

Status WeightStore::AddStack(const WeightSource& source, const Stack& stack) {
  const std::string& name = stack.name;
  if (matrix_index_.contains(name))
    return {};
  TENON_ASSIGN_OR_RETURN(const WeightView view, source.Find(name));
  Matrix matrix;
  matrix.name = name;
  matrix.packed_from = PackedFrom(view, name);
  matrix.packed.count = stack.count;
  matrix.packed.rows = view.rows / stack.count;
  matrix.packed.columns = view.columns;
  matrix.packed.codebook = CodebookFor(matrix.packed_from);
  PackedKind kind = mode_ == ActivationMode::kFloat
                        ? PackedKind::kF32
                        : PackedKindFor(matrix.packed_from, view.columns);
  if (kind == PackedKind::kI14S32) {
    TENON_ASSIGN_OR_RETURN(matrix.is_guessed, LooksLikeBF16(source, name, view));
    kind = matrix.is_guessed ? PackedKind::kF12S32 : kind;
  }
  SetKind(matrix, kind);
  if (matrix.packed.gemm == nullptr)
    return Unsupported(fmt::format("no kernel takes {} weights", DTypeName(view.dtype)), name);
  matrix_index_.emplace(name, matrices_.size());
  matrices_.push_back(std::move(matrix));
  return {};
}

void WeightStore::SetKind(Matrix& matrix, PackedKind kind) const {
  PackedMatrix& packed = matrix.packed;
  packed.kind = kind;
  packed.panel_bytes = PackedPanelBytes(kind, packed.columns);
  packed.gemm = kernels_->gemm[static_cast<size_t>(kind)];
}

void WeightStore::SetGuessed(PackedKind kind) {
  for (Matrix& matrix : matrices_) {
    if (matrix.is_guessed)
      SetKind(matrix, kind);
  }
  Place();
}

void WeightStore::Place() {
  bytes_ = 0;
  for (Matrix& matrix : matrices_) {
    matrix.offset = bytes_;
    bytes_ += AlignUp(BytesOf(matrix.packed));
  }
  for (Vector& vector : vectors_) {
    vector.offset = bytes_;
    bytes_ += AlignUp(vector.size * static_cast<int64_t>(sizeof(float)));
  }
}

int64_t WeightStore::vector_bytes() const {
  int64_t bytes = 0;
  for (const Vector& vector : vectors_)
    bytes += AlignUp(vector.size * static_cast<int64_t>(sizeof(float)));
  return bytes;
}

Status WeightStore::AddVector(const WeightSource& source, const std::string& name) {
  if (vector_index_.contains(name))
    return {};
  TENON_ASSIGN_OR_RETURN(const WeightView view, source.Find(name));
  if (view.bytes.empty())
    return Unsupported("a weight in pieces that is read as a whole", name);
  Vector vector{.name = name, .size = view.rows * view.columns};
  vector_index_.emplace(name, vectors_.size());
  vectors_.push_back(std::move(vector));
  return {};
}

std::string WeightStore::LayoutText() const {
  std::string text =
      fmt::format("layout {} rounding {}\n", kPackedLayoutVersion, static_cast<int>(rounding_));
  for (const Matrix& matrix : matrices_) {
    const PackedMatrix& packed = matrix.packed;
    text += fmt::format("{} kind {} {}x{}x{} at {}\n", matrix.name, static_cast<int>(packed.kind),
                        packed.count, packed.rows, packed.columns, matrix.offset);
  }
  for (const Vector& vector : vectors_)
    text += fmt::format("{} {} at {}\n", vector.name, vector.size, vector.offset);
  return text;
}

Status WeightStore::Load(const WeightSource& source, ThreadPool& pool, WeightCache* cache) {
  TENON_CHECK(base_ == nullptr);
  if (cache != nullptr) {
    if (TakeImage(*cache, pool))
      return image_->pages == WeightPages::kCopied ? CopyImage(pool) : Status();
    // An earlier start may have found that the guesses were wrong.
    if (std::ranges::any_of(matrices_, &Matrix::is_guessed)) {
      SetGuessed(PackedKind::kI14S32);
      if (TakeImage(*cache, pool))
        return image_->pages == WeightPages::kCopied ? CopyImage(pool) : Status();
      SetGuessed(PackedKind::kF12S32);
    }
  }
  const auto allocate = [&]() -> Status {
    TENON_ASSIGN_OR_RETURN(buffer_, Buffer::Allocate(static_cast<size_t>(bytes_)));
    target_ = buffer_.data();
    return {};
  };
  TENON_RETURN_IF_ERROR(PackTo(allocate, source, pool));
  if (cache != nullptr)
    cache->Save(LayoutText(), buffer_.bytes());
  return {};
}

bool WeightStore::TakeImage(WeightCache& cache, ThreadPool& pool) {
  image_ = cache.Find(LayoutText(), static_cast<uint64_t>(bytes_), pool);
  if (image_.has_value() && image_->pages == WeightPages::kMapped)
    SetBase(image_->file.bytes().data() + image_->offset);
  return image_.has_value();
}

Status WeightStore::CopyImage(ThreadPool& pool) {
  TENON_ASSIGN_OR_RETURN(buffer_, Buffer::Allocate(static_cast<size_t>(bytes_)));
  const WeightImage& image = *image_;
  const std::byte* from = image.file.bytes().data() + image.offset;
  // What was copied leaves the process's memory, so that weights are never there twice.
  const int64_t pieces = (bytes_ + kReleaseBytes - 1) / kReleaseBytes;
  pool.ParallelFor(pieces, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t at = piece * kReleaseBytes;
      const int64_t count = std::min(kReleaseBytes, bytes_ - at);
      std::copy_n(from + at, count, buffer_.data() + at);
      image.file.Release(image.offset + static_cast<uint64_t>(at), static_cast<uint64_t>(count));
    }
  });
  image_.reset();
  SetBase(buffer_.data());
  return {};
}

Status WeightStore::LoadSpilled(const WeightSource& source, ThreadPool& pool,
                                const WeightSpill& spill) {
  TENON_CHECK(base_ == nullptr);
  resident_bytes_ = spill.resident_bytes;
  const auto allocate = [&]() -> Status {
    TENON_ASSIGN_OR_RETURN(spill_,
                           SpillBuffer::Create(spill.directory, static_cast<size_t>(bytes_)));
    target_ = spill_->data();
    return {};
  };
  return PackTo(allocate, source, pool);
}

int64_t WeightStore::OffsetOf(const PackedMatrix& matrix) const {
  const auto found = std::ranges::find_if(
      matrices_, [&](const Matrix& known) { return &known.packed == &matrix; });
  TENON_CHECK(found != matrices_.end());
  return found->offset;
}

int64_t WeightStore::SpilledBytes(const PackedMatrix& matrix, const WeightSpill& spill) const {
  return OffsetOf(matrix) + BytesOf(matrix) <= spill.resident_bytes ? 0 : BytesOf(matrix);
}

void WeightStore::Release(const PackedMatrix& matrix) const {
  const int64_t begin = matrix.data - base_;
  const int64_t bytes = BytesOf(matrix);
  if (spill_.has_value() && begin + bytes > resident_bytes_)
    spill_->Release(static_cast<uint64_t>(begin), static_cast<uint64_t>(bytes));
}

Status WeightStore::PackTo(const std::function<Status()>& allocate, const WeightSource& source,
                           ThreadPool& pool) {
  TENON_RETURN_IF_ERROR(allocate());
  TENON_ASSIGN_OR_RETURN(Fit fit, Pack(source, pool));
  if (fit == Fit::kNotGuessed) {
    SetGuessed(PackedKind::kI14S32);
    TENON_RETURN_IF_ERROR(allocate());
    TENON_ASSIGN_OR_RETURN(fit, Pack(source, pool));
  }
  TENON_CHECK(fit == Fit::kAll);
  SetBase(target_);
  return {};
}

Result<WeightStore::Fit> WeightStore::Pack(const WeightSource& source, ThreadPool& pool) {
  for (const Matrix& matrix : matrices_) {
    TENON_ASSIGN_OR_RETURN(const Fit fit, PackMatrix(source, matrix, pool));
    // The system maps pages around each one that is read, so neighbours came back after their
    // release; over hundreds of matrices they would add up to the peak.
    source.ReleaseAll();
    if (fit == Fit::kNotGuessed)
      return fit;
  }
  for (const Vector& vector : vectors_)
    TENON_RETURN_IF_ERROR(LoadVector(source, vector));
  source.ReleaseAll();
  return Fit::kAll;
}

void WeightStore::SetBase(const std::byte* base) {
  base_ = base;
  for (Matrix& matrix : matrices_)
    matrix.packed.data = base + matrix.offset;
}

Result<WeightStore::Fit> WeightStore::PackMatrix(const WeightSource& source, const Matrix& matrix,
                                                 ThreadPool& pool) const {
  for (int64_t index = 0; index < matrix.packed.count; ++index) {
    TENON_ASSIGN_OR_RETURN(const Fit fit, PackOne(source, matrix, index, pool));
    if (fit == Fit::kNotGuessed)
      return fit;
  }
  return Fit::kAll;
}

// False: the weights do not fit the guessed kind.
bool WeightStore::PackPanelOf(const Matrix& matrix, const PanelSource& rows,
                              std::span<std::byte> out) {
  if (matrix.packed.kind == PackedKind::kF12S32)
    return PackPanelF12(rows, out);
  if (matrix.packed.kind == PackedKind::kF32)
    PackPanelF32(rows, out);
  else if (matrix.packed_from != rows.dtype)
    PackRounded(rows, matrix.packed_from, out);
  else
    PackPanel(rows, out);
  return true;
}

Result<WeightStore::Fit> WeightStore::PackOne(const WeightSource& source, const Matrix& matrix,
                                              int64_t index, ThreadPool& pool) const {
  TENON_ASSIGN_OR_RETURN(const WeightView view, source.Find(matrix.name));
  const PackedMatrix& packed = matrix.packed;
  const int64_t row_bytes = DTypeRowBytes(view.dtype, view.columns);
  const auto whole = static_cast<uint64_t>(packed.rows * row_bytes);
  const uint64_t offset = static_cast<uint64_t>(index) * whole;
  TENON_ASSIGN_OR_RETURN(const auto bytes, source.BytesAt(matrix.name, offset, whole));
  const int64_t begin_out = matrix.offset + index * packed.panels() * packed.panel_bytes;
  std::byte* out = target_ + begin_out;
  std::atomic<bool> fits = true;
  const auto pack_panel = [&](int64_t panel) {
    const PanelSource rows{view.dtype, bytes.data() + panel * kPanelRows * row_bytes,
                           std::min(kPanelRows, packed.rows - panel * kPanelRows), view.columns};
    if (!PackPanelOf(matrix, rows,
                     {out + panel * packed.panel_bytes, static_cast<size_t>(packed.panel_bytes)}))
      fits = false;
  };
  const int64_t step = std::max<int64_t>(1, kReleaseBytes / (row_bytes * kPanelRows));
  for (int64_t first = 0; first < packed.panels() && fits; first += step) {
    const int64_t count = std::min(step, packed.panels() - first);
    pool.ParallelFor(count, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t panel = first + begin; panel < first + end; ++panel)
        pack_panel(panel);
    });
    const int64_t row_end = std::min(packed.rows, (first + count) * kPanelRows);
    const int64_t begin_byte = first * kPanelRows * row_bytes;
    source.Release(matrix.name, offset + static_cast<uint64_t>(begin_byte),
                   static_cast<uint64_t>(row_end * row_bytes - begin_byte));
    if (spill_.has_value())
      spill_->Release(static_cast<uint64_t>(begin_out + first * packed.panel_bytes),
                      static_cast<uint64_t>(count * packed.panel_bytes));
  }
  return fits ? Fit::kAll : Fit::kNotGuessed;
}

Status WeightStore::LoadVector(const WeightSource& source, const Vector& vector) const {
  TENON_ASSIGN_OR_RETURN(const WeightView view, source.Find(vector.name));
  DequantizeRow(
      view.dtype, view.bytes,
      {reinterpret_cast<float*>(target_ + vector.offset), static_cast<size_t>(vector.size)});
  return {};
}

const PackedMatrix* WeightStore::FindMatrix(std::string_view name) const {
  auto found = matrix_index_.find(std::string(name));
  return found == matrix_index_.end() ? nullptr : &matrices_[found->second].packed;
}

std::span<const float> WeightStore::FindVector(std::string_view name) const {
  auto found = vector_index_.find(std::string(name));
  if (found == vector_index_.end() || base_ == nullptr)
    return {};
  const Vector& vector = vectors_[found->second];
  return {reinterpret_cast<const float*>(base_ + vector.offset), static_cast<size_t>(vector.size)};
}

}  // namespace tenon

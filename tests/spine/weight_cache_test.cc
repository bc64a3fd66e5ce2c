// Packed weights in files: found again, the same bits, and of no use when they are not whole.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include "frontend/session/image_check.h"
#include "frontend/session/weight_file_cache.h"
#include "test_model.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

class WeightCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    auto pool = ThreadPool::Create(2);
    ASSERT_TRUE(pool.ok());
    pool_ = std::move(*pool);
  }
  void TearDown() override { fs::remove_all(folder_); }

  // A model source of one file with these bytes as one tensor.
  ModelSource SourceOf(const std::string& name, const std::string& bytes) {
    const fs::path path = folder_ / name;
    std::ofstream(path, std::ios::binary) << bytes;
    ModelSource source;
    auto file = MappedFile::Open(path);
    EXPECT_TRUE(file.ok());
    source.files.push_back(std::move(*file));
    TensorInfo tensor;
    tensor.name = "weight";
    tensor.shape = {static_cast<int64_t>(bytes.size()) / 4};
    tensor.bytes = bytes.size();
    source.tensors.push_back(tensor);
    return source;
  }

  // Saves and waits until it is written.
  void Save(const ModelSource& source, std::string_view layout, std::span<const std::byte> image) {
    OpenWeightFileCache(cache_(), source, options_)->Save(layout, image);
  }
  std::optional<WeightImage> Find(const ModelSource& source, std::string_view layout,
                                  uint64_t size) {
    return OpenWeightFileCache(cache_(), source, options_)->Find(layout, size, *pool_);
  }
  fs::path cache_() const { return folder_ / "cache"; }
  size_t FileCount() const { return ListCachedWeights(cache_()).size(); }
  fs::path OnlyFile() const { return ListCachedWeights(cache_()).at(0).path; }

  fs::path folder_;
  std::unique_ptr<ThreadPool> pool_;
  WeightCacheOptions options_{.min_bytes = 1, .max_bytes = 20 << 20, .free_bytes = 0};
};

std::vector<std::byte> MadeUpImage(size_t size, uint32_t seed) {
  std::vector<std::byte> image(size);
  for (size_t i = 0; i < size; ++i)
    image[i] = static_cast<std::byte>((i * 2654435761U + seed) >> 13);
  return image;
}

TEST_F(WeightCacheTest, FindsWhatWasSavedForTheSameModelAndLayout) {
  const ModelSource source = SourceOf("a.bin", std::string(4096, 'a'));
  // More than a chunk of the digest, and no whole number of pages.
  const auto image = MadeUpImage((5 << 20) + 123, 1);
  Save(source, "layout", image);
  const auto found = Find(source, "layout", image.size());
  ASSERT_TRUE(found.has_value());
  const auto bytes = found->file.bytes().subspan(found->offset, image.size());
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), image.begin()));
  EXPECT_FALSE(Find(source, "another layout", image.size()).has_value());
  EXPECT_EQ(FileCount(), 1U);
}

TEST_F(WeightCacheTest, AMovedModelFindsItAndAChangedOneDoesNot) {
  const ModelSource source = SourceOf("a.bin", std::string(4096, 'a'));
  const auto image = MadeUpImage(100000, 2);
  Save(source, "layout", image);
  fs::rename(folder_ / "a.bin", folder_ / "b.bin");
  ModelSource moved = SourceOf("a.bin", "");
  auto file = MappedFile::Open(folder_ / "b.bin");
  ASSERT_TRUE(file.ok());
  moved.files[0] = std::move(*file);
  moved.tensors = source.tensors;
  EXPECT_TRUE(Find(moved, "layout", image.size()).has_value());
  // Same size, same samples in the middle: the time of change tells.
  fs::last_write_time(folder_ / "b.bin",
                      fs::last_write_time(folder_ / "b.bin") + std::chrono::seconds(1));
  EXPECT_FALSE(Find(moved, "layout", image.size()).has_value());
}

TEST_F(WeightCacheTest, SamplesTellModelsApart) {
  const ModelSource a = SourceOf("a.bin", std::string(4096, 'a'));
  const ModelSource b = SourceOf("b.bin", std::string(4096, 'b'));
  fs::last_write_time(folder_ / "b.bin", fs::last_write_time(folder_ / "a.bin"));
  const auto first = WeightIdentity(a);
  const auto second = WeightIdentity(b);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(*first, *second);
}

// One byte anywhere: in the image, in the padding's place of the digest, in the trailer.
TEST_F(WeightCacheTest, ADamagedFileIsRemoved) {
  const ModelSource source = SourceOf("a.bin", std::string(4096, 'a'));
  const auto image = MadeUpImage((2 << 20) + 5000, 3);
  for (const int64_t place : {int64_t{0}, int64_t{1 << 20}, int64_t{(2 << 20) + 4999}, int64_t{-1},
                              int64_t{-4096}, int64_t{-4000}}) {
    Save(source, "layout", image);
    ASSERT_EQ(FileCount(), 1U);
    const fs::path path = OnlyFile();
    const auto size = static_cast<int64_t>(fs::file_size(path));
    const int64_t at = place < 0 ? size + place : place;
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(at);
    const int old = file.get();
    file.seekp(at);
    file.put(static_cast<char>(old ^ 1));
    file.close();
    EXPECT_FALSE(Find(source, "layout", image.size()).has_value()) << "place " << place;
    EXPECT_FALSE(fs::exists(path)) << "place " << place;
  }
}

// Longer than the kernel's clock takes to move on.
void WaitForAnotherTime() {
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
}

// Comparing with the digest is remembered for the state that was compared, and for no other.
TEST_F(WeightCacheTest, AFileIsComparedOnceInEachState) {
  const ModelSource source = SourceOf("a.bin", std::string(4096, 'a'));
  const auto image = MadeUpImage((2 << 20) + 5000, 7);
  Save(source, "layout", image);
  const fs::path path = OnlyFile();
  WaitForAnotherTime();
  EXPECT_FALSE(IsImageChecked(path, ImageState(path)));
  ASSERT_TRUE(Find(source, "layout", image.size()).has_value());
  const std::string whole = ImageState(path);
  ASSERT_FALSE(whole.empty());
  EXPECT_TRUE(IsImageChecked(path, whole));
  // A damaged file of which it is said that it was compared: nobody looks.
  std::fstream(path, std::ios::binary | std::ios::in | std::ios::out).put('x');
  EXPECT_EQ(ImageState(path), "");  // it could change again without another time
  WaitForAnotherTime();
  const std::string damaged = ImageState(path);
  EXPECT_NE(damaged, whole);
  EXPECT_FALSE(IsImageChecked(path, damaged));
  RememberImageCheck(path, damaged);
  EXPECT_TRUE(Find(source, "layout", image.size()).has_value());
  // Said of another boot: it is compared, and goes with what is remembered of it.
  RememberImageCheck(path, "another-boot" + damaged.substr(damaged.find(' ')));
  EXPECT_FALSE(Find(source, "layout", image.size()).has_value());
  EXPECT_TRUE(fs::is_empty(cache_()));
}

TEST_F(WeightCacheTest, ACutFileIsRemoved) {
  const ModelSource source = SourceOf("a.bin", std::string(4096, 'a'));
  const auto image = MadeUpImage(300000, 4);
  Save(source, "layout", image);
  const uint64_t whole = fs::file_size(OnlyFile());
  for (const uint64_t size :
       {whole - 1, whole - 4096, whole / 2, uint64_t{4096}, uint64_t{1}, uint64_t{0}}) {
    Save(source, "layout", image);
    ASSERT_EQ(FileCount(), 1U);
    const fs::path path = OnlyFile();
    fs::resize_file(path, size);
    EXPECT_FALSE(Find(source, "layout", image.size()).has_value()) << size << " bytes";
    EXPECT_FALSE(fs::exists(path)) << size << " bytes";
  }
}

TEST_F(WeightCacheTest, TheLeastRecentlyUsedFileMakesRoom) {
  options_.max_bytes = 2500 << 10;
  const auto image = MadeUpImage(1 << 20, 5);
  const ModelSource a = SourceOf("a.bin", std::string(4096, 'a'));
  const ModelSource b = SourceOf("b.bin", std::string(4096, 'b'));
  const ModelSource c = SourceOf("c.bin", std::string(4096, 'c'));
  const auto past = fs::file_time_type::clock::now() - std::chrono::hours(2);
  Save(a, "layout", image);
  fs::last_write_time(OnlyFile(), past);
  Save(b, "layout", image);
  for (const CachedWeights& file : ListCachedWeights(cache_()))
    fs::last_write_time(file.path, past - std::chrono::hours(file.label.origin.ends_with("b.bin")));
  EXPECT_TRUE(Find(b, "layout", image.size()).has_value());  // is now the one used last
  Save(c, "layout", image);
  EXPECT_FALSE(Find(a, "layout", image.size()).has_value());
  EXPECT_TRUE(Find(b, "layout", image.size()).has_value());
  EXPECT_TRUE(Find(c, "layout", image.size()).has_value());
}

TEST_F(WeightCacheTest, WhatIsTooLargeOrTooSmallIsNotKept) {
  const ModelSource source = SourceOf("a.bin", std::string(4096, 'a'));
  options_.max_bytes = 1000;
  Save(source, "layout", MadeUpImage(2000, 6));
  EXPECT_EQ(FileCount(), 0U);
  options_.min_bytes = 500;
  Save(source, "layout", MadeUpImage(400, 6));
  EXPECT_EQ(FileCount(), 0U);
  options_.free_bytes = UINT64_MAX / 2;  // no disk has so much
  Save(source, "layout", MadeUpImage(600, 6));
  EXPECT_EQ(FileCount(), 0U);
}

TEST_F(WeightCacheTest, RemovesWhatWasMadeFromAModel) {
  const ModelSource a = SourceOf("a.bin", std::string(4096, 'a'));
  const ModelSource b = SourceOf("b.bin", std::string(4096, 'b'));
  const auto image = MadeUpImage(5000, 7);
  Save(a, "layout", image);
  Save(a, "layout 2", image);
  Save(b, "layout", image);
  ASSERT_EQ(FileCount(), 3U);
  ASSERT_TRUE(RemoveCachedWeights(cache_(), folder_ / "a.bin").ok());
  ASSERT_EQ(FileCount(), 1U);
  EXPECT_TRUE(Find(b, "layout", image.size()).has_value());
}

TEST_F(WeightCacheTest, ADirectoryThatCantBeMadeIsNoError) {
  const ModelSource source = SourceOf("a.bin", std::string(4096, 'a'));
  std::ofstream(cache_()) << "a file where the directory should be";
  const auto image = MadeUpImage(5000, 8);
  Save(source, "layout", image);
  EXPECT_FALSE(Find(source, "layout", image.size()).has_value());
}

// Whether this process has a file in its address space.
bool IsMapped(const fs::path& path) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.ends_with(path.filename().string()))
      return true;
  }
  return false;
}

// The whole way: packed, saved, mapped or copied by later loads, the same logits bit for bit.
TEST_F(WeightCacheTest, AMappedModelComputesTheSameBits) {
  LoadOptions options;
  options.threads = 2;
  options.context_tokens = 64;
  options.batch_tokens = 16;
  options.weight_cache = cache_();
  options.weight_cache_options = options_;
  options.weight_cache_options.max_bytes = uint64_t{1} << 30;
  const auto logits = [](Model& model) {
    Sequence sequence(model.runner().kv(), CacheScope{}, PrefixCache::kOff);
    EXPECT_TRUE(ReserveNow(sequence, 16).ok());
    BatchBuilder builder;
    const int32_t index = builder.AddSequence(sequence.block_table());
    const auto tokens = MadeUpTokens(16, 1);
    for (int64_t i = 0; i < 16; ++i)
      builder.AddToken(index, tokens[static_cast<size_t>(i)], i,
                       i == 15 ? Logits::kYes : Logits::kNo);
    return RunStep(model, builder);
  };
  std::vector<float> packed;
  {
    TENON_LOAD_OR_SKIP(model, kSmolLm, options);
    packed = logits(*model);
  }
  ASSERT_EQ(FileCount(), 1U);
  const auto written = fs::last_write_time(OnlyFile());
  for (const WeightPages pages : {WeightPages::kMapped, WeightPages::kCopied}) {
    options.weight_cache_options.pages = pages;
    TENON_LOAD_OR_SKIP(model, kSmolLm, options);
    EXPECT_EQ(logits(*model), packed);
    EXPECT_EQ(IsMapped(OnlyFile()), pages == WeightPages::kMapped);
  }
  EXPECT_GE(fs::last_write_time(OnlyFile()), written);
  EXPECT_EQ(FileCount(), 1U);
}

}  // namespace
}  // namespace tenon

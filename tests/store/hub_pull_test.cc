// ModelStore::Pull from the Hugging Face Hub's interface and from plain addresses.
#include <gtest/gtest.h>

#include "frontend/store/store.h"
#include "store/stub_server.h"

namespace tenon {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

class HubPullTest : public testing::Test {
 protected:
  const std::string q4_ = FakeModel(20000, 1);
  const std::string q8_ = FakeModel(30000, 2);
  const std::string shard1_ = FakeModel(9000, 3);
  const std::string shard2_ = FakeModel(8000, 4);
  TemporaryDirectory directory_;
  StoreSettings settings_ = TestSettings(directory_ / "home");
  std::unique_ptr<StubServer> server_;

  static json Entry(std::string_view path, std::string_view content) {
    return {{"type", "file"},
            {"path", path},
            {"size", content.size()},
            {"oid", "0123"},
            {"lfs", {{"oid", Sha256Of(content)}, {"size", content.size()}}}};
  }
  json Route(const std::string& name, std::string_view content) {
    WriteBytes(directory_ / name, content);
    return {{"file", (directory_ / name).string()}, {"etag", "\"" + name + "\""}};
  }
  // The files are redirected to another origin, as the Hub does.
  json HubRoutes() {
    const json files = {Entry("M-Q4_K_M.gguf", q4_),
                        Entry("M-Q8_0.gguf", q8_),
                        Entry("mmproj-M-Q4_K_M.gguf", "x"),
                        Entry("../evil-Q4_K_M.gguf", "x"),
                        {{"type", "directory"}, {"path", "BF16"}}};
    const json more = {Entry("BF16/M-BF16-00002-of-00002.gguf", shard2_),
                       Entry("BF16/M-BF16-00001-of-00002.gguf", shard1_)};
    const std::string tree = "/api/models/org/repo/tree/abc123?recursive=1";
    const std::string resolve = "/org/repo/resolve/abc123/";
    const json redirect = {{"status", 302}, {"headers", {{"Location", "$OTHER/cdn/q4"}}}};
    return {{"/api/models/org/repo/revision/main",
             {{"body", json({{"sha", "abc123"}, {"tags", {"gguf", "license:mit"}}}).dump()}}},
            {tree,
             {{"body", files.dump()},
              {"headers", {{"Link", "<$BASE" + tree + "&cursor=2>; rel=\"next\""}}}}},
            {tree + "&cursor=2", {{"body", more.dump()}}},
            {resolve + "M-Q4_K_M.gguf", redirect},
            {"/cdn/q4", Route("q4", q4_)},
            {resolve + "M-Q8_0.gguf", Route("q8", q8_)},
            {resolve + "BF16/M-BF16-00001-of-00002.gguf", Route("s1", shard1_)},
            {resolve + "BF16/M-BF16-00002-of-00002.gguf", Route("s2", shard2_)}};
  }
  void Serve(const json& routes) {
    server_ = StubServer::Start(directory_.path(), routes);
    if (server_ == nullptr)
      GTEST_SKIP() << "python3 is missing";
    settings_.hub.endpoint = server_->Url("");
    settings_.hub.token = "hf_secret";
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

TEST_F(HubPullTest, TakesQ4KMWithoutShowingTheTokenElsewhere) {
  SERVE(HubRoutes());
  Result<PulledModel> result = Pull("org/repo");
  ASSERT_TRUE(result.ok()) << result.error().ToString();
  EXPECT_EQ(result->record.name, "M-Q4_K_M");
  EXPECT_EQ(result->record.source, "hf:org/repo:M-Q4_K_M.gguf");
  EXPECT_EQ(result->record.licence, "mit");
  EXPECT_EQ(ReadBytes(Models() / "M-Q4_K_M.gguf"), q4_);
  for (const json& request : server_->Requests()) {
    const bool home = request["port"] == server_->port();
    EXPECT_EQ(request["headers"].contains("authorization"), home) << request.dump();
  }
  EXPECT_EQ(server_->Requests("/cdn/q4").size(), 1u);

  const ModelStore store(settings_);
  for (const char* name : {"org/repo", "hf:Org/Repo:Q4_K_M", "m-q4_k_m"}) {
    const Result<fs::path> path = store.Resolve(name);
    ASSERT_TRUE(path.ok()) << path.error().ToString();
    EXPECT_EQ(*path, Models() / "M-Q4_K_M.gguf");
  }
  EXPECT_FALSE(store.Resolve("org/repo:Q8_0").ok());
  const size_t before = server_->Requests().size();
  EXPECT_EQ(Pull("org/repo")->outcome, PullOutcome::kAlreadyThere);
  EXPECT_EQ(server_->Requests().size(), before);
}

TEST_F(HubPullTest, TakesTheQuantizationOrFileThatIsAskedFor) {
  SERVE(HubRoutes());
  ASSERT_TRUE(Pull("hf:org/repo:q8_0").ok());
  EXPECT_EQ(ReadBytes(Models() / "M-Q8_0.gguf"), q8_);
  PullOptions options;
  options.store_name = "mine";
  ASSERT_TRUE(Pull("org/repo:M-Q8_0.gguf", options).ok());
  EXPECT_EQ(ReadBytes(Models() / "mine.gguf"), q8_);
}

// A repository without GGUF files.
TEST_F(HubPullTest, TakesADirectory) {
  const json files = {Entry("README.md", "x"),
                      Entry("model-00001-of-00002.safetensors", q4_),
                      Entry("model-00002-of-00002.safetensors", q8_),
                      Entry("model.safetensors.index.json", "{\"a\":1}"),
                      Entry("original/model.safetensors", "x"),
                      Entry("training_args.bin", "x"),
                      Entry("config.json", "{}"),
                      Entry("tokenizer.json", "{\"b\":2}")};
  const std::string resolve = "/org/Some-Repo/resolve/abc123/";
  SERVE({{"/api/models/org/Some-Repo/revision/main", {{"body", json({{"sha", "abc123"}}).dump()}}},
         {"/api/models/org/Some-Repo/tree/abc123?recursive=1", {{"body", files.dump()}}},
         {resolve + "model-00001-of-00002.safetensors", Route("q4", q4_)},
         {resolve + "model-00002-of-00002.safetensors", Route("q8", q8_)},
         {resolve + "model.safetensors.index.json", Route("index", "{\"a\":1}")},
         {resolve + "config.json", Route("config", "{}")},
         {resolve + "tokenizer.json", Route("tokenizer", "{\"b\":2}")}});
  Result<PulledModel> result = Pull("org/Some-Repo");
  ASSERT_TRUE(result.ok()) << result.error().ToString();
  EXPECT_EQ(result->record.name, "Some-Repo");
  EXPECT_EQ(result->record.path, Models() / "Some-Repo");
  EXPECT_EQ(result->record.files.size(), 5U);
  EXPECT_EQ(ReadBytes(Models() / "Some-Repo/model-00002-of-00002.safetensors"), q8_);
  EXPECT_FALSE(fs::exists(Models() / "Some-Repo/README.md"));
  const ModelStore store(settings_);
  EXPECT_EQ(*store.Resolve("org/some-repo"), Models() / "Some-Repo");
  EXPECT_EQ(store.List()->front().source, "hf:org/Some-Repo:config.json");
  EXPECT_EQ(Pull("org/Some-Repo")->outcome, PullOutcome::kAlreadyThere);
  // No file of the wanted kind, and no model either way.
  EXPECT_FALSE(Pull("org/Some-Repo:Q8_0").ok());
  ASSERT_TRUE(store.Remove("Some-Repo").ok());
  EXPECT_TRUE(store.List()->empty());
}

TEST_F(HubPullTest, TakesAllShards) {
  SERVE(HubRoutes());
  Result<PulledModel> result = Pull("org/repo:BF16");
  ASSERT_TRUE(result.ok()) << result.error().ToString();
  EXPECT_EQ(result->record.name, "M-BF16");
  EXPECT_EQ(result->record.path, Models() / "M-BF16-00001-of-00002.gguf");
  EXPECT_EQ(ReadBytes(Models() / "M-BF16-00001-of-00002.gguf"), shard1_);
  EXPECT_EQ(ReadBytes(Models() / "M-BF16-00002-of-00002.gguf"), shard2_);
  const auto models = ModelStore(settings_).List();
  ASSERT_EQ(models->size(), 1u);
  EXPECT_EQ(models->front().bytes(), 17000u);
  ASSERT_TRUE(ModelStore(settings_).Remove("m-bf16").ok());
  EXPECT_TRUE(VisibleFiles(Models()).empty());
}

TEST_F(HubPullTest, ShowsNothingUntilTheLastShardIsThere) {
  json routes = HubRoutes();
  const char* second = "/org/repo/resolve/abc123/BF16/M-BF16-00002-of-00002.gguf";
  routes[second]["faults"] = {{{"status", 404}}};
  SERVE(routes);
  EXPECT_FALSE(Pull("org/repo:BF16").ok());
  EXPECT_TRUE(VisibleFiles(Models()).empty());
  Result<PulledModel> result = Pull("org/repo:BF16");
  ASSERT_TRUE(result.ok()) << result.error().ToString();
  // The first shard was not loaded a second time.
  EXPECT_EQ(server_->Requests("/org/repo/resolve/abc123/BF16/M-BF16-00001-of-00002.gguf").size(),
            1u);
}

TEST_F(HubPullTest, RejectsAWrongDigest) {
  json routes = HubRoutes();
  routes["/cdn/q4"] = Route("changed", FakeModel(q4_.size(), 9));
  SERVE(routes);
  Result<PulledModel> result = Pull("org/repo");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kCorrupt);
  EXPECT_TRUE(VisibleFiles(Models()).empty());
}

TEST_F(HubPullTest, ListsTheFilesWhenNoneFits) {
  SERVE(HubRoutes());
  Result<PulledModel> result = Pull("org/repo:IQ2_XS");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kNotFound);
  EXPECT_NE(result.error().message.find("M-Q8_0.gguf"), std::string::npos);
  EXPECT_EQ(result.error().message.find("mmproj"), std::string::npos);
}

TEST_F(HubPullTest, SaysWhatToDoWhenAccessIsRefused) {
  SERVE({{"/api/models/org/repo/revision/main", {{"status", 401}}}});
  Result<PulledModel> result = Pull("org/repo");
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message.find("HF_TOKEN"), std::string::npos);
  EXPECT_EQ(result.error().ToString().find("hf_secret"), std::string::npos);
}

TEST_F(HubPullTest, RefusesASizeThatDoesNotFitTheDisk) {
  json file = Entry("M-Q4_K_M.gguf", q4_);
  file["size"] = uint64_t{1} << 61;
  SERVE({{"/api/models/org/repo/revision/main", {{"body", "{\"sha\": \"abc123\"}"}}},
         {"/api/models/org/repo/tree/abc123?recursive=1", {{"body", json::array({file}).dump()}}}});
  Result<PulledModel> result = Pull("org/repo");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(server_->Requests().size(), 2u);
}

TEST_F(HubPullTest, RejectsAnswersThatAreNotTheHubs) {
  const std::vector<std::string> answers = {"", "[]", "<html>", "{\"sha\": ", "{}"};
  json routes = json::object();
  for (size_t i = 0; i < answers.size(); ++i)
    routes["/api/models/org/r" + std::to_string(i) + "/revision/main"] = {{"body", answers[i]}};
  routes["/api/models/org/r4/tree/main?recursive=1"] = {{"body", "{\"error\": \"no list\"}"}};
  SERVE(routes);
  for (size_t i = 0; i < answers.size(); ++i) {
    const Result<PulledModel> result = Pull("org/r" + std::to_string(i));
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, ErrorCode::kCorrupt) << answers[i];
  }
}

TEST_F(HubPullTest, TakesAPlainAddress) {
  SERVE({{"/some/My%20Model.gguf?key=1", Route("q4", q4_)},
         {"/page.gguf", {{"body", "<html>sorry</html>"}}}});
  settings_.hub.endpoint = "https://huggingface.co";
  Result<PulledModel> result = Pull(server_->Url("/some/My%20Model.gguf?key=1"));
  ASSERT_TRUE(result.ok()) << result.error().ToString();
  EXPECT_EQ(ReadBytes(Models() / "My Model.gguf"), q4_);
  EXPECT_EQ(result->record.files.front().sha256, Sha256Of(q4_));
  EXPECT_EQ(result->record.source, server_->Url("/some/My%20Model.gguf"));
  EXPECT_FALSE(server_->Requests()[0]["headers"].contains("authorization"));

  EXPECT_EQ(Pull(server_->Url("/page.gguf")).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(Pull("http://example.org/x.gguf").error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(Pull(server_->Url("/x.zip")).error().code, ErrorCode::kUnsupported);
}

TEST_F(HubPullTest, TakesAWebAddressOfTheHubAsItsName) {
  SERVE(HubRoutes());
  Result<PulledModel> result = Pull(server_->Url("/org/repo/blob/main/M-Q8_0.gguf"));
  ASSERT_TRUE(result.ok()) << result.error().ToString();
  EXPECT_EQ(result->record.source, "hf:org/repo:M-Q8_0.gguf");
}

}  // namespace
}  // namespace tenon

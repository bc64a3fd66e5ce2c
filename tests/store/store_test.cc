// ModelStore without a network: names, listing, removal, settings.
#include "frontend/store/store.h"

#include <gtest/gtest.h>

#include <map>

#include "base/file_io.h"
#include "store/stub_server.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

Environment MapEnvironment(std::map<std::string, std::string> values) {
  return [values = std::move(values)](std::string_view name) {
    const auto found = values.find(std::string(name));
    return found == values.end() ? std::string() : found->second;
  };
}

class StoreTest : public testing::Test {
 protected:
  TemporaryDirectory directory_;
  ModelStore store_{TestSettings(directory_.path())};

  void Add(const std::string& file) {
    fs::create_directories(store_.models_directory());
    WriteBytes(store_.models_directory() / file, "GGUF" + file);
  }
};

TEST_F(StoreTest, EmptyStoreSaysHowToPull) {
  EXPECT_TRUE(store_.List()->empty());
  const Result<fs::path> result = store_.Resolve("");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kNotFound);
  EXPECT_NE(result.error().message.find("tenon pull smollm2-135m-instruct"), std::string::npos);
}

TEST_F(StoreTest, ResolvesNamesInAnyCaseAndPathsAsTheyStand) {
  Add("Some-Model.gguf");
  Add("smollm2-135m-instruct.gguf");
  EXPECT_EQ(*store_.Resolve("some-MODEL"), store_.models_directory() / "Some-Model.gguf");
  EXPECT_EQ(*store_.Resolve(""), store_.models_directory() / "smollm2-135m-instruct.gguf");
  EXPECT_EQ(*store_.Resolve(directory_.path().string()), directory_.path());
  const fs::path file = store_.models_directory() / "Some-Model.gguf";
  EXPECT_EQ(*store_.Resolve(file.string()), file);
  const Result<fs::path> missing = store_.Resolve("other");
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message.find("Some-Model, smollm2-135m-instruct"), std::string::npos);
}

TEST_F(StoreTest, ListsModelsOnly) {
  Add("b.gguf");
  Add("a-00001-of-00002.gguf");
  Add("a-00002-of-00002.gguf");
  Add(".hidden.gguf");
  Add("notes.txt");
  fs::create_directories(store_.models_directory() / "dir.gguf");
  const auto models = store_.List();
  ASSERT_EQ(models->size(), 2u);
  EXPECT_EQ((*models)[0].name, "a");
  EXPECT_EQ((*models)[1].name, "b");
  EXPECT_EQ((*models)[1].bytes(), 10u);
}

TEST_F(StoreTest, ADirectoryIsAModel) {
  Add("b.gguf");
  const fs::path directory = store_.models_directory() / "Some-Hf";
  fs::create_directories(directory / "extra");
  fs::create_directories(store_.models_directory() / "nothing");
  WriteBytes(directory / "model.safetensors", "1234567");
  WriteBytes(directory / "config.json", "{}");
  const auto models = store_.List();
  ASSERT_TRUE(models.ok()) << models.error().ToString();
  ASSERT_EQ(models->size(), 2U);
  EXPECT_EQ(models->front().name, "Some-Hf");
  EXPECT_EQ(models->front().path, directory);
  EXPECT_EQ(models->front().bytes(), 9U);
  EXPECT_EQ(*store_.Resolve("some-hf"), directory);
  ASSERT_TRUE(store_.Remove("some-hf").ok());
  EXPECT_FALSE(fs::exists(directory));
  EXPECT_EQ(store_.List()->size(), 1U);
}

TEST_F(StoreTest, IgnoresARecordThatIsBrokenOrOfAnotherFile) {
  Add("a.gguf");
  WriteBytes(store_.models_directory() / "a.json", "{\"files\": 3}");
  EXPECT_EQ(store_.List()->front().bytes(), 10u);
  ModelRecord record;
  record.licence = "mit";
  record.files = {{"a.gguf", 999, "00"}};
  WriteBytes(store_.models_directory() / "a.json", FormatModelRecord(record));
  EXPECT_EQ(store_.List()->front().licence, "");
  record.files = {{"a.gguf", 10, "00"}};
  WriteBytes(store_.models_directory() / "a.json", FormatModelRecord(record));
  EXPECT_EQ(store_.List()->front().licence, "mit");
}

TEST_F(StoreTest, RemovesOneModel) {
  Add("a.gguf");
  Add("a.json");
  Add("b.gguf");
  ASSERT_TRUE(store_.Remove("A").ok());
  EXPECT_EQ(VisibleFiles(store_.models_directory()), (std::vector<std::string>{"b.gguf"}));
  EXPECT_EQ(store_.Remove("a").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(store_.Remove("../models/b").error().code, ErrorCode::kNotFound);
}

TEST_F(StoreTest, DoesNotRemoveWhatIsBeingPulled) {
  Add("a.gguf");
  fs::create_directories(store_.models_directory() / ".partial" / ".locks");
  auto lock = FileLock::TryAcquire(store_.models_directory() / ".partial" / ".locks" / "a");
  ASSERT_TRUE(lock.ok() && lock->has_value());
  EXPECT_FALSE(store_.Remove("a").ok());
  EXPECT_TRUE(fs::exists(store_.models_directory() / "a.gguf"));
}

TEST(ModelRecordTest, KeepsEveryField) {
  ModelRecord record{"n",   {},    {{"n.gguf", 7, "ab"}}, "hf:a/b:n.gguf",
                     "mit", "MIT", "https://x",           "2026-01-01T00:00:00Z"};
  const Result<ModelRecord> copy = ParseModelRecord(FormatModelRecord(record), "n.json");
  ASSERT_TRUE(copy.ok()) << copy.error().ToString();
  EXPECT_EQ(copy->name, "n");
  EXPECT_EQ(copy->files.front().name, "n.gguf");
  EXPECT_EQ(copy->files.front().bytes, 7u);
  EXPECT_EQ(copy->files.front().sha256, "ab");
  EXPECT_EQ(copy->source, "hf:a/b:n.gguf");
  EXPECT_EQ(copy->licence, "mit");
  EXPECT_EQ(copy->licence_name, "MIT");
  EXPECT_EQ(copy->licence_url, "https://x");
  EXPECT_EQ(copy->date, "2026-01-01T00:00:00Z");
}

TEST(ModelRecordTest, RejectsWhatIsNoRecord) {
  for (const char* text : {"", "[]", "{}", "{\"files\": []}", "{\"files\": [{\"name\": \"a\"}]}",
                           "{\"files\": [{\"name\": \"../a\", \"bytes\": 1}]}",
                           "{\"files\": [{\"name\": \"a\", \"bytes\": -1}]}",
                           "{\"name\": 3, \"files\": [{\"name\": \"a\", \"bytes\": 1}]}"}) {
    EXPECT_FALSE(ParseModelRecord(text, "x.json").ok()) << text;
  }
}

TEST(StoreSettingsTest, FindsTheHomeDirectory) {
  const auto home = [](std::map<std::string, std::string> values) {
    return ReadStoreSettings(MapEnvironment(std::move(values))).home;
  };
  EXPECT_EQ(home({{"TENON_HOME", "/t"}, {"HOME", "/h"}}), "/t");
  EXPECT_EQ(home({{"XDG_CACHE_HOME", "/x"}, {"HOME", "/h"}}), "/x/tenon");
  EXPECT_EQ(home({{"XDG_CACHE_HOME", "x"}, {"HOME", "/h"}}), "/h/.cache/tenon");
  EXPECT_EQ(home({}), "");
  const ModelStore store(ReadStoreSettings(MapEnvironment({})));
  EXPECT_EQ(store.Pull("smollm2-135m-instruct", {}).error().code, ErrorCode::kInvalidArgument);
}

TEST(StoreSettingsTest, ReadsTheHubsVariables) {
  const StoreSettings settings = ReadStoreSettings(MapEnvironment(
      {{"HF_ENDPOINT", "https://mirror/"}, {"HF_TOKEN", " abc\n"}, {"HF_HUB_OFFLINE", "Yes"}}));
  EXPECT_EQ(settings.hub.endpoint, "https://mirror");
  EXPECT_EQ(settings.hub.token, "abc");
  EXPECT_EQ(settings.hub.network, Network::kOffline);
  EXPECT_EQ(ReadStoreSettings(MapEnvironment({{"HF_TOKEN", "a\r\nX: y"}})).hub.token, "");
  EXPECT_EQ(ReadStoreSettings(MapEnvironment({{"CURL_CA_BUNDLE", "/c"}, {"SSL_CERT_FILE", "/s"}}))
                .http.ca_bundle,
            "/c");
}

TEST(StoreSettingsTest, ReadsPipsFilesInTheirOrder) {
  TemporaryDirectory directory;
  fs::create_directories(directory / "xdg/pip");
  fs::create_directories(directory / "home/.config/pip");
  fs::create_directories(directory / "wheels");
  WriteBytes(directory / "xdg/pip/pip.conf",
             "[global]\nindex-url = https://machine/simple\ncert = /machine\n");
  WriteBytes(
      directory / "home/.config/pip/pip.conf",
      "; mine\n[global]\ncert = /c\n[install]\nindex_url: https://user:pw@mine/simple\n[global]\n"
      "index-url = https://global/simple\nextra-index-url =\n  https://a/simple\n  # no\n"
      "  https://b/simple\n[list]\ncert = /other\n");
  std::map<std::string, std::string> values = {
      {"XDG_CONFIG_DIRS", (directory / "xdg").string()},
      {"HOME", (directory / "home").string()},
      {"PIP_FIND_LINKS", (directory / "wheels").string() + " https://links/ /nosuch"}};
  PipConfig config = ReadPipConfig(MapEnvironment(values));
  EXPECT_EQ(config.index_urls, (std::vector<std::string>{"https://user:pw@mine/simple",
                                                         "https://a/simple", "https://b/simple"}));
  EXPECT_EQ(config.wheel_directories, (std::vector<fs::path>{directory / "wheels"}));
  EXPECT_EQ(config.certificates, "/c");
  values["PIP_INDEX_URL"] = "https://variable/simple";
  EXPECT_EQ(ReadPipConfig(MapEnvironment(values)).index_urls.front(), "https://variable/simple");
  values["PIP_NO_INDEX"] = "1";
  EXPECT_TRUE(ReadPipConfig(MapEnvironment(values)).index_urls.empty());
  EXPECT_EQ(ReadPipConfig(MapEnvironment({{"PIP_CONFIG_FILE", "/dev/null"}})).index_urls,
            (std::vector<std::string>{"https://pypi.org/simple"}));
}

TEST(CatalogueTest, FindsNamesInAnyCase) {
  const CatalogueModel* model = FindModel(Catalogue(), "SmolLM2-135M-Instruct");
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->bytes, 98362432u);
  EXPECT_EQ(FindModel(Catalogue(), "gemma-3-270m")->parts.size(), 4u);
  EXPECT_EQ(FindModel(Catalogue(), "smollm2"), nullptr);
}

}  // namespace
}  // namespace tenon

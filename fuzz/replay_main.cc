// Runs a fuzz target once over every file of the folders given, without a fuzzer. Fails when there
// is no file: a corpus that can't be found would test nothing.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

void ReplayFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> content{std::istreambuf_iterator<char>(file), {}};
  // Exactly as many bytes as the input has, so that a sanitizer sees a read past its end.
  const std::vector<uint8_t> input(content.begin(), content.end());
  LLVMFuzzerTestOneInput(input.data(), input.size());
}

int ReplayFolder(const std::filesystem::path& folder) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    ReplayFile(entry.path());
    ++files;
  }
  return files;
}

}  // namespace

int main(int argc, char** argv) {
  int files = 0;
  for (int i = 1; i < argc; ++i) {
    std::error_code code;
    if (std::filesystem::is_directory(argv[i], code))
      files += ReplayFolder(argv[i]);
  }
  std::printf("%d inputs replayed\n", files);
  return files > 0 ? 0 : 1;
}

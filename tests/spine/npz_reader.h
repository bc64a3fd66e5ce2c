// Arrays of a NumPy .npz archive: for reference logits. Little-endian, C order, as NumPy writes
// them (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html).
#pragma once

#include <gtest/gtest.h>
#include <zip.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace tenon {

class NpzReader {
 public:
  // Empty when there is no such file.
  static std::unique_ptr<NpzReader> Open(const std::filesystem::path& path) {
    zip_t* archive = zip_open(path.c_str(), ZIP_RDONLY, nullptr);
    return archive == nullptr ? nullptr : std::unique_ptr<NpzReader>(new NpzReader(archive));
  }
  ~NpzReader() { zip_discard(archive_); }
  NpzReader(const NpzReader&) = delete;
  NpzReader& operator=(const NpzReader&) = delete;

  // The array's values, converted to T; its shape goes to `shape`.
  template <class T>
  std::vector<T> Read(const std::string& name, std::vector<size_t>& shape) {
    const std::string bytes = Member(name + ".npy");
    const size_t header_size =
        10 + static_cast<uint8_t>(bytes[8]) + 256U * static_cast<uint8_t>(bytes[9]);
    const std::string header = bytes.substr(10, header_size - 10);
    shape = Shape(header);
    size_t count = 1;
    for (size_t extent : shape)
      count *= extent;
    const char* data = bytes.data() + header_size;
    if (header.find("'<f4'") != std::string::npos)
      return Convert<float, T>(data, count);
    if (header.find("'<f2'") != std::string::npos || header.find("'<f8'") != std::string::npos)
      ADD_FAILURE() << "unexpected dtype: " << header;
    if (header.find("'<i8'") != std::string::npos)
      return Convert<int64_t, T>(data, count);
    return Convert<int32_t, T>(data, count);
  }

 private:
  explicit NpzReader(zip_t* archive) : archive_(archive) {}

  std::string Member(const std::string& name) {
    zip_stat_t info;
    EXPECT_EQ(zip_stat(archive_, name.c_str(), 0, &info), 0) << name;
    std::string bytes(info.size, '\0');
    zip_file_t* file = zip_fopen(archive_, name.c_str(), 0);
    EXPECT_EQ(zip_fread(file, bytes.data(), bytes.size()), static_cast<zip_int64_t>(bytes.size()));
    zip_fclose(file);
    return bytes;
  }

  static std::vector<size_t> Shape(const std::string& header) {
    std::vector<size_t> shape;
    size_t at = header.find('(') + 1;
    while (header[at] != ')') {
      size_t used = 0;
      shape.push_back(std::stoul(header.substr(at), &used));
      at = header.find_first_not_of(", ", at + used);
    }
    return shape;
  }

  template <class From, class To>
  static std::vector<To> Convert(const char* data, size_t count) {
    std::vector<From> raw(count);
    std::memcpy(raw.data(), data, count * sizeof(From));
    return std::vector<To>(raw.begin(), raw.end());
  }

  zip_t* archive_;
};

}  // namespace tenon

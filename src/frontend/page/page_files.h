// PageFiles: the files of the built-in web page, as they stood in this folder when the program was
// built (cmake/EmbedFiles.cmake). Threading: constants.
#pragma once

#include <span>
#include <string_view>

namespace tenon {

struct PageFile {
  std::string_view path;  // of its URL; "/" is index.html
  std::string_view content_type;
  std::span<const unsigned char> bytes;
  std::string_view etag;  // with its quotes (RFC 9110 section 8.8.3)
};

std::span<const PageFile> PageFiles();

}  // namespace tenon

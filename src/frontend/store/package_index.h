// Finds a wheel in a Python package index: the "simple" pages of PEP 503 (HTML) and PEP 691 (JSON).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "frontend/store/http_client.h"

namespace tenon {

struct IndexFile {
  std::string file_name;
  std::string url;     // absolute
  std::string sha256;  // lower case, "" if the page has none
};

// The files of a project's page. `page_url` is what relative links refer to. The text is untrusted:
// an entry that makes no sense is left out, a page that is no page is an error.
Result<std::vector<IndexFile>> ParseIndexJson(std::string_view page_url, std::string_view text);
std::vector<IndexFile> ParseIndexHtml(std::string_view page_url, std::string_view text);

// Looks for `wheel` on the page of `project` in each index in turn. The error of a search without
// success names every index with its reason.
Result<IndexFile> FindWheel(HttpClient& client, const std::vector<std::string>& index_urls,
                            std::string_view project, std::string_view wheel);

}  // namespace tenon

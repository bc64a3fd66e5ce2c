#include "frontend/page/page_routes.h"

#include "frontend/page/page_files.h"

namespace tenon {
namespace {

// Nothing from elsewhere, nothing inline, no frames around the page: text of a model that got into
// the page as markup could still load and run nothing.
constexpr const char* kContentPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

HttpHeaders PageHeaders(const PageFile& file) {
  return {{"Content-Security-Policy", kContentPolicy},
          {"X-Content-Type-Options", "nosniff"},
          {"Referrer-Policy", "no-referrer"},
          // Kept, but asked about each time: another version of the server has other files.
          {"Cache-Control", "no-cache"},
          {"ETag", std::string(file.etag)}};
}

// If-None-Match is "*" or a list of tags, perhaps weak ones (RFC 9110 section 13.1.2).
bool Known(const HttpRequest& request, const PageFile& file) {
  const auto range = request.headers.equal_range(std::string_view("If-None-Match"));
  for (auto header = range.first; header != range.second; ++header) {
    if (header->second == "*" || header->second.find(file.etag) != std::string::npos)
      return true;
  }
  return false;
}

HttpResponse PageResponse(const HttpRequest& request, const PageFile& file) {
  HttpResponse response;
  response.content_type = file.content_type;
  response.headers = PageHeaders(file);
  if (Known(request, file))
    response.status = 304;
  else
    response.body.assign(file.bytes.begin(), file.bytes.end());
  return response;
}

}  // namespace

void AddPageRoutes(Router& router) {
  for (const PageFile& file : PageFiles()) {
    router.Add(
        "GET", std::string(file.path),
        [&file](HttpRequest request, std::shared_ptr<ResponseWriter> writer) {
          writer->Send(PageResponse(request, file));
        },
        Router::Access::kPublic);
  }
}

}  // namespace tenon

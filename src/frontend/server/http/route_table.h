// RouteTable: finds the handler of a method and path among a Router's patterns.
//
// Threading: immutable.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/server/http/http_server.h"

namespace tenon {

struct RouteMatch {
  const HttpHandler* handler = nullptr;          // nullptr: the method isn't there
  const WebSocketFactory* web_socket = nullptr;  // nullptr: the path takes no WebSocket
  Router::Access access = Router::Access::kKey;
  std::map<std::string, std::string> parameters;
  std::string allow;  // the methods of the path, for Allow; empty: the path is unknown
};

class RouteTable {
 public:
  explicit RouteTable(Router router);

  // `segments` of the path, decoded. A pattern with fewer {parameters} goes before others. A path
  // is public only if every route that it matches is, so an unknown one isn't.
  RouteMatch Find(std::string_view method, std::span<const std::string> segments) const;

 private:
  struct Entry {
    Router::Route route;
    std::vector<std::string> segments;
  };
  std::vector<Entry> entries_;
};

}  // namespace tenon

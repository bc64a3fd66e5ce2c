#include "frontend/server/http/route_table.h"

#include <algorithm>
#include <set>
#include <utility>

namespace tenon {
namespace {

bool IsParameter(std::string_view segment) {
  return segment.size() > 2 && segment.front() == '{' && segment.back() == '}';
}

std::vector<std::string> SplitPattern(std::string_view pattern) {
  std::vector<std::string> segments;
  if (pattern.starts_with('/'))
    pattern.remove_prefix(1);
  for (;;) {
    const size_t end = pattern.find('/');
    segments.emplace_back(pattern.substr(0, end));
    if (end == std::string_view::npos)
      return segments;
    pattern.remove_prefix(end + 1);
  }
}

// "{name...}", the rest of the path.
bool IsRest(std::string_view segment) {
  return IsParameter(segment) && segment.ends_with("...}");
}

bool Matches(std::span<const std::string> pattern, std::span<const std::string> segments) {
  const bool open = IsRest(pattern.back());
  if (open ? segments.size() < pattern.size() : segments.size() != pattern.size())
    return false;
  return std::equal(pattern.begin(), pattern.end(), segments.begin(),
                    [open](const std::string& wanted, const std::string& found) {
                      return IsParameter(wanted) ? open || !found.empty() : wanted == found;
                    });
}

std::map<std::string, std::string> ReadParameters(std::span<const std::string> pattern,
                                                  std::span<const std::string> segments) {
  std::map<std::string, std::string> parameters;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (IsRest(pattern[i])) {
      std::string rest = segments[i];
      for (size_t next = i + 1; next < segments.size(); ++next)
        rest += "/" + segments[next];
      parameters.emplace(pattern[i].substr(1, pattern[i].size() - 5), std::move(rest));
    } else if (IsParameter(pattern[i]))
      parameters.emplace(pattern[i].substr(1, pattern[i].size() - 2), segments[i]);
  }
  return parameters;
}

std::string AllowHeader(const std::set<std::string>& methods) {
  std::string allow;
  for (const std::string& method : methods)
    allow += (allow.empty() ? "" : ", ") + method;
  return allow;
}

}  // namespace

RouteTable::RouteTable(Router router) {
  for (Router::Route& route : router.routes_) {
    std::vector<std::string> segments = SplitPattern(route.pattern);
    entries_.push_back(Entry{std::move(route), std::move(segments)});
  }
  const auto parameters = [](const Entry& entry) {
    constexpr ptrdiff_t kRestCost = 1000;  // after every pattern without one
    return std::count_if(entry.segments.begin(), entry.segments.end(), IsParameter) +
           (IsRest(entry.segments.back()) ? kRestCost : 0);
  };
  std::stable_sort(entries_.begin(), entries_.end(),
                   [&](const Entry& a, const Entry& b) { return parameters(a) < parameters(b); });
}

RouteMatch RouteTable::Find(std::string_view method, std::span<const std::string> segments) const {
  RouteMatch match;
  std::set<std::string> methods;
  bool all_public = true;
  for (const Entry& entry : entries_) {
    if (!Matches(entry.segments, segments))
      continue;
    const Router::Route& route = entry.route;
    all_public = all_public && route.access == Router::Access::kPublic;
    if (match.parameters.empty())
      match.parameters = ReadParameters(entry.segments, segments);
    methods.insert(route.method);
    if (route.method == "GET")
      methods.insert("HEAD");
    if (route.web_socket && match.web_socket == nullptr)
      match.web_socket = &route.web_socket;
    if (route.handler && route.method == method && match.handler == nullptr) {
      match.handler = &route.handler;
      match.access = route.access;
      match.parameters = ReadParameters(entry.segments, segments);
    }
  }
  if (match.handler == nullptr && !methods.empty() && all_public)
    match.access = Router::Access::kPublic;
  if (!methods.empty())
    methods.insert("OPTIONS");
  match.allow = AllowHeader(methods);
  return match;
}

}  // namespace tenon

#include "accel/routing/routing_options.h"

#include <array>
#include <string_view>

#include "accel/module_options.h"

namespace tenon {

Result<RoutingOptions> ReadRoutingOptions(const std::string& module,
                                          const nlohmann::json& options) {
  constexpr std::array<std::string_view, 4> kScores = {"top1", "margin", "entropy", "trained"};
  RoutingOptions result;
  RouteRules& rules = result.rules;
  OptionReader reader(module, options);
  reader.Text("small", result.small);
  reader.Text("router", result.router);
  auto score =
      static_cast<size_t>(result.router.empty() ? RouteScore::kTop1 : RouteScore::kTrained);
  reader.Choice("score", score, kScores);
  result.score = static_cast<RouteScore>(score);
  reader.Number("threshold", rules.threshold, {0.0, 1.01});
  rules.return_threshold = rules.threshold;
  reader.Number("return_threshold", rules.return_threshold, {0.0, 1.01});
  reader.Int("hysteresis", rules.hysteresis, {1, 1000});
  rules.return_after = rules.hysteresis;
  reader.Int("return_after", rules.return_after, {1, 1000});
  reader.Int("max_switches_per_s", rules.max_switches_per_s, {0, 1000});
  reader.Int("loop_tokens", rules.loop_tokens, {0, 1000});
  reader.Int("max_cache_length", result.max_cache_length, {0, 1e6});
  reader.Int("verify_every", result.verify_every, {0, 1e9});
  reader.Int("context_tokens", result.context_tokens, {0, 1e9});
  reader.Number("preload_need", result.preload_need, {0.0, 1.01});
  TENON_RETURN_IF_ERROR(reader.Finish());
  const std::string place = "modules." + module;
  if (result.small.empty())
    return InvalidArgument("a small model is needed", place + ".small");
  if (result.router.empty() == (result.score == RouteScore::kTrained))
    return InvalidArgument("score trained and a router file need each other", place + ".router");
  const Status status = CheckRouteRules(rules);
  if (!status.ok())
    return InvalidArgument(status.error().message, place + "." + status.error().where);
  return result;
}

}  // namespace tenon

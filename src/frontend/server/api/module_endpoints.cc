// /v1/modules: the acceleration modules of the server, their numbers, why they are on or off, and
// the switches.
#include <chrono>

#include "frontend/server/api/endpoints.h"
#include "frontend/server/api/field_reader.h"
#include "frontend/serving/module_control.h"

namespace tenon {
namespace {

Error NoModules() {
  return NotFound("the server runs without acceleration modules", "modules");
}

Json DecisionJson(const Decision& decision) {
  const auto age = std::chrono::steady_clock::now() - decision.time;
  return {{"seconds_ago", std::chrono::duration<double>(age).count()},
          {"module", decision.module},
          {"action", ModuleActionName(decision.action)},
          {"rule", ModuleRuleName(decision.rule)},
          {"measured", decision.measured},
          {"limit", decision.limit},
          {"reason", decision.reason}};
}

Json ModuleJson(const ManagerReport::Entry& entry) {
  const SupervisionReport& supervision = entry.supervision;
  const ModuleStats& stats = entry.module.stats;
  Json json;
  json["name"] = supervision.name;
  json["stage"] = ModuleStageName(entry.module.info.stage);
  json["state"] = SupervisionStateName(supervision.state);
  json["latency_saving"] =
      supervision.saving.has_value() ? Json(*supervision.saving) : Json(nullptr);
  json["integrity"] = {{"checks", supervision.total_checks},
                       {"failures", supervision.total_failures}};
  json["memory_bytes"] = entry.module.info.bytes;
  json["withdrawals"] = supervision.withdrawals;
  json["stats"] = {{"steps", stats.steps},       {"sequences", stats.sequences},
                   {"decided", stats.decided},   {"proposed", stats.proposed},
                   {"accepted", stats.accepted}, {"passed", stats.passed},
                   {"paused", stats.paused},     {"seconds", stats.seconds}};
  Json gauges = Json::object();
  for (const Module::Gauge& gauge : entry.module.gauges)
    gauges[gauge.name] = gauge.value;
  json["gauges"] = std::move(gauges);
  return json;
}

Json ReportJson(const ManagerReport& report) {
  Json json;
  json["modules"] = Json::array();
  for (const ManagerReport::Entry& entry : report.modules)
    json["modules"].push_back(ModuleJson(entry));
  const MonitoringRules& rules = report.rules;
  json["monitoring"] = {
      {"min_latency_saving", rules.min_latency_saving},
      {"max_integrity_failures", rules.max_integrity_failures},
      {"p99_rollback", rules.p99_rollback},
      {"shadow_share", rules.shadow_share},
      {"return_margin", rules.return_margin},
      {"cool_down_s", std::chrono::duration<double>(rules.first_cool_down).count()}};
  json["p99_inter_token_s"] = report.p99_s;
  json["switch_overhead_s"] =
      report.switch_overhead_s.has_value() ? Json(*report.switch_overhead_s) : Json(nullptr);
  json["switches_measured"] = report.switches;
  json["modules_warmed"] = report.warmed;
  json["decisions"] = Json::array();
  for (const Decision& decision : report.decisions)
    json["decisions"].push_back(DecisionJson(decision));
  json["decisions_total"] = report.decisions_made;
  return json;
}

}  // namespace

Result<Json> ListModules(ApiContext& context, ServingEngine&, const HttpRequest&) {
  ModuleControl* const control = context.modules();
  if (control == nullptr)
    return NoModules();
  return ReportJson(control->report());
}

Result<Json> ChangeModules(ApiContext& context, ServingEngine&, const Json& body) {
  ModuleControl* const control = context.modules();
  if (control == nullptr)
    return NoModules();
  FieldReader fields(body);
  std::string module;
  std::string state;
  fields.String("module", module);
  fields.String("state", state);
  const Json* const options = fields.Object("options");
  const Json* const monitoring = fields.Object("monitoring");
  if (module.empty() && (!state.empty() || options != nullptr))
    fields.Fail("module", "is needed with state and options");
  if (!state.empty() && state != "on" && state != "off")
    fields.Fail("state", "expected on or off");
  if (state.empty() && options == nullptr && monitoring == nullptr)
    fields.Fail("module", "nothing to change: expected state, options or monitoring");
  TENON_RETURN_IF_ERROR(fields.Finish());
  if (monitoring != nullptr)
    TENON_RETURN_IF_ERROR(
        control->SetMonitoring(nlohmann::json::parse(monitoring->dump()), control->report().rules));
  if (options != nullptr)
    TENON_RETURN_IF_ERROR(control->Reconfigure(module, nlohmann::json::parse(options->dump())));
  if (!state.empty()) {
    TENON_RETURN_IF_ERROR(
        control->Set(module, state == "on" ? Supervisor::Switch::kOn : Supervisor::Switch::kOff));
  }
  return ReportJson(control->report());
}

}  // namespace tenon

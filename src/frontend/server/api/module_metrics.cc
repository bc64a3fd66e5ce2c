#include "frontend/server/api/module_metrics.h"

#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace tenon {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Entry = ManagerReport::Entry;

ClientMetric MakeMetric(MetricType type, double value, std::vector<ClientMetric::Label> labels) {
  ClientMetric metric;
  metric.label = std::move(labels);
  if (type == MetricType::Counter)
    metric.counter.value = value;
  else
    metric.gauge.value = value;
  return metric;
}

MetricFamily MakeFamily(const ManagerReport& report, std::string name, std::string help,
                        MetricType type, const std::function<double(const Entry&)>& value) {
  MetricFamily family{std::move(name), std::move(help), type, {}};
  for (const Entry& entry : report.modules)
    family.metric.push_back(MakeMetric(type, value(entry), {{"module", entry.supervision.name}}));
  return family;
}

// Decisions that are still kept, by module, action and rule.
MetricFamily DecisionFamily(const ManagerReport& report) {
  std::map<std::tuple<std::string, std::string, std::string>, double> counts;
  for (const Decision& decision : report.decisions)
    counts[{decision.module, std::string(ModuleActionName(decision.action)),
            std::string(ModuleRuleName(decision.rule))}] += 1.0;
  MetricFamily family{"tenon_module_decisions",
                      "Latest decisions about modules, by action and the rule behind it.",
                      MetricType::Gauge,
                      {}};
  for (const auto& [key, count] : counts) {
    family.metric.push_back(MakeMetric(
        MetricType::Gauge, count,
        {{"module", std::get<0>(key)}, {"action", std::get<1>(key)}, {"rule", std::get<2>(key)}}));
  }
  return family;
}

MetricFamily GaugeFamily(const ManagerReport& report) {
  MetricFamily family{"tenon_module_gauge", "Numbers of a module's own.", MetricType::Gauge, {}};
  for (const Entry& entry : report.modules) {
    for (const Module::Gauge& gauge : entry.module.gauges) {
      family.metric.push_back(
          MakeMetric(MetricType::Gauge, gauge.value,
                     {{"module", entry.supervision.name}, {"name", gauge.name}}));
    }
  }
  return family;
}

}  // namespace

std::vector<MetricFamily> ModuleFamilies(const ManagerReport& report) {
  const auto counter = [&](const char* name, const char* help, uint64_t ModuleStats::* member) {
    return MakeFamily(report, name, help, MetricType::Counter, [member](const Entry& entry) {
      return static_cast<double>(entry.module.stats.*member);
    });
  };
  std::vector<MetricFamily> families;
  families.push_back(MakeFamily(report, "tenon_module_active", "1: takes part in every step.",
                                MetricType::Gauge, [](const Entry& entry) {
                                  return entry.supervision.state == SupervisionState::kActive ? 1.0
                                                                                              : 0.0;
                                }));
  families.push_back(MakeFamily(
      report, "tenon_module_latency_saving",
      "Share of the time per token that the module saves, from shadow steps; 0 when unknown.",
      MetricType::Gauge,
      [](const Entry& entry) { return entry.supervision.saving.value_or(0.0); }));
  families.push_back(
      MakeFamily(report, "tenon_module_memory_bytes", "Memory that it holds.", MetricType::Gauge,
                 [](const Entry& entry) { return static_cast<double>(entry.module.info.bytes); }));
  families.push_back(counter("tenon_module_proposed_total", "Tokens that the module offered.",
                             &ModuleStats::proposed));
  families.push_back(counter("tenon_module_accepted_total",
                             "Offered tokens that became part of an answer.",
                             &ModuleStats::accepted));
  families.push_back(counter("tenon_module_integrity_checks_total", "Integrity checks.",
                             &ModuleStats::integrity_checks));
  families.push_back(counter("tenon_module_integrity_failures_total",
                             "Integrity checks that failed.", &ModuleStats::integrity_failures));
  const auto single = [](const char* name, const char* help, MetricType type, double value) {
    return MetricFamily{name, help, type, {MakeMetric(type, value, {})}};
  };
  families.push_back(single("tenon_module_switch_overhead_seconds",
                            "Cost of a change of modules, median of the last ones; 0: not known.",
                            MetricType::Gauge, report.switch_overhead_s.value_or(0.0)));
  families.push_back(single("tenon_modules_warmed_total",
                            "Modules warmed ahead of a request that was expected.",
                            MetricType::Counter, static_cast<double>(report.warmed)));
  families.push_back(DecisionFamily(report));
  families.push_back(GaugeFamily(report));
  return families;
}

}  // namespace tenon

// The modules' numbers as Prometheus families.
#pragma once

#include <prometheus/metric_family.h>

#include <vector>

#include "accel/manager/supervised_engine.h"

namespace tenon {

std::vector<prometheus::MetricFamily> ModuleFamilies(const ManagerReport& report);

}  // namespace tenon

// The names that vLLM and llama-server give to some of our metrics, for dashboards made for them.
#pragma once

#include <prometheus/metric_family.h>

#include <string>
#include <vector>

namespace tenon {

std::vector<prometheus::MetricFamily> AliasFamilies(
    const std::vector<prometheus::MetricFamily>& families, const std::string& model_name);

}  // namespace tenon

#include "frontend/server/api/sampler_chain.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

namespace tenon {
namespace {

struct Filter {
  std::string_view name;
  std::string_view other_name;
  char letter;
  void (*switch_off)(SamplingParams& sampling);
};

void NoPenalties(SamplingParams& sampling) {
  sampling.repetition_penalty = 1.0F;
  sampling.presence_penalty = 0.0F;
  sampling.frequency_penalty = 0.0F;
}
// Without it tokens are drawn by the model's own probabilities.
void NoTemperature(SamplingParams& sampling) {
  sampling.temperature = 1.0F;
}

constexpr Filter kFilters[] = {
    {"penalties", "", 'e', NoPenalties},
    {"dry", "", 'd', [](SamplingParams& sampling) { sampling.dry_multiplier = 0.0F; }},
    {"top_n_sigma", "", 's', [](SamplingParams&) {}},  // refused by its own value
    {"top_k", "top-k", 'k', [](SamplingParams& sampling) { sampling.top_k = 0; }},
    {"typ_p", "typical_p", 'y', [](SamplingParams& sampling) { sampling.typical_p = 1.0F; }},
    {"top_p", "top-p", 'p', [](SamplingParams& sampling) { sampling.top_p = 1.0F; }},
    {"min_p", "min-p", 'm', [](SamplingParams& sampling) { sampling.min_p = 0.0F; }},
    {"xtc", "", 'x', [](SamplingParams& sampling) { sampling.xtc_probability = 0.0F; }},
    {"temperature", "temp", 't', NoTemperature},
};

std::vector<std::string> NamesOf(FieldReader& fields) {
  std::vector<std::string> names;
  const Json* given = fields.Any("samplers");
  if (given == nullptr)
    return names;
  if (!given->is_string()) {
    fields.Strings("samplers", names);
    return names;
  }
  for (const char letter : given->get_ref<const std::string&>())
    names.emplace_back(1, letter);
  return names;
}

const Filter* Find(const std::string& name) {
  const auto* found = std::ranges::find_if(kFilters, [&](const Filter& filter) {
    return name == filter.name || (name == filter.other_name && !name.empty()) ||
           (name.size() == 1 && name.front() == filter.letter);
  });
  return found == std::end(kFilters) ? nullptr : found;
}

}  // namespace

void ReadSamplers(FieldReader& fields, SamplingParams& sampling) {
  const std::vector<std::string> names = NamesOf(fields);
  if (names.empty())
    return;
  const Filter* next = std::begin(kFilters);
  for (const std::string& name : names) {
    const Filter* filter = Find(name);
    if (filter == nullptr)
      return fields.Fail("samplers", fmt::format("'{}' is none of the filters", name));
    if (filter < next)
      return fields.Fail("samplers",
                         fmt::format("the order is fixed: {}", DumpJson(SamplerNames())),
                         ErrorCode::kUnsupported);
    for (; next != filter; ++next)
      next->switch_off(sampling);
    ++next;
  }
  for (; next != std::end(kFilters); ++next)
    next->switch_off(sampling);
}

Json SamplerNames() {
  Json names = Json::array();
  for (const Filter& filter : kFilters)
    names.push_back(filter.name);
  return names;
}

}  // namespace tenon

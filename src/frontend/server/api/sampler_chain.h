// llama-server's "samplers": which filters work, in an order. The order here is fixed
// (engine/sample/sampler.h); what a list leaves out is switched off.
#pragma once

#include "engine/sample/sampling_params.h"
#include "frontend/server/api/field_reader.h"

namespace tenon {

// Reads it, as a list of names or as a text of letters. To be read after the values of the filters.
void ReadSamplers(FieldReader& fields, SamplingParams& sampling);

// The names of all filters, in their order.
Json SamplerNames();

}  // namespace tenon

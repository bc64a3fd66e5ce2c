/* An example of a Tenon plugin: the operator com.example.SoftClip, y = limit * tanh(x / limit).
 *
 * Build it anywhere, with nothing but Tenon's header:
 *   cc -shared -fPIC -O2 -I TENON/include softclip.c -o libsoftclip.so -lm
 */
#include <math.h>

#include "tenon/plugin.h"

static int SoftClipShape(const TenonHost* host, TenonCall* call, TenonOutput* outputs) {
  TenonTensor x;
  if (host->input(call, 0, &x) != 0)
    return host->fail(call, "x is missing");
  if (x.type != TENON_F32 || x.rank > TENON_PLUGIN_MAX_RANK)
    return host->fail(call, "x has to be float32, of rank 8 at most");
  outputs[0].type = x.type;
  outputs[0].rank = x.rank;
  for (int32_t d = 0; d < x.rank; ++d)
    outputs[0].shape[d] = x.shape[d];
  return 0;
}

static int SoftClipRun(const TenonHost* host, TenonCall* call, const TenonTensor* outputs) {
  TenonTensor x;
  float limit = 1.0f;
  if (host->input(call, 0, &x) != 0)
    return host->fail(call, "x is missing");
  host->number(call, "limit", &limit);
  if (!(limit > 0.0f))
    return host->fail(call, "limit has to be above 0");
  int64_t count = 1;
  for (int32_t d = 0; d < x.rank; ++d)
    count *= x.shape[d];
  const float* in = x.data;
  float* out = outputs[0].data;
  for (int64_t i = 0; i < count; ++i)
    out[i] = limit * tanhf(in[i] / limit);
  return 0;
}

static const TenonOperator kOperators[] = {
    {"com.example", "SoftClip", 1, 1, 1, 1, 1, SoftClipShape, SoftClipRun},
};

static const TenonPlugin kPlugin = {TENON_PLUGIN_ABI, "softclip", "1.0", 1, kOperators};

const TenonPlugin* tenon_plugin(uint32_t host_abi) {
  (void)host_abi;
  return &kPlugin;
}

/* Operators of your own for Tenon: a shared library that exports tenon_plugin().
 *
 *   tenon inspect model.onnx --plugin ./libmine.so
 *
 * The library describes operators (schema), says the types and shapes of their outputs (shape), and
 * computes them on the CPU (run). An ONNX node takes an operator by its domain and name, and so do
 * Tenon's own graphs (docs/add-op.md). This header is the whole interface: plain C, no other header
 * of Tenon, nothing to link with.
 *
 * Threading: for one model or graph Tenon calls shape and run one after the other, each on the one
 * thread that builds the graph or runs the step. A process with several models or graphs may call
 * the same operator for each of them at once. Strings and tables that a plugin hands out must stay
 * valid until the process ends; what Tenon hands to a call is valid during the call. No exception
 * may leave a function of the plugin.
 */
#ifndef TENON_PLUGIN_H
#define TENON_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Changes when a structure here changes. A plugin of another version is refused. */
#define TENON_PLUGIN_ABI 1u
#define TENON_PLUGIN_MAX_RANK 8
#define TENON_PLUGIN_MAX_OUTPUTS 16

/* Element types, numbered as ONNX's TensorProto.DataType. */
enum TenonType {
  TENON_F32 = 1,
  TENON_U8 = 2,
  TENON_I8 = 3,
  TENON_U16 = 4,
  TENON_I16 = 5,
  TENON_I32 = 6,
  TENON_I64 = 7,
  TENON_BOOL = 9,
  TENON_F16 = 10,
  TENON_F64 = 11,
  TENON_U32 = 12,
  TENON_U64 = 13,
  TENON_BF16 = 16
};

/* Elements are contiguous, the last dimension innermost, aligned to 64 bytes for outputs. */
typedef struct TenonTensor {
  int32_t type;
  int32_t rank;
  const int64_t* shape;
  /* Of inputs: to be read only. Null for inputs of a graph of Tenon's own while it is built: there
   * shape functions work from types, shapes and attributes alone. */
  void* data;
} TenonTensor;

typedef struct TenonOutput {
  int32_t type;
  int32_t rank;
  int64_t shape[TENON_PLUGIN_MAX_RANK];
} TenonOutput;

/* One execution of one node. */
typedef struct TenonCall TenonCall;

/* What a plugin may ask. Functions that return int give 0 when there is such a thing, -1 otherwise.
 */
typedef struct TenonHost {
  uint32_t abi;
  uint32_t (*input_count)(const TenonCall* call);
  int (*input)(const TenonCall* call, uint32_t index, TenonTensor* out); /* -1: left out */
  int (*integer)(const TenonCall* call, const char* attribute, int64_t* out);
  int (*number)(const TenonCall* call, const char* attribute, float* out);
  int (*text)(const TenonCall* call, const char* attribute, const char** out, size_t* length);
  int (*integers)(const TenonCall* call, const char* attribute, const int64_t** out, size_t* count);
  int (*numbers)(const TenonCall* call, const char* attribute, const float** out, size_t* count);
  /* Says why the call fails, in words for people; returns -1, to be returned at once. */
  int (*fail)(TenonCall* call, const char* message);
} TenonHost;

typedef struct TenonOperator {
  const char* domain; /* as ONNX nodes have it, such as "com.example"; not "" and not Tenon's own */
  const char* name;
  int64_t first_version; /* of the domain's operator set, both included */
  int64_t last_version;
  uint32_t min_inputs;
  uint32_t max_inputs;
  uint32_t output_count; /* 1 to TENON_PLUGIN_MAX_OUTPUTS */
  /* Fills outputs[output_count] from the inputs' types and shapes. 0, or host->fail(...). */
  int (*shape)(const TenonHost* host, TenonCall* call, TenonOutput* outputs);
  /* Computes outputs[output_count], whose memory is there. 0, or host->fail(...). */
  int (*run)(const TenonHost* host, TenonCall* call, const TenonTensor* outputs);
} TenonOperator;

typedef struct TenonPlugin {
  uint32_t abi; /* TENON_PLUGIN_ABI */
  const char* name;
  const char* version;
  uint32_t operator_count;
  const TenonOperator* operators;
} TenonPlugin;

/* The one symbol of a plugin. `host_abi` is the version of the Tenon that asks; return the table
 * whatever it is, or null to decline. */
typedef const TenonPlugin* (*TenonPluginEntry)(uint32_t host_abi);
#define TENON_PLUGIN_ENTRY "tenon_plugin"

#ifdef __cplusplus
}
#endif

#endif

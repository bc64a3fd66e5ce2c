// Speed of single kernels on one thread, for every kernel set that this machine runs.
//
//   kernel_bench --benchmark_filter=gemm/avx2
//
// Counters: `bytes` is weights (or cache, or file bytes for packing) per second, `macs`
// multiply-adds per second. Weights fit the L3 cache, as do those of a layer that the cores share.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "hal/kernel_registry.h"
#include "hal/kv_type.h"
#include "hal/pack.h"
#include "quant/half.h"
#include "tensor/buffer.h"

namespace tenon {
namespace {

constexpr const char* kKindNames[kPackedKindCount] = {"F32",    "F16",    "BF16",         "U4S32",
                                                      "U4S32M", "U4S16M", "Codebook4S32", "U5S32",
                                                      "U5S32M", "U6S16",  "U8S32"};
constexpr int8_t kCodebook[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                  1,    13,   25,  38,  53,  69,  89,  113};

using Counter = benchmark::Counter;

void ReportRate(benchmark::State& state, const char* name, int64_t per_iteration) {
  state.counters[name] = Counter(static_cast<double>(per_iteration),
                                 Counter::kIsIterationInvariantRate, Counter::kIs1000);
}

// Bytes that are ordinary numbers in every format: 0x2c2c is 0.065 as f16, 2e-12 as bf16.
std::vector<std::byte> PlainBytes(int64_t size) {
  return std::vector<std::byte>(static_cast<size_t>(size), std::byte{0x2c});
}

std::vector<float> RandomFloats(int64_t size) {
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(size));
  for (float& value : values)
    value = normal(engine);
  return values;
}

struct GemmBench {
  const KernelSet* set;
  int kind;
  int64_t tokens;
};

// A matrix of 1024 rows and k = 2048, panel after panel.
void RunGemm(benchmark::State& state, GemmBench bench) {
  constexpr int64_t kRows = 1024;
  constexpr int64_t kLength = 2048;
  const auto kind = static_cast<PackedKind>(bench.kind);
  const int64_t panel_bytes = PackedPanelBytes(kind, kLength);
  const int64_t panels = kRows / kPanelRows;
  const std::vector<std::byte> weights = PlainBytes(panels * panel_bytes);
  const int64_t stride = ActivationRowBytes(FormFor(kind), kLength);
  const std::vector<std::byte> activations = PlainBytes(stride * bench.tokens);
  std::vector<float> out(static_cast<size_t>(kRows * bench.tokens));
  GemmArgs args{.panel = nullptr,
                .k = kLength,
                .activations = activations.data(),
                .activation_stride = stride,
                .tokens = bench.tokens,
                .codebook = kCodebook,
                .out = nullptr,
                .out_stride = kRows};
  for (auto _ : state) {
    for (int64_t p = 0; p < panels; ++p) {
      args.panel = weights.data() + p * panel_bytes;
      args.out = out.data() + p * kPanelRows;
      bench.set->gemm[bench.kind](args);
    }
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  ReportRate(state, "bytes", panels * panel_bytes);
  ReportRate(state, "macs", kRows * kLength * bench.tokens);
}

// One token and weights of 128 MiB, which no cache holds: how near a kernel comes to the memory's
// rate. Large pages, as the engine has them.
void RunGemmFromMemory(benchmark::State& state, GemmBench bench) {
  constexpr int64_t kLength = 2048;
  const auto kind = static_cast<PackedKind>(bench.kind);
  const int64_t panel_bytes = PackedPanelBytes(kind, kLength);
  const int64_t panels = (int64_t{128} << 20) / panel_bytes;
  const Buffer weights =
      std::move(Buffer::Allocate(static_cast<size_t>(panels * panel_bytes))).value();
  std::memset(weights.data(), 0x2c, weights.size());
  const int64_t stride = ActivationRowBytes(FormFor(kind), kLength);
  const std::vector<std::byte> activations = PlainBytes(stride);
  std::vector<float> out(kPanelRows);
  for (auto _ : state) {
    for (int64_t p = 0; p < panels; ++p) {
      bench.set->gemm[bench.kind]({.panel = weights.data() + p * panel_bytes,
                                   .k = kLength,
                                   .activations = activations.data(),
                                   .activation_stride = stride,
                                   .tokens = 1,
                                   .codebook = kCodebook,
                                   .out = out.data(),
                                   .out_stride = kPanelRows});
    }
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  ReportRate(state, "bytes", panels * panel_bytes);
}

struct AttentionBench {
  const KernelSet* set;
  int type;
  int64_t heads;
  int64_t head_dim;
};

void RunAttention(benchmark::State& state, AttentionBench bench) {
  constexpr int64_t kKeys = 1024;
  constexpr int64_t kBlocks = kKeys / kKvBlockTokens;
  const auto type = static_cast<KvType>(bench.type);
  const int64_t key_bytes = KvKeyBytes(type, bench.head_dim);
  const int64_t block_bytes = key_bytes + KvValueBytes(type, bench.head_dim);
  const std::vector<std::byte> pool = PlainBytes(block_bytes * kBlocks);
  std::vector<int32_t> table(kBlocks);
  for (size_t i = 0; i < table.size(); ++i)
    table[i] = static_cast<int32_t>(i * 7 % table.size());
  const std::vector<float> query = RandomFloats(bench.heads * bench.head_dim);
  std::vector<float> out(query.size());
  for (auto _ : state) {
    bench.set->attention[bench.type]({.query = query.data(),
                                      .heads = bench.heads,
                                      .head_dim = bench.head_dim,
                                      .keys = pool.data(),
                                      .values = pool.data() + key_bytes,
                                      .block_stride = block_bytes,
                                      .block_table = table.data(),
                                      .begin = 0,
                                      .end = kKeys,
                                      .scale = 0.125f,
                                      .softcap = 0.0f,
                                      .out = out.data()});
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  ReportRate(state, "bytes", block_bytes * kBlocks);
  ReportRate(state, "macs", 2 * kKeys * bench.heads * bench.head_dim);
}

// One token's attention in all layers of a model, as a decoding step has it: caches that the
// processor's own do not hold.
struct DecodeShape {
  const char* name;
  int64_t layers;
  int64_t kv_heads;
  int64_t heads;  // of queries, for each KV head
  int64_t head_dim;
};
constexpr DecodeShape kDecodeShapes[] = {{"smollm2-135m", 30, 3, 3, 64},
                                         {"llama-1b", 16, 8, 4, 64}};

struct DecodeBench {
  const KernelSet* set;
  KvType type;
  DecodeShape shape;
  int64_t keys;
};

// [layers * kv_heads] sequences of whole blocks, one after the other.
struct DecodeCache {
  Buffer pool;
  std::vector<int32_t> table;
  int64_t key_bytes;
  int64_t block_bytes;
};

DecodeCache MakeDecodeCache(const DecodeBench& bench) {
  DecodeCache cache;
  cache.key_bytes = KvKeyBytes(bench.type, bench.shape.head_dim);
  cache.block_bytes = cache.key_bytes + KvValueBytes(bench.type, bench.shape.head_dim);
  const int64_t blocks = bench.keys / kKvBlockTokens;
  const int64_t sequences = bench.shape.layers * bench.shape.kv_heads;
  cache.pool =
      std::move(Buffer::Allocate(static_cast<size_t>(sequences * blocks * cache.block_bytes)))
          .value();
  std::memset(cache.pool.data(), 0x2c, cache.pool.size());
  for (int64_t i = 0; i < blocks; ++i)
    cache.table.push_back(static_cast<int32_t>(i));
  return cache;
}

// Sequences [begin, end).
void AttendSequences(const DecodeBench& bench, const DecodeCache& cache, const float* query,
                     int64_t begin, int64_t end) {
  std::vector<float> out(static_cast<size_t>(bench.shape.heads * bench.shape.head_dim));
  for (int64_t i = begin; i < end; ++i) {
    const std::byte* keys = cache.pool.data() + i * bench.keys / kKvBlockTokens * cache.block_bytes;
    bench.set->attention[static_cast<size_t>(bench.type)]({.query = query,
                                                           .heads = bench.shape.heads,
                                                           .head_dim = bench.shape.head_dim,
                                                           .keys = keys,
                                                           .values = keys + cache.key_bytes,
                                                           .block_stride = cache.block_bytes,
                                                           .block_table = cache.table.data(),
                                                           .begin = 0,
                                                           .end = bench.keys,
                                                           .scale = 0.125f,
                                                           .softcap = 0.0f,
                                                           .out = out.data()});
    benchmark::DoNotOptimize(out.data());
  }
}

// On as many threads as the benchmark has, each with its share of the sequences.
void RunDecodeAttention(benchmark::State& state, DecodeBench bench, DecodeCache* shared) {
  if (state.thread_index() == 0)
    *shared = MakeDecodeCache(bench);
  const std::vector<float> query = RandomFloats(bench.shape.heads * bench.shape.head_dim);
  const int64_t sequences = bench.shape.layers * bench.shape.kv_heads;
  const int64_t begin = sequences * state.thread_index() / state.threads();
  const int64_t end = sequences * (state.thread_index() + 1) / state.threads();
  for (auto _ : state)  // threads meet before the first and after the last
    AttendSequences(bench, *shared, query.data(), begin, end);
  if (state.thread_index() == 0) {
    ReportRate(state, "bytes", static_cast<int64_t>(shared->pool.size()));
    *shared = DecodeCache();
  }
}

void RegisterDecodeAttention(const KernelSet* set, KvType type) {
  for (const DecodeShape& shape : kDecodeShapes) {
    for (const int64_t keys : {512, 2048, 8000}) {
      const auto cache = std::make_shared<DecodeCache>();
      const std::string name = std::string("decode_attention/") + set->name + "/" +
                               std::string(KvTypeName(type)) + "/" + shape.name +
                               "/keys:" + std::to_string(keys);
      const DecodeBench bench = {set, type, shape, keys};
      for (const int threads : {1, 2}) {
        benchmark::RegisterBenchmark(name.c_str(),
                                     [bench, cache](benchmark::State& state) {
                                       RunDecodeAttention(state, bench, cache.get());
                                     })
            ->Threads(threads)
            ->UseRealTime();
      }
    }
  }
}

// Packing 1,024 tokens of one KV head.
void RunSeal(benchmark::State& state, const KernelSet* set, KvType type) {
  constexpr int64_t kHeadDim = 64;
  constexpr int64_t kBlocks = 32;
  const std::vector<std::byte> f16 = PlainBytes(KvKeyBytes(KvType::kF16, kHeadDim));
  std::vector<std::byte> keys(static_cast<size_t>(KvKeyBytes(type, kHeadDim)));
  std::vector<std::byte> values(static_cast<size_t>(KvValueBytes(type, kHeadDim)));
  for (auto _ : state) {
    for (int64_t i = 0; i < kBlocks; ++i) {
      set->kv_seal[static_cast<size_t>(type)](
          {f16.data(), f16.data(), kHeadDim, keys.data(), values.data()});
    }
    benchmark::DoNotOptimize(keys.data());
    benchmark::ClobberMemory();
  }
  ReportRate(state, "tokens", kBlocks * kKvBlockTokens);
}

constexpr int64_t kRowLength = 2048;

void RunQuantizeRow(benchmark::State& state, const KernelSet* set) {
  const std::vector<float> x = RandomFloats(kRowLength);
  std::vector<std::byte> out(
      static_cast<size_t>(ActivationRowBytes(ActivationForm::kInt8, kRowLength)));
  for (auto _ : state) {
    set->quantize_row(x.data(), kRowLength, out.data());
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  ReportRate(state, "values", kRowLength);
}

void RunRmsNorm(benchmark::State& state, const KernelSet* set) {
  const std::vector<float> x = RandomFloats(kRowLength);
  std::vector<float> out(x.size());
  for (auto _ : state) {
    set->rms_norm(x.data(), x.data(), kRowLength, 1e-5f, out.data());
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  ReportRate(state, "values", kRowLength);
}

void RunSiluMul(benchmark::State& state, const KernelSet* set) {
  const std::vector<float> x = RandomFloats(kRowLength);
  std::vector<float> out(x.size());
  for (auto _ : state) {
    set->silu_mul(x.data(), x.data(), kRowLength, out.data());
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  ReportRate(state, "values", kRowLength);
}

void RunPack(benchmark::State& state, DType dtype) {
  constexpr int64_t kRows = 256;
  const int64_t row_bytes = DTypeRowBytes(dtype, kRowLength);
  const std::vector<std::byte> file = PlainBytes(kRows * row_bytes);
  const int64_t panel_bytes = PackedPanelBytes(PackedKindFor(dtype, kRowLength), kRowLength);
  std::vector<std::byte> out(static_cast<size_t>(panel_bytes * kRows / kPanelRows));
  for (auto _ : state) {
    for (int64_t p = 0; p < kRows / kPanelRows; ++p) {
      const std::byte* rows = file.data() + p * kPanelRows * row_bytes;
      PackPanel({.dtype = dtype, .rows = rows, .row_count = kPanelRows, .k = kRowLength},
                std::span(out).subspan(static_cast<size_t>(p * panel_bytes),
                                       static_cast<size_t>(panel_bytes)));
    }
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  ReportRate(state, "bytes", kRows * row_bytes);
}

void RegisterSet(const KernelSet* set) {
  const std::string name = set->name;
  for (int kind = 0; kind < kPackedKindCount; ++kind) {
    for (const int64_t tokens : {1, 2, 4, 64}) {
      if (set->gemm[kind] == nullptr)
        continue;
      benchmark::RegisterBenchmark(
          ("gemm/" + name + "/" + kKindNames[kind] + "/tokens:" + std::to_string(tokens)).c_str(),
          RunGemm, GemmBench{set, kind, tokens});
    }
  }
  for (int kind = 0; kind < kPackedKindCount; ++kind) {
    if (set->gemm[kind] != nullptr)
      benchmark::RegisterBenchmark(("gemm_from_memory/" + name + "/" + kKindNames[kind]).c_str(),
                                   RunGemmFromMemory, GemmBench{set, kind, 1});
  }
  for (int type = 0; type < kKvTypeCount; ++type) {
    for (const auto& [heads, head_dim] : {std::pair<int64_t, int64_t>{1, 64}, {3, 64}, {4, 128}}) {
      if (set->attention[type] == nullptr)
        continue;
      benchmark::RegisterBenchmark(
          ("attention/" + name + "/" + std::string(KvTypeName(static_cast<KvType>(type))) +
           "/heads:" + std::to_string(heads) + "/dim:" + std::to_string(head_dim))
              .c_str(),
          RunAttention, AttentionBench{set, type, heads, head_dim});
    }
  }
  for (int i = 0; i < kKvTypeCount; ++i) {
    const auto type = static_cast<KvType>(i);
    const std::string kv_name(KvTypeName(type));
    if (set->attention[i] != nullptr)
      RegisterDecodeAttention(set, type);
    if (set->kv_seal[i] != nullptr)
      benchmark::RegisterBenchmark(("kv_seal/" + name + "/" + kv_name).c_str(), RunSeal, set, type);
  }
  if (set->quantize_row != nullptr)
    benchmark::RegisterBenchmark(("quantize_row/" + name).c_str(), RunQuantizeRow, set);
  if (set->rms_norm != nullptr)
    benchmark::RegisterBenchmark(("rms_norm/" + name).c_str(), RunRmsNorm, set);
  if (set->silu_mul != nullptr)
    benchmark::RegisterBenchmark(("silu_mul/" + name).c_str(), RunSiluMul, set);
}

void RegisterPack() {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (dtype != DType::kI32 && !IsQuantizedActivation(dtype))
      benchmark::RegisterBenchmark(("pack/" + std::string(DTypeName(dtype))).c_str(), RunPack,
                                   dtype);
  }
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  for (const tenon::KernelSet* set : tenon::RunnableKernelSets())
    tenon::RegisterSet(set);
  tenon::RegisterPack();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv))
    return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

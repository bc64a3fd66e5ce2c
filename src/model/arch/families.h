// The model families, one line each: all that a new one needs beside the file with its graph.
#pragma once

// X(name, build, pairs). name: as general.architecture spells it. build: its function, in
// <name>.cc. pairs: a GgufPairs of architecture.h. GGUF calls a mixtral a llama and has no OPT.
#define TENON_MODEL_FAMILIES(X)             \
  X(llama, BuildLlama, kNeighbours)         \
  X(qwen2, BuildQwen2, kHalves)             \
  X(qwen3, BuildQwen3, kHalves)             \
  X(gemma2, BuildGemma2, kHalves)           \
  X(gemma3, BuildGemma3, kHalves)           \
  X(phi3, BuildPhi3, kHalves)               \
  X(granite, BuildGranite, kNeighbours)     \
  X(mixtral, BuildMixtral, kNoFiles)        \
  X(qwen2moe, BuildQwen2Moe, kHalves)       \
  X(qwen3moe, BuildQwen3Moe, kHalves)       \
  X(olmoe, BuildOlmoe, kHalves)             \
  X(olmo2, BuildOlmo2, kHalves)             \
  X(smollm3, BuildSmolLm3, kNeighbours)     \
  X(deepseek2, BuildDeepseek2, kNeighbours) \
  X(gpt2, BuildGpt2, kHalves)               \
  X(gptneox, BuildGptNeox, kHalves)         \
  X(opt, BuildOpt, kNoFiles)                \
  X(bert, BuildBert, kHalves)

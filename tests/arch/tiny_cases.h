// The cases of tests/data/arch_golden.txt, written out so that one missing from the file fails.
// "bert" is tested by itself (encoder_test.cc).
#pragma once

namespace tenon::testing {

// As a GGUF file and as a directory.
inline constexpr const char* kTinyCases[] = {
    "llama",      "llama_bias_tied", "mistral_window", "llama_linear", "llama_llama3",
    "llama_yarn", "qwen2",           "qwen2_yarn",     "qwen3",        "gemma2",
    "gemma3",     "gemma3_27b",      "phi3",           "phi3_window",  "granite",
    "mixtral",    "mixtral_window",  "qwen2moe",       "qwen3moe",     "olmoe",
    "olmo2",      "smollm3",         "gpt2",           "gptneox",      "gptneox_serial",
    "deepseek2",  "deepseek3"};

// What GGUF can't say, as a directory only.
inline constexpr const char* kTinyDirectoryCases[] = {"opt", "deepseek2_lite", "smollm3_irregular"};

}  // namespace tenon::testing

#!/usr/bin/env python3
"""One process of llama.cpp (through llama-cpp-python's C interface): prefill, decode, cold start and
peak memory, as one JSON object of the shape of `tenon bench --json`."""
import argparse
import json
import resource
import time

import numpy as np


def rss_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


class Runner:
    def __init__(self, library, path, threads, context):
        self.lib = library
        self.lib.llama_backend_init()
        params = self.lib.llama_model_default_params()
        self.model = self.lib.llama_model_load_from_file(path.encode(), params)
        settings = self.lib.llama_context_default_params()
        settings.n_ctx, settings.n_batch, settings.n_ubatch = context, 512, 512
        settings.n_threads = settings.n_threads_batch = threads
        self.context = self.lib.llama_init_from_model(self.model, settings)
        self.vocabulary = self.lib.llama_vocab_n_tokens(self.lib.llama_model_get_vocab(self.model))

    def clear(self):
        self.lib.llama_memory_clear(self.lib.llama_get_memory(self.context), True)

    def decode(self, tokens):
        array = (self.lib.llama_token * len(tokens))(*tokens)
        if self.lib.llama_decode(self.context, self.lib.llama_batch_get_one(array, len(tokens))):
            raise RuntimeError("llama_decode failed")
        self.lib.llama_get_logits_ith(self.context, -1)[0]

    def token(self, index):
        return (index * 7919 + 13) % self.vocabulary


def rate(count, body):
    start = time.perf_counter()
    body()
    return count / (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--generate", type=int, default=128)
    args = parser.parse_args()

    import llama_cpp

    @llama_cpp.llama_log_callback
    def silent(_level, _text, _data):
        pass

    llama_cpp.llama_log_set(silent, None)
    before = rss_bytes()
    start = time.perf_counter()
    runner = Runner(llama_cpp, args.model, args.threads, max(args.prompt, args.generate) + 16)
    load = time.perf_counter() - start
    start = time.perf_counter()
    runner.decode([100 + i for i in range(16)])
    first = time.perf_counter() - start

    results = []
    for test, count in (("prefill", args.prompt), ("decode", args.generate)):
        samples = []
        for repeat in range(3):
            runner.clear()
            tokens = [runner.token(i) for i in range(count)]
            if test == "prefill":
                value = rate(count, lambda: runner.decode(tokens))
            else:
                value = rate(count, lambda: [runner.decode([token]) for token in tokens])
            if repeat:
                samples.append(value)
        results.append({"test": test, "tok_s": {"median": float(np.median(samples))}})
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"load_s": load, "first_token_s": first, "peak_rss_bytes": peak - before,
                      "results": results}))


if __name__ == "__main__":
    main()

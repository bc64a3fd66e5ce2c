#!/usr/bin/env python3
"""One process of one peer engine, measured on the cases of bench/peers.py, as one JSON object.

Every engine offers generate(prompts, count): greedy decoding of `count` tokens for each prompt, end
tokens ignored. From it come, for all engines alike:
  prefill P        P / t(P-token prompt, 1 token)
  decode N at C    N / (t(C, N + 1) - t(C, 1))
  batch SxN        S N / (t(S prompts of 16, N + 1) - t(the same, 1))
An engine with split() tells the time to the first token and that of the others apart, so that one
run gives both. With --seconds, cases that would take longer than what is left are left out.
Peak memory is the process's, less what Python and the packages that engines import beside their own code
had before: code and data of the engine, as Tenon's process is counted."""
import argparse
import importlib
import json
import resource
import statistics
import time


# What engines' Python packages import that is none of the engine.
BESIDE = ("ctypes", "numpy", "jinja2", "diskcache", "typing_extensions", "yaml")


def resident_bytes():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


def token(index, salt):
    return 1000 + (index * 7919 + salt * 104729) % 30000


class LlamaCpp:
    """llama.cpp through llama-cpp-python's C interface."""

    def __init__(self, path, threads, limits):
        import llama_cpp

        @llama_cpp.llama_log_callback
        def silent(_level, _text, _data):
            pass

        self.silent = silent
        self.lib = llama_cpp
        self.version = llama_cpp.__version__
        llama_cpp.llama_log_set(silent, None)
        llama_cpp.llama_backend_init()

        def load():
            model = llama_cpp.llama_model_load_from_file(path.encode(), llama_cpp.llama_model_default_params())
            settings = llama_cpp.llama_context_default_params()
            settings.n_ctx, settings.n_batch, settings.n_ubatch = limits["tokens"], 2048, 512
            settings.n_seq_max, settings.kv_unified = limits["sequences"], True
            settings.n_threads = settings.n_threads_batch = threads
            self.context = llama_cpp.llama_init_from_model(model, settings)
            self.batch = llama_cpp.llama_batch_init(2048, 0, 1)

        self.load = load

    def step(self, items):
        """items: (token, position, sequence, wanted)"""
        batch = self.batch
        batch.n_tokens = len(items)
        for i, (value, position, sequence, wanted) in enumerate(items):
            batch.token[i], batch.pos[i], batch.logits[i] = value, position, wanted
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, sequence
        if self.lib.llama_decode(self.context, batch):
            raise RuntimeError("llama_decode failed")
        if items[-1][3]:  # a prompt's first steps ask for none
            self.lib.llama_get_logits_ith(self.context, -1)[0]

    def generate(self, prompts, count):
        self.lib.llama_memory_clear(self.lib.llama_get_memory(self.context), True)
        items = [(value, i, s, i == len(prompt) - 1)
                 for s, prompt in enumerate(prompts) for i, value in enumerate(prompt)]
        for start in range(0, len(items), 2048):
            self.step(items[start:start + 2048])
        start = time.perf_counter()
        for n in range(count - 1):
            self.step([(token(n, s), len(prompt) + n, s, True) for s, prompt in enumerate(prompts)])
        return start

    def split(self, prompts, count):
        begin = time.perf_counter()
        first = self.generate(prompts, count)
        return first - begin, time.perf_counter() - first


class OpenVino:
    """OpenVINO GenAI, which reads the GGUF file itself; continuous batching for more than one."""

    def __init__(self, path, threads, limits):
        import numpy
        import openvino
        import openvino_genai

        self.numpy, self.openvino, self.genai = numpy, openvino, openvino_genai
        self.version = openvino_genai.__version__

        def load():
            scheduler = openvino_genai.SchedulerConfig()
            scheduler.max_num_batched_tokens = 2048
            scheduler.max_num_seqs = limits["sequences"]
            scheduler.num_kv_blocks = limits["tokens"] // 32 + 64
            scheduler.enable_prefix_caching = False
            self.pipeline = openvino_genai.LLMPipeline(
                path, "CPU", scheduler_config=scheduler, INFERENCE_NUM_THREADS=threads)

        self.load = load

    def generate(self, prompts, count):
        config = self.genai.GenerationConfig()
        config.max_new_tokens = config.min_new_tokens = count
        config.ignore_eos, config.do_sample, config.apply_chat_template = True, False, False
        ids = self.openvino.Tensor(self.numpy.array(prompts, dtype=self.numpy.int64))
        mask = self.openvino.Tensor(self.numpy.ones((len(prompts), len(prompts[0])), dtype=self.numpy.int64))
        self.pipeline.generate(self.genai.TokenizedInputs(ids, mask), config)


class OnnxRuntime:
    """ONNX Runtime GenAI on a folder that its model builder wrote."""

    def __init__(self, path, threads, limits):
        import numpy
        import onnxruntime_genai

        self.numpy, self.genai = numpy, onnxruntime_genai
        self.version = onnxruntime_genai.__version__
        self.limit = limits["tokens"]

        def load():
            config = onnxruntime_genai.Config(path)
            config.overlay(json.dumps(
                {"model": {"decoder": {"session_options": {"intra_op_num_threads": threads}}}}))
            self.model = onnxruntime_genai.Model(config)

        self.load = load

    def generate(self, prompts, count):
        params = self.genai.GeneratorParams(self.model)
        length = len(prompts[0]) + count
        params.set_search_options(max_length=length, min_length=length, batch_size=len(prompts),
                                  do_sample=False)
        generator = self.genai.Generator(self.model, params)
        generator.append_tokens(self.numpy.array(prompts, dtype=self.numpy.int32))
        for _ in range(count):
            generator.generate_next_token()


class CTranslate2:
    """CTranslate2 on a folder that its converter wrote."""

    def __init__(self, path, threads, _limits):
        import ctranslate2

        self.version = ctranslate2.__version__
        with open(f"{path}/vocabulary.json", encoding="utf-8") as file:
            self.vocabulary = json.load(file)

        def load():
            self.generator = ctranslate2.Generator(path, device="cpu", compute_type="int8",
                                                   inter_threads=1, intra_threads=threads)

        self.load = load

    def generate(self, prompts, count):
        texts = [[self.vocabulary[value] for value in prompt] for prompt in prompts]
        self.generator.generate_batch(texts, max_length=count, min_length=count, sampling_topk=1,
                                      include_prompt_in_result=False)


ENGINES = {"llama.cpp": LlamaCpp, "openvino": OpenVino, "onnxruntime": OnnxRuntime, "ctranslate2": CTranslate2}


def seconds(engine, prompts, count):
    start = time.perf_counter()
    engine.generate(prompts, count)
    return time.perf_counter() - start


def times(engine, prompts, count):
    """Seconds to the first tokens, and of `count` further ones."""
    if hasattr(engine, "split"):
        return engine.split(prompts, count + 1)
    first = seconds(engine, prompts, 1)
    return first, max(1e-9, seconds(engine, prompts, count + 1) - first) if count else 0.0


def rate(engine, case, repeats):
    """tok/s, the median over `repeats`, after one warm-up unless the prompt is long, and the seconds
    of a prompt's token."""
    kind, prompt, count, sequences = case["test"], case["prompt"], case["tokens"], case["sequences"]
    long = prompt * sequences >= 2048
    values, prefill = [], 0.0
    for repeat in range(repeats + (0 if long else 1)):
        prompts = [[token(i, s + 17 * repeat) for i in range(prompt)] for s in range(sequences)]
        first, rest = times(engine, prompts, 0 if kind == "prefill" else count)
        prefill = first / (prompt * sequences)
        values.append(prompt / first if kind == "prefill" else sequences * count / rest)
    return statistics.median(values if long else values[1:]), prefill


def measure(engine, args, cases):
    """Rates by name. The cost of a case is guessed from its prompt at the slowest pace so far."""
    end = time.monotonic() + args.seconds if args.seconds else None
    results, pace = {}, 0.0
    for case in cases:
        guess = pace * case["prompt"] * case["sequences"] * args.repeats
        if end is not None and time.monotonic() + guess > end:
            continue
        results[case["name"]], prefill = rate(engine, case, args.repeats)
        # Attention makes a long prompt's token dearer.
        pace = max(pace, prefill if case["prompt"] >= 512 else 0.0)
    return results


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", choices=ENGINES, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--cases", required=True, help="JSON list of {name, test, prompt, tokens, sequences}")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.0, help="0: as long as it takes")
    args = parser.parse_args()
    cases = json.loads(args.cases)
    limits = {"sequences": max([case["sequences"] for case in cases], default=1),
              "tokens": max([case["sequences"] * (case["prompt"] + case["tokens"] + 64) for case in cases], default=64)}
    for name in BESIDE:
        try:
            importlib.import_module(name)
        except ImportError:
            pass
    before = resident_bytes()
    engine = ENGINES[args.engine](args.model, args.threads, limits)
    start = time.perf_counter()
    engine.load()
    load = time.perf_counter() - start
    first = seconds(engine, [[token(i, 3) for i in range(16)]], 1)
    results = measure(engine, args, cases)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"engine": args.engine, "version": engine.version, "load_s": load, "first_token_s": first,
                      "peak_rss_bytes": peak - before, "results": results}))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""llama.cpp's KV cache types beside its own F16 cache: mean KL and equal best tokens, by the protocol of
`tenon perplexity` (chunks of --context tokens, the second half scored).

  bench/kv_peer.py --model F16.gguf --text TEST.txt --context 8000 --chunks 2 --types q4_0 q8_0

Needs the Python packages llama_cpp and numpy."""
import argparse

import llama_cpp
import numpy as np

TYPES = {"f16": 1, "q4_0": 2, "q8_0": 8}
STEP = 256


class Cached:
    """A context whose keys and values have one type."""

    def __init__(self, model, context, kind, threads):
        settings = llama_cpp.llama_context_default_params()
        settings.n_ctx, settings.n_batch, settings.n_ubatch = context, STEP, STEP
        settings.n_threads = settings.n_threads_batch = threads
        settings.type_k = settings.type_v = TYPES[kind]
        settings.flash_attn_type = 1
        self.context = llama_cpp.llama_init_from_model(model, settings)
        if not self.context:
            raise SystemExit(f"llama.cpp takes no cache of {kind}")
        self.batch = llama_cpp.llama_batch_init(STEP, 0, 1)
        self.width = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))

    def clear(self):
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)

    def step(self, tokens, first, wanted):
        """Logits [tokens, vocabulary], or None."""
        batch = self.batch
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.logits[i] = token, first + i, wanted
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, 0
        if llama_cpp.llama_decode(self.context, batch):
            raise SystemExit("llama_decode failed")
        if not wanted:
            return None
        rows = llama_cpp.llama_get_logits(self.context)
        return np.ctypeslib.as_array(rows, (len(tokens), self.width)).astype(np.float64)


def log_softmax(x):
    x = x - x.max(axis=1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


def compare(base, other, tokens, context, chunks):
    divergences, equal = [], 0
    for chunk in range(chunks):
        base.clear()
        other.clear()
        for first in range(0, context, STEP):
            part = tokens[chunk * context + first:chunk * context + min(first + STEP, context)]
            wanted = first + len(part) > context // 2
            p, q = (engine.step(part, first, wanted) for engine in (base, other))
            if not wanted:
                continue
            skip = max(0, context // 2 - first)
            p, q = log_softmax(p[skip:]), log_softmax(q[skip:])
            divergences.extend((np.exp(p) * (p - q)).sum(axis=1))
            equal += int((p.argmax(axis=1) == q.argmax(axis=1)).sum())
    return float(np.mean(divergences)), equal / len(divergences), len(divergences)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--text", required=True)
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--chunks", type=int, default=12)
    parser.add_argument("--types", nargs="+", default=["q4_0", "q8_0"], choices=TYPES)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()

    @llama_cpp.llama_log_callback
    def silent(_level, _text, _data):
        pass

    llama_cpp.llama_log_set(silent, None)
    model = llama_cpp.llama_model_load_from_file(args.model.encode(), llama_cpp.llama_model_default_params())
    with open(args.text, "rb") as file:
        text = file.read()
    ids = (llama_cpp.llama_token * len(text))()
    count = llama_cpp.llama_tokenize(llama_cpp.llama_model_get_vocab(model), text, len(text), ids, len(text), True,
                                     False)
    tokens = list(ids[:count])
    if count < args.context * args.chunks:
        raise SystemExit(f"the text has {count} tokens; {args.context * args.chunks} expected")
    base = Cached(model, args.context, "f16", args.threads)
    for kind in args.types:
        kl, top1, scored = compare(base, Cached(model, args.context, kind, args.threads), tokens, args.context,
                                   args.chunks)
        print(f"{kind}: {args.chunks} chunks of {args.context}, {scored} scored, mean KL {kl:.3e}, best token equal "
              f"{100 * top1:.1f}%", flush=True)


main()

#!/usr/bin/env python3
"""Extracts a small text golden from an npz of reference logits (transformers in fp32 on the weights
dequantized from the same GGUF): tokens of one sequence, and at some positions the best ids with their
logits and the log of the sum of exponentials.

    make_logit_golden.py GOLDEN.npz SEQUENCE TOKENS STEP > tests/data/golden_NAME.txt
"""
import sys

import numpy as np

path, sequence, count, step = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
golden = np.load(path)
print("tokens", *golden["tokens"][sequence][:count].tolist())
for position in range(step - 1, count, step):
    ids = golden["top_ids"][sequence][position][:8]
    logits = golden["top_logits"][sequence][position][:8]
    total = golden["logsumexp"][sequence][position]
    pairs = " ".join(f"{i}:{float(l):.6f}" for i, l in zip(ids, logits))
    print(f"position {position} {float(total):.6f} {pairs}")

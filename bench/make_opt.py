#!/usr/bin/env python3
"""Writes a Hugging Face directory of OPT's shape with random weights, for tables of quantizers: layer norms with
biases, learned positions, ReLU. The tokenizer comes from another directory.

  bench/make_opt.py --tokenizer smollm2-hf --out opt-random

What it says means nothing; how far a quantized form is from it does. Embeddings are four times as wide spread as
OPT's start values, so that its predictions differ from token to token. Needs torch and transformers."""
import argparse
import json
import shutil
from pathlib import Path

import torch
from transformers import OPTConfig, OPTForCausalLM

TOKENIZER = ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=512)
    args = parser.parse_args()
    vocabulary = json.loads((args.tokenizer / "config.json").read_text(encoding="utf-8"))["vocab_size"]
    torch.manual_seed(1)
    config = OPTConfig(vocab_size=vocabulary, hidden_size=args.width, ffn_dim=4 * args.width,
                       num_hidden_layers=args.layers, num_attention_heads=args.width // 64,
                       max_position_embeddings=2048, word_embed_proj_dim=args.width, bos_token_id=1, eos_token_id=2,
                       pad_token_id=2, init_std=0.06)
    model = OPTForCausalLM(config)
    with torch.no_grad():
        model.model.decoder.embed_tokens.weight.normal_(0.0, 0.08)
        for name, value in model.named_parameters():
            if name.endswith("bias"):
                value.normal_(0.0, 0.02)
            elif "layer_norm" in name:
                value.uniform_(0.5, 1.5)
    model.save_pretrained(args.out)
    for name in TOKENIZER:
        if (args.tokenizer / name).exists():
            shutil.copy(args.tokenizer / name, args.out / name)


main()

"""Exports that the tests of ONNX graphs run: torch.onnx's decomposed form of common models.

  make_exports.py FOLDER [--minilm DIRECTORY] [--smollm2 DIRECTORY]

Writes gpt2-tiny.onnx, llama-tiny.onnx and bert-tiny.onnx (random weights), and with the flags
minilm.onnx and smollm2.onnx of real ones. Decoders take past_key_values and give present ones. Operator
set 14 is the last one in which norms come apart into their arithmetic. Those called sdpa have the attention
that transformers takes when nothing is said (torch's scaled_dot_product_attention); those called dynamo are
of torch's newer exporter too, which names no modules in its nodes but beside them. Needs torch,
transformers and onnxscript.
"""
import argparse
import pathlib

import onnx
import torch
from transformers import (AutoModel, AutoModelForCausalLM, BertConfig, BertModel, DynamicCache,
                          GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Qwen3Config,
                          Qwen3ForCausalLM)

OPSET = 14


class Encoder(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, token_type_ids):
        return self.model(input_ids=input_ids, attention_mask=attention_mask,
                          token_type_ids=token_type_ids).last_hidden_state


class Decoder(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, position_ids, attention_mask, *past):
        cache = DynamicCache()
        for layer in range(len(past) // 2):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        out = self.model(input_ids=input_ids, position_ids=position_ids, attention_mask=attention_mask,
                         past_key_values=cache, use_cache=True)
        present = [tensor for layer in out.past_key_values.layers for tensor in (layer.keys, layer.values)]
        return (out.logits, *present)


def export_encoder(model, path):
    ids = torch.randint(0, 50, (2, 7))
    names = ["input_ids", "attention_mask", "token_type_ids"]
    axes = {name: {0: "batch", 1: "sequence"} for name in [*names, "last_hidden_state"]}
    torch.onnx.export(Encoder(model.eval()), (ids, torch.ones_like(ids), torch.zeros_like(ids)), path,
                      input_names=names, output_names=["last_hidden_state"], dynamic_axes=axes,
                      opset_version=OPSET, dynamo=False)


def decoder_arguments(layers, kv_heads, head_dim):
    """Inputs to export with, their names and those of the outputs."""
    batch, past, new = 2, 5, 3
    cache = [torch.randn(batch, kv_heads, past, head_dim) for _ in range(2 * layers)]
    past_names = [f"past_key_values.{i // 2}.{'value' if i % 2 else 'key'}" for i in range(2 * layers)]
    names = ["input_ids", "position_ids", "attention_mask", *past_names]
    outputs = ["logits", *[name.replace("past_key_values", "present") for name in past_names]]
    arguments = (torch.randint(0, 50, (batch, new)), torch.arange(past, past + new).repeat(batch, 1),
                 torch.ones(batch, past + new, dtype=torch.int64), *cache)
    return arguments, names, outputs


def export_decoder(model, layers, kv_heads, head_dim, path):
    arguments, names, outputs = decoder_arguments(layers, kv_heads, head_dim)
    axes = {"input_ids": {0: "batch", 1: "sequence"}, "position_ids": {0: "batch", 1: "sequence"},
            "attention_mask": {0: "batch", 1: "total"}, "logits": {0: "batch", 1: "sequence"}}
    axes |= {name: {0: "batch", 2: "past"} for name in names[3:]}
    axes |= {name: {0: "batch", 2: "total"} for name in outputs[1:]}
    torch.onnx.export(Decoder(model.eval()), arguments, path, input_names=names, output_names=outputs,
                      dynamic_axes=axes, opset_version=OPSET, dynamo=False)


def export_dynamo(model, layers, kv_heads, head_dim, path, opset):
    arguments, names, outputs = decoder_arguments(layers, kv_heads, head_dim)
    batch, sequence, past = (torch.export.Dim(name) for name in ("batch", "sequence", "past"))
    rows = {0: batch, 1: sequence}
    shapes = (rows, rows, {0: batch, 1: torch.export.Dim.DYNAMIC}, tuple({0: batch, 2: past} for _ in names[3:]))
    torch.onnx.export(Decoder(model.eval()), arguments, path, input_names=names, output_names=outputs,
                      dynamic_shapes=shapes, opset_version=opset, dynamo=True)
    # One file, without the stack traces of every node.
    whole = onnx.load(path)
    path.with_suffix(".onnx.data").unlink(missing_ok=True)
    for node in whole.graph.node:
        kept = [entry for entry in node.metadata_props if entry.key == "pkg.torch.onnx.name_scopes"]
        texts = [(entry.key, entry.value) for entry in kept]
        del node.metadata_props[:]
        for key, value in texts:
            node.metadata_props.add(key=key, value=value)
    for value in [*whole.graph.value_info, *whole.graph.initializer, *whole.graph.input, *whole.graph.output]:
        del value.metadata_props[:]
    onnx.save(whole, path)


def varied(model):
    """Biases of 0 and norms of 1 would be left out, or be one constant."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


def export_other_forms(folder):
    sdpa = {"attn_implementation": "sdpa"}
    sizes = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
             "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 64}
    llama = varied(LlamaForCausalLM(LlamaConfig(**sizes, **sdpa)))
    export_decoder(llama, 2, 2, 8, folder / "llama-sdpa-tiny.onnx")
    export_dynamo(llama, 2, 2, 8, folder / "llama-dynamo-tiny.onnx", 18)
    export_dynamo(varied(Qwen3ForCausalLM(Qwen3Config(**sizes, head_dim=8, **sdpa))), 2, 2, 8,
                  folder / "qwen3-dynamo-tiny.onnx", 23)
    config = GPT2Config(vocab_size=64, n_embd=32, n_layer=2, n_head=4, n_positions=32, **sdpa)
    export_dynamo(varied(GPT2LMHeadModel(config)), 2, 4, 8, folder / "gpt2-dynamo-tiny.onnx", 20)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--minilm")
    parser.add_argument("--smollm2")
    flags = parser.parse_args()
    flags.folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(7)
    eager = {"attn_implementation": "eager"}
    config = BertConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                        intermediate_size=48, max_position_embeddings=32, **eager)
    export_encoder(BertModel(config), flags.folder / "bert-tiny.onnx")
    config = GPT2Config(vocab_size=64, n_embd=32, n_layer=2, n_head=4, n_positions=32, **eager)
    export_decoder(GPT2LMHeadModel(config), 2, 4, 8, flags.folder / "gpt2-tiny.onnx")
    config = LlamaConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, intermediate_size=48, max_position_embeddings=64, **eager)
    export_decoder(LlamaForCausalLM(config), 2, 2, 8, flags.folder / "llama-tiny.onnx")
    export_other_forms(flags.folder)
    if flags.minilm:
        export_encoder(AutoModel.from_pretrained(flags.minilm, **eager), flags.folder / "minilm.onnx")
    if flags.smollm2:
        model = AutoModelForCausalLM.from_pretrained(flags.smollm2, dtype=torch.float32, **eager)
        export_decoder(model, model.config.num_hidden_layers, model.config.num_key_value_heads,
                       model.config.head_dim, flags.folder / "smollm2.onnx")


main()

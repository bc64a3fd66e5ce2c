"""Decoders of operator set 23 whose attention, norms and rotations are operators of their own.

  make_opset23.py FOLDER

Writes llama-opset23-tiny.onnx, where heads lie side by side in a row (three dimensions, q_num_heads), and
qwen3-opset23-tiny.onnx, where they are a dimension (four, with norms of queries and keys), with random weights.
Past keys and values go through the Attention operator; the mask is one of booleans. Needs onnx and numpy.
"""
import argparse
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

VOCAB, WIDTH, LAYERS, HEADS, KV_HEADS, HEAD, FFN, POSITIONS = 64, 32, 2, 4, 2, 8, 48, 64
EPS, BASE = 1e-6, 10000.0


class Writer:
    """Nodes named by the modules that they belong to, as torch.onnx names them."""

    def __init__(self, generator):
        self.random = generator
        self.nodes = []
        self.constants = []
        self.counts = {}

    def constant(self, name, values):
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def matrix(self, name, rows, columns):
        return self.constant(name, self.random.normal(0, columns ** -0.5, (rows, columns)).astype(np.float32))

    def node(self, module, op, inputs, outputs=1, **attributes):
        name = f"/{module}/{op}" if module else f"/{op}"
        self.counts[name] = self.counts.get(name, 0) + 1
        if self.counts[name] > 1:
            name = f"{name}_{self.counts[name] - 1}"
        names = [f"{name}_output_{i}" for i in range(outputs)] if isinstance(outputs, int) else outputs
        self.nodes.append(helper.make_node(op, inputs, names, name=name, **attributes))
        return names[0] if len(names) == 1 else names

    def linear(self, module, x, inputs, outputs):
        return self.node(module, "MatMul", [x, self.matrix(module.replace("/", ".") + ".weight", inputs, outputs)])

    def norm(self, module, x, width):
        weight = (1 + self.random.normal(0, 0.2, width)).astype(np.float32)
        name = self.constant(module.replace("/", ".") + ".weight", weight)
        return self.node(module, "RMSNormalization", [x, name], axis=-1, epsilon=EPS)


def rotary_tables(writer):
    frequencies = BASE ** -(np.arange(0, HEAD, 2, dtype=np.float32) / HEAD)
    angles = np.arange(POSITIONS, dtype=np.float32)[:, None] * frequencies[None]
    return [writer.constant("cos_cache", np.cos(angles).astype(np.float32)),
            writer.constant("sin_cache", np.sin(angles).astype(np.float32))]


def causal_mask(writer):
    """Booleans [batch, 1, tokens, all]: keys up to each token's position that the caller's mask shows."""
    integer = lambda name, values: writer.constant(name, np.array(values, np.int64))
    shape = writer.node("", "Shape", ["attention_mask"], start=1)
    total = writer.node("", "Squeeze", [shape])
    keys = writer.node("", "Range", [integer("zero", 0), total, integer("one", 1)])
    rows = writer.node("", "Unsqueeze", ["position_ids", integer("rows_axes", [1, 3])])
    seen = writer.node("", "LessOrEqual", [keys, rows])
    shown = writer.node("", "Cast", ["attention_mask"], to=TensorProto.BOOL)
    shown = writer.node("", "Unsqueeze", [shown, integer("shown_axes", [1, 2])])
    return writer.node("", "And", [seen, shown])


def attention_flat(writer, module, x, tables, mask, layer):
    q, k, v = (writer.linear(f"{module}/{name}_proj", x, WIDTH, heads * HEAD)
               for name, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)))
    q = writer.node(module, "RotaryEmbedding", [q, *tables, "position_ids"], num_heads=HEADS)
    k = writer.node(module, "RotaryEmbedding", [k, *tables, "position_ids"], num_heads=KV_HEADS)
    past = [f"past_key_values.{layer}.{kind}" for kind in ("key", "value")]
    present = [f"present.{layer}.{kind}" for kind in ("key", "value")]
    y = writer.node(module, "Attention", [q, k, v, mask, *past], [f"attention.{layer}", *present],
                    q_num_heads=HEADS, kv_num_heads=KV_HEADS, scale=HEAD ** -0.5)[0]
    return writer.linear(f"{module}/o_proj", y, HEADS * HEAD, WIDTH)


def attention_heads(writer, module, x, tables, mask, layer):
    def heads(name, count):
        y = writer.linear(f"{module}/{name}_proj", x, WIDTH, count * HEAD)
        shape = writer.constant(f"{module}.{name}.shape", np.array([0, 0, count, HEAD], np.int64))
        y = writer.node(f"{module}/{name}_split", "Reshape", [y, shape])
        if name != "v":
            y = writer.norm(f"{module}/{name}_norm", y, HEAD)
        y = writer.node(f"{module}/{name}_turn", "Transpose", [y], perm=[0, 2, 1, 3])
        return y if name == "v" else writer.node(module, "RotaryEmbedding", [y, *tables, "position_ids"])
    q, k, v = heads("q", HEADS), heads("k", KV_HEADS), heads("v", KV_HEADS)
    past = [f"past_key_values.{layer}.{kind}" for kind in ("key", "value")]
    present = [f"present.{layer}.{kind}" for kind in ("key", "value")]
    # Without a scale: one over the root of the heads' width.
    y = writer.node(module, "Attention", [q, k, v, mask, *past], [f"attention.{layer}", *present])[0]
    y = writer.node(module, "Transpose", [y], perm=[0, 2, 1, 3])
    shape = writer.constant(f"{module}.join.shape", np.array([0, 0, HEADS * HEAD], np.int64))
    return writer.linear(f"{module}/o_proj", writer.node(module, "Reshape", [y, shape]), HEADS * HEAD, WIDTH)


def decoder(attention):
    writer = Writer(np.random.default_rng(11))
    tables, mask = rotary_tables(writer), causal_mask(writer)
    table = writer.matrix("model.embed_tokens.weight", VOCAB, WIDTH)
    x = writer.node("model/embed_tokens", "Gather", [table, "input_ids"])
    for layer in range(LAYERS):
        prefix = f"model/layers.{layer}"
        h = writer.norm(f"{prefix}/input_layernorm", x, WIDTH)
        x = writer.node(prefix, "Add", [x, attention(writer, f"{prefix}/self_attn", h, tables, mask, layer)])
        h = writer.norm(f"{prefix}/post_attention_layernorm", x, WIDTH)
        gate = writer.linear(f"{prefix}/mlp/gate_proj", h, WIDTH, FFN)
        gate = writer.node(f"{prefix}/mlp/act_fn", "Mul",
                           [gate, writer.node(f"{prefix}/mlp/act_fn", "Sigmoid", [gate])])
        up = writer.linear(f"{prefix}/mlp/up_proj", h, WIDTH, FFN)
        down = writer.linear(f"{prefix}/mlp/down_proj", writer.node(f"{prefix}/mlp", "Mul", [gate, up]), FFN, WIDTH)
        x = writer.node(prefix, "Add", [x, down])
    x = writer.norm("model/norm", x, WIDTH)
    head = writer.matrix("lm_head.weight", WIDTH, VOCAB)
    writer.node("lm_head", "MatMul", [x, head], ["logits"])
    return writer


def save(writer, path):
    value = helper.make_tensor_value_info
    inputs = [value(name, TensorProto.INT64, ["batch", "sequence"]) for name in ("input_ids", "position_ids")]
    inputs.append(value("attention_mask", TensorProto.INT64, ["batch", "total"]))
    outputs = [value("logits", TensorProto.FLOAT, ["batch", "sequence", VOCAB])]
    for layer in range(LAYERS):
        for kind in ("key", "value"):
            inputs.append(value(f"past_key_values.{layer}.{kind}", TensorProto.FLOAT,
                                ["batch", KV_HEADS, "past", HEAD]))
            outputs.append(value(f"present.{layer}.{kind}", TensorProto.FLOAT, ["batch", KV_HEADS, "total", HEAD]))
    graph = helper.make_graph(writer.nodes, "decoder", inputs, outputs, writer.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    save(decoder(attention_flat), folder / "llama-opset23-tiny.onnx")
    save(decoder(attention_heads), folder / "qwen3-opset23-tiny.onnx")


main()

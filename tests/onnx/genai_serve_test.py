"""An ONNX Runtime GenAI folder, made here with random weights in the form of its model builder (MatMulNBits,
GroupQueryAttention, RotaryEmbedding inside it, (Skip)SimplifiedLayerNormalization): `tenon run` and `serve`
give onnxruntime's greedy tokens, served to two clients in shared steps of the scheduler.

Needs onnx, onnxruntime and numpy.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

from tiny_exports import TEMPLATE, greedy, ids_of, skip, text_of, write_texts
from tiny_server import PROMPTS, TENON, TOKENS, check_server

HIDDEN, FFN, LAYERS, HEADS, KV_HEADS, HEAD, VOCABULARY, CONTEXT, BLOCK = 64, 96, 2, 4, 2, 16, 64, 64, 32


class Builder:
    def __init__(self, np, onnx, zero_points):
        self.np, self.onnx, self.zero_points = np, onnx, zero_points
        self.random = np.random.default_rng(11)
        self.nodes, self.constants = [], []

    def constant(self, name, array):
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def vector(self, name, size):
        return self.constant(name, (1 + 0.2 * self.random.standard_normal(size)).astype(self.np.float32))

    def node(self, op, inputs, outputs, domain="", **attributes):
        self.nodes.append(self.onnx.helper.make_node(op, inputs, outputs, name=outputs[0] + "/" + op, domain=domain,
                                                     **attributes))
        return outputs[0]

    def nbits(self, name, x, rows, columns):
        """Weights of 4 bits in blocks of 32, multiplied with float activations."""
        np, blocks = self.np, columns // BLOCK
        values = self.random.integers(0, 256, (rows, blocks, BLOCK // 2)).astype(np.uint8)
        scales = (0.01 + 0.05 * self.random.random(rows * blocks)).astype(np.float32)
        inputs = [x, self.constant(name + ".qweight", values), self.constant(name + ".scales", scales)]
        if self.zero_points:
            zeros = self.random.integers(0, 256, rows * ((blocks + 1) // 2)).astype(np.uint8)
            inputs.append(self.constant(name + ".qzeros", zeros))
        return self.node("MatMulNBits", inputs, [name], "com.microsoft", K=columns, N=rows, bits=4,
                         block_size=BLOCK, accuracy_level=1)

    def matmul(self, name, x, rows, columns):
        weight = (0.15 * self.random.standard_normal((columns, rows))).astype(self.np.float32)
        return self.node("MatMul", [x, self.constant(name + ".weight", weight)], [name])

    def layer(self, i, states, normed):
        """The states and the normed states after the layer."""
        at = f"/model/layers.{i}/"
        q = self.nbits(at + "q", normed, HEADS * HEAD, HIDDEN)
        k = self.matmul(at + "k", normed, KV_HEADS * HEAD, HIDDEN)
        v = self.nbits(at + "v", normed, KV_HEADS * HEAD, HIDDEN)
        self.node("GroupQueryAttention", [q, k, v, f"past_key_values.{i}.key", f"past_key_values.{i}.value",
                                          "seqlens", "total", "cos", "sin"],
                  [at + "attn", f"present.{i}.key", f"present.{i}.value"], "com.microsoft", num_heads=HEADS,
                  kv_num_heads=KV_HEADS, do_rotary=1, rotary_interleaved=0, scale=HEAD ** -0.5,
                  local_window_size=-1)
        out = self.nbits(at + "out", at + "attn", HIDDEN, HEADS * HEAD)
        self.skip_norm(at + "middle", states, out)
        gate = self.nbits(at + "gate", at + "middle", FFN, HIDDEN)
        up = self.nbits(at + "up", at + "middle", FFN, HIDDEN)
        silu = self.node("Mul", [gate, self.node("Sigmoid", [gate], [at + "sigmoid"])], [at + "silu"])
        down = self.nbits(at + "down", self.node("Mul", [silu, up], [at + "gated"]), HIDDEN, FFN)
        self.skip_norm(at + "after", at + "middle.sum", down)
        return at + "after.sum", at + "after"

    def skip_norm(self, name, states, added):
        self.node("SkipSimplifiedLayerNormalization", [states, added, self.vector(name + ".norm", HIDDEN)],
                  [name, "", "", name + ".sum"], "com.microsoft", epsilon=1e-5)

    def model(self):
        np, helper = self.np, self.onnx.helper
        i64, f32, i32 = 7, 1, 6
        one = self.constant("one", np.array([1], np.int64))
        self.node("ReduceSum", ["attention_mask", one], ["count"], keepdims=0)
        self.node("Sub", ["count", one], ["before"])
        self.node("Cast", ["before"], ["seqlens"], to=i32)
        self.node("Shape", ["attention_mask"], ["shape"])
        self.node("Gather", ["shape", self.constant("second", np.array(1, np.int64))], ["length"])
        self.node("Cast", ["length"], ["total"], to=i32)
        angles = np.arange(CONTEXT)[:, None] * 10000.0 ** (-2.0 * np.arange(HEAD // 2) / HEAD)
        self.constant("cos", np.cos(angles).astype(np.float32))
        self.constant("sin", np.sin(angles).astype(np.float32))
        table = self.random.standard_normal((VOCABULARY, HIDDEN)).astype(np.float32)
        states = self.node("Gather", [self.constant("table", table), "input_ids"], ["embedded"])
        normed = self.node("SimplifiedLayerNormalization", [states, self.vector("first.norm", HIDDEN)], ["first"],
                           axis=-1, epsilon=1e-5, stash_type=1)
        for i in range(LAYERS):
            states, normed = self.layer(i, states, normed)
        self.matmul("logits", normed, VOCABULARY, HIDDEN)
        value = helper.make_tensor_value_info
        names = [f"{i}.{kind}" for i in range(LAYERS) for kind in ("key", "value")]
        inputs = [value("input_ids", i64, ["batch", "sequence"]), value("attention_mask", i64, ["batch", "total"])]
        inputs += [value(f"past_key_values.{name}", f32, ["batch", KV_HEADS, "past", HEAD]) for name in names]
        outputs = [value("logits", f32, ["batch", "sequence", VOCABULARY])]
        outputs += [value(f"present.{name}", f32, ["batch", KV_HEADS, "all", HEAD]) for name in names]
        graph = helper.make_graph(self.nodes, "decoder", inputs, outputs, self.constants)
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def write_folder(np, onnx, folder, zero_points):
    write_texts(folder, {}, TEMPLATE)
    (folder / "config.json").unlink()
    decoder = {"filename": "model.onnx", "head_size": HEAD, "hidden_size": HIDDEN, "num_attention_heads": HEADS,
               "num_hidden_layers": LAYERS, "num_key_value_heads": KV_HEADS}
    (folder / "genai_config.json").write_text(json.dumps({"model": {
        "type": "llama", "vocab_size": VOCABULARY, "context_length": CONTEXT, "bos_token_id": 0,
        "eos_token_id": 0, "decoder": decoder}}))
    onnx.save(Builder(np, onnx, zero_points).model(), folder / "model.onnx")


def check(np, onnx, onnxruntime, folder, zero_points):
    write_folder(np, onnx, folder, zero_points)
    wanted = [greedy(folder / "model.onnx", np, onnxruntime, ids_of(prompt), TOKENS) for prompt in PROMPTS]
    problems = []
    for prompt, tokens in zip(PROMPTS, wanted):
        done = subprocess.run([TENON, "run", str(folder), "-p", prompt, "-n", str(TOKENS), "--temp", "0", "--raw",
                               "--ignore-eos", "--reference", "--json"], capture_output=True, text=True,
                              timeout=60, check=False)
        found = json.loads(done.stdout)["token_ids"] if done.returncode == 0 else done.stderr
        if found != tokens:
            problems.append(f"{folder.name}: {found}, onnxruntime's {tokens}")
    if len({token for tokens in wanted for token in tokens}) < 6:
        problems.append(f"{folder.name}: the weights say too little: {wanted}")
    return problems or check_server(folder.name, folder, [text_of(tokens) for tokens in wanted])


def main():
    try:
        import numpy as np
        import onnx
        import onnxruntime
    except ImportError as error:
        skip(f"the Python package {error.name} is not installed")
    problems = []
    with tempfile.TemporaryDirectory() as name:
        for zero_points in (False, True):
            folder = pathlib.Path(name, "zero-points" if zero_points else "symmetric")
            problems += check(np, onnx, onnxruntime, folder, zero_points)
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


main()

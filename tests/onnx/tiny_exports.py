"""Folders of small exports with random weights (tests/data/onnx, made by make_exports.py), and what
onnxruntime makes of them. A tokenizer has one token a character, "0" to "o"."""
import json
import pathlib
import sys

DATA = pathlib.Path(__file__).parent.parent / "data" / "onnx"
# As in make_exports.py.
LLAMA = {"architectures": ["LlamaForCausalLM"], "vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48,
         "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
         "tie_word_embeddings": False, "eos_token_id": 0}
GPT2 = {"architectures": ["GPT2LMHeadModel"], "vocab_size": 64, "n_embd": 32, "n_layer": 2, "n_head": 4,
        "n_inner": None, "n_positions": 32, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new",
        "eos_token_id": 0}
QWEN3 = LLAMA | {"architectures": ["Qwen3ForCausalLM"], "head_dim": 8}
# Both exporters of torch, and both ways in which transformers writes attention; then operator set 23, where
# attention (and in make_opset23.py's norms and rotations) are operators.
DECODERS = {"llama-tiny": LLAMA, "gpt2-tiny": GPT2, "llama-sdpa-tiny": LLAMA, "llama-dynamo-tiny": LLAMA,
            "qwen3-dynamo-tiny": QWEN3, "llama-opset23-tiny": LLAMA, "qwen3-opset23-tiny": QWEN3}
TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}:{% endif %}"


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def ids_of(text):
    return [ord(letter) - 48 for letter in text]


def text_of(ids):
    return "".join(chr(48 + i) for i in ids)


def write_texts(folder, config, template=None):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    vocabulary = {chr(48 + i): i for i in range(64)}
    (folder / "tokenizer.json").write_text(json.dumps(
        {"decoder": {"type": "Fuse"}, "model": {"type": "BPE", "vocab": vocabulary, "merges": []}}))
    if template is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))


def greedy(path, np, onnxruntime, ids, count):
    """The tokens that onnxruntime's logits choose."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    inputs = {value.name: value for value in session.get_inputs()}
    names = [value.name for value in session.get_outputs()]
    past, cache, tokens = 0, {}, []
    for _ in range(count):
        feeds = {"input_ids": np.array([ids]), "attention_mask": np.ones((1, past + len(ids)), np.int64),
                 "position_ids": np.arange(past, past + len(ids))[None]}
        feeds = {name: value for name, value in feeds.items() if name in inputs}
        for name, value in inputs.items():
            if name.startswith("past_key_values"):
                feeds[name] = cache.get(name, np.zeros([1, value.shape[1], 0, value.shape[3]], np.float32))
        found = dict(zip(names, session.run(None, feeds)))
        past += len(ids)
        cache = {name.replace("present", "past_key_values"): value for name, value in found.items()}
        ids = [int(np.argmax(found["logits"][0, -1]))]
        tokens.append(ids[0])
    return tokens

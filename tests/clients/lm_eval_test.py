#!/usr/bin/env python3
"""lm-evaluation-harness's local-completions on tasks of our own, offline: log-likelihoods (echo with logprobs,
token-array prompts), perplexity and generate_until, with the server's tokenizer. Skipped without lm_eval, which is
large; `pip install 'lm-eval[api]'`, or LM_EVAL_PYTHON names a Python that has it."""
import json
import os
import sys
import tempfile
import unittest

_LM_EVAL_PYTHON = os.environ.get("LM_EVAL_PYTHON", "")
if os.path.exists(_LM_EVAL_PYTHON) and os.environ.get("LM_EVAL_STARTED") != _LM_EVAL_PYTHON:
    os.environ["LM_EVAL_STARTED"] = _LM_EVAL_PYTHON
    os.environ["TENON_PYTHON"] = ""  # that one has the packages
    os.execv(_LM_EVAL_PYTHON, [_LM_EVAL_PYTHON, *sys.argv])
os.environ.update(HF_DATASETS_OFFLINE="1", HF_HUB_OFFLINE="1", HF_EVALUATE_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

from tenon_server import MODEL, ServerTest, main, require  # noqa: E402 (the environment comes first)

lm_eval = require("lm_eval")
tasks = require("lm_eval.tasks")

CHOICES = [("The capital of France is", [" Paris", " Banana"], 0), ("Two plus two is", [" purple", " four"], 1),
           ("The opposite of hot is", [" cold", " keyboard"], 0), ("Once upon a", [" time", " xylophone"], 0)]
PROMPTS = ["The capital of France is", "Water is made of", "A list of colours: red, green,"]

TASK = """
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
num_fewshot: 0
doc_to_text: question
target_delimiter: ""
"""
CHOICE = """
output_type: multiple_choice
doc_to_choice: choices
doc_to_target: answer
metric_list: [{metric: acc}]
"""
GENERATE = """
output_type: generate_until
doc_to_target: answer
generation_kwargs: {until: ["\\n", "."], max_gen_toks: 12, temperature: 0}
metric_list: [{metric: bypass}]
"""


class LmEvalTest(ServerTest):
    flags = ("-q",)

    def evaluate(self, name, rest, items):
        """The harness's result of one task: its figures, and what the server was asked and said."""
        with tempfile.TemporaryDirectory() as folder:
            data = os.path.join(folder, "items.jsonl")
            with open(data, "w", encoding="utf-8") as file:
                file.writelines(json.dumps(item) + "\n" for item in items)
            with open(os.path.join(folder, f"{name}.yaml"), "w", encoding="utf-8") as file:
                file.write(TASK.format(name=name, data=data) + rest)
            manager = tasks.TaskManager(include_path=folder, include_defaults=False)
            os.environ["HF_DATASETS_CACHE"] = folder
            return lm_eval.simple_evaluate(
                model="local-completions", tasks=[name], task_manager=manager, log_samples=True, bootstrap_iters=0,
                model_args={"model": MODEL, "base_url": f"{self.server.url}/v1/completions", "num_concurrent": 2,
                            "max_retries": 1, "max_length": 1024})

    def test_log_likelihoods(self):
        items = [{"question": text, "choices": choices, "answer": answer} for text, choices, answer in CHOICES]
        result = self.evaluate("few_choices", CHOICE, items)
        self.assertEqual(result["results"]["few_choices"]["acc,none"], 1.0, result["results"])
        for sample in result["samples"]["few_choices"]:
            text, choices, _ = CHOICES[sample["doc_id"]]
            for choice, answer in zip(choices, sample["filtered_resps"], strict=True):
                self.assertAlmostEqual(float(answer[0]), self.score(text, choice), places=3)

    def score(self, text, tail):
        """The same by hand: the sum over the tail's tokens."""
        def tokens(part):
            return self.server.json("/tokenize", {"content": part})["tokens"]
        body = {"prompt": tokens(text) + tokens(tail), "max_tokens": 1, "logprobs": 1, "echo": True, "temperature": 0}
        logprobs = self.server.json("/v1/completions", body)["choices"][0]["logprobs"]["token_logprobs"]
        return sum(logprobs[len(tokens(text)):-1])

    def test_generate_until(self):
        result = self.evaluate("few_texts", GENERATE, [{"question": prompt, "answer": ""} for prompt in PROMPTS])
        samples = result["samples"]["few_texts"]
        self.assertEqual(len(samples), len(PROMPTS))
        for sample in samples:
            body = {"prompt": PROMPTS[sample["doc_id"]], "max_tokens": 12, "temperature": 0, "stop": ["\n", "."]}
            self.assertEqual(sample["resps"][0][0], self.server.json("/v1/completions", body)["choices"][0]["text"])
            self.assertGreater(len(sample["resps"][0][0]), 2)


if __name__ == "__main__":
    main()

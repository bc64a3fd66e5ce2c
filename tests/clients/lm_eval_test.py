#!/usr/bin/env python3
"""lm-evaluation-harness against /v1/completions: log-likelihoods (echo with logprobs, token-array prompts) and
generation, on a few items of its own. Skipped without lm_eval, which is large; `pip install 'lm-eval[api]'`."""
import json
import math
import os
import tempfile
import unittest

from tenon_server import ServerTest, main, require

os.environ["HF_DATASETS_OFFLINE"] = os.environ["HF_HUB_OFFLINE"] = "1"
lm_eval = require("lm_eval")
tasks = require("lm_eval.tasks")

ITEMS = [{"question": "The capital of France is", "choices": [" Paris", " Banana"], "answer": 0},
         {"question": "Two plus two is", "choices": [" purple", " four"], "answer": 1},
         {"question": "The opposite of hot is", "choices": [" cold", " keyboard"], "answer": 0},
         {"question": "Once upon a", "choices": [" time", " xylophone"], "answer": 0}]


class LmEvalTest(ServerTest):
    flags = ("-q",)

    def model(self):
        from lm_eval.models.openai_completions import LocalCompletionsAPI
        return LocalCompletionsAPI(model="smollm2-135m-instruct", base_url=f"{self.server.url}/v1/completions",
                                   tokenizer_backend=None, tokenized_requests=False, num_concurrent=1, max_retries=1,
                                   max_length=1024)

    def test_multiple_choice(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "items.json")
            with open(path, "w", encoding="utf-8") as file:
                file.write("\n".join(json.dumps(item) for item in ITEMS))
            task = {"task": "few", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": path}},
                    "test_split": "test", "output_type": "multiple_choice", "doc_to_text": "question",
                    "doc_to_choice": "choices", "doc_to_target": "answer", "target_delimiter": "",
                    "metric_list": [{"metric": "acc"}]}
            model = self.model()
            try:
                results = lm_eval.simple_evaluate(model=model, tasks=[task], bootstrap_iters=0)
            except (AttributeError, NotImplementedError, AssertionError):
                return self.log_likelihoods(model)  # a version that wants a tokenizer for this
            self.assertEqual(results["results"]["few"]["acc,none"], 1.0, results["results"])

    def log_likelihoods(self, _):
        """What the harness asks of the server, without its tokenizer."""
        def score(text, tail):
            body = {"prompt": text + tail, "max_tokens": 1, "logprobs": 1, "echo": True, "temperature": 0}
            logprobs = self.server.json("/v1/completions", body)["choices"][0]["logprobs"]
            return sum(value for value, at in zip(logprobs["token_logprobs"], logprobs["text_offset"])
                       if value is not None and len(text) <= at < len(text + tail))
        for item in ITEMS:
            scores = [score(item["question"], choice) for choice in item["choices"]]
            self.assertTrue(all(math.isfinite(value) and value < 0 for value in scores))
            self.assertEqual(scores.index(max(scores)), item["answer"], item)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""llama-server's own endpoints, as its clients use them."""
import http.client
import json
import time

from tenon_server import MODEL, ServerTest, main

PROMPT = "Once upon a time, there was a little"


class LlamaTest(ServerTest):
    flags = ("-q", "-np", "4")

    def complete(self, **options):
        return self.server.json("/completion", {"prompt": PROMPT, "temperature": 0, "n_predict": 16, **options})

    def events(self, path="/completion", **options):
        """The data of each event; every line of the stream is "data: {...}" or empty."""
        body = {"prompt": PROMPT, "temperature": 0, "n_predict": 16, "stream": True, **options}
        status, headers, data = self.server.call(path, body)
        self.assertEqual(status, 200, data)
        self.assertTrue(headers["Content-Type"].startswith("text/event-stream"))
        lines = [line for line in data.decode().split("\n") if line and not line.startswith(":")]
        self.assertTrue(all(line.startswith("data: {") for line in lines), lines)
        return [json.loads(line[6:]) for line in lines]

    def test_the_text_is_that_of_the_other_endpoint(self):
        answer = self.complete()
        other = self.server.json("/v1/completions", {"prompt": PROMPT, "temperature": 0, "max_tokens": 16})
        self.assertEqual(answer["content"], other["choices"][0]["text"])
        self.assertEqual((answer["stop_type"], answer["tokens_predicted"]), ("limit", 16))
        self.assertEqual(answer["tokens_evaluated"], other["usage"]["prompt_tokens"])
        self.assertEqual(answer["model"], MODEL)
        self.assertEqual(answer["prompt"], PROMPT)
        self.assertEqual(answer["timings"]["predicted_n"], 16)

    def test_a_stream_is_the_whole_answer(self):
        whole = self.complete(return_tokens=True)
        events = self.events()
        self.assertEqual("".join(event["content"] for event in events), whole["content"])
        self.assertEqual([token for event in events for token in event["tokens"]], whole["tokens"])
        self.assertEqual([event["stop"] for event in events], [False] * (len(events) - 1) + [True])
        self.assertEqual(events[-1]["stop_type"], "limit")
        self.assertEqual(self.server.json("/detokenize", {"tokens": whole["tokens"]})["content"], whole["content"])

    def test_stop_seed_and_samplers(self):
        full = self.complete()["content"]
        word = full.split()[2]
        cut = self.complete(stop=[word])
        self.assertEqual((cut["stop_type"], cut["stopping_word"]), ("word", word))
        self.assertEqual(cut["content"], full[:full.index(word)])
        sampled = [self.complete(temperature=1.2, seed=7)["content"] for _ in range(2)]
        self.assertEqual(sampled[0], sampled[1])
        self.assertNotEqual(sampled[0], full)
        self.assertEqual(self.complete(temperature=5, top_k=1, samplers=["top_k", "temperature"])["content"], full)

    def test_token_prompts_and_lists(self):
        tokens = self.server.json("/tokenize", {"content": PROMPT, "add_special": True})["tokens"]
        text = self.complete()["content"]
        self.assertEqual(self.complete(prompt=tokens)["content"], text)
        both = self.complete(prompt=[PROMPT, tokens])
        self.assertEqual([answer["content"] for answer in both], [text, text])
        self.assertEqual([answer["index"] for answer in both], [0, 1])

    def test_the_cache_is_reported(self):
        prompt = "The quick brown fox jumps over the lazy dog. " * 10
        first = self.complete(prompt=prompt, n_predict=1)
        second = self.complete(prompt=prompt, n_predict=1)
        self.assertEqual(first["tokens_cached"], 0)
        self.assertGreater(second["tokens_cached"], 64)
        self.assertEqual(second["timings"]["cache_n"], second["tokens_cached"])
        self.assertEqual(self.complete(prompt=prompt, n_predict=1, cache_prompt=False)["tokens_cached"], 0)

    def test_probabilities_and_forms(self):
        answer = self.complete(n_predict=3, n_probs=4)
        entries = answer["completion_probabilities"]
        self.assertEqual("".join(entry["token"] for entry in entries), answer["content"])
        for entry in entries:
            self.assertEqual(len(entry["top_logprobs"]), 4)
            self.assertEqual(entry["id"], entry["top_logprobs"][0]["id"])  # greedy
        self.assertRegex(self.complete(grammar='root ::= [0-9]{4}')["content"], r"^\d{4}$")
        schema = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}
        self.assertIn("a", json.loads(self.complete(json_schema=schema, n_predict=60)["content"]))

    def test_a_client_that_leaves_frees_its_sequence(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        body = {"prompt": PROMPT, "n_predict": -1, "ignore_eos": True, "stream": True}
        connection.request("POST", "/completion", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        response.read(50)
        # The gauge follows the step, whose first token is here already.
        end = time.monotonic() + 10
        while self.server.metric("tenon_sequences_running") == 0:
            self.assertLess(time.monotonic(), end, "the sequence does not run")
            time.sleep(0.02)
        response.close()
        connection.close()
        self.assertTrue(self.server.wait_idle(10))

    def test_errors_have_llama_servers_shape(self):
        status, _, data = self.server.call("/completion", {"prompt": "word " * 20000})
        error = json.loads(data)["error"]
        self.assertEqual((status, error["type"]), (400, "exceed_context_size_error"))
        self.assertGreater(error["n_prompt_tokens"], error["n_ctx"])
        status, _, data = self.server.call("/infill", {"input_prefix": "a", "input_suffix": "b"})
        self.assertEqual((status, json.loads(data)["error"]["type"]), (501, "not_supported_error"))

    def test_embedding(self):
        mine = self.server.json("/embedding", {"content": ["a cat", "a dog"]})
        other = self.server.json("/v1/embeddings", {"input": ["a cat", "a dog"]})["data"]
        for entry, expected in zip(mine, other, strict=True):
            self.assertEqual((entry["index"], entry["embedding"]), (expected["index"], [expected["embedding"]]))


if __name__ == "__main__":
    main()

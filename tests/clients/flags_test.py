#!/usr/bin/env python3
"""What flags of `tenon serve` change: what the log says of a request, and how long a step is."""
import json
import unittest

from tenon_server import Server, main

PROMPT = "The lighthouse keeper counted"
LONG_TEXT = " ".join(f"word{i} alpha" for i in range(40))


class LogTest(unittest.TestCase):
    def lines(self, *flags):
        """The log's lines about one request, and the answer's text."""
        server = Server(*flags)
        body = {"prompt": PROMPT, "max_tokens": 8, "temperature": 0}
        text = server.json("/v1/completions", body)["choices"][0]["text"]
        self.assertEqual(server.stop(), 0)
        found = [line[line.index("{"):] for line in server.log if '"/v1/completions"' in line]
        return [json.loads(line) for line in found], text, "\n".join(server.log)

    def test_content_is_logged_only_when_asked_for(self):
        lines, text, log = self.lines()
        self.assertEqual(len(lines), 1)
        self.assertEqual(lines[0]["completion_tokens"], 8)
        self.assertNotIn(PROMPT, log)
        self.assertNotIn("answers", lines[0])
        lines, text, log = self.lines("--log-content")
        self.assertEqual(lines[0]["prompts"], [PROMPT])
        self.assertEqual(lines[0]["answers"], [text])


class StepTest(unittest.TestCase):
    def embedding(self, server, text):
        return server.json("/v1/embeddings", {"input": text})["data"][0]["embedding"]

    def test_a_text_longer_than_a_step_has_the_same_embedding(self):
        results = []
        for batch in ("512", "32"):
            server = Server("-q", "-b", batch)
            results.append(self.embedding(server, LONG_TEXT))
            self.assertNotEqual(self.embedding(server, PROMPT), results[-1])
            self.assertEqual(server.stop(), 0)
        self.assertEqual(results[0], results[1])


if __name__ == "__main__":
    main()

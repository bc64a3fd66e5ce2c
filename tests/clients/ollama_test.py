#!/usr/bin/env python3
"""The ollama client."""
import json

from tenon_server import MODEL, ServerTest, main, require

ollama = require("ollama")

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
GREEDY = {"temperature": 0, "num_predict": 16}


class OllamaTest(ServerTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.client = ollama.Client(host=cls.server.url)

    def test_chat_and_its_stream(self):
        whole = self.client.chat(model=MODEL, messages=QUESTION, options=GREEDY)
        self.assertGreater(len(whole.message.content), 10)
        self.assertTrue(whole.done)
        parts = list(self.client.chat(model=MODEL, messages=QUESTION, options=GREEDY, stream=True))
        self.assertEqual("".join(part.message.content for part in parts), whole.message.content)
        self.assertEqual([part.done for part in parts], [False] * (len(parts) - 1) + [True])
        self.assertEqual(parts[-1].eval_count, whole.eval_count)

    def test_generate(self):
        answer = self.client.generate(model=f"{MODEL}:latest", prompt="One, two, three,", raw=True, options=GREEDY)
        self.assertIn("four", answer.response)

    def test_load_and_unload(self):
        for keep_alive, reason in (("5m", "load"), (0, "unload")):
            answer = self.client.generate(model=MODEL, prompt="", keep_alive=keep_alive)
            self.assertEqual((answer.response, answer.done, answer.done_reason), ("", True, reason))
            self.assertEqual(self.client.chat(model=MODEL, messages=[], keep_alive=keep_alive).done_reason, reason)

    def test_tools(self):
        def get_weather(city: str) -> str:
            """The weather.

            Args:
              city: a city
            """
            return city
        messages = QUESTION + [{"role": "assistant", "content": "", "tool_calls": [
            {"function": {"name": "get_weather", "arguments": {"city": "Paris"}}}]},
            {"role": "tool", "tool_name": "get_weather", "content": "Sunny"}]
        answer = self.client.chat(model=MODEL, messages=messages, tools=[get_weather], options=GREEDY)
        self.assertTrue(answer.done)
        self.assertGreater(answer.eval_count, 0)

    def test_embed(self):
        answer = self.client.embed(model=MODEL, input=["a cat", "a dog"])
        self.assertEqual(len(answer.embeddings), 2)
        self.assertAlmostEqual(sum(x * x for x in answer.embeddings[0]), 1, places=3)
        self.assertEqual(len(self.client.embeddings(model=MODEL, prompt="a cat").embedding),
                         len(answer.embeddings[0]))

    def test_models(self):
        self.assertEqual([model.model for model in self.client.list().models], [MODEL])
        self.assertEqual([model.model for model in self.client.ps().models], [MODEL])
        shown = self.client.show(MODEL)
        self.assertEqual(shown.details.family, "llama")
        self.assertIn("completion", shown.capabilities)

    def test_errors(self):
        with self.assertRaises(ollama.ResponseError) as raised:
            self.client.chat(model="other", messages=QUESTION)
        self.assertEqual(raised.exception.status_code, 404)
        with self.assertRaises(ollama.ResponseError) as raised:
            self.client.chat(model=MODEL, messages=QUESTION, format={"type": "array", "uniqueItems": True})
        self.assertEqual(raised.exception.status_code, 400)
        self.assertIn("uniqueItems", str(raised.exception))

    def test_format(self):
        schema = {"type": "object", "properties": {"capital": {"type": "string", "maxLength": 20}},
                  "required": ["capital"], "additionalProperties": False}
        answer = self.client.chat(model=MODEL, messages=QUESTION, format=schema, options={**GREEDY, "num_predict": 64})
        self.assertEqual(list(json.loads(answer.message.content)), ["capital"])


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""The anthropic SDK."""
from tenon_server import MODEL, ServerTest, main, require

anthropic = require("anthropic")

GREEDY = {"temperature": 0}  # the SDK has no argument for it
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


class AnthropicTest(ServerTest):
    flags = ("--api-key", "secret")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.client = anthropic.Anthropic(base_url=cls.server.url, api_key="secret", max_retries=0)

    def test_message(self):
        message = self.client.messages.create(model=MODEL, max_tokens=16, messages=QUESTION, extra_body=GREEDY)
        self.assertEqual(message.role, "assistant")
        self.assertGreater(len(message.content[0].text), 10)
        self.assertGreater(message.usage.output_tokens, 0)

    def test_stream_is_the_whole_message(self):
        whole = self.client.messages.create(model=MODEL, max_tokens=16, messages=QUESTION, extra_body=GREEDY,
                                            system="Be brief.")
        with self.client.messages.stream(model=MODEL, max_tokens=16, messages=QUESTION, extra_body=GREEDY,
                                         system="Be brief.") as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        self.assertEqual(text, whole.content[0].text)
        self.assertEqual(final.stop_reason, whole.stop_reason)
        self.assertEqual(final.usage.output_tokens, whole.usage.output_tokens)

    def test_stop_sequence(self):
        def ask(**options):
            return self.client.messages.create(model=MODEL, max_tokens=16, messages=QUESTION, extra_body=GREEDY,
                                               **options)
        full = ask().content[0].text
        stop = full[5:10]
        message = ask(stop_sequences=[stop])
        self.assertEqual((message.stop_reason, message.stop_sequence), ("stop_sequence", stop))
        self.assertEqual(message.content[0].text, full[:full.index(stop)])

    def test_tool_use_whole_and_streamed(self):
        tool = {"name": "get_weather", "description": "The weather", "input_schema": {
            "type": "object", "properties": {"city": {"type": "string", "maxLength": 12}}, "required": ["city"],
            "additionalProperties": False}}
        options = {"model": MODEL, "max_tokens": 80, "messages": QUESTION, "tools": [tool], "extra_body": GREEDY,
                   "tool_choice": {"type": "tool", "name": "get_weather"}}
        message = self.client.messages.create(**options)
        self.assertEqual(message.stop_reason, "tool_use")
        block = message.content[-1]
        self.assertEqual((block.type, block.name, list(block.input)), ("tool_use", "get_weather", ["city"]))
        with self.client.messages.stream(**options) as stream:
            streamed = stream.get_final_message()
        self.assertEqual(streamed.content[-1].input, block.input)
        messages = QUESTION + [{"role": "assistant", "content": [block.model_dump()]},
                               {"role": "user", "content": [{"type": "tool_result", "tool_use_id": block.id,
                                                             "content": "Sunny"}]}]
        answer = self.client.messages.create(model=MODEL, max_tokens=4, messages=messages, tools=[tool])
        self.assertGreater(answer.usage.output_tokens, 0)

    def test_count_tokens(self):
        count = self.client.messages.count_tokens(model=MODEL, messages=QUESTION)
        message = self.client.messages.create(model=MODEL, max_tokens=1, messages=QUESTION)
        usage = message.usage
        self.assertEqual(count.input_tokens, usage.input_tokens + usage.cache_read_input_tokens)

    def test_errors_are_typed(self):
        with self.assertRaises(anthropic.BadRequestError) as raised:
            self.client.messages.create(model=MODEL, max_tokens=1, messages=QUESTION, extra_body={"what": 1})
        self.assertIn("what", str(raised.exception))
        with self.assertRaises(anthropic.NotFoundError):
            self.client.messages.create(model="other", max_tokens=1, messages=QUESTION)
        wrong = anthropic.Anthropic(base_url=self.server.url, api_key="wrong", max_retries=0)
        with self.assertRaises(anthropic.AuthenticationError):
            wrong.messages.create(model=MODEL, max_tokens=1, messages=QUESTION)


if __name__ == "__main__":
    main()

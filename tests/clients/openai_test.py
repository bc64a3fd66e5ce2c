#!/usr/bin/env python3
"""The openai SDK, with its typed answers and streams."""
import json
import math
import unittest

from tenon_server import MODEL, ServerTest, main, require

openai = require("openai")

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


class OpenAiTest(ServerTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.client = openai.OpenAI(base_url=f"{cls.server.url}/v1", api_key="none", max_retries=0)

    def chat(self, **options):
        return self.client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=0, **options)

    def test_chat(self):
        answer = self.chat(max_tokens=16)
        self.assertEqual(answer.object, "chat.completion")
        self.assertGreater(len(answer.choices[0].message.content), 10)
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens)
        self.assertLessEqual(answer.usage.completion_tokens, 16)

    def test_stream_is_the_whole_answer(self):
        whole = self.chat(max_tokens=24).choices[0]
        text, reason, usage, roles = "", None, None, []
        for chunk in self.chat(max_tokens=24, stream=True, stream_options={"include_usage": True}):
            if chunk.usage:
                usage = chunk.usage
                continue
            choice = chunk.choices[0]
            text += choice.delta.content or ""
            roles.append(choice.delta.role)
            reason = choice.finish_reason or reason
        self.assertEqual(text, whole.message.content)
        self.assertEqual(reason, whole.finish_reason)
        self.assertEqual(roles[0], "assistant")
        self.assertGreater(usage.completion_tokens, 0)

    def test_stop_is_never_in_the_text(self):
        full = self.chat(max_tokens=24).choices[0].message.content
        stop = full[10:15]
        cut = self.chat(max_tokens=24, stop=[stop])
        self.assertEqual(cut.choices[0].message.content, full[:full.index(stop)])
        self.assertEqual(cut.choices[0].finish_reason, "stop")
        pieces = [chunk.choices[0].delta.content or "" for chunk in
                  self.chat(max_tokens=24, stop=stop, stream=True)]
        self.assertEqual("".join(pieces), full[:full.index(stop)])

    def test_seed_and_choices(self):
        def sample(**options):
            answer = self.client.chat.completions.create(
                model=MODEL, messages=QUESTION, temperature=1, max_tokens=12, **options)
            return [choice.message.content for choice in answer.choices]
        self.assertEqual(sample(seed=5), sample(seed=5))
        two = sample(seed=5, n=2)
        self.assertEqual(len(two), 2)
        self.assertNotEqual(two[0], two[1])

    def test_chat_logprobs(self):
        choice = self.chat(max_tokens=5, logprobs=True, top_logprobs=3).choices[0]
        self.assertEqual(len(choice.logprobs.content), 5)
        for token in choice.logprobs.content:
            self.assertEqual(len(token.top_logprobs), 3)
            self.assertLessEqual(token.logprob, 0)
            self.assertEqual(token.token, token.top_logprobs[0].token)  # greedy
        text = b"".join(bytes(token.bytes) for token in choice.logprobs.content)
        self.assertEqual(text.decode(), choice.message.content)

    def test_banned_token(self):
        first = self.chat(max_tokens=1, logprobs=True, top_logprobs=2).choices[0].logprobs.content[0]
        ids = self.server.json("/tokenize", {"content": first.token})["tokens"]
        other = self.chat(max_tokens=1, logit_bias={str(ids[0]): -100}).choices[0].message.content
        self.assertEqual(other, first.top_logprobs[1].token)

    def test_completions_echo_and_logprobs(self):
        prompt = "The capital of France is"
        answer = self.client.completions.create(model=MODEL, prompt=prompt, max_tokens=2, temperature=0,
                                                echo=True, logprobs=1)
        choice = answer.choices[0]
        self.assertTrue(choice.text.startswith(prompt))
        self.assertEqual("".join(choice.logprobs.tokens), choice.text)
        self.assertIsNone(choice.logprobs.token_logprobs[0])
        self.assertEqual(len(choice.logprobs.token_logprobs), len(choice.logprobs.tokens))
        self.assertTrue(all(value <= 0 for value in choice.logprobs.token_logprobs[1:]))
        self.assertEqual(choice.logprobs.text_offset[:3], [0, 3, 11])

    def test_completions_of_a_list_of_token_prompts(self):
        prompts = [self.server.json("/tokenize", {"content": text})["tokens"] for text in ("One, two,", "A, B,")]
        answer = self.client.completions.create(model=MODEL, prompt=prompts, max_tokens=4, temperature=0)
        self.assertEqual([choice.index for choice in answer.choices], [0, 1])
        single = self.client.completions.create(model=MODEL, prompt="A, B,", max_tokens=4, temperature=0)
        self.assertEqual(answer.choices[1].text, single.choices[0].text)

    def test_second_turn_finds_the_first_in_the_cache(self):
        messages = [{"role": "user", "content": "Name three colours. " * 20}]
        first = self.client.chat.completions.create(model=MODEL, messages=messages, max_tokens=16, temperature=0)
        messages += [{"role": "assistant", "content": first.choices[0].message.content},
                     {"role": "user", "content": "And three more."}]
        second = self.client.chat.completions.create(model=MODEL, messages=messages, max_tokens=4, temperature=0)
        cached = second.usage.prompt_tokens_details.cached_tokens
        # Whole blocks of 32 tokens are found again.
        self.assertGreaterEqual(cached, first.usage.prompt_tokens // 32 * 32)

    def test_embeddings(self):
        answer = self.client.embeddings.create(model=MODEL, input=["a cat", "a small cat", "tax law"])
        vectors = [item.embedding for item in answer.data]
        self.assertEqual(len(vectors), 3)
        for vector in vectors:
            self.assertAlmostEqual(math.sqrt(sum(x * x for x in vector)), 1, places=3)
        dot = lambda a, b: sum(x * y for x, y in zip(a, b, strict=True))
        self.assertGreater(dot(vectors[0], vectors[1]), dot(vectors[0], vectors[2]))
        plain = self.client.embeddings.create(model=MODEL, input="a cat", encoding_format="float")
        self.assertLess(max(abs(a - b) for a, b in zip(plain.data[0].embedding, vectors[0], strict=True)), 1e-5)

    def test_models(self):
        self.assertIn(MODEL, [model.id for model in self.client.models.list()])
        self.assertEqual(self.client.models.retrieve(MODEL).id, MODEL)
        with self.assertRaises(openai.NotFoundError):
            self.client.models.retrieve("nothing")

    def test_responses(self):
        options = {"model": MODEL, "input": "Count to ten.", "instructions": "Answer briefly.", "temperature": 0,
                   "extra_body": {"stop": [" "]}}
        answer = self.client.responses.create(**options)
        self.assertEqual(answer.status, "completed")
        self.assertGreater(len(answer.output_text), 0)
        text, last = "", None
        for event in self.client.responses.create(**options, stream=True):
            if event.type == "response.output_text.delta":
                text += event.delta
            last = event
        self.assertEqual(text, answer.output_text)
        self.assertEqual(last.type, "response.completed")
        self.assertEqual(last.response.output_text, text)

    def test_responses_stream_helper(self):
        with self.client.responses.stream(model=MODEL, input="Say hi.", temperature=0,
                                          extra_body={"stop": [" "]}) as stream:
            for _ in stream:
                pass
            self.assertEqual(stream.get_final_response().status, "completed")
        cut = self.client.responses.create(model=MODEL, input="Say hi.", max_output_tokens=2)
        self.assertEqual((cut.status, cut.incomplete_details.reason), ("incomplete", "max_output_tokens"))

    def test_tool_calls_whole_and_streamed(self):
        tool = {"type": "function", "function": {"name": "get_weather", "parameters": {
            "type": "object", "properties": {"city": {"type": "string", "maxLength": 12}}, "required": ["city"],
            "additionalProperties": False}}}
        options = {"tools": [tool], "tool_choice": "required", "max_tokens": 80}
        choice = self.chat(**options).choices[0]
        self.assertEqual(choice.finish_reason, "tool_calls")
        call, = choice.message.tool_calls
        self.assertEqual((call.type, call.function.name), ("function", "get_weather"))
        self.assertEqual(list(json.loads(call.function.arguments)), ["city"])
        name, arguments, ids, reason = "", "", set(), None
        for chunk in self.chat(**options, stream=True):
            for part in chunk.choices[0].delta.tool_calls or []:
                self.assertEqual(part.index, 0)
                name += part.function.name or ""
                arguments += part.function.arguments or ""
                ids.add(part.id)
            reason = chunk.choices[0].finish_reason or reason
        self.assertEqual((name, arguments, reason), ("get_weather", call.function.arguments, "tool_calls"))
        self.assertEqual(len(ids - {None}), 1)
        # The result goes back, and an answer follows.
        messages = QUESTION + [choice.message.model_dump(exclude_none=True),
                               {"role": "tool", "tool_call_id": call.id, "content": "Sunny"}]
        answer = self.client.chat.completions.create(model=MODEL, messages=messages, tools=[tool], max_tokens=4)
        self.assertGreater(answer.usage.completion_tokens, 0)

    def test_errors_are_typed(self):
        with self.assertRaises(openai.BadRequestError) as raised:
            self.chat(extra_body={"temprature": 1})
        self.assertEqual(raised.exception.param, "temprature")
        with self.assertRaises(openai.BadRequestError) as raised:
            self.client.completions.create(model=MODEL, prompt="word " * 20000)
        self.assertEqual(raised.exception.code, "context_length_exceeded")
        with self.assertRaises(openai.NotFoundError):
            self.client.chat.completions.create(model="gpt-9", messages=QUESTION)


class KeyTest(ServerTest):
    flags = ("--api-key", "secret", "--alias", "*")

    def test_key_and_any_model_name(self):
        with self.assertRaises(openai.AuthenticationError):
            openai.OpenAI(base_url=f"{self.server.url}/v1", api_key="wrong", max_retries=0).models.list()
        client = openai.OpenAI(base_url=f"{self.server.url}/v1", api_key="secret", max_retries=0)
        answer = client.chat.completions.create(model="gpt-9", messages=QUESTION, max_tokens=1)
        self.assertEqual(answer.model, "gpt-9")
        self.assertEqual(self.server.call("/health")[0], 200)
        self.assertEqual(self.server.call("/metrics")[0], 401)


if __name__ == "__main__":
    main()

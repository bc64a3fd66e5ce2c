#!/usr/bin/env python3
"""A Python gRPC client that knows nothing but the server's address: its stubs come by reflection."""
import re
import socket
import time
import unittest

from tenon_server import MODEL, ServerTest, main, require

grpc = require("grpc")
reflection = require("grpc_reflection.v1alpha.proto_reflection_descriptor_database")
health_pb2 = require("grpc_health.v1.health_pb2")
health_pb2_grpc = require("grpc_health.v1.health_pb2_grpc")
descriptor_pool = require("google.protobuf.descriptor_pool")
message_factory = require("google.protobuf.message_factory")

SERVICE = "tenon.v1.Tenon"
KEY = "k3y"
PROMPT = "The capital of France is"
MESSAGES = [{"role": "user", "content": "What is the capital of France?"}]


class Client:
    """Calls by name; messages as keyword arguments."""

    def __init__(self, port, key=KEY):
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        self.database = reflection.ProtoReflectionDescriptorDatabase(self.channel)
        self.pool = descriptor_pool.DescriptorPool(self.database)
        self.service = self.pool.FindServiceByName(SERVICE)
        self.metadata = [("authorization", f"Bearer {key}")] if key else []

    def close(self):
        self.channel.close()

    def call(self, name, timeout=120, metadata=None, **fields):
        method = self.service.methods_by_name[name]
        request = message_factory.GetMessageClass(method.input_type)(**fields)
        response = message_factory.GetMessageClass(method.output_type)
        kind = self.channel.unary_stream if method.server_streaming else self.channel.unary_unary
        invoke = kind(f"/{SERVICE}/{name}", request_serializer=lambda m: m.SerializeToString(),
                      response_deserializer=response.FromString)
        return invoke(request, timeout=timeout, metadata=self.metadata if metadata is None else metadata)


def text_of(events, choice=0):
    return "".join(event.piece.text for event in events if event.piece.choice == choice)


class GrpcTest(ServerTest):
    @classmethod
    def setUpClass(cls):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        cls.flags = ("--grpc-port", str(port), "--api-key", KEY, "--parallel", "4")
        super().setUpClass()
        cls.client = Client(port)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        super().tearDownClass()

    def http(self, path, body):
        return self.server.json(path, body, headers={"Authorization": f"Bearer {KEY}"})

    def running(self):
        _, _, data = self.server.call("/metrics", headers={"Authorization": f"Bearer {KEY}"})
        return float(re.search(r"^tenon_sequences_running (\S+)", data.decode(), re.M)[1])

    def wait_idle(self):
        end = time.monotonic() + 30
        while self.running() > 0:
            self.assertLess(time.monotonic(), end, "a sequence still runs")
            time.sleep(0.05)

    def fails(self, code, stream):
        with self.assertRaises(grpc.RpcError) as failed:
            list(stream)
        self.assertEqual(failed.exception.code(), code, failed.exception.details())
        return failed.exception.details()

    def test_generate_gives_the_text_of_http(self):
        expected = self.http("/v1/completions", {"prompt": PROMPT, "temperature": 0, "max_tokens": 24})
        tokens = self.http("/tokenize", {"content": PROMPT, "add_special": True})["tokens"]
        for prompt in ({"text": PROMPT}, {"tokens": {"ids": tokens}}):
            events = list(self.client.call("Generate", sampling={"temperature": 0, "max_tokens": 24}, **prompt))
            self.assertEqual(text_of(events), expected["choices"][0]["text"], prompt)
            self.assertEqual(events[0].WhichOneof("event"), "started")
            self.assertEqual(events[0].started.prompt_tokens, expected["usage"]["prompt_tokens"])
            self.assertGreater(sum(event.HasField("piece") for event in events), 4)
            self.assertEqual(events[-1].finished.completion_tokens, 24)
            self.assertGreater(events[-1].finished.timings.total_s, 0)

    def test_chat_gives_the_text_of_http(self):
        expected = self.http("/v1/chat/completions",
                             {"messages": MESSAGES, "temperature": 0, "max_tokens": 24})["choices"][0]
        events = list(self.client.call("Chat", model=MODEL, messages=MESSAGES,
                                       sampling={"temperature": 0, "max_tokens": 24}))
        self.assertEqual(text_of(events), expected["message"]["content"])
        self.assertGreater(len(text_of(events)), 10)

    def test_answers_of_a_form(self):
        schema = '{"type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "boolean"}}, "required": ["b", "a"]}'
        forms = [({"json": schema}, r'^\{\s*"b"\s*:\s*-?\d+,\s*"a"\s*:\s*(true|false)\s*\}$'),
                 ({"regex": "[a-z]{3}-[0-9]{2}"}, r"^[a-z]{3}-\d\d$"),
                 ({"choice": ["yes", "no"]}, "^(yes|no)$"),
                 ({"grammar": 'root ::= "<" [A-Z]+ ">"'}, "^<[A-Z]+>$")]
        for form, pattern in forms:
            for name, fields in (("Generate", {"text": PROMPT}), ("Chat", {"messages": MESSAGES})):
                events = list(self.client.call(name, structured_outputs=form, **fields, sampling={
                    "temperature": 1, "seed": 2, "max_tokens": 400}))
                self.assertRegex(text_of(events), pattern, form)
        invalid = grpc.StatusCode.INVALID_ARGUMENT
        for form, field in (({"json": '{"not": {}}'}, "structured_outputs.json.not"), ({"json": "{"}, "structured_outputs.json"),
                            ({"regex": "("}, "structured_outputs.regex"), ({"choice": [""]}, "structured_outputs.choice"),
                            ({"grammar": "x"}, "structured_outputs.grammar"),
                            ({"regex": "a", "grammar": 'root ::= "a"'}, "structured_outputs.grammar")):
            self.assertIn(field, self.fails(invalid, self.client.call("Generate", text="a", structured_outputs=form)))

    def test_choices_and_logprobs(self):
        events = list(self.client.call("Generate", text=PROMPT, logprobs=3,
                                       sampling={"temperature": 1, "seed": 5, "n": 2, "max_tokens": 8}))
        for choice in (0, 1):
            pieces = [event.piece for event in events if event.HasField("piece") and event.piece.choice == choice]
            logprobs = [entry for piece in pieces for entry in piece.logprobs]
            self.assertEqual(len(logprobs), 8)
            self.assertTrue(all(len(entry.top) == 3 and entry.logprob <= 0 for entry in logprobs))
            self.assertEqual(b"".join(entry.piece for entry in logprobs).decode(), text_of(events, choice))
        self.assertNotEqual(text_of(events, 0), text_of(events, 1))

    def test_embed(self):
        expected = self.http("/v1/embeddings", {"input": ["the sea", "a tree"]})["data"]
        answer = self.client.call("Embed", inputs=[{"text": "the sea"}, {"text": "a tree"}])
        for mine, other in zip(answer.embeddings, expected, strict=True):
            self.assertAlmostEqual(sum(value * value for value in mine.values), 1, places=4)
            for a, b in zip(mine.values, other["embedding"], strict=True):
                self.assertAlmostEqual(a, b, places=4)

    def test_tokens_and_models(self):
        text = "Hello, wörld! 🙂"
        answer = self.client.call("Tokenize", text=text)
        self.assertEqual(list(answer.tokens), self.http("/tokenize", {"content": text})["tokens"])
        self.assertEqual(b"".join(answer.pieces).decode(), text)
        self.assertEqual(self.client.call("Detokenize", tokens=answer.tokens).text, text)
        models = self.client.call("Models").models
        self.assertEqual([model.name for model in models], [MODEL])
        self.assertGreater(models[0].context_tokens, 0)

    def test_cancel_frees_the_sequence(self):
        stream = self.client.call("Generate", text="Once upon a time", sampling={"max_tokens": 2000, "ignore_eos": True})
        for event in stream:
            if event.HasField("piece"):
                break
        end = time.monotonic() + 5  # the gauge follows the step that the piece came from
        while self.running() != 1:
            self.assertLess(time.monotonic(), end, "no sequence runs")
        stream.cancel()
        self.wait_idle()

    def test_a_deadline_frees_the_sequence(self):
        self.fails(grpc.StatusCode.DEADLINE_EXCEEDED,
                   self.client.call("Generate", timeout=1, text="Once upon a time",
                                    sampling={"max_tokens": 4000, "ignore_eos": True}))
        self.wait_idle()

    def test_keys(self):
        for metadata in ([], [("authorization", "Bearer wrong")], [("authorization", KEY)]):
            self.fails(grpc.StatusCode.UNAUTHENTICATED,
                       self.client.call("Generate", metadata=metadata, text="a"))
            with self.assertRaises(grpc.RpcError) as failed:
                self.client.call("Models", metadata=metadata)
            self.assertEqual(failed.exception.code(), grpc.StatusCode.UNAUTHENTICATED)

    def test_wrong_arguments_are_named(self):
        invalid = grpc.StatusCode.INVALID_ARGUMENT
        self.assertIn("temperature", self.fails(invalid, self.client.call(
            "Generate", text="a", sampling={"temperature": -1})))
        self.assertIn("prompt", self.fails(invalid, self.client.call("Generate")))
        self.assertIn("messages", self.fails(invalid, self.client.call("Chat")))
        self.assertIn("context", self.fails(invalid, self.client.call("Generate", text="a b " * 20000)))
        self.assertIn("nobody", self.fails(grpc.StatusCode.NOT_FOUND,
                                           self.client.call("Generate", model="nobody", text="a")))

    def test_health(self):
        stub = health_pb2_grpc.HealthStub(self.client.channel)
        for service in ("", SERVICE):
            answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=30)
            self.assertEqual(answer.status, health_pb2.HealthCheckResponse.SERVING, service)

    def test_reflection(self):
        self.assertIn(SERVICE, self.client.database.get_services())
        self.assertEqual(sorted(self.client.service.methods_by_name),
                         ["Chat", "Detokenize", "Embed", "Generate", "Models", "Tokenize"])


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What a public server meets: broken input, too many clients, clients that leave, signals."""
import concurrent.futures
import json
import random
import shutil
import signal
import socket
import subprocess
import time
import unittest

from tenon_server import Server, ServerTest, main

CHAT = "/v1/chat/completions"


def question(text="Hi", **options):
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 4, "temperature": 0, **options}


# Body, and what the message must name.
BROKEN = [
    (b"", "byte"),
    (b"{", "byte"),
    (b'{"messages":[{"role":"user","content":"\xff\xfe"}]}', "byte"),
    (b'{"messages":[{"role":"user","content":"\xc4\xe3\xba\xc3"}]}', "byte"),  # GBK
    (b"[" * 100_000, "deeper"),
    (b'{"a":' * 100_000, "deeper"),
    (b"[" * 100_000 + b"]" * 100_000, "deeper"),
    (b"null", "object"),
    (b"[]", "object"),
    (b'"text"', "object"),
    (b'{"messages":null}', "messages"),
    (b'{"messages":[{"role":"user","content":"x"}],"stream":"true"}', "stream"),
    (b'{"messages":[{"role":"user","content":"x"}],"max_tokens":1e400}', "byte"),
    (b'{"messages":[{"role":"user","content":"x"}],"temperature":NaN}', "byte"),
    (b'{"messages":[{"role":"user","content":"x"}],"seed":1,"seed":2}', "twice"),
    (b'{"messages":[{"role":"user","content":"x"}],"tools":' + b'[{"a":' * 60 + b"1" + b"}]" * 60 + b"}", "tools"),
    (json.dumps({"messages": [], "stop": ["x"] * 5000}).encode(), "messages"),
    (json.dumps(question(stop=["x"] * 5000)).encode(), "stop"),
    (json.dumps(question(stop=[""])).encode(), "stop"),
    (json.dumps(question(logit_bias={str(i): 1 for i in range(5000)})).encode(), "logit_bias"),
    (json.dumps(question("word " * 20_000)).encode(), "20"),
    (json.dumps(question(response_format={"type": "json_schema", "json_schema": {"schema": {"not": {}}}})).encode(), "'not'"),
]


class InputTest(ServerTest):
    flags = ("--metrics-aliases",)

    def test_broken_input_is_a_400_that_names_it_and_the_server_lives(self):
        for body, expected in BROKEN:
            status, _, data = self.server.call(CHAT, body)
            self.assertEqual(status, 400, (body[:60], data[:200]))
            self.assertIn(expected, json.loads(data)["error"]["message"], body[:60])
        self.server.json(CHAT, question())

    def test_unknown_paths_and_methods(self):
        self.assertEqual(self.server.call("/v1/nothing")[0], 404)
        status, headers, _ = self.server.call(CHAT)
        self.assertEqual(status, 405)
        self.assertIn("POST", headers["Allow"])

    def test_health_props_slots(self):
        self.assertEqual(self.server.json("/health"), {"status": "ok"})
        props = self.server.json("/props")
        self.assertIn("im_start", props["chat_template"])
        self.assertEqual(len(self.server.json("/slots")), props["total_slots"])
        self.assertEqual(self.server.call("/infill", {})[0], 501)  # this model has no marks for it

    def test_tokenize_round_trip_and_template(self):
        for text in ("Café 👍🏽 — naïve", "日本語", "  spaces\n\ttabs", ""):
            tokens = self.server.json("/tokenize", {"content": text})["tokens"]
            self.assertEqual(self.server.json("/detokenize", {"tokens": tokens})["content"], text)
        prompt = self.server.json("/apply-template", {"messages": question()["messages"]})["prompt"]
        self.assertTrue(prompt.endswith("<|im_start|>assistant\n"))

    @unittest.skipUnless(shutil.which("promtool"), "promtool is not installed")
    def test_promtool_accepts_the_metrics(self):
        self.server.json(CHAT, question())
        _, headers, text = self.server.call("/metrics")
        self.assertIn("version=0.0.4", headers["Content-Type"])
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)
        # promtool's one remark is about the colons, which are other servers' own.
        remarks = [line for line in (done.stdout + done.stderr).decode().splitlines() if line
                   and not line.startswith(("vllm:", "llamacpp:"))]
        self.assertEqual(remarks, [])
        self.assertIn(b"vllm:request_success_total{", text)

    def test_logs_hold_no_content(self):
        status, headers, _ = self.server.call(CHAT, question("a very secret text"),
                                              headers={"X-Request-Id": "my-own-id"})
        self.assertEqual((status, headers["X-Request-Id"]), (200, "my-own-id"))
        time.sleep(0.2)
        lines = [line for line in self.server.log if "my-own-id" in line]
        self.assertEqual(len(lines), 1)
        entry = json.loads(lines[0][lines[0].index("{"):])
        self.assertEqual((entry["path"], entry["status"]), (CHAT, 200))
        self.assertGreater(entry["prompt_tokens"], 0)
        self.assertFalse(any("secret" in line for line in self.server.log))

    def test_large_requests_hold_nobody_up(self):
        words = "word " * 1_000_000
        large = [("/tokenize", {"content": words}), (CHAT, question(words)), ("/v1/embeddings", {"input": words})]
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            slow = [pool.submit(self.server.call, path, body) for path, body in large]
            waits = []
            while not all(answer.done() for answer in slow):
                start = time.monotonic()
                self.server.json("/health")
                waits.append(time.monotonic() - start)
                time.sleep(0.01)
            statuses = [answer.result()[0] for answer in slow]
        self.assertEqual(statuses, [200, 400, 400])
        self.assertGreater(len(waits), 5)
        self.assertLess(sorted(waits)[len(waits) // 2], 0.5)

    def test_finish_reason_at_the_end_of_the_context(self):
        body = question("Tell me a very long story.", max_tokens=-1, ignore_eos=True)
        server = Server("-q", context=256)
        answer = server.json(CHAT, body)
        self.assertEqual(answer["choices"][0]["finish_reason"], "length")
        self.assertEqual(answer["usage"]["total_tokens"], 256)
        self.assertEqual(server.stop(), 0)

    def test_same_text_alone_and_beside_15_with_and_without_the_cache(self):
        def text(i=0, **options):
            body = question(f"Tell me a story about number {i}.", max_tokens=32, **options)
            return self.server.json(CHAT, body)["choices"][0]["message"]["content"]
        alone = text(cache_prompt=False)
        self.assertEqual(text(), alone)
        self.assertEqual(text(), alone)  # from the cache
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            together = list(pool.map(text, range(16)))
        self.assertEqual(together[0], alone)


class LoadTest(ServerTest):
    flags = ("--queue-limit", "32", "-np", "8", "-q")

    def test_200_clients_on_a_queue_of_32_each_get_an_answer_or_429(self):
        def ask(i):
            status, headers, data = self.server.call(CHAT, question(f"Count to {i}."))
            if status == 429:
                self.assertIn("Retry-After", headers)
            return status, data
        with concurrent.futures.ThreadPoolExecutor(200) as pool:
            answers = list(pool.map(ask, range(200)))
        self.assertLessEqual({status for status, _ in answers}, {200, 429})
        self.assertGreaterEqual(sum(status == 200 for status, _ in answers), 32)
        self.assertTrue(self.server.wait_idle())

    def test_1000_clients_that_leave(self):
        def blocks():
            return [self.server.metric(f"tenon_kv_blocks_{state}") for state in ("used", "free", "cached")]
        self.server.json(CHAT, question())
        self.assertTrue(self.server.wait_idle())
        used, free, cached = blocks()
        chance = random.Random(1)
        for i in range(1000):
            body = json.dumps(question(f"Story {i}. " + "word " * chance.randrange(200), max_tokens=64,
                                       stream=chance.random() < 0.7)).encode()
            with socket.create_connection(("127.0.0.1", self.server.port)) as connection:
                connection.sendall(b"POST " + CHAT.encode() + b" HTTP/1.1\r\nHost: localhost\r\n"
                                   b"Content-Length: %d\r\n\r\n" % len(body) + body)
                connection.settimeout(chance.choice([0.0001, 0.005, 0.05]))
                try:
                    connection.recv(chance.choice([1, 400]))
                except OSError:
                    pass
        self.assertTrue(self.server.wait_idle(60))
        # What requests leave is either free or cached for later ones; nothing is lost.
        now_used, now_free, now_cached = blocks()
        self.assertEqual((now_used, now_free + now_cached), (used, free + cached))
        self.server.json(CHAT, question())

    def test_clients_that_send_a_byte_at_a_time_hold_nobody_up(self):
        slow = [socket.create_connection(("127.0.0.1", self.server.port)) for _ in range(100)]
        start = time.monotonic()
        for byte in b"POST " + CHAT.encode():
            for connection in slow:
                try:
                    connection.sendall(bytes([byte]))
                except OSError:
                    pass  # closed by the server: that is its right
            if byte % 8 == 0:
                self.server.json(CHAT, question())
        self.assertLess(time.monotonic() - start, 60)
        for connection in slow:
            connection.close()
        self.server.json(CHAT, question())

    def test_a_long_list_of_prompts_neither_fills_the_queue_nor_fails(self):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            many = pool.submit(self.server.json, "/v1/completions",
                               {"prompt": [f"{i}:" for i in range(100)], "max_tokens": 2, "temperature": 0})
            while self.server.metric("tenon_sequences_running") == 0:
                time.sleep(0.01)
            self.server.json(CHAT, question())  # there is room for others
            choices = many.result(120)["choices"]
        self.assertEqual([choice["index"] for choice in choices], list(range(100)))

    def leave(self, body, seconds):
        """A client that sends the request and is gone after so many seconds."""
        data = json.dumps(body).encode()
        with socket.create_connection(("127.0.0.1", self.server.port)) as connection:
            connection.sendall(b"POST " + CHAT.encode() + b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
                               % len(data) + data)
            time.sleep(seconds)

    def test_who_leaves_during_the_prefill_computes_no_more_of_it(self):
        self.assertTrue(self.server.wait_idle())
        before = self.server.metric("tenon_step_tokens_total")
        self.leave(question("word " * 7000, cache_prompt=False), 0.3)
        self.assertTrue(self.server.wait_idle(10))
        self.assertLess(self.server.metric("tenon_step_tokens_total") - before, 5000)

    def test_who_leaves_while_waiting_is_never_computed(self):
        long = [question(f"{i}", max_tokens=400, ignore_eos=True) for i in range(8)]  # all places of the batch
        one = self.server.json(CHAT, question("8", max_tokens=1))["usage"]["prompt_tokens"]
        self.assertTrue(self.server.wait_idle())
        before = self.server.metric("tenon_prompt_tokens_total") + 8 * one
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            running = [pool.submit(self.server.json, CHAT, body) for body in long]
            while self.server.metric("tenon_prompt_tokens_total") < before:  # each counts when it is through
                time.sleep(0.01)
            for i in range(4):
                self.leave(question(f"waiting {i} " + "word " * 1000), 0.05)
            for answer in running:
                answer.result(120)
        self.assertTrue(self.server.wait_idle())
        self.assertEqual(self.server.metric("tenon_prompt_tokens_total"), before)

    def test_idle_costs_nothing(self):
        self.server.json(CHAT, question())
        time.sleep(1)
        before = self.server.cpu_seconds()
        time.sleep(5)
        self.assertLess(self.server.cpu_seconds() - before, 0.05)  # 1%


class SignalTest(unittest.TestCase):
    def test_health_while_loading(self):
        server = Server(wait=False)
        status, _, data = server.call("/health")
        # A small model may be ready before the first question.
        self.assertIn((status, json.loads(data)["status"]), [(503, "loading model"), (200, "ok")])
        server.stop()

    def test_who_is_told_that_it_is_ready_finds_it_so(self):
        for _ in range(2):
            server = Server("-q")
            self.assertEqual(server.call("/health")[0], 200)
            self.assertEqual(server.stop(), 0)

    def test_sigterm_finishes_what_runs_and_refuses_the_rest(self):
        server = Server()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            running = pool.submit(server.json, CHAT, question("Tell me a story.", max_tokens=200, ignore_eos=True))
            while server.metric("tenon_sequences_running") == 0:
                time.sleep(0.01)
            server.terminate()
            time.sleep(0.2)
            try:
                status = server.call("/health", timeout=5)[0]
                self.assertEqual(status, 503)
            except OSError:
                pass  # it no longer listens
            answer = running.result(60)
        self.assertEqual(answer["usage"]["completion_tokens"], 200)
        self.assertEqual(server.stop(), 0)

    def test_a_second_signal_ends_at_once(self):
        server = Server()
        connection = socket.create_connection(("127.0.0.1", server.port))
        body = json.dumps(question("Tell me a story.", max_tokens=7000, ignore_eos=True)).encode()
        connection.sendall(b"POST " + CHAT.encode() + b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
                           % len(body) + body)
        while server.metric("tenon_sequences_running") == 0:
            time.sleep(0.01)
        server.terminate()
        time.sleep(0.3)
        self.assertIsNone(server.process.poll())
        server.process.send_signal(signal.SIGINT)
        self.assertEqual(server.process.wait(10), 128 + signal.SIGINT)
        connection.close()
        server.stop()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Many requests over one WebSocket."""
import json

from tenon_server import Server, ServerTest, main, require

client = require("websockets.sync.client")
exceptions = require("websockets.exceptions")
sync_connect = client.connect


class WebSocketTest(ServerTest):
    def connect(self):
        return client.connect(f"ws://127.0.0.1:{self.server.port}/v1/ws")

    @staticmethod
    def ask(socket, name, kind, **request):
        socket.send(json.dumps({"id": name, "type": kind, "request": request}))

    @staticmethod
    def until_done(socket, names):
        """Messages by id, until each of the ids is done or failed."""
        messages = {name: [] for name in names}
        open_names = set(names)
        while open_names:
            message = json.loads(socket.recv(timeout=60))
            messages[message["id"]].append(message)
            if message["type"] in ("done", "error"):
                open_names.discard(message["id"])
        return messages

    def test_requests_run_side_by_side(self):
        names = [f"r{i}" for i in range(8)]
        with self.connect() as socket:
            for name in names:
                self.ask(socket, name, "completion", prompt="One, two, three,", max_tokens=8, temperature=0,
                         stream=True)
            messages = self.until_done(socket, names)
        texts = {"".join(message["data"]["choices"][0]["text"] for message in messages[name]
                         if message["type"] == "chunk") for name in names}
        self.assertEqual(len(texts), 1)
        self.assertIn("four", texts.pop())

    def test_cancel(self):
        with self.connect() as socket:
            self.ask(socket, "long", "completion", prompt="Once", max_tokens=4000, ignore_eos=True, stream=True)
            json.loads(socket.recv(timeout=60))
            socket.send(json.dumps({"id": "long", "type": "cancel"}))
            last = self.until_done(socket, ["long"])["long"][-1]
            self.assertEqual((last["type"], last["error"]["type"]), ("error", "cancelled"))
            self.ask(socket, "next", "chat", messages=[{"role": "user", "content": "Hi"}], max_tokens=2)
            self.assertEqual(self.until_done(socket, ["next"])["next"][0]["type"], "answer")

    def test_closing_cancels_everything(self):
        with self.connect() as socket:
            for i in range(4):
                self.ask(socket, f"r{i}", "completion", prompt="Once", max_tokens=4000, ignore_eos=True, stream=True)
            json.loads(socket.recv(timeout=60))
        self.assertTrue(self.server.wait_idle())

    def test_a_server_that_ends_finishes_answers_first(self):
        server = Server("-q")
        with sync_connect(f"ws://127.0.0.1:{server.port}/v1/ws") as socket:
            self.ask(socket, "a", "completion", prompt="Once", max_tokens=150, ignore_eos=True, stream=True)
            socket.recv(timeout=60)
            server.terminate()
            self.assertEqual(self.until_done(socket, ["a"])["a"][-1]["type"], "done")
        self.assertEqual(server.stop(), 0)

    def test_a_large_request_can_be_cancelled_and_holds_nobody_up(self):
        with self.connect() as socket:
            self.ask(socket, "large", "completion", prompt="word " * 6000, max_tokens=1000, ignore_eos=True, stream=True)
            socket.send(json.dumps({"id": "large", "type": "cancel"}))
            self.ask(socket, "small", "completion", prompt="Hi", max_tokens=1)
            messages = self.until_done(socket, ["large", "small"])
        self.assertEqual(messages["large"][-1]["error"]["type"], "cancelled")
        self.assertEqual(messages["small"][0]["type"], "answer")

    def test_a_message_above_the_limit_of_bodies_closes(self):
        with self.connect() as socket:
            with self.assertRaises(exceptions.ConnectionClosed) as closed:
                socket.send('{"id": "a", "padding": "' + "x" * (16 << 20) + '"}')
                while True:
                    socket.recv(timeout=60)
            # Who is still sending may meet the end of the connection before it reads why.
            self.assertIn(closed.exception.rcvd and closed.exception.rcvd.code, (None, 1009))
        with self.connect() as socket:
            self.ask(socket, "next", "completion", prompt="Hi", max_tokens=1)
            self.assertEqual(self.until_done(socket, ["next"])["next"][0]["type"], "answer")

    def test_the_queues_limit_and_the_timeout_hold_here_too(self):
        server = Server("-q", "-np", "1", "--queue-limit", "2", "--request-timeout", "2")
        with sync_connect(f"ws://127.0.0.1:{server.port}/v1/ws") as socket:
            names = [f"r{i}" for i in range(8)]
            for name in names:
                self.ask(socket, name, "completion", prompt="Once", max_tokens=4000, ignore_eos=True)
            last = [messages[-1] for messages in self.until_done(socket, names).values()]
        statuses = sorted(message["status"] for message in last)
        self.assertEqual(set(statuses), {429, 504}, last)
        self.assertEqual({message.get("retry_after") for message in last if message["status"] == 429}, {1})
        self.assertEqual(server.stop(), 0)

    def test_keys(self):
        server = Server("-q", "--api-key", "secret")
        url = f"ws://127.0.0.1:{server.port}/v1/ws"
        with self.assertRaises(exceptions.InvalidStatus) as refused:
            sync_connect(url)
        self.assertEqual(refused.exception.response.status_code, 401)
        with sync_connect(url, additional_headers={"Authorization": "Bearer secret"}) as socket:
            self.ask(socket, "a", "completion", prompt="Hi", max_tokens=1)
            self.assertEqual(self.until_done(socket, ["a"])["a"][0]["type"], "answer")
        with self.assertRaises(exceptions.InvalidStatus) as refused:
            sync_connect(url, additional_headers={"Authorization": "Bearer secret", "Origin": "http://evil.example"})
        self.assertEqual(refused.exception.response.status_code, 403)
        self.assertEqual(server.stop(), 0)

    def test_wrong_messages(self):
        with self.connect() as socket:
            for text in ("{", '{"id":"a","type":"chat"}', '{"id":"a","type":"x"}', "[" * 100000):
                socket.send(text)
                answer = json.loads(socket.recv(timeout=60))
                self.assertEqual((answer["type"], answer["status"]), ("error", 400), text[:20])


if __name__ == "__main__":
    main()

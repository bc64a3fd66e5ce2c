#!/usr/bin/env python3
"""A gateway before three servers, one of which is killed while all are busy."""
import concurrent.futures
import http.client
import json
import re
import signal
import subprocess
import threading
import time
import unittest

from tenon_server import BINARY, MODEL, Server, main

CHAT = "/v1/chat/completions"


class Gateway:
    def __init__(self, replicas):
        flags = [part for url in replicas for part in ("--replica", url)]
        self.process = subprocess.Popen([BINARY, "gateway", "--port", "0", *flags], stderr=subprocess.PIPE, text=True)
        self.port = None
        for line in self.process.stderr:
            if match := re.search(r"http://[\w.]+:(\d+)", line):
                self.port = int(match[1])
                break
        self._reader = threading.Thread(target=self.process.stderr.read, daemon=True)
        self._reader.start()

    def call(self, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            data = None if body is None else json.dumps(body)
            connection.request("GET" if body is None else "POST", path, data, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def stop(self):
        self.process.terminate()
        self.process.wait(30)
        self._reader.join(10)
        self.process.stderr.close()


class GatewayTest(unittest.TestCase):
    def test_no_request_is_lost_when_a_replica_dies(self):
        servers = [Server("-q", "-np", "4", "-t", "1") for _ in range(3)]
        gateway = Gateway([server.url for server in servers])
        try:
            self.assertTrue(self.wait_for(gateway, 3))
            with concurrent.futures.ThreadPoolExecutor(24) as pool:
                answers = [pool.submit(self.ask, gateway, i) for i in range(72)]
                time.sleep(1)
                servers[1].process.send_signal(signal.SIGKILL)
                outcomes = [answer.result() for answer in answers]
            # A stream that had begun breaks with an error event; every other request is answered.
            self.assertLess(outcomes.count("broken"), 24, outcomes)
            self.assertEqual(set(outcomes) - {"broken", "whole"}, set(), outcomes)
            self.assertGreater(outcomes.count("whole"), 48)
            self.assertTrue(self.wait_for(gateway, 2))
            for i in range(6):
                self.assertEqual(self.ask(gateway, i), "whole")
        finally:
            gateway.stop()
            servers[1]._asked_to_end = True
            for server in servers:
                server.stop()

    @staticmethod
    def wait_for(gateway, replicas):
        end = time.monotonic() + 30
        while time.monotonic() < end:
            status, text = gateway.call("/metrics")
            up = re.findall(r"^tenon_gateway_replica_up\S* ([\d.]+)$", text, re.M)
            if status == 200 and sum(float(value) for value in up) == replicas:
                return True
            time.sleep(0.1)
        return False

    @staticmethod
    def ask(gateway, i):
        """"whole", "broken" (a stream that had begun), or what came instead."""
        stream = i % 2 == 0
        body = {"model": MODEL, "messages": [{"role": "user", "content": f"Tell me about the number {i}."}],
                "max_tokens": 24, "temperature": 0, "ignore_eos": True, "stream": stream}
        status, text = gateway.call(CHAT, body)
        if status != 200:
            return f"{status} {text[:200]}"
        if not stream:
            return "whole" if json.loads(text)["usage"]["completion_tokens"] == 24 else text
        if text.rstrip().endswith("data: [DONE]") and '"error"' not in text:
            return "whole"
        return "broken" if '"content"' in text and '"error"' in text else text[:300]


if __name__ == "__main__":
    main()

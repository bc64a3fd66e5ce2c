#!/usr/bin/env python3
"""Who may do what: API keys from every source on every path, TLS, and one key's cache unseen by another."""
import http.client
import json
import os
import re
import shutil
import ssl
import subprocess
import tempfile
import unittest

from tenon_server import Server, main

PROMPT = "It was a dark and stormy night, and the rain fell in torrents. " * 8

# Every path that the server knows, apart from the page's files.
GETS = ["/v1/models", "/models", "/v1/models/x", "/v1/modules", "/tokenizer_info", "/props", "/slots", "/lora-adapters",
        "/api/tags", "/api/ps", "/api/version", "/version", "/metrics", "/v1/ws", "/nothing"]
POSTS = ["/v1/chat/completions", "/chat/completions", "/v1/completions", "/completion", "/completions", "/infill",
         "/v1/responses", "/v1/embeddings", "/embedding", "/embeddings", "/v1/rerank", "/rerank", "/v1/reranking",
         "/reranking", "/v1/messages", "/v1/messages/count_tokens", "/v1/modules", "/api/generate", "/api/chat",
         "/api/embed", "/api/embeddings", "/api/show", "/tokenize", "/detokenize", "/apply-template", "/slots/0",
         "/lora-adapters", "/nothing"]


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


class KeysTest(unittest.TestCase):
    def serve(self, *flags, **environment):
        server = Server("-q", *flags, environment=environment)
        self.addCleanup(server.stop)
        return server

    def test_every_path_but_health_asks_for_a_key(self):
        server = self.serve("--api-key", "secret")
        for method, paths in (("GET", GETS), ("POST", POSTS)):
            for path in paths:
                for headers in ({}, bearer("wrong"), {"Authorization": "secret"}):
                    status, _, data = server.call(path, {} if method == "POST" else None, headers=headers)
                    self.assertEqual(status, 401, (path, headers))
                    self.assertEqual(json.loads(data)["error"]["type"], "authentication_error", path)
        for path in ("/health", "/v1/health"):
            self.assertEqual(server.call(path)[0], 200)
        self.assertNotEqual(server.call("/v1/models", headers=bearer("secret"))[0], 401)
        # The lists above are all that there is.
        source = os.path.join(os.path.dirname(__file__), "../../src/frontend/server/api/routes.cc")
        with open(source, encoding="utf-8") as file:
            known = set(re.findall(r'"(/[a-z][^"]*)"', file.read()))
        self.assertEqual(known - {"/health", "/v1/health", "/v1/models/{id}", "/slots/{id}"}, known & {*GETS, *POSTS})

    def test_keys_of_a_file_and_of_the_environment(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("# ours\r\nfirst\r\n\nsecond \n")
            file.flush()
            server = self.serve("--api-key-file", file.name, "--api-key", "third", TENON_API_KEY="fourth",
                                LLAMA_API_KEY="fifth", VLLM_API_KEY="sixth")
        for key in ("first", "second", "third", "fourth", "fifth", "sixth"):
            self.assertEqual(server.call("/v1/models", headers=bearer(key))[0], 200, key)
            self.assertEqual(server.call("/v1/models", headers={"x-api-key": key})[0], 200, key)
        for key in ("", "# ours", "ours", "first\r", "firstsecond"):
            if "\r" not in key:
                self.assertEqual(server.call("/v1/models", headers=bearer(key))[0], 401, key)

    def test_one_keys_cache_is_not_anothers(self):
        server = self.serve("--api-key", "one", "--api-key", "two")
        def cached(key, **options):
            body = {"prompt": PROMPT, "max_tokens": 1, "temperature": 0, **options}
            answer = server.json("/v1/completions", body, headers=bearer(key))
            return answer["usage"]["prompt_tokens_details"]["cached_tokens"]
        self.assertEqual(cached("one"), 0)
        self.assertGreater(cached("one"), 64)
        self.assertEqual(cached("two"), 0)
        self.assertGreater(cached("two"), 64)
        self.assertEqual(cached("one", cache_salt="mine"), 0)
        self.assertGreater(cached("one", cache_salt="mine"), 64)


@unittest.skipUnless(shutil.which("openssl"), "openssl is not installed")
class TlsTest(unittest.TestCase):
    def test_serve_speaks_tls(self):
        with tempfile.TemporaryDirectory() as folder:
            key, certificate = os.path.join(folder, "key.pem"), os.path.join(folder, "cert.pem")
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", key,
                            "-out", certificate, "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
                           check=True, capture_output=True)
            server = Server("-q", "--tls-cert", certificate, "--tls-key", key)
            self.assertTrue(server.url.startswith("https://"), server.url)
            context = ssl.create_default_context(cafile=certificate)
            connection = http.client.HTTPSConnection("localhost", server.port, timeout=30, context=context)
            connection.request("POST", "/v1/completions", json.dumps({"prompt": "Hi", "max_tokens": 2, "stream": True}))
            text = connection.getresponse().read().decode()
            self.assertTrue(text.endswith("data: [DONE]\n\n"), text)
            connection.close()
            with self.assertRaises((OSError, http.client.HTTPException)):
                server.call("/health", timeout=5)  # plain HTTP to it
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    main()

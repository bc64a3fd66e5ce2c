"""A server of the page's files whose model says what a test wants: markup, endless text, failures.

Question -> behaviour: see StubServer.answer. Everything else of the page is tested with the real server.
"""
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent.parent / "src/frontend/page"
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
          "base-uri 'none'; form-action 'none'; frame-ancestors 'none'")

MARKUP = ("<img src=x onerror=\"window.hacked=1\"><script>window.hacked=1</script> **bold** `a<b` "
          "[good](https://example.org/) [bad](javascript:window.hacked=1)\n\n"
          "# Title\n\n- one\n  - inner\n- two\n\n1. first\n2. second\n\n> quoted\n\n"
          "| a | b |\n|---|---|\n| <b>1</b> | 2 |\n\n```html\n<script>window.hacked=1</script>\n```\n")
METRICS = """# TYPE tenon_completion_tokens_total counter
tenon_completion_tokens_total {tokens}
tenon_time_to_first_token_seconds_sum {firsts}
tenon_time_to_first_token_seconds_count {firsts}
tenon_kv_use_ratio 0.25
tenon_sequences_running 3
tenon_requests_waiting 2
tenon_module_seconds_total{{module="ngram"}} 1.5
"""


def modules(state):
    """What /v1/modules says of one module in this state."""
    return {"modules": [{"name": "ngram", "stage": "speculation", "state": state, "latency_saving": 0.21,
                         "integrity": {"checks": 400, "failures": 0}, "memory_bytes": 12_000_000, "withdrawals": 1,
                         "stats": {"proposed": 200, "accepted": 150}, "gauges": {}}],
            "monitoring": {}, "p99_inter_token_s": 0.02, "decisions_total": 1,
            "decisions": [{"seconds_ago": 5.0, "module": "ngram", "action": "disabled", "rule": "min_latency_saving",
                           "measured": 0.02, "limit": 0.15, "reason": "saves <b>2%</b>, below 15%"}]}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"  # no connection outlives its answer: a closed server is gone

    def log_message(self, *_):
        pass

    def reply(self, status, content_type, body):
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", POLICY)
        self.end_headers()
        self.wfile.write(body)

    def reply_json(self, status, value):
        self.reply(status, "application/json", json.dumps(value).encode())

    def allowed(self):
        key = self.server.owner.key
        if key is None or self.headers.get("Authorization") == f"Bearer {key}":
            return True
        self.reply_json(401, {"error": {"message": "no key"}})
        return False

    def do_GET(self):
        name = self.path.strip("/") or "index.html"
        if (PAGE / name).is_file():
            self.reply(200, TYPES[Path(name).suffix], (PAGE / name).read_bytes())
        elif not self.allowed():
            pass
        elif self.path == "/v1/models":
            self.reply_json(200, {"data": [{"id": "stub-a"}, {"id": "stub-b"}]})
        elif self.path == "/props":
            self.reply_json(200, {"default_generation_settings": {"params": {"temperature": 0.8, "top_k": 40}}})
        elif self.path == "/v1/modules":
            self.reply_json(200, modules(self.server.owner.module_state))
        elif self.path == "/metrics":
            owner = self.server.owner
            owner.scrapes += 1
            text = METRICS.format(tokens=owner.scrapes * 100, firsts=owner.scrapes)
            self.reply(200, "text/plain", text.encode())
        else:
            self.reply_json(404, {"error": {"message": "unknown path"}})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.owner.requests.append(body)
        if self.path == "/v1/modules":
            self.server.owner.module_state = "active" if body["state"] == "on" else "off"
            self.reply_json(200, modules(self.server.owner.module_state))
        elif self.allowed():
            # Questions that failed come along with the next.
            self.server.owner.answer(self, body["messages"][-1]["content"].split("\n\n")[-1])


class StubServer:
    def __init__(self):
        self.key = None
        self.scrapes = 0
        self.module_state = "active"
        self.requests = []
        self.cut = threading.Event()  # set when a client left a stream
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.http.owner = self
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()

    def answer(self, handler, question):
        if question == "full":
            handler.reply_json(429, {"error": {"message": "the queue is full"}})
            return
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.end_headers()
        try:
            self.stream(lambda event: self.write(handler, event), question)
        except OSError:
            self.cut.set()

    @staticmethod
    def write(handler, event):
        text = event if isinstance(event, str) else json.dumps(event)
        handler.wfile.write(f"data: {text}\n\n".encode())
        handler.wfile.flush()

    def stream(self, write, question):
        def piece(text):
            return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}

        if question == "endless":
            while True:
                write(piece("word "))
                time.sleep(0.02)
        text = MARKUP if question == "markup" else f"You said {question}."
        for start in range(0, len(text), 7):
            write(piece(text[start:start + 7]))
        if question == "break":
            return  # the connection closes without an end
        if question == "fail":
            write({"error": {"message": "the engine failed"}})
            return
        write({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
               "timings": {"predicted_per_second": 123.4}})
        write({"choices": [], "usage": {"completion_tokens": 7}})
        write("[DONE]")

"""A web server for the tests of the model store: answers as a JSON file says, and fails on demand.

    stub_server.py ROUTES.json REQUESTS.jsonl

Prints its two ports (two origins) and serves until its standard input is closed. ROUTES maps a path to:
    body | file   the content: text, in which $BASE and $OTHER become the two origins, or a file's bytes
    status, headers, etag
    faults        a list; each request takes the next: {} none, or
                  drop_after N   the connection is cut after N bytes of the body
                  stall_after N  nothing more comes after N bytes, for 30 seconds
                  status N, headers, ignore_range, etag, file
Each request is appended to REQUESTS as {"port", "path", "headers", "status"}.
"""

import json
import re
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

lock = threading.Lock()
routes = {}
ports = []


def expand(text):
    return text.replace("$BASE", f"http://127.0.0.1:{ports[0]}").replace(
        "$OTHER", f"http://127.0.0.1:{ports[1]}")


def content_of(route):
    if "file" in route:
        with open(route["file"], "rb") as file:
            return file.read()
    return expand(route.get("body", "")).encode()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def record(self, status):
        entry = {"port": self.server.server_address[1], "path": self.path, "status": status,
                 "headers": {k.lower(): v for k, v in self.headers.items()}}
        with lock, open(sys.argv[2], "a", encoding="utf-8") as log:
            log.write(json.dumps(entry) + "\n")

    def do_GET(self):
        route = routes.get(self.path)
        if route is None:
            return self.answer(404, {}, b"nothing here", {})
        with lock:
            faults = route.get("faults", [])
            fault = faults.pop(0) if faults else {}
        now = {**route, **fault}
        headers = {k: expand(v) for k, v in now.get("headers", {}).items()}
        body = content_of(now)
        status = now.get("status", 200)
        if "etag" in now:
            headers["ETag"] = now["etag"]
        if status == 200 and not now.get("ignore_range"):
            status, body = self.apply_range(now, headers, body)
        self.answer(status, headers, body, now)

    def apply_range(self, now, headers, body):
        match = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        condition = self.headers.get("If-Range")
        if not match or (condition is not None and condition != now.get("etag")):
            return 200, body
        first = int(match[1])
        if first >= len(body):
            headers["Content-Range"] = f"bytes */{len(body)}"
            return 416, b""
        headers["Content-Range"] = f"bytes {first}-{len(body) - 1}/{len(body)}"
        return 206, body[first:]

    def answer(self, status, headers, body, now):
        self.record(status)
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        sent = now.get("drop_after", now.get("stall_after", len(body)))
        self.wfile.write(body[:sent])
        self.wfile.flush()
        if "stall_after" in now:
            time.sleep(30)
        if sent < len(body):
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        routes.update(json.load(file))
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), Handler) for _ in range(2)]
    ports.extend(server.server_address[1] for server in servers)
    for server in servers:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print(*ports, flush=True)
    sys.stdin.read()


main()

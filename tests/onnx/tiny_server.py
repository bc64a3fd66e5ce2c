"""`tenon serve` on a folder of a small model, and two clients that ask at once."""
import http.client
import json
import os
import re
import subprocess
import threading

TENON = os.environ["TENON_BINARY"]
PROMPTS = ["bcdefg", "hijkl"]
TOKENS = 12
ROUNDS = 8  # clients that did not meet try again


class Server:
    def __init__(self, folder):
        self.process = subprocess.Popen([TENON, "serve", str(folder), "--port", "0", "--reference"],
                                        stderr=subprocess.PIPE, text=True)
        self.port = 0
        for line in self.process.stderr:
            if match := re.match(r"https?://\S+:(\d+) ", line):
                self.port = int(match[1])
            if " is ready" in line:
                break
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def call(self, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("POST" if body else "GET", path, json.dumps(body) if body else None,
                           {"Content-Type": "application/json"})
        answer = connection.getresponse().read().decode()
        connection.close()
        return answer

    def steps(self):
        return int(re.search(r"^tenon_step_seconds_count (\d+)", self.call("/metrics"), re.M)[1])

    def stop(self):
        self.process.terminate()
        return self.process.wait(30)


def ask_at_once(server):
    """The answers to both prompts from two clients that start together."""
    answers, barrier = [None] * len(PROMPTS), threading.Barrier(len(PROMPTS))

    def client(i):
        barrier.wait()
        answers[i] = json.loads(server.call("/v1/completions", {
            "prompt": PROMPTS[i], "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True}))

    threads = [threading.Thread(target=client, args=(i,)) for i in range(len(PROMPTS))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [answer["choices"][0]["text"] if "choices" in answer else answer for answer in answers]


def check_server(name, folder, wanted):
    problems, shared = [], False
    server = Server(folder)
    for _ in range(ROUNDS):
        before = server.steps()
        found = ask_at_once(server)
        if found != wanted:
            problems.append(f"{name} served: {found}, onnxruntime's {wanted}")
            break
        # Each alone takes TOKENS steps.
        shared = server.steps() - before < len(PROMPTS) * TOKENS
        if shared:
            break
    chat = json.loads(server.call("/v1/chat/completions", {
        "messages": [{"role": "user", "content": "abc"}], "max_tokens": 3, "temperature": 0, "ignore_eos": True}))
    if chat.get("usage", {}).get("completion_tokens") != 3:
        problems.append(f"{name}, chat served: {chat}")
    code = server.stop()
    if code != 0:
        problems.append(f"{name}: the server ended with {code}")
    return problems + ([] if shared or problems else [f"{name}: no step had both requests"])

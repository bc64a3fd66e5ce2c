#!/usr/bin/env python3
"""/slots: a conversation's KV saved, restored by another server, and erased."""
import json
import os
import tempfile
import unittest

from tenon_server import Server, main

PROMPT = "It was a dark and stormy night, and the rain fell in torrents. " * 12


def complete(server, slot, **headers):
    body = {"prompt": PROMPT, "max_tokens": 16, "temperature": 0, "id_slot": slot}
    answer = server.json("/v1/completions", body, headers=headers)
    return answer["choices"][0]["text"], answer["usage"]["prompt_tokens_details"]["cached_tokens"]


class SlotsTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.servers = []

    def serve(self, *flags):
        server = Server("--slot-save-path", self.folder.name, "-np", "4", "-q", *flags)
        self.addCleanup(server.stop)
        return server

    def test_save_restore_erase(self):
        first = self.serve()
        text, cached = complete(first, 1)
        self.assertEqual(cached, 0)
        saved = first.json("/slots/1?action=save", {"filename": "night.kv"})
        self.assertEqual(os.listdir(self.folder.name), ["night.kv"])
        self.assertGreater(saved["n_saved"], 150)
        self.assertEqual(saved["n_written"], os.path.getsize(os.path.join(self.folder.name, "night.kv")))

        second = self.serve()
        restored = second.json("/slots/0?action=restore", {"filename": "night.kv"})
        self.assertEqual((restored["n_restored"], restored["n_read"]), (saved["n_saved"], saved["n_written"]))
        again, cached = complete(second, 0)
        self.assertEqual(again, text)
        self.assertGreater(cached, 150)
        # Erased, it is not found any more.
        self.assertGreater(second.json("/slots/0?action=erase", {})["n_erased"], 150)
        self.assertEqual(complete(second, 0), (text, 0))
        second.wait_idle()
        self.assertEqual(second.metric("tenon_kv_blocks_used"), 0)

    def test_refusals_name_what_is_wrong(self):
        server = self.serve()
        def refused(path, body, expected, word, param=None):
            status, _, data = server.call(path, body)
            self.assertEqual(status, expected, data)
            error = json.loads(data)["error"]
            self.assertIn(word, json.dumps(error), data)
            self.assertEqual(error["code"], "not_found" if expected == 404 else None, data)
            if param:
                self.assertEqual(error["param"], param, data)
            self.assertNotIn(self.folder.name, data.decode())
        refused("/slots/0?action=save", {"filename": "a"}, 404, "slot 0", "id_slot")
        refused("/slots/9?action=save", {"filename": "a"}, 400, "0 to 3")
        refused("/slots/x?action=save", {"filename": "a"}, 400, "id_slot")
        refused("/slots/0?action=copy", {"filename": "a"}, 400, "action")
        refused("/slots/0", {"filename": "a"}, 400, "action")
        for name in ("../a", "/etc/passwd", ".hidden", "", "a/b", "a" * 200):
            refused("/slots/0?action=restore", {"filename": name}, 400, "filename")
        refused("/slots/0?action=restore", {"filename": "missing"}, 404, "missing", "filename")
        refused("/slots/0?action=restore", {}, 400, "filename")
        complete(server, 2)
        server.json("/slots/2?action=save", {"filename": "a"})
        path = os.path.join(self.folder.name, "a")
        with open(path, "r+b") as file:
            file.seek(os.path.getsize(path) // 2)
            file.write(b"damage")
        refused("/slots/2?action=restore", {"filename": "a"}, 400, "checksum", "filename")
        with open(path, "wb") as file:
            file.write(b"GGUF")
        refused("/slots/2?action=restore", {"filename": "a"}, 400, "no saved KV", "filename")

    def test_keys_see_their_own_only(self):
        server = self.serve("--api-key", "one", "--api-key", "two")
        one, two = ({"Authorization": f"Bearer {key}"} for key in ("one", "two"))
        complete(server, 0, **one)
        self.assertEqual(server.call("/slots/0?action=save", {"filename": "a"}, headers=two)[0], 404)
        self.assertEqual(server.call("/slots/0?action=save", {"filename": "a"}, headers=one)[0], 200)
        self.assertEqual(server.call("/slots/0?action=restore", {"filename": "a"}, headers=two)[0], 400)
        self.assertEqual(server.call("/slots/0?action=restore", {"filename": "a"}, headers=one)[0], 200)

    def test_without_the_flag(self):
        server = Server("-q")
        self.addCleanup(server.stop)
        complete(server, -1)
        self.assertEqual(server.call("/slots/0?action=save", {"filename": "a"})[0], 400)
        self.assertEqual(server.call("/slots/0?action=erase", {})[0], 200)


if __name__ == "__main__":
    main()

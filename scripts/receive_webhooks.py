#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
"""A backend's endpoint for webhooks that tests can kill at any moment.

    receive_webhooks.py FILE PORT SEED REFUSED

It listens on 127.0.0.2, where no other program of a test takes the port between a kill and the next start. PORT 0 lets
the system choose. It refuses REFUSED of 100 webhooks with 500, as SEED says. Each other webhook becomes a line of FILE,
["webhook-id", "body"], and is on the disk before the answer. The answer comes up to 20 ms later, so that many kills
fall between the two.

It says "listening on http://127.0.0.2:PORT", and "kept: N." for each new number N of different ids in FILE.
"""
import http.server
import json
import os
import random
import socketserver
import sys
import threading
import time

LONGEST_ANSWER = 0.02


class Kept:
    """The webhooks of a file."""

    def __init__(self, path: str) -> None:
        self.lock = threading.Lock()
        self.file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o600)
        with open(path, "rb") as file:
            lines = file.read().splitlines(keepends=True)
        # A kill can cut the last line. Its webhook has no answer, so it comes again.
        if lines and not lines[-1].endswith(b"\n"):
            os.ftruncate(self.file, sum(len(line) for line in lines[:-1]))
            lines.pop()
        self.ids = {json.loads(line)[0] for line in lines}
        print(f"kept: {len(self.ids)}.", flush=True)

    def keep(self, webhook: str, body: str) -> None:
        with self.lock:
            os.write(self.file, json.dumps([webhook, body]).encode() + b"\n")
            os.fsync(self.file)
            if webhook not in self.ids:
                self.ids.add(webhook)
                print(f"kept: {len(self.ids)}.", flush=True)


class Handler(http.server.BaseHTTPRequestHandler):
    # siwatch uses a connection again.
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        if generator.randrange(100) < refused:
            return self.answer(500)
        kept.keep(self.headers["webhook-id"], body)
        time.sleep(generator.uniform(0, LONGEST_ANSWER))
        self.answer(204)

    def answer(self, status: int) -> None:
        self.send_response(status)
        if status != 204:
            self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


class Server(socketserver.ThreadingTCPServer):
    # Connections of a killed receiver do not keep the port.
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128


path, port, seed, refused = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
generator = random.Random(seed)
kept = Kept(path)
server = Server(("127.0.0.2", port), Handler)
print(f"listening on http://127.0.0.2:{server.server_address[1]}", flush=True)
server.serve_forever()

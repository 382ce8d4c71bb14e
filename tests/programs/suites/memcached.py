# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""memcached under clients that count together, read what they wrote, and make it throw things out."""

import os
import socket
from concurrent.futures import ThreadPoolExecutor

from kit import first_line, lacking

RANK = 9
TITLE = "memcached: counters, values, evictions, many connections"
PACKAGES = "memcached"
SECONDS = 60
CLIENTS, ROUNDS = 8, 1500


def missing():
    return lacking("memcached")


def version():
    return first_line("memcached", "-V")


class Client:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20)
        self.socket.connect(path)
        self.file = self.socket.makefile("rwb")

    def ask(self, line, data=None):
        self.file.write(line.encode() + b"\r\n" + (data + b"\r\n" if data is not None else b""))
        self.file.flush()
        return self.file.readline().strip().decode()

    def get(self, key):
        head = self.ask(f"get {key}").split()
        if head[0] != "VALUE":
            return None
        data = self.file.read(int(head[3]) + 2)[:-2]
        self.file.readline()
        return data

    def close(self):
        self.file.close()
        self.socket.close()


def everybody(body):
    with ThreadPoolExecutor(CLIENTS) as pool:
        return [f.result() for f in [pool.submit(body, n) for n in range(CLIENTS)]]


def verdict(wrong):
    return "fail" if sum(wrong) else "pass"


def run(kit):
    path, outcomes = os.path.join(kit.place, "s"), {}
    user = ["-u", "root"] if not os.getuid() else []
    argv = ["memcached", "-s", path, "-a", "777", "-t", "4", "-m", "64", "-c", "1024", "-o", "slab_reassign,slab_automove",
            *user]

    def count(_):
        client = Client(path)
        answers = [client.ask("incr total 1") for _ in range(ROUNDS)]
        client.close()
        return answers

    def values(n):
        client, wrong = Client(path), 0
        for i in range(ROUNDS):
            data = f"{n} {i} ".encode() * (i % 50 + 1)
            client.ask(f"set own{n}-{i % 40} 0 0 {len(data)}", data)
            wrong += client.get(f"own{n}-{i % 40}") != data
        client.close()
        return wrong

    def evict(n):
        client, wrong = Client(path), 0
        for i in range(ROUNDS):
            data = bytes([n]) * 60000
            answer = client.ask(f"set fill{n}-{i} 0 0 {len(data)}", data)
            wrong += answer != "STORED" and not answer.startswith("SERVER_ERROR out of memory")   # all is in use
            found = client.get(f"fill{n}-{i // 2}")
            wrong += found not in (None, data)
        client.close()
        return wrong

    def connections(_):
        wrong = 0
        for _ in range(100):
            client = Client(path)
            wrong += not client.ask("version").startswith("VERSION")
            client.close()
        return wrong

    with kit.server(argv, lambda: os.path.exists(path)) as end:
        client = Client(path)
        client.ask("set total 0 0 1", b"0")
        for name, body, judge in (
                ("counter", count, lambda found: len({n for one in found for n in one})),
                ("values", values, verdict), ("evictions", evict, verdict), ("connections", connections, verdict)):
            if kit.wants(name):
                try:
                    outcomes[name] = str(judge(everybody(body)))
                except TimeoutError:
                    outcomes[name] = "hung"
                except (OSError, IndexError):
                    outcomes[name] = "fail"
        outcomes["total"] = client.get("total").decode()
        client.close()
    outcomes["end"] = str(end.rc)
    return outcomes

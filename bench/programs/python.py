# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""Python: threads that hand the interpreter's lock to each other, by a queue and by computing."""

import common

PACKAGES = "python3"
METRIC = "items/s"
SECONDS = 2
VARIANTS = ("queue", "computing")
QUEUE = """
import queue, threading, time
q, n = queue.Queue(8), 60000
def put():
    for _ in range(n): q.put(1)
    q.put(None)
def get(): return sum(iter(q.get, None))
begun = time.monotonic()
both = [threading.Thread(target=work) for work in (put, get)]
for t in both: t.start()
for t in both: t.join()
print(f"{n} operations in {time.monotonic() - begun:.6f} s")
"""
COMPUTING = """
import sys, threading, time
sys.setswitchinterval(1e-5)
n, done, end = int(sys.argv[1]), [], time.monotonic() + 1.5
def work():
    count = 0
    while time.monotonic() < end:
        sum(range(100))
        count += 1
    done.append(count)
begun = time.monotonic()
every = [threading.Thread(target=work) for _ in range(n)]
for t in every: t.start()
for t in every: t.join()
print(f"{sum(done)} operations in {time.monotonic() - begun:.6f} s")
"""
PROGRAM = "/usr/bin/python3"


def missing():
    return common.lacking(PROGRAM)


def run(kit, variant):
    out, _ = kit.run([PROGRAM, "-c", QUEUE if variant == "queue" else COMPUTING, str(common.THREADS)])
    figures = r"^(\d+) operations in ([\d.]+) s"
    return common.number(figures, out), common.number(figures, out, 2)

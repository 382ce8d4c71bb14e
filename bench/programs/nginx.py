# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""nginx reads files in its thread pool, under wrk. Only the server is preloaded."""

import os

import common

PACKAGES = "nginx, wrk"
METRIC = "requests/s"
SECONDS = 4
LENGTH = 3
FILES = 64
CONFIGURATION = """daemon off; master_process off; error_log stderr error; pid {place}/pid;
thread_pool reading threads={threads} max_queue=65536;
events {{ worker_connections 512; }}
http {{ access_log off; aio threads=reading; sendfile off; output_buffers 1 64k;
client_body_temp_path {place}/a; proxy_temp_path {place}/b; fastcgi_temp_path {place}/c; uwsgi_temp_path {place}/d;
scgi_temp_path {place}/e;
server {{ listen 127.0.0.1:{port}; root {place}/files; }} }}
"""


def missing():
    return common.lacking("nginx", "wrk")


def prepare(kit):
    place = os.path.join(kit.place, "files")
    os.mkdir(place)
    for n in range(FILES):
        with open(os.path.join(place, str(n)), "wb") as file:
            file.write(os.urandom(16384))
    with open(os.path.join(kit.place, "which.lua"), "w", encoding="ascii") as file:
        file.write(f"request = function() return wrk.format(nil, '/' .. math.random(0, {FILES - 1})) end\n")


def run(kit, _variant):
    port, path = common.free_port(), os.path.join(kit.place, "nginx.conf")
    with open(path, "w", encoding="utf-8") as file:
        file.write(CONFIGURATION.format(place=kit.place, threads=2 * common.THREADS, port=port))
    with kit.server(["nginx", "-p", kit.place, "-c", path], lambda: common.listens(port)):
        out, _ = kit.run(["wrk", "-t", "1", "-c", "32", "-d", f"{LENGTH}s", "-s", f"{kit.place}/which.lua",
                          f"http://127.0.0.1:{port}/"], preloaded=False)
    return common.number(r"(\d+) requests in", out), LENGTH

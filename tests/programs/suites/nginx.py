# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""nginx with thread pools: files that many clients fetch arrive whole, also while it is told to read its configuration
again."""

import http.client
import os
import shutil
import signal
import socket
from concurrent.futures import ThreadPoolExecutor

from kit import digest, first_line

RANK = 11
TITLE = "nginx: thread pools, reloads"
PACKAGES = "nginx-light"
SECONDS = 60
FILES, CLIENTS, ROUNDS = 24, 12, 60
CONFIGURATION = """
{user}
worker_processes 2;
daemon off;
master_process on;
pid {place}/pid;
error_log stderr error;
thread_pool readers threads=8 max_queue=65536;
events {{ worker_connections 256; }}
http {{
    access_log off; sendfile off; output_buffers 2 16k; directio 4k;
    client_body_temp_path {place}/b; proxy_temp_path {place}/p; fastcgi_temp_path {place}/f;
    uwsgi_temp_path {place}/u; scgi_temp_path {place}/s;
    server {{ listen unix:{place}/socket; root {place}/www; aio threads=readers; }}
}}
"""


def nginx():
    return shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def missing():
    return [] if nginx() else ["nginx"]


def version():
    return first_line(nginx(), "-v")


class Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=20)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        self.sock.connect(self.path)


def run(kit):
    place = kit.place
    os.mkdir(f"{place}/www")
    wanted = []
    for n in range(FILES):
        data = bytes((n * 31 + i * i) % 251 for i in range(1000)) * (n * 20 + 1)
        wanted.append(data)
        with open(f"{place}/www/{n}", "wb") as file:
            file.write(data)
    with open(f"{place}/conf", "w", encoding="utf-8") as file:
        file.write(CONFIGURATION.format(place=place, user="user root;" if not os.getuid() else ""))

    def fetch(number):
        wrong = 0
        for i in range(ROUNDS):
            n = (number * 5 + i) % FILES
            connection = Connection(f"{place}/socket")
            connection.request("GET", f"/{n}")
            wrong += connection.getresponse().read() != wanted[n]
            connection.close()
        return wrong

    def everybody():
        with ThreadPoolExecutor(CLIENTS) as pool:
            try:
                return "fail" if sum(pool.map(fetch, range(CLIENTS))) else digest(b"".join(wanted))
            except TimeoutError:
                return "hung"
            except (OSError, http.client.HTTPException):
                return "fail"

    outcomes = {}
    with kit.server([nginx(), "-p", place, "-c", f"{place}/conf"], lambda: os.path.exists(f"{place}/socket"),
                    signal.SIGQUIT) as end:
        outcomes["fetch"] = everybody()
        with ThreadPoolExecutor(1) as pool:
            found = pool.submit(everybody)
            with open(f"{place}/pid", encoding="ascii") as file:
                master = int(file.read())
            for _ in range(3):
                os.kill(master, signal.SIGHUP)
                kit.run(["sleep", "0.3"], preloaded=False)
            outcomes["fetch with reloads"] = found.result()
    outcomes["end"] = str(end.rc)
    return outcomes

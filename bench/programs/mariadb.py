# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""MariaDB under sysbench's oltp_read_write. Only the server is preloaded; its data directory is made once."""

import getpass
import os

import common

PACKAGES = "mariadb-server, sysbench"
METRIC = "transactions/s"
SECONDS = 9
LENGTH = 4


def missing():
    return common.lacking("mariadbd", "mariadb-install-db", "mariadb-admin", "sysbench")


def server(kit):
    data = os.path.join(kit.place, "data")
    return ["mariadbd", "--no-defaults", f"--datadir={data}", f"--user={getpass.getuser()}", "--skip-networking",
            f"--socket={kit.place}/socket", "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=128M",
            f"--pid-file={kit.place}/pid"]


def driver(kit, *what):
    return ["sysbench", "oltp_read_write", "--db-driver=mysql", f"--mysql-socket={kit.place}/socket",
            f"--mysql-user={getpass.getuser()}", "--mysql-db=test", "--tables=2", "--table-size=10000", *what]


def is_up(kit):
    return lambda: os.path.exists(os.path.join(kit.place, "socket"))


def prepare(kit):
    kit.run(["mariadb-install-db", "--no-defaults", f"--datadir={kit.place}/data", f"--user={getpass.getuser()}",
             "--auth-root-authentication-method=normal"])
    with kit.server(server(kit), is_up(kit)):
        kit.run(["mariadb-admin", "--no-defaults", f"--socket={kit.place}/socket", "create", "--force", "test"],
                preloaded=False, good=(0, 1))
        kit.run(driver(kit, "prepare"), preloaded=False)


def run(kit, _variant):
    with kit.server(server(kit), is_up(kit)):
        out, _ = kit.run(driver(kit, f"--threads={2 * common.THREADS}", f"--time={LENGTH}", "run"), preloaded=False)
    return common.number(r"transactions: *(\d+)", out), common.number(r"total time: *([\d.]+)s", out)

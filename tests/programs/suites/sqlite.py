# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""SQLite with threads: transfers that keep a sum, in each journal mode, with private connections and with one that all
share (its mutexes are recursive), and an integrity check."""

import re
import sys

from kit import first_line

RANK = 7
TITLE = "SQLite: threads that transfer, all journal modes"
PACKAGES = "python3"
SECONDS = 120
SCRIPT = r"""
import sqlite3, sys, threading
THREADS, ROUNDS, ACCOUNTS = 6, 150, 20

def transfers(path, mode, shared):
    def connect():
        # isolation_level=None: transactions are begun by hand
        return sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False, uri=True)
    keeper = connect()
    keeper.execute(f"pragma journal_mode={mode}")
    keeper.execute("pragma synchronous=off")
    keeper.execute("create table account(id integer primary key, balance integer)")
    keeper.executemany("insert into account values (?, 100)", [(n,) for n in range(ACCOUNTS)])
    turn, wrong = threading.Lock(), []
    def work(number):
        here = keeper if shared else connect()
        for i in range(ROUNDS):
            a, b = (number * 7 + i) % ACCOUNTS, (number * 3 + i * 5 + 1) % ACCOUNTS
            if shared:      # one statement is one transaction; SQLite's own mutex keeps it whole
                here.execute("update account set balance = balance + case id when ? then -1 when ? then 1 else 0 end "
                             "where id in (?, ?) and ? <> ?", (a, b, a, b, a, b))
            else:
                here.execute("begin immediate")
                here.execute("update account set balance = balance - 1 where id = ?", (a,))
                here.execute("update account set balance = balance + 1 where id = ?", (b,))
                here.execute("commit")
            if i % 10 == 0:
                total = here.execute("select sum(balance) from account").fetchone()[0]
                if total != 100 * ACCOUNTS:
                    wrong.append(total)
    threads = [threading.Thread(target=work, args=(n,)) for n in range(THREADS)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    rows = keeper.execute("select * from account order by id").fetchall()
    print(f"{mode}{'-shared' if shared else ''}:", hash(tuple(rows)) % 10**9, len(wrong),
          keeper.execute("pragma integrity_check").fetchone()[0])

for mode in "delete", "truncate", "persist", "wal", "memory":
    transfers(f"{sys.argv[1]}/{mode}.db", mode, False)
    transfers(f"{sys.argv[1]}/{mode}-shared.db", mode, True)
transfers("file:inmemory?mode=memory&cache=shared", "memory", True)
"""


def missing():
    try:
        import sqlite3  # noqa: F401
        return []
    except ImportError:
        return ["sqlite3"]


def version():
    return first_line(sys.executable, "-c", "import sqlite3; print(sqlite3.sqlite_version)")


def run(kit):
    result = kit.run([sys.executable, "-c", SCRIPT, kit.place])
    outcomes = {name: found for name, found in re.findall(r"^(\S+): (.*)$", result.out, re.M)}
    outcomes["end"] = kit.outcome(result)
    return outcomes

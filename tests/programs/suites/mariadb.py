# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""MariaDB's mysql-test-run: the tests of locks, kills, deadlocks, transactions and events of suite main, or all of it.
Only the server is preloaded."""

import os
import re

from kit import first_line, lacking

RANK = 2
TITLE = "MariaDB: mysql-test-run, main"
PACKAGES = "mariadb-test, mariadb-server"
PLACE = "/usr/share/mysql/mysql-test"
AT_ONCE = 2
SECONDS = 500
CHOICE = (r"^(alter_table_online|backup_lock|commit|concurrent|consistent_snapshot|deadlock|delayed|events|flush|handler|"
          r"innodb_mysql_lock|innodb_icp|kill|lock|mdl|partition_innodb|processlist|query_cache|read_only|select$|sp-lock|"
          r"sp-threads|trans|trigger-trans|truncate|union|update|view|wait|xa)")
FULL = 4 * 3600


def missing():
    return lacking("mariadbd", "perl") + ([] if os.path.exists(f"{PLACE}/mariadb-test-run.pl") else ["mariadb-test-run.pl"])


def version():
    return first_line("mariadbd", "--version", pattern=r"\d+\.\d+\.\d+")


def run(kit):
    if kit.full:
        kit.end_of_time += FULL
    choice = sorted(kit.only) if kit.only else [] if kit.full else [f"--do-test={CHOICE}"]
    preload = [f"--mysqld-env={name}={value}" for name, value in kit.preload().items()]
    minutes = FULL // 60 if kit.full else SECONDS // 60
    result = kit.run(["perl", "./mariadb-test-run.pl", "--suite=main", "--force", "--max-test-fail=0", "--retry=0",
                      f"--parallel={AT_ONCE}", f"--vardir={kit.place}/var", f"--tmpdir={kit.place}/t",
                      f"--suite-timeout={minutes}", "--testcase-timeout=3", "--skip-test-list=unstable-tests",
                      *choice, *preload], preloaded=False, cwd=PLACE)
    kit.cut = result.rc == "hung" or "Timeout" in result.out and "test suite" in result.out.lower()
    words = {"pass": "pass", "skipped": "skip", "disabled": "skip", "fail": "fail"}
    outcomes = {}
    for name, word, comment in re.findall(r"^(main\.\S+(?: '[^']*')?) +(?:w\d+ )?\[ (\w+) \](.*)$", result.out, re.M):
        outcomes[name] = "hung" if word == "fail" and "timeout" in comment else words.get(word, word)
    return outcomes

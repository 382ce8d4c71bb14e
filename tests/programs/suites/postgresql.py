# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""PostgreSQL: a new cluster, pgbench with its threads, parallel queries and index builds, VACUUM, a crash and its
recovery.  What the queries say and the sums that transactions must keep are the outcomes."""

import glob
import os
import pwd
import re
import signal

from kit import digest, first_line

RANK = 3
TITLE = "PostgreSQL: pgbench, parallel queries, recovery"
PACKAGES = "postgresql"
SECONDS = 150
USER = "postgres"       # it refuses root

SUMS = ("select (select sum(abalance) from pgbench_accounts) = (select coalesce(sum(delta), 0) from pgbench_history), "
        "(select sum(bbalance) from pgbench_branches) = (select sum(tbalance) from pgbench_tellers), "
        "(select count(*) from pgbench_accounts)")
PARALLEL = ("set max_parallel_workers_per_gather = 4; set parallel_setup_cost = 0; set parallel_tuple_cost = 0; "
            "set min_parallel_table_scan_size = 0; set min_parallel_index_scan_size = 0; ")
QUERIES = {
    "aggregate": "select count(*), sum(a), min(b), max(b), count(distinct b) from big",
    "join": "select count(*), sum(x.a + y.a) from big x join big y using (b) where x.a < 3000",
    "sort": "select md5(string_agg(b, ',' order by b, a)) from (select * from big order by b limit 20000) s",
    "group": "select md5(string_agg(g::text, ',')) from (select a % 1000 k, count(*) n, sum(a) s from big group by 1 "
             "order by 1) g",
    "append": "select count(*), sum(a) from (select a from big union all select a from big where a % 2 = 0) s",
    "index": "create index i on big(b); select count(*) from big where b between '1' and '3'; drop index i",
    "vacuum": "vacuum (parallel 2, analyze) big; select count(*) from big",
}


def programs():
    """The directory of the newest server; what is in the PATH may be wrappers."""
    found = glob.glob("/usr/lib/postgresql/*/bin/initdb") + glob.glob("/usr/bin/initdb")
    return os.path.dirname(max(found, key=lambda path: [int(n) for n in re.findall(r"\d+", path)])) if found else None


def uid():
    if os.getuid():
        return None
    try:
        return pwd.getpwnam(USER).pw_uid
    except KeyError:
        return None


def missing():
    where = programs()
    lacks = [] if where else ["initdb"]
    if where and not os.path.exists(f"{where}/pgbench"):
        lacks.append("pgbench")
    return lacks + ([f"a user {USER}"] if not os.getuid() and uid() is None else [])


def version():
    return first_line(f"{programs()}/postgres", "--version")


def run(kit):
    where, user, outcomes = programs(), uid(), {}
    place = os.path.join(kit.place, "pg")
    os.mkdir(place)
    if user is not None:
        os.chown(place, user, -1)
    data = f"{place}/data"

    def call(name, *argv, preloaded=True, seconds=60):
        return kit.run([f"{where}/{name}", *argv], seconds, preloaded, cwd=place, user=user)

    def sql(text, preloaded=True):
        return call("psql", "-h", place, "-U", USER, "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", text, "postgres",
                    preloaded=preloaded)

    def is_up():
        return call("pg_isready", "-h", place, preloaded=False).rc == 0

    outcomes["initdb"] = kit.outcome(call("initdb", "-D", data, "-U", USER, "-A", "trust", "--no-sync"))
    server = [f"{where}/postgres", "-D", data, "-k", place, "-c", "listen_addresses=", "-c", "max_worker_processes=16",
              "-c", "max_parallel_workers=8", "-c", "log_min_messages=warning"]
    with kit.server(server, is_up, signal.SIGINT, user) as end:
        outcomes["pgbench -i"] = kit.outcome(call("pgbench", "-h", place, "-U", USER, "-i", "-q", "-s", "2", "postgres"))
        for what, options in (("tpcb", ["-c", "12", "-j", "4", "-t", "150"]),
                              ("select", ["-S", "-c", "8", "-j", "8", "-t", "400", "-M", "prepared"]),
                              ("connect", ["-S", "-C", "-c", "4", "-j", "4", "-t", "25"])):
            result = call("pgbench", "-h", place, "-U", USER, "-n", *options, "postgres")
            done = re.search(r"actually processed: (\d+/\d+)", result.out)
            outcomes[f"pgbench {what}"] = kit.outcome(result, done[1] if done else "nothing")
        outcomes["sums"] = kit.outcome(result := sql(SUMS), result.out.strip())
        result = sql("create table big as select i::int a, md5((i * 7919 % 50021)::text) b from "
                     "generate_series(1, 200000) i; analyze big")
        outcomes["big table"] = kit.outcome(result)
        for name, query in QUERIES.items():
            result = kit.run([f"{where}/psql", "-h", place, "-U", USER, "-XAtq", "-v", "ON_ERROR_STOP=1", "postgres"], 60,
                             cwd=place, user=user, text=PARALLEL + query + ";\n")
            outcomes[f"parallel {name}"] = kit.outcome(result, digest(result.data))
        result = sql(PARALLEL + "explain " + QUERIES["join"])
        outcomes["is parallel"] = kit.outcome(result) if "Workers Planned" in result.out else "fail"
    outcomes["fast end"] = str(end.rc)
    with kit.server(server, is_up, signal.SIGKILL, user):
        outcomes["after the restart"] = kit.outcome(result := sql("insert into big values (0, 'x'); " + SUMS),
                                                    result.out.strip())
    for name in glob.glob(f"{data}/postmaster.pid"):
        os.unlink(name)
    with kit.server(server, is_up, signal.SIGINT, user) as end:
        outcomes["after the crash"] = kit.outcome(result := sql("select count(*) from big"), result.out.strip())
    outcomes["end"] = str(end.rc)
    return outcomes

# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""Perl: two threads and a queue of the standard library, all of it mutexes and condition variables."""

import common

PACKAGES = "perl"
METRIC = "items/s"
SECONDS = 2
ITEMS = 100000
SCRIPT = """
use threads; use Thread::Queue; use Time::HiRes 'time';
my ($n, $q) = (shift, Thread::Queue->new); $q->limit = 16;
my $begun = time;
my $get = threads->create(sub { my $i = 0; $i++ while defined $q->dequeue; $i });
$q->enqueue($_) for 1 .. $n;
$q->end;
printf "%d operations in %.6f s\\n", $get->join, time - $begun;
"""


def missing():
    return common.lacking("perl")


def run(kit, _variant):
    out, _ = kit.run(["perl", "-e", SCRIPT, str(ITEMS)])
    figures = r"^(\d+) operations in ([\d.]+) s"
    return common.number(figures, out), common.number(figures, out, 2)

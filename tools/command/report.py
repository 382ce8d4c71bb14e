# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""The report of `parkade bench': the same document as text, as Markdown, and as HTML that needs nothing beside it."""

import base64
import html
import os

from . import files
from .contest import QUIET
from .results import MEAN, SHORT, geometric_mean

FASTER = 1.05                   # from there on it is worth to say which lock it was
TITLES = {"alone": "Calls that nobody disturbs", "lone": "One mutex and one thread, with the work of the grid",
          "grid": "One mutex: threads, critical sections, work outside",
          "papers": "The papers' benchmarks, condition variables, thread pools", "memory": "Memory",
          "programs": "Real programs", "command": "Command"}


def short(value):
    """A number in few characters."""
    if value is None:
        return "-"
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{unit}"
    return f"{value:.3g}"


def ratio(value):
    return "-" if value is None else f"{value:.2f}"


def columns(row, cpus):
    before, after = (row.median(n, "rate") for n in (0, row.number))
    spread = f"{min(row.ratios):.2f} .. {max(row.ratios):.2f}" if row.ratios else "-"
    marks = ("!" if row.faults(cpus) else "") + ("~" if row.noise > QUIET else "")
    return [row.name, row.contestant, short(before), short(after), ratio(row.ratio), spread, ratio(row.cpu),
            ratio(row.wait), ratio(row.longest), f"{row.noise:.0%}", marks]


def document(results):
    """[(kind, content)]: heads, paragraphs, lists, tables, codes; the pictures come in between."""
    data, rows = results.data, results.rows()
    machine, first = data["machine"], results.names[0]
    cpus = machine["cpus"]
    heads = ["", "contestant", f"{first}, 1/s", "its own, 1/s", "ratio", "spread", "CPU", "p99.9", "longest", "others", ""]
    parts = [("head", f"Locks measured: {' against '.join([', '.join(results.names[1:]), first])}"),
             ("text", f"{data['date']}, parkade {data['release']}, {machine['cpus']} CPUs ({machine['model']}, "
              f"{machine['machine']}), Linux {machine['kernel']}, {machine['libc']}."),
             ("text", f"The contestants ran in turns. Ratio: the median over the rounds of a contestant's rate and {first}'s "
              "in the same round, above 1 is faster; spread: the least and the most; CPU: the same of the processor time "
              "of an operation, p99.9 of the 99.9th percentile of the waits for a lock, longest of the longest one, below 1 is "
              "better. A lock that leaves its waiters for a thousand sections has a short percentile and a long wait."),
             ("text", f"Others: the share of the machine that other programs used. !: not good enough. ~: others used more "
              f"than {QUIET:.0%} in every round, so the numbers say little.")]
    for n, name in enumerate(results.names[1:], 1):
        mine = [row for row in rows if row.number == n]
        good = geometric_mean([row.ratio for row in mine if row.group == "grid"])
        over = geometric_mean([row.ratio for row in mine if row.is_over(cpus)])
        items = [f"{name}: {sum(not row.faults(cpus) for row in mine)} of {len(mine)} cells are good, "
                 f"{sum(row.noise > QUIET for row in mine)} of them are noisy"]
        if good:
            items.append(f"{name}: geometric mean of the grid {good:.2f} (at least {MEAN:g} is wanted)")
        possible = results.possible() if n == 1 else None
        if possible:
            items.append(f"a lock that is handed over in no time would reach {geometric_mean(possible):.2f} there, by what one "
                         "thread does: sections one after the other, or a CPU busy for each thread, whichever is less")
        if over:
            items.append(f"{name}: of its cells with more threads than CPUs, sections of {' or '.join(SHORT)} and no work "
                         f"outside {over:.2f}")
        parts.append(("list", items))
    parts.append(("pictures", None))
    for group in dict.fromkeys(row.group for row in rows):
        parts += [("subhead", TITLES.get(group, group)),
                  ("table", [heads, *(columns(row, cpus) for row in rows if row.group == group)])]
        locks = [(f"{row.name}: {name}", row.median(n, "bytes_per_lock")) for row in rows if row.group == group
                 for n, name in ((0, first), (row.number, row.contestant))]
        locks = {what: f"{what}: {value:.1f} bytes for each object, beyond its own" for what, value in locks
                 if value is not None}
        parts += [("list", list(locks.values()))] if locks else []
        made = {row.name: f"{row.name}: {row.lock}" for row in rows if row.group == group and row.lock and row.ratio >= FASTER}
        if made:
            parts += [("text", f"The lock that threads waited for longest, where the rate is {FASTER:g} or more:"),
                      ("list", list(made.values()))]
    bad = [row for row in rows if row.faults(cpus)]
    if bad:
        parts += [("subhead", "What is not good enough"),
                  ("list", [f"{row.group}: {row.name}, {row.contestant}: {'; '.join(row.faults(cpus))}" for row in bad]),
                  ("text", "To run them again:"), ("code", [row.command[row.number] for row in bad])]
    if data["failed"]:
        parts += [("subhead", "What could not be measured"),
                  ("list", [f"{what}: {why}" for what, why in data["failed"].items()])]
    return parts


def aligned(table):
    widths = [max(map(len, column)) for column in zip(*table)]
    return ["  ".join(f"{cell:<{width}}" if n < 2 else f"{cell:>{width}}" for n, (cell, width)
                      in enumerate(zip(row, widths))).rstrip() for row in table]


def as_text(parts):
    lines = []
    for kind, content in parts:
        if kind in ("head", "subhead", "text"):
            lines += [content, ""]
        elif kind in ("list", "code"):
            lines += [*(f"- {item}" if kind == "list" else f"  {item}" for item in content), ""]
        elif kind == "table":
            lines += [*aligned(content), ""]
    return "\n".join(lines)


def as_markdown(parts, pictures=()):
    lines = []
    for kind, content in parts:
        if kind in ("head", "subhead"):
            lines += [f"{'#' if kind == 'head' else '##'} {content}", ""]
        elif kind == "text":
            lines += [content, ""]
        elif kind == "list":
            lines += [*(f"- {item}" for item in content), ""]
        elif kind == "code":
            lines += [*(f"    {item}" for item in content), ""]
        elif kind == "table":
            head, *rows = ([cell.replace("|", "\\|") for cell in row] for row in content)
            lines += [f"| {' | '.join(head)} |", "|---|---" + "|---:" * (len(head) - 3) + "|---|",
                      *(f"| {' | '.join(row)} |" for row in rows), ""]
        elif kind == "pictures":
            lines += [line for name, title in pictures for line in (f"![{title}]({name}.svg)", "")]
    return "\n".join(lines).rstrip() + "\n"


STYLE = """body{font:15px/1.45 sans-serif;max-width:75em;margin:2em auto;padding:0 1em;color:#222}
table{border-collapse:collapse;font-size:13px}td,th{padding:2px 9px;text-align:right;border-bottom:1px solid #ddd}
td:first-child,th:first-child,td:nth-child(2){text-align:left}tr.bad td{background:#fde8e4}
img{max-width:100%}pre{background:#f4f4f4;padding:.7em;overflow:auto;font-size:12px}"""


def as_html(parts, place=None, pictures=()):
    """Pictures are read from PLACE and put into the page."""
    def row(cells, tag="td"):
        bad = ' class="bad"' if tag == "td" and "!" in cells[-1] else ""
        return f"<tr{bad}>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    title = html.escape(next(content for kind, content in parts if kind == "head"))
    lines = ["<!DOCTYPE html>", f'<html lang="en"><head><meta charset="utf-8"><title>{title}</title>',
             f"<style>{STYLE}</style></head><body>"]
    for kind, content in parts:
        if kind in ("head", "subhead"):
            tag = "h1" if kind == "head" else "h2"
            lines.append(f"<{tag}>{html.escape(content)}</{tag}>")
        elif kind == "text":
            lines.append(f"<p>{html.escape(content)}</p>")
        elif kind == "list":
            lines.append("<ul>" + "".join(f"<li>{html.escape(item)}</li>" for item in content) + "</ul>")
        elif kind == "code":
            lines.append(f"<pre>{html.escape(chr(10).join(content))}</pre>")
        elif kind == "table":
            lines += ["<table>", row(content[0], "th"), *map(row, content[1:]), "</table>"]
        elif kind == "pictures":
            for name, caption in pictures:
                with open(os.path.join(place, name + ".svg"), "rb") as file:
                    image = base64.b64encode(file.read()).decode("ascii")
                lines.append(f'<h2>{html.escape(caption)}</h2><img alt="{html.escape(caption)}" '
                             f'src="data:image/svg+xml;base64,{image}">')
    return "\n".join([*lines, "</body></html>", ""])


def write(results, place, pictures):
    parts = document(results)
    for name, content in (("report.md", as_markdown(parts, pictures)), ("report.html", as_html(parts, place, pictures))):
        path = os.path.join(place, name)
        with files.named(path), open(path, "w", encoding="utf-8") as file:
            file.write(content)
    return parts

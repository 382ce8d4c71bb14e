# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""How long a running process's threads wait for its locks, over time, as an image, by matplotlib."""

from . import images, locks

TOP = 6


class History:
    """What was seen of a process, look by look."""

    def __init__(self):
        self.looks = []     # (seconds, policy, {lock: wait_ns}, {lock: its row})

    def add(self, now, policy, report):
        # Who waits for a condition variable has nothing to do, most of the time.
        rows = {(lock["object"], lock["kind"]): lock for lock in report["locks"] if lock["kind"] != "condition"} if report else {}
        self.looks.append((now, policy, {key: lock["wait_ns"] for key, lock in rows.items()}, rows))

    def rates(self):
        """(seconds since the first look, {lock: seconds that threads waited for it, a second}) of each look but that."""
        for (before, _, was, _), (now, _, waits, _) in zip(self.looks, self.looks[1:]):
            if now > before:
                yield now - self.looks[0][0], {key: max(ns - was.get(key, 0), 0) / 1e9 / (now - before) for key, ns in waits.items()}

    def changes(self):
        """(seconds, policy) of the first look, and of each that found another policy than the one before."""
        last = None
        for now, policy, _, _ in self.looks:
            if policy != last:
                yield now - self.looks[0][0], policy
            last = policy

    def top(self):
        """The locks with the longest waits within the time of the looks, and what to call them."""
        first, last = self.looks[0][2], self.looks[-1][2]
        waited = {key: ns - first.get(key, 0) for key, ns in last.items()}
        chosen = sorted((key for key in waited if waited[key] > 0), key=lambda key: -waited[key])[:TOP]
        return {key: label(self.looks[-1][3][key]) for key in chosen}


def label(lock):
    """Its name or address, what it is, and where it was first waited for."""
    name = locks.printable(lock["name"]) or f"{lock['object']:#x}"
    site = lock["sites"][0]["text"].split(" < ")[-1] if lock["sites"] and "text" in lock["sites"][0] else "?"
    return f"{name}, {locks.printable(lock['kind'])}: {site[:60]}"


def draw(history, title, path):
    """False: there is nothing to be drawn, as fewer than two looks saw locks."""
    rates, named = list(history.rates()), history.top()
    if not rates or not named:
        return False
    figure, axes = images.page((9, 5))
    times = [time for time, _ in rates]
    for key, text in named.items():
        axes.plot(times, [rate.get(key, 0) for _, rate in rates], marker=".", linewidth=1, label=text)
    for time, policy in history.changes():
        axes.axvline(time, color="0.6", linewidth=0.8, linestyle="--")
        axes.annotate(policy, (time, 1), xycoords=("data", "axes fraction"), xytext=(3, -10), textcoords="offset points",
                      fontsize="small", color="0.3")
    axes.set(xlabel="seconds", ylabel="threads that wait, on average", title=title)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="x-small", loc="upper center", bbox_to_anchor=(0.5, -0.13), ncol=2)
    images.save(figure, path)
    return True

# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""What the throughput of pairs of CPUs says about the levels of a machine.

Paper: Chehab et al. (CLoF), SOSP 2021, section 3.1 and Table 2. Finding the levels, which it leaves to the user, is
done here:

 1. CPUs that pass a cache line to each other fastest are merged first, then groups of them, by the mean of the
    logarithms of all pairs between two groups (average linkage).
 2. The rates at which this merged are put into bunches, too: two neighbours become one, those first that lie closest
    together and stand for the fewest pairs (Ward's criterion), until the means of any two are at least a ratio, the
    gap, apart. Each bunch is a level of the machine.
 3. What the merges of a level and of those within it have put together are the level's cohorts. The level at which all
    is one is the system. A level is taken for noise if it puts few CPUs together, or all but few, or if the one around
    it only adds a few to its cohorts; few are an eighth.

Rates are dictionaries: (a, b) with a < b to increments a second. A partition is a list of cohorts, a cohort a list of
CPUs. Nothing here reads, runs or prints.
"""

import itertools
import math
import random
import statistics

GAP = 1.25
FEW = 8
FACTORS = 3                     # of sockets, caches, cores: what PARKADE_TOPOLOGY can tell apart, beside the system
CPUS_MAX = 8192
SOCKETS_MAX = 256


def members(partition):
    """The number of the cohort of each CPU."""
    return {cpu: n for n, cohort in enumerate(partition) for cpu in cohort}


class Kinship:
    """How two CPUs are related, by partitions of which the first are the innermost."""

    def __init__(self, partitions):
        self.partitions = partitions
        self.cohort_of = [members(partition) for partition in partitions]

    def nearest(self, a, b):
        """The size of the least cohort that has both; None: it is the system."""
        shared = [len(partition[of[a]]) for partition, of in zip(self.partitions, self.cohort_of) if of[a] == of[b]]
        return min(shared, default=None)

    def keys(self, a, b):
        """Which pairs are like this one: those between the same two cohorts at the innermost level first, in the end
        all that are as near."""
        near = self.nearest(a, b)
        for level, of in enumerate(self.cohort_of):
            yield near, level, min(of[a], of[b]), max(of[a], of[b])
        yield near, None


def choose(cpus, partitions, most):
    """All pairs of CPUS, or about as many as MOST, among them one for each cohort and pair of cohorts if there is room:
    for the cohorts themselves first, then for pairs of the large ones."""
    pairs = list(itertools.combinations(sorted(cpus), 2))
    if len(pairs) <= most:
        return pairs
    random.Random(1).shuffle(pairs)
    kinship, firsts = Kinship(partitions), {}
    for pair in pairs:
        for key in kinship.keys(*pair):
            firsts.setdefault(key, pair)

    def rank(key):
        level = len(partitions) if key[1] is None else key[1]
        return level < len(partitions) and key[2] != key[3], -level

    wanted = dict.fromkeys(firsts[key] for key in sorted(firsts, key=rank))
    wanted.update(dict.fromkeys(pairs))
    return sorted(itertools.islice(wanted, most))


def complete(cpus, rates, partitions):
    """RATES with an estimate for each pair of CPUS that was not measured: the median of those that are most like it."""
    missing = [pair for pair in itertools.combinations(sorted(cpus), 2) if pair not in rates]
    if not missing:
        return rates
    kinship, alike = Kinship(partitions), {}
    for pair, rate in rates.items():
        for key in kinship.keys(*pair):
            alike.setdefault(key, []).append(rate)
    medians = {key: statistics.median(found) for key, found in alike.items()}
    least = min(rates.values())
    full = dict(rates)
    for pair in missing:
        full[pair] = next((medians[key] for key in kinship.keys(*pair) if key in medians), least)
    return full


def merge(cpus, rates):
    """[(logarithm of the rate, of how many pairs, CPU of one group, CPU of the other)], the fastest first.

    By chains of nearest neighbours: whoever is each other's nearest is merged at some time anyway.
    """
    near = {a: {b: math.log(rates[min(a, b), max(a, b)]) for b in cpus if b != a} for a in cpus}
    size, merges, chain = dict.fromkeys(cpus, 1), [], []
    while len(size) > 1:
        if not chain:
            chain = [next(iter(size))]
        a = chain[-1]
        before = chain[-2] if len(chain) > 1 else None
        b = max(near[a], key=lambda other: (near[a][other], other == before))
        if b != before:
            chain.append(b)
            continue
        merges.append((near[a].pop(b), size[a] * size[b], a, b))
        for other, rate in near.pop(a).items():
            mean = (size[a] * rate + size[b] * near[b][other]) / (size[a] + size[b])
            near[b][other] = near[other][b] = mean
            del near[other][a]
        del near[b][a]
        size[b] += size.pop(a)
        del chain[-2:]
    return sorted(merges, key=lambda found: -found[0])


def bunch(values, weights, distance):
    """How many of VALUES, which are sorted, are in each bunch."""
    bunches = [(value, weight, 1) for value, weight in zip(values, weights)]

    def gap(i):
        return abs(bunches[i][0] - bunches[i + 1][0])

    def cost(i):
        weight, other = bunches[i][1], bunches[i + 1][1]
        return gap(i) ** 2 * weight * other / (weight + other)

    while any(gap(i) < distance for i in range(len(bunches) - 1)):
        i = min(range(len(bunches) - 1), key=cost)
        (mean, weight, n), (after, other, m) = bunches[i:i + 2]
        bunches[i:i + 2] = [((weight * mean + other * after) / (weight + other), weight + other, n + m)]
    return [n for _, _, n in bunches]


def is_little(inner, outer):
    """The cohorts of OUTER are the largest of INNER that are in each, but for a few CPUs."""
    of = members(inner)
    added = sum(len(cohort) - max(len(inner[of[cpu]]) for cpu in cohort) for cohort in outer)
    return added * FEW <= len(of)


def find_levels(cpus, rates, gap=GAP):
    """The partitions of the levels, the innermost first, without the system."""
    if len(cpus) < 3:
        return []
    merges = merge(cpus, rates)
    cohort, levels = {cpu: [cpu] for cpu in cpus}, [[[cpu] for cpu in sorted(cpus)]]
    for n in bunch([found[0] for found in merges], [found[1] for found in merges], math.log(gap)):
        for _, _, a, b in merges[:n]:
            joined = cohort[a] + cohort[b]
            cohort.update((cpu, joined) for cpu in joined)
        del merges[:n]
        partition = sorted(sorted(group) for group in {id(group): group for group in cohort.values()}.values())
        if not is_little(levels[-1], partition):
            levels.append(partition)
        elif len(levels) > 1:
            levels[-1] = partition
    several = [level for level in levels if sum(len(group) > 1 for group in level) > 1 or len(cpus) == 3]
    return [level for level in several if 1 < len(level) < len(cpus)]


def speedups(rates, partitions):
    """[(median rate, speed-up)] for each partition, and last for the system: of the pairs for which a cohort of that
    size is the least that has both; None where there are no such pairs. Speed-ups are relative to the system, or to
    the largest cohorts where there is nothing beyond."""
    kinship, found = Kinship(partitions), {}
    for pair, rate in rates.items():
        near = kinship.nearest(*pair)
        found.setdefault(near, []).append(rate)
        if near is not None:
            for level, of in enumerate(kinship.cohort_of):
                if of[pair[0]] == of[pair[1]] and len(partitions[level][of[pair[0]]]) == near:
                    found.setdefault((level,), []).append(rate)
    medians = [statistics.median(found[key]) if key in found else None
               for key in [*((level,) for level in range(len(partitions))), None]]
    base = next((rate for rate in reversed(medians) if rate), None)
    return [rate and (rate, rate / base) for rate in medians]


def agreement(partition, other):
    """The share of the pairs that are together in one of both which are so in the other, too."""
    def together(groups):
        return sum(len(group) * (len(group) - 1) // 2 for group in groups)

    of, mine = members(partition), members(other)
    both = {}
    for cpu in of:
        both.setdefault((of[cpu], mine[cpu]), []).append(cpu)
    common = together(both.values())
    return common / ((together(partition) + together(other) - common) or 1)


def is_even(partition):
    return len({len(group) for group in partition}) == 1


def shape(levels, gains):
    """SOCKETS[xCACHES]xCORES[xTHREADS] that has these levels; None: they are not even, or there are none. Where there
    are more than the form has room for, those that gain least (GAINS: the ratio to the level around) are left out."""
    kept = sorted(sorted(range(len(levels)), key=lambda level: -gains[level])[:FACTORS])
    levels = [levels[level] for level in kept]
    if not levels or not all(is_even(level) for level in levels):
        return None
    sizes = [sum(map(len, levels[-1])), *(len(level[0]) for level in reversed(levels)), 1]
    factors = [big // small for big, small in zip(sizes, sizes[1:])]
    if factors[0] > SOCKETS_MAX or sizes[0] > CPUS_MAX:
        return None
    return "x".join(map(str, factors))


def in_order(levels):
    """CPU numbers run through the cohorts without gaps from 0 on, as PARKADE_TOPOLOGY has them."""
    return all([cpu for group in level for cpu in group] == list(range(sum(map(len, level)))) for level in levels)

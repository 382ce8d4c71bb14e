# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""x265: a thread pool encodes made-up pictures."""

import os

import common

PACKAGES = "x265"
METRIC = "frames/s"
SECONDS = 3
WIDTH, HEIGHT, PICTURES, TIMES = 352, 288, 60, 4


def missing():
    return common.lacking("x265")


def prepare(kit):
    """Pictures with something in them that moves, some times over."""
    pictures = bytearray()
    for frame in range(PICTURES):
        for y in range(HEIGHT):
            pictures += bytes((x * y // 64 + 3 * frame) & 255 for x in range(WIDTH))
        pictures += bytes([128 + frame % 16]) * (WIDTH * HEIGHT // 2)
    with open(os.path.join(kit.place, "pictures.yuv"), "wb") as file:
        for _ in range(TIMES):
            file.write(pictures)


def run(kit, _variant):
    _, err = kit.run(["x265", "--input", os.path.join(kit.place, "pictures.yuv"), "--input-res", f"{WIDTH}x{HEIGHT}",
                      "--fps", "25", "--preset", "fast", "--pools", str(common.THREADS), "-o", "/dev/null"])
    # The seconds that it prints are of two digits.
    rate = common.number(r"encoded \d+ frames in [\d.]+s \(([\d.]+) fps\)", err)
    return PICTURES * TIMES, PICTURES * TIMES / rate

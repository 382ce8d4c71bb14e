# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""x265: a thread pool encodes made-up pictures."""

import os

import common

PACKAGES = "x265"
METRIC = "frames/s"
SECONDS = 3
WIDTH, HEIGHT, FRAMES = 352, 288, 60


def missing():
    return common.lacking("x265")


def prepare(kit):
    """Pictures with something in them that moves."""
    with open(os.path.join(kit.place, "pictures.yuv"), "wb") as file:
        for frame in range(FRAMES):
            for y in range(HEIGHT):
                file.write(bytes((x * y // 64 + 3 * frame) & 255 for x in range(WIDTH)))
            file.write(bytes([128 + frame % 16]) * (WIDTH * HEIGHT // 2))


def run(kit, _variant):
    _, err = kit.run(["x265", "--input", os.path.join(kit.place, "pictures.yuv"), "--input-res", f"{WIDTH}x{HEIGHT}",
                      "--fps", "25", "--preset", "fast", "--pools", str(common.THREADS), "-o", "/dev/null"])
    return FRAMES, common.number(r"encoded \d+ frames in ([\d.]+)s", err)

# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""Compressors, encoders and media pipelines with several threads: what comes out must be the same, byte for byte."""

import os
import random
import re
import shutil

from kit import digest, first_line

RANK = 6
TITLE = "Same output: xz, zstd, sort, git, x265, ffmpeg, GStreamer"
PACKAGES = "xz-utils, zstd, git, x265, ffmpeg, gstreamer1.0-tools, gstreamer1.0-plugins-good"
SECONDS = 200
NOISE = ["ffmpeg", "-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i", "testsrc2=size=320x240:rate=25:duration=3"]
FRAMES = "videotestsrc num-buffers=60 pattern=ball ! video/x-raw,width=320,height=240 ! "


def missing():
    return [] if any(map(shutil.which, ("xz", "zstd", "ffmpeg", "gst-launch-1.0", "x265"))) else ["xz"]


def version():
    words = (("xz", "--version"), ("ffmpeg", "-version"), ("x265", "--version"), ("gst-launch-1.0", "--version"))
    return ", ".join(f"{name} {first_line(name, option)}" for name, option in words if shutil.which(name))


def inputs(kit):
    chance = random.Random(1)
    words = [b"%x" % chance.getrandbits(chance.choice((16, 32, 64))) for _ in range(80000)]
    for name, data in (("lines", b"\n".join(words) + b"\n"), ("blob", b" ".join(words) * 4)):
        with open(os.path.join(kit.place, name), "wb") as file:
            file.write(data)
    if shutil.which("ffmpeg"):
        kit.run([*NOISE, "-pix_fmt", "yuv420p", "clip.y4m"], preloaded=False)
        kit.run(["ffmpeg", "-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i", "testsrc2=size=320x240:rate=25:duration=4",
                 "-f", "lavfi", "-i", "sine=frequency=440:duration=4", "-c:v", "mpeg4", "-c:a", "flac", "-threads", "1",
                 "clip.mkv"], preloaded=False)


def commands():
    """(name, argv, the file that it writes or None for what it prints)."""
    for level, threads in ((1, 4), (3, 8), (6, 2)):
        yield f"xz -{level} -T{threads}", ["xz", f"-T{threads}", f"-{level}", "--block-size=150000", "-c", "blob"], None
    yield "xz -d -T4", ["sh", "-c", "xz -T4 -1 --block-size=100000 -c blob | xz -d -T4 -c"], None
    for threads in 2, 8:
        yield f"zstd -T{threads}", ["zstd", f"-T{threads}", "-B400000", "-q", "-c", "blob"], None
    yield "sort", ["sort", "--parallel=8", "-S", "3M", "lines"], None
    yield "git pack", ["sh", "-c", "git init -q g && cd g && git config user.email a@b && git config user.name a && "
                       "split -l 300 ../lines p && git add . && git -c commit.gpgsign=false commit -qm x "
                       "--date=2026-01-01T00:00:00Z && git config pack.threads 4 && git gc -q && git fsck --full 2>&1 && "
                       "git grep --threads=8 -c face | sort"], None
    if os.path.exists("/usr/bin/ffmpeg"):
        for codec, options in (("mpeg4", []), ("ffv1", ["-slices", "4", "-level", "3"]), ("libx264", ["-preset", "fast"]),
                               ("libvpx-vp9", ["-row-mt", "1", "-deadline", "realtime", "-cpu-used", "8"]),
                               ("prores", [])):         # mjpeg's is another each time, on glibc, too
            yield (f"ffmpeg {codec}", [*NOISE, "-c:v", codec, *options, "-threads", "4", "-fflags", "+bitexact",
                                       "-flags:v", "+bitexact", "-f", "framemd5", "out.md5"], "out.md5")
        yield ("ffmpeg decode, filters", ["ffmpeg", "-nostdin", "-v", "error", "-y", "-threads", "8", "-filter_threads", "4",
                                          "-i", "clip.mkv", "-vf", "scale=640:480,hqdn3d,eq=contrast=1.2", "-f", "framemd5",
                                          "out.md5"], "out.md5")
        yield "x265", ["x265", "--input", "clip.y4m", "--preset", "fast", "--pools", "4", "--frame-threads", "3", "--no-info",
                       "-o", "out.hevc"], "out.hevc"
    for name, middle in (("queues", "queue ! videoconvert ! queue ! videoscale ! video/x-raw,width=160 ! queue"),
                         ("threads", "videoconvert n-threads=4 ! queue ! jpegenc ! queue ! jpegdec ! queue"),
                         ("tee", "tee name=t ! queue ! fakesink t. ! queue ! videoconvert ! queue")):
        yield f"gst-launch {name}", ["gst-launch-1.0", "-q", *(FRAMES + middle + " ! filesink location=out.raw").split()], "out.raw"
    yield "gst-launch audio", ["gst-launch-1.0", "-q", *("audiotestsrc num-buffers=300 ! queue ! audioconvert ! audioresample ! "
                               "audio/x-raw,rate=22050 ! queue ! wavenc ! filesink location=out.raw").split()], "out.raw"


def run(kit):
    inputs(kit)
    outcomes = {}
    for name, argv, output in commands():
        if not kit.wants(name):
            continue
        if not shutil.which(argv[0]):
            outcomes[name] = "skip"
            continue
        path = output and os.path.join(kit.place, output)
        if path and os.path.exists(path):
            os.unlink(path)
        result = kit.run(argv, 60)
        if result.rc not in (0, "hung") and re.search("Unknown encoder|no element", result.err):
            outcomes[name] = "skip"
            continue
        data = result.data
        if path and os.path.exists(path):
            with open(path, "rb") as file:
                data = file.read()
        outcomes[name] = kit.outcome(result, digest(data)) if data else "fail"
    return outcomes

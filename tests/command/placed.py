# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""The command as it would be installed, but that it finds the library and the helpers that were built."""

import os
import re
import shutil
import sys

from harness import BUILDDIR, LIB, SRCDIR, check

HELPERS = os.path.join(BUILDDIR, "bench")


def put_together(place, library=LIB, **more):
    """The arguments that start it; its package is found by import, too. MORE: names of paths.py, and what they are."""
    package = os.path.join(place, "command")
    shutil.copytree(os.path.join(SRCDIR, "tools", "command"), package,
                    ignore=shutil.ignore_patterns("*.in", "__pycache__"))
    os.chmod(package, 0o755)    # that of a distribution may not be written to
    shutil.copy(os.path.join(BUILDDIR, "tools", "command", "tables.py"), package)
    with open(os.path.join(BUILDDIR, "tools", "command", "paths.py"), encoding="utf-8") as file:
        text = file.read()
    for name, value in {"HELPERS": HELPERS, "LIBRARY": library, **more}.items():
        text, n = re.subn(f"(?m)^{name} = .*$", lambda _: f"{name} = {value!r}", text)
        check(n == 1, f"paths.py says {name}")
    with open(os.path.join(package, "paths.py"), "w", encoding="utf-8") as file:
        file.write(text)
    sys.path.insert(0, place)
    with open(os.path.join(place, "parkade"), "w", encoding="utf-8") as file:
        file.write("import sys\nfrom command.main import main\nsys.exit(main())\n")
    return [sys.executable, "-B", os.path.join(place, "parkade")]

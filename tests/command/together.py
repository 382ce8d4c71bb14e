# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""The parkade command as it would be installed, for tests of the build."""

import os
import re
import shutil
import sys

from harness import BUILDDIR, SRCDIR, check


def put_together(place, **directories):
    """How to call it, and its package on the path: with names of paths.py, as HELPERS, set to other directories."""
    package = os.path.join(place, "command")
    shutil.copytree(os.path.join(SRCDIR, "tools", "command"), package,
                    ignore=shutil.ignore_patterns("*.in", "__pycache__"))
    os.chmod(package, 0o700)    # that of a distribution may not be written to
    with open(os.path.join(BUILDDIR, "tools", "command", "paths.py"), encoding="utf-8") as file:
        text = file.read()
    for name, path in {"HELPERS": os.path.join(BUILDDIR, "bench"), **directories}.items():
        text, n = re.subn(f"(?m)^{name} = .*$", f"{name} = {path!r}", text)
        check(n == 1, f"paths.py has {name}")
    with open(os.path.join(package, "paths.py"), "w", encoding="utf-8") as file:
        file.write(text)
    sys.path.insert(0, place)
    with open(os.path.join(place, "parkade"), "w", encoding="utf-8") as file:
        file.write("import sys\nfrom command.main import main\nsys.exit(main())\n")
    return [sys.executable, "-B", os.path.join(place, "parkade")]

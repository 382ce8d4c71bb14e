# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""Browsers in their sandboxes, whose processes are made by clone, without fork handlers: a page that computes something,
with workers, as text and as a picture."""

import os
import pwd
import shutil

from kit import digest, first_line

RANK = 7
TITLE = "Browsers: Chromium and Firefox, with their sandboxes"
PACKAGES = "chromium, firefox-esr"
SECONDS = 200
PAGE = """data:text/html,<body><script>
const code = 'onmessage = e => { let sum = 0; for (let i = 0; i < e.data; i++) sum = (sum * 31 + i) %25 1000003; postMessage(sum); }';
const url = URL.createObjectURL(new Blob([code]));
for (let n = 1; n <= 4; n++) {
    const p = document.body.appendChild(document.createElement('p')), w = new Worker(url);
    w.onmessage = e => p.textContent = n + ': ' + e.data;
    w.postMessage(n * 1000);
}
</script></body>"""
STILL = "data:text/html,<h1 style='background:teal'>parkade</h1>"


def missing():
    return [] if shutil.which("chromium") or shutil.which("firefox-esr") else ["chromium", "firefox-esr"]


def version():
    return ", ".join(f"{name} {first_line(name, '--version')}" for name in ("chromium", "firefox-esr") if shutil.which(name))


def run(kit):
    # Chromium has no sandbox for root.
    user = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None
    home = os.path.join(kit.place, "home")
    os.mkdir(home)
    if user is not None:
        os.chown(home, user, -1)
    outcomes = {}

    def chromium(name, *options):
        if not kit.wants(name):
            return
        outcomes[name] = "skip"
        if shutil.which("chromium"):
            profile = os.path.join(home, name.replace(" ", "-"))
            result = kit.run(["chromium", "--headless", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}",
                              "--virtual-time-budget=10000", *options], 40, environment={"HOME": home, "TMPDIR": home}, cwd=home, user=user)
            picture = os.path.join(home, "screenshot.png")
            if os.path.exists(picture):
                with open(picture, "rb") as file:
                    result.data += file.read()
                os.unlink(picture)
            outcomes[name] = kit.outcome(result, digest(result.data)) if result.data else "fail"

    chromium("chromium workers", "--dump-dom", PAGE)
    chromium("chromium picture", "--screenshot", STILL)
    name = "firefox picture"
    if kit.wants(name):
        outcomes[name] = "skip"
        if shutil.which("firefox-esr"):
            profile, picture = os.path.join(kit.place, "profile"), os.path.join(kit.place, "firefox.png")
            os.mkdir(profile)
            result = kit.run(["firefox-esr", "--headless", "--no-remote", "--profile", profile, "--screenshot", picture,
                              "--window-size=400,300", STILL], 60)
            outcomes[name] = "hung" if result.rc == "hung" else "fail"
            if os.path.exists(picture):
                with open(picture, "rb") as file:
                    outcomes[name] = kit.outcome(result, digest(file.read()))
    return outcomes

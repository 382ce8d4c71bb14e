# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""OpenSSL 3: threads fetch a digest by its name, which read locks its stores, by a client in C."""

import common

PACKAGES = "libssl-dev"
METRIC = "fetches/s"
SECONDS = 2


def missing():
    return common.lacking_header("openssl/evp.h")


def prepare(kit):
    common.compile_c(kit, "openssl", "-lcrypto")


def run(kit, _variant):
    return common.client(kit, "openssl", common.THREADS, 1.5)

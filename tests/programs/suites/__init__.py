# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
"""The suites; kit.py says what one is."""

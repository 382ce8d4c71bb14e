/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The options, the policies and the counters as rows of text for man/generate: preprocessed,
 * never compiled, so that the manual reads the declarations as the code does.
 */
#define PK_CONFIG_ENUM(NAME, field, dflt, choices, doc) option @@ NAME @@ choices @@ dflt @@ doc
#define PK_CONFIG_INT(NAME, field, min, max, dflt, unit, doc) option @@ NAME @@ min to max unit @@ dflt @@ doc
#define PK_CONFIG_STR(NAME, field, dflt, doc) option @@ NAME @@ text @@ dflt @@ doc
#define PK_STAT(name, doc) counter @@ name @@ doc
#define PK_POLICY(name, spelled, operations, doc) policy @@ spelled @@ doc
#include "rt/policy.def"
#include "rt/config.def"
#include "rt/stat.def"

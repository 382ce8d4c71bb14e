/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The options of config.def, as the process was started with them. Written by
 * pk_config_read() in the constructor; constant afterwards, but for what
 * pk_config_change() changes: numbers, and the policy, which may be read at any time. */
#ifndef PK_CONFIG_H
#define PK_CONFIG_H

#include <stdbool.h>

#include "base/atomic.h"

/* An ENUM option holds the text of its choice; a STR option its value. Both are
 * copies, so that later changes to the environment do not reach us. */
struct pk_config {
#define PK_CONFIG_ENUM(NAME, field, dflt, choices, doc) const char *field;
#define PK_CONFIG_INT(NAME, field, min, max, dflt, unit, doc) int field;
#define PK_CONFIG_STR(NAME, field, dflt, doc) const char *field;
#include "rt/config.def"
#undef PK_CONFIG_ENUM
#undef PK_CONFIG_INT
#undef PK_CONFIG_STR
};

extern struct pk_config pk_config;

/* A number of it that pk_config_change() may change at this moment: spin, patience, batch, reduction. Relaxed: each is
 * read for itself, and the old one is as good as the new one. */
#define pk_knob(field) ((unsigned)pk_load_relaxed(&pk_config.field))

/* It has been: false in constructors that run before ours. */
extern bool pk_config_is_read;

/* PARKADE_BATCH was set: it rules also where a policy has a default of its own. */
extern bool pk_config_batch_given;

/* Read PARKADE_* from the environment (not in a set-user-ID program). A bad
 * value is reported in one line and its default kept. The default policy is the
 * one after which the library's `file` is named (libparkade-cna.so), if it is. */
void pk_config_read(const char *file);

/* Report that a value was not usable and what is wrong with it. */
void pk_config_reject(const char *name, const char *value, const char *why);

/* Change an option of a number or of choices while the process runs; null, or what is wrong
 * with the value: then nothing is changed. By one thread at a time. No system call, no memory. */
const char *pk_config_change(const char *name, const char *value);

/* Print every setting, one a line. */
void pk_config_print(void);

#endif

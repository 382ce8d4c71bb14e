/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Options that can be changed while the process runs. */
#ifndef PK_STEER_H
#define PK_STEER_H

/* Change one; null, or what is wrong: then nothing is changed. By one thread at a time, which may be about to wait for
 * a lock: it makes no system call and allocates nothing. */
const char *pk_steer(const char *name, const char *value);

#endif

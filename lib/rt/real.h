/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The door to glibc's own functions behind the ones that we interpose. */
#ifndef PK_REAL_H
#define PK_REAL_H

#include <pthread.h>
#include <stdbool.h>
#include <threads.h>
#include <time.h>

struct pk_real {
#define PK_REAL(type, name, args) type(*name) args;
#define PK_REAL_2_3_2 PK_REAL
#include "rt/real.def"
#undef PK_REAL
#undef PK_REAL_2_3_2
};

/* The table. The constructor fills it, so that no lock path has to call dlsym; a
 * call that is needed earlier still does it then. */
const struct pk_real *pk_real(void);

/* Whether that needs no looking up any more. */
bool pk_real_ready(void);

/* The file name by which the loader has found this library, as in
 * "/usr/lib64/libparkade.so.1"; null if it cannot tell. */
const char *pk_real_file(void);

/* Load a module of that name from the library's own directory, or from `parkade' in it, for good, and find a symbol
 * of it; null if it is not there. It allocates memory: for the constructor. */
void *pk_real_module(const char *name, const char *symbol);

#endif

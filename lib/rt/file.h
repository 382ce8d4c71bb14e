/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Reads small files of text: those of sysfs and cgroupfs, and settings. */
#ifndef PK_FILE_H
#define PK_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* As much of the file as there is room for, as a string; false if there is nothing. By
 * three system calls; errno is left alone. */
bool pk_file_read(const char *path, char *text, size_t room);

#endif

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The door to standard error. Never used on a lock path. */
#ifndef PK_REPORT_H
#define PK_REPORT_H

/* Print one message, whole or cut at 512 bytes, as printf would format it.
 * errno is left alone; a closed standard error is no error. */
void pk_report(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif

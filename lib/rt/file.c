/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Reads small files; the contract is in file.h. */
#include "rt/file.h"

#include <fcntl.h>
#include <sys/syscall.h>

#include "base/arch/arch.h"

bool pk_file_read(const char *path, char *text, size_t room)
{
	long fd = pk_arch_syscall(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0, 0, 0), n;

	if (fd < 0)
		return false;
	n = pk_arch_syscall(SYS_read, fd, (long)text, (long)room - 1, 0, 0, 0);
	pk_arch_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
	if (n <= 0)
		return false;
	text[n] = '\0';
	return true;
}

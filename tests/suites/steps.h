/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* STEPPED(CALL): a call in single steps, with a SIGTRAP after each instruction; where the machine has a trap flag. */
#ifndef STEPS_H
#define STEPS_H

#ifdef __x86_64__
enum { TRAP_FLAG = 0x100 };
#define STEPPED(call)                                                                                                  \
	do {                                                                                                           \
		__builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() | TRAP_FLAG);                           \
		call;                                                                                                  \
		__builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() & ~(unsigned long)TRAP_FLAG);           \
	} while (0)
#endif

#endif

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The control page: by it another process of the same user asks for counters and changes options (parkade stat, ctl).
 *
 * It is memory of this process (memfd_create), kept open under a high number, so that who may look at the process's
 * descriptors in /proc finds it, and nobody else: no directory, no name that is left behind, no rights of its own. It
 * cannot be cut short (sealed), so it can be read at any time; and whatever it holds is only ever copied and checked.
 *Set up in the constructor, for PARKADE_CONTROL=1: a sandbox may forbid these calls later.
 *
 * A request is a number that changes. A thread that has to wait looks whether it has, and then one of them
 * does what is asked: it is there that a policy matters, and counters change. No signal, no thread, no system call. A
 * process in which nobody waits does not answer. A child of fork has no page.
 *
 * State of `request` and `answer`
 *	request: n -> n + 1	by who asks, after `text` is written (release)
 *	answer: n -> m		by the process, after it has done what it saw at request m, and `reply` is written
 *(release)
 *
 * Statistics that others may look at are in a second such memory, which nobody but this process can ever write. */
#ifndef PK_CONTROL_H
#define PK_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "rt/arena.h"

enum {
	PK_CONTROL_MAGIC = 0x6b637470,
	PK_CONTROL_FORMAT = 1,
	PK_CONTROL_SIZE = 4096,
	PK_CONTROL_TEXT = 512,
};

struct pk_control_page {
	uint32_t magic, format;
	uint32_t pid;
	uint32_t request, answer;
	uint32_t counters_known;     /* how many of the counters below there are */
	char text[PK_CONTROL_TEXT];  /* name=value, one a line; or nothing */
	char reply[PK_CONTROL_TEXT]; /* what was wrong, or nothing */
	char policy[64];
	int64_t knob[8]; /* in the order of PK_CONTROL_KNOBS */
	uint64_t counter[PK_STATS];
};

_Static_assert(sizeof(struct pk_control_page) <= PK_CONTROL_SIZE, "the control page is one page");

/* Null: nobody can ask. Constant after the constructor, but in a child. */
extern struct pk_control_page *pk_control;
extern uint32_t pk_control_seen;

/* Once, in the constructor. `apply` changes an option, or returns what is wrong; it may be called by any thread that
 * waits, one at a time. */
typedef const char *pk_control_apply(const char *name, const char *value);
void pk_control_setup(pk_control_apply *apply);

/* Memory that others may look at, of the size or null. In the constructor. */
void *pk_control_memory(size_t size);

/* In a child of fork. */
void pk_control_fork_child(void);

void pk_control_serve(void);

/* Somebody waits: is there anything to be done first? */
PK_INLINE void pk_control_poll(void)
{
	struct pk_control_page *page = pk_load_relaxed(&pk_control);

	if (pk_unlikely(page && pk_load_relaxed(&page->request) != pk_load_relaxed(&pk_control_seen)))
		pk_control_serve();
}

#endif

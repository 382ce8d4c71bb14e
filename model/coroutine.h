/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Threads of control whose stacks can be copied away and put back. */
#ifndef MC_COROUTINE_H
#define MC_COROUTINE_H

#if defined(__x86_64__) || defined(__aarch64__)
#define MC_COROUTINES 1
#endif

/* Go on at `to`, and leave in *from where to come back to. All registers that outlive a
 * call are kept on the stack. */
void mc_switch(void **from, void *to);

/* What mc_switch() goes to in order to call entry() on a fresh stack. It must not return. */
void *mc_stack(void *top, void (*entry)(void));

#endif

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* Switches stacks; the contract is in coroutine.h. */
#include "model/coroutine.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
enum { WORDS = 8, RETURN = 6 }; /* six registers, the return address, one for the alignment */
__asm__(".text\n.globl mc_switch\n.type mc_switch,@function\nmc_switch:\n"
	"push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
	"mov %rsp, (%rdi)\n mov %rsi, %rsp\n"
	"pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n"
	"ret\n.size mc_switch, .-mc_switch\n");
#elif defined(__aarch64__)
enum { WORDS = 20, RETURN = 11 };
__asm__(".text\n.globl mc_switch\n.type mc_switch,%function\nmc_switch:\n"
	"sub sp, sp, #160\n"
	"stp x19, x20, [sp]\n stp x21, x22, [sp, #16]\n stp x23, x24, [sp, #32]\n"
	"stp x25, x26, [sp, #48]\n stp x27, x28, [sp, #64]\n stp x29, x30, [sp, #80]\n"
	"stp d8, d9, [sp, #96]\n stp d10, d11, [sp, #112]\n stp d12, d13, [sp, #128]\n"
	"stp d14, d15, [sp, #144]\n"
	"mov x9, sp\n str x9, [x0]\n mov sp, x1\n"
	"ldp x19, x20, [sp]\n ldp x21, x22, [sp, #16]\n ldp x23, x24, [sp, #32]\n"
	"ldp x25, x26, [sp, #48]\n ldp x27, x28, [sp, #64]\n ldp x29, x30, [sp, #80]\n"
	"ldp d8, d9, [sp, #96]\n ldp d10, d11, [sp, #112]\n ldp d12, d13, [sp, #128]\n"
	"ldp d14, d15, [sp, #144]\n"
	"add sp, sp, #160\n ret\n.size mc_switch, .-mc_switch\n");
#else
enum { WORDS = 2, RETURN = 0 };
void mc_switch(void **from, void *to)
{
	(void)from;
	(void)to;
}
#endif

void *mc_stack(void *top, void (*entry)(void))
{
	uintptr_t *words = (uintptr_t *)top - WORDS;

	memset(words, 0, WORDS * sizeof(*words));
	words[RETURN] = (uintptr_t)entry;
	return words;
}

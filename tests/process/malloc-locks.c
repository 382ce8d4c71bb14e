/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * A program whose own malloc locks a mutex in every call, from before any library's constructor on, as jemalloc does.
 *
 * Power-of-two classes over a bump pointer, one mutex for all, initialised in the first call, trylock before lock.
 * Threads contend on it in .preinit_array, which runs before the constructors of every library, and again in main.  A
 * lock path that allocates comes back into the allocator with the mutex held or wanted by the same thread: that is
 * reported, not waited for.  Exits 0 when all blocks kept what was written into them and both phases were contended.
 */
#include <errno.h>
#include <gnu/libc-version.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CLASSES 40
#define CHUNK ((size_t)1 << 22)
#define THREADS 6
#define SLOTS 64

/* Just below every block. The base is where the memory of the block really starts, its class is there, too. */
struct header {
	size_t size;
	struct header *base;
};

union block {
	struct header header;
	union block *next;
};

static pthread_mutex_t mutex;
static int started;
static union block *free_list[CLASSES];
static char *bump, *bump_end;
static long calls, contended;
static __thread int inside;

static void die(const char *what)
{
	static const char name[] = "malloc-locks: ";
	if (write(2, name, sizeof name - 1) < 0 || write(2, what, strlen(what)) < 0 || write(2, "\n", 1) < 0)
		_exit(3);
	_exit(1);
}

/* As jemalloc does in its first call, which may be any library's constructor's. The attributes
 * make it ask glibc for more than zeroes. */
static void allocator_start(void)
{
	pthread_mutexattr_t of_mutex;
	pthread_condattr_t of_cond;
	pthread_rwlockattr_t of_rwlock;
	pthread_cond_t cond;
	pthread_rwlock_t rwlock;

	if (pthread_mutexattr_init(&of_mutex) != 0 ||
	    pthread_mutexattr_settype(&of_mutex, PTHREAD_MUTEX_ADAPTIVE_NP) != 0 ||
	    pthread_mutex_init(&mutex, &of_mutex) != 0)
		die("pthread_mutex_init");
	if (pthread_condattr_init(&of_cond) != 0 || pthread_condattr_setclock(&of_cond, CLOCK_MONOTONIC) != 0 ||
	    pthread_cond_init(&cond, &of_cond) != 0)
		die("pthread_cond_init");
	if (pthread_rwlockattr_init(&of_rwlock) != 0 ||
	    pthread_rwlockattr_setkind_np(&of_rwlock, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP) != 0 ||
	    pthread_rwlock_init(&rwlock, &of_rwlock) != 0)
		die("pthread_rwlock_init");
	started = 1;
}

/* Before glibc 2.34 dlsym may allocate, and who wants more of glibc than zeroes before any constructor has it called: then the
 * allocator that is just starting comes here again, without its lock. (jemalloc says that there is no memory, which dlsym takes.) */
static bool dlsym_allocates(void)
{
	return strverscmp(gnu_get_libc_version(), "2.34") < 0;
}

static bool allocator_lock(void)
{
	if (inside) {
		if (started || !dlsym_allocates())
			die("a call from within lock, unlock or init: that path allocates");
		return false;
	}
	inside = 1;
	if (!started)
		allocator_start();
	if (pthread_mutex_trylock(&mutex) != 0) {
		if (pthread_mutex_lock(&mutex) != 0)
			die("lock failed");
		contended++;
	}
	/* What a real allocator does here is longer. */
	if (++calls % 2000 == 0)
		usleep(300); /* so that others find it taken, however busy the machine is */
	else if (calls % 64 == 0)
		sched_yield();
	return true;
}

static void allocator_unlock(void)
{
	pthread_mutex_unlock(&mutex);
	inside = 0;
}

static unsigned int class_of(size_t size)
{
	unsigned int bits = 5;
	while (((size_t)1 << bits) < size)
		bits++;
	return bits;
}

static void *carve(size_t bytes)
{
	if ((size_t)(bump_end - bump) < bytes) {
		size_t chunk = bytes > CHUNK ? bytes : CHUNK;
		bump = mmap(NULL, chunk, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (bump == MAP_FAILED)
			die("mmap");
		bump_end = bump + chunk;
	}
	void *piece = bump;
	bump += bytes;
	return piece;
}

static void *allocate(size_t align, size_t size)
{
	if (size > PTRDIFF_MAX / 4)
		return errno = ENOMEM, NULL;
	unsigned int class = class_of(size + 2 * sizeof(struct header) + align);
	bool locked = allocator_lock();
	union block *block = free_list[class];
	if (block)
		free_list[class] = block->next;
	else
		block = carve((size_t)1 << class);
	if (locked)
		allocator_unlock();
	struct header *base = &block->header;
	base->size = class;
	uintptr_t start = ((uintptr_t)(base + 2) + align - 1) & ~(uintptr_t)(align - 1);
	struct header *header = (struct header *)start - 1;
	header->size = size;
	header->base = base;
	return header + 1;
}

void *malloc(size_t size)
{
	return allocate(16, size);
}

void free(void *memory)
{
	if (!memory)
		return;
	struct header *base = ((struct header *)memory - 1)->base;
	size_t class = base->size;
	union block *block = (union block *)base;
	bool locked = allocator_lock();
	block->next = free_list[class];
	free_list[class] = block;
	if (locked)
		allocator_unlock();
}

void *calloc(size_t count, size_t size)
{
	size_t bytes;
	if (__builtin_mul_overflow(count, size, &bytes))
		return errno = ENOMEM, NULL;
	void *memory = allocate(16, bytes);
	return memory ? memset(memory, 0, bytes) : NULL;
}

void *realloc(void *memory, size_t size)
{
	void *larger = allocate(16, size);
	if (!memory || !larger)
		return larger;
	size_t old = ((struct header *)memory - 1)->size;
	memcpy(larger, memory, old < size ? old : size);
	free(memory);
	return larger;
}

void *aligned_alloc(size_t align, size_t size)
{
	return allocate(align < 16 ? 16 : align, size);
}

void *memalign(size_t align, size_t size)
{
	return aligned_alloc(align, size);
}

int posix_memalign(void **memory, size_t align, size_t size)
{
	*memory = aligned_alloc(align, size);
	return *memory ? 0 : ENOMEM;
}

/* Blocks of many sizes that live for a while, each full of the number of its slot. */
static void *churn(void *argument)
{
	unsigned char *slot[SLOTS] = {0};
	size_t length[SLOTS] = {0};
	unsigned int random = (unsigned int)(uintptr_t)argument;

	for (long round = (long)(uintptr_t)argument; round > 0; round--) {
		random = random * 1664525u + 1013904223u;
		unsigned int i = random >> 16 & (SLOTS - 1);
		for (size_t byte = 0; byte < length[i]; byte++)
			if (slot[i][byte] != i)
				die("a block lost what was written into it: two threads got the same");
		size_t size = 1 + (random >> 8) % 200;
		if (round % 3 == 0) {
			slot[i] = realloc(slot[i], size);
		} else {
			free(slot[i]);
			slot[i] = round % 2 ? calloc(1, size) : malloc(size);
		}
		length[i] = size;
		memset(slot[i], (int)i, size);
	}
	for (int i = 0; i < SLOTS; i++)
		free(slot[i]);
	return NULL;
}

static void contend(uintptr_t rounds)
{
	pthread_t thread[THREADS];
	contended = 0;
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, churn, (void *)(rounds + (uintptr_t)i)) != 0)
			die("pthread_create");
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	if (contended == 0)
		die("never contended, nothing was tested");
}

static void before_constructors(void)
{
	free(malloc(1)); /* before there is a second thread */
	contend(3000);
}

__attribute__((section(".preinit_array"), used)) static void (*const preinit)(void) = before_constructors;

int main(void)
{
	contend(20000);
	return 0;
}

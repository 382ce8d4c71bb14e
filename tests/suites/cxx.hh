/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * What suites of C++ share: threads in a scope, the end of a scene, who is inside, and what a mutex's fields tell.
 *
 * It is included behind C++'s own headers: check.h has macros that are names there (fail).
 */
#ifndef CXX_HH
#define CXX_HH

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <pthread.h>
#include <unistd.h>

/* C's atomics are no C++ before gcc 12, and what suite.h declares needs none: gcc's header believes to be there. */
#define _STDATOMIC_H
extern "C" {
#include "suite.h"
}

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using std::chrono::system_clock;

/*
 * Rounds end early where they are slow (huge spin budgets on few CPUs), but for a few; what was begun is counted to
 * its end.
 */
constexpr auto scene_time = 80ms;
constexpr int few = 5;
constexpr int crew_size = 6;

/* Threads with a common body, joined at the end of the scope. */
class crew
{
	std::vector<std::thread> threads;

      public:
	template <class F> crew(int size, F body)
	{
		for (int i = 0; i < size; i++)
			threads.emplace_back(body, i);
	}
	std::thread &operator[](int i)
	{
		return threads[i];
	}
	void join()
	{
		for (auto &thread : threads)
			if (thread.joinable())
				thread.join();
	}
	~crew()
	{
		join();
	}
};

/* When a scene has to end. */
class curfew
{
	steady_clock::time_point end = steady_clock::now() + scene_time * int(suite_scale(100)) / 100;

      public:
	bool passed(int done) const
	{
		return complained() || (done >= few && steady_clock::now() > end);
	}
};

/* Complains when two are in it. */
class shadow
{
	std::atomic<int> inside{0};

      public:
	void enter()
	{
		if (inside.exchange(1, std::memory_order_relaxed))
			complain("two inside");
	}
	void leave()
	{
		if (!inside.exchange(0, std::memory_order_relaxed))
			complain("two were inside");
	}
};

class shadowed
{
	shadow &s;

      public:
	explicit shadowed(shadow &s) : s(s)
	{
		s.enter();
	}
	shadowed(const shadowed &) = delete;
	~shadowed()
	{
		s.leave();
	}
};

/* The thrown one, of our own, so that nobody else catches or throws it. */
struct thrown {
	int number;
};

/* ---- a mutex, as glibc's fields tell ---- */

inline bool mine(pthread_mutex_t *m)
{
	return m->__data.__lock && m->__data.__owner == gettid();
}

inline bool free_again(pthread_mutex_t *m)
{
	return !m->__data.__lock && !m->__data.__owner && !m->__data.__nusers;
}

#endif

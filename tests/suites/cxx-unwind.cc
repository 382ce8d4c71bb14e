/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite cxx-unwind: what cancellation, pthread_exit and exceptions leave behind in C++ frames above pthread calls.
 *
 * Cancellation and pthread_exit unwind the stack as exceptions do: what stands in it is destroyed, with the mutex of an
 * interrupted wait held.  It would catch: a wait from which an exception cannot escape, a mutex that an unwound wait
 * leaves free or locks twice, a frame that is not unwound, a signal lost with a cancelled waiter, other waiters harmed.
 */

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>

#include "cxx.hh"

namespace
{

/* An ERRORCHECK mutex: who unlocks what he has not, or twice, is told. */
class checked_mutex
{
	pthread_mutex_t m = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;

      public:
	void lock()
	{
		MUST(pthread_mutex_lock(&m));
	}
	void unlock()
	{
		MUST(pthread_mutex_unlock(&m));
	}
	pthread_mutex_t *native_handle()
	{
		return &m;
	}
	~checked_mutex()
	{
		MUST(pthread_mutex_destroy(&m));
	}
};

/* What stands in a frame that is unwound: counts its end, which must come with the mutex held. */
class witness
{
	pthread_mutex_t *m;
	int &destroyed;

      public:
	witness(pthread_mutex_t *m, int &destroyed) : m(m), destroyed(destroyed)
	{
	}
	witness(const witness &) = delete;
	~witness()
	{
		if (!mine(m))
			complain("a frame is unwound without the mutex");
		destroyed++;
	}
};

/* The waits of std::condition_variable were noexcept, some or all, before gcc 12: nobody could be cancelled in them. */
constexpr bool wait_throws =
	!noexcept(std::declval<std::condition_variable &>().wait(std::declval<std::unique_lock<std::mutex> &>()));

enum { raw_wait, raw_timedwait, raw_clockwait, any_wait, std_wait, std_wait_until, ways };

template <class Mutex> struct waiting_room {
	Mutex m;
	std::condition_variable c;
	std::condition_variable_any any;
	int waiting = 0, caught = 0, destroyed = 0, survived = 0;
	bool open = false;

	void wait_once(std::unique_lock<Mutex> &lock, int way)
	{
		struct timespec real = deadline(CLOCK_REALTIME, 60000000000),
				mono = deadline(CLOCK_MONOTONIC, 60000000000);

		switch (way) {
		case raw_wait:
			MUST(pthread_cond_wait(c.native_handle(), m.native_handle()));
			break;
		case raw_timedwait:
			MUST(pthread_cond_timedwait(c.native_handle(), m.native_handle(), &real));
			break;
		case raw_clockwait:
			MUST(pthread_cond_clockwait(c.native_handle(), m.native_handle(), CLOCK_MONOTONIC, &mono));
			break;
		case any_wait:
			any.wait(lock);
			break;
		}
		if constexpr (std::is_same_v<Mutex, std::mutex>) {
			if (way == std_wait)
				c.wait(lock);
			else if (way == std_wait_until)
				c.wait_until(lock, steady_clock::now() + 60s);
		}
	}
	void wait(std::unique_lock<Mutex> &lock, int way)
	{
		witness deep(m.native_handle(), destroyed);

		waiting++;
		while (!open)
			wait_once(lock, way);
	}
	void visit(int way)
	{
		std::unique_lock<Mutex> lock(m);
		witness shallow(m.native_handle(), destroyed);

		try {
			wait(lock, way);
		} catch (...) {
			if (!mine(m.native_handle()))
				complain("a cancelled wait is caught without the mutex");
			caught++;
			throw;
		}
		survived++;
	}
	bool full(int size)
	{
		std::lock_guard<Mutex> lock(m);

		return waiting == size;
	}
};

/* Some of those who wait are cancelled, the others are not harmed. */
template <class Mutex> void cancel_waiters(int way, std::chrono::microseconds pause)
{
	constexpr int cancelled = 3, size = 5;
	waiting_room<Mutex> room;
	crew visitors(size, [&](int) { room.visit(way); });

	while (!room.full(size))
		std::this_thread::sleep_for(100us);
	std::this_thread::sleep_for(pause);
	for (int i = 0; i < cancelled; i++)
		ck_assert_int_eq(pthread_cancel(visitors[i].native_handle()), 0);
	for (int i = 0; i < cancelled; i++)
		visitors[i].join();
	{
		std::lock_guard<Mutex> lock(room.m);
		ck_assert_int_eq(room.caught, cancelled);
		ck_assert_int_eq(room.destroyed, 2 * cancelled);
		ck_assert_int_eq(room.survived, 0);
		room.open = true;
		room.c.notify_one();
		room.c.notify_one();
		room.any.notify_all();
	}
	visitors.join();
	assert_no_complaint();
	ck_assert_int_eq(room.caught, cancelled);
	ck_assert_int_eq(room.destroyed, 2 * size);
	ck_assert_int_eq(room.survived, size - cancelled);
	ck_assert(free_again(room.m.native_handle()));
}

START_TEST(cancelled_in_a_wait)
{
	if (_i > raw_clockwait && !wait_throws)
		return;
	for (auto pause : {0us, 300us, 2000us}) {
		cancel_waiters<std::mutex>(_i, pause);
		if (_i < std_wait)
			cancel_waiters<checked_mutex>(_i, pause);
	}
}
END_TEST

/* Tokens are given while some of the takers are cancelled: no signal goes with a cancelled one, no token twice. */
START_TEST(cancelled_with_a_signal)
{
	curfew over;

	for (int round = 0; round < int(suite_scale(150)) && !over.passed(round); round++) {
		constexpr int size = 4, cancelled = 2, tokens_given = 12;
		int waiting = 0, tokens = 0, taken = 0;
		bool closed = false;
		checked_mutex m;
		std::condition_variable came, done;
		crew takers(size, [&](int) {
			for (;;) {
				std::lock_guard<checked_mutex> lock(m);

				waiting++;
				done.notify_one();
				while (!tokens && !closed)
					MUST(pthread_cond_wait(came.native_handle(), m.native_handle()));
				if (!tokens)
					return;
				tokens--;
				taken++;
			}
		});
		uint32_t luck = round + 1;

		m.lock();
		while (waiting < size)
			MUST(pthread_cond_wait(done.native_handle(), m.native_handle()));
		m.unlock();
		for (int given = 0, gone = 0; given < tokens_given || gone < cancelled;) {
			if (given < tokens_given && dice(&luck) % 3) {
				std::lock_guard<checked_mutex> lock(m);
				tokens++;
				given++;
				came.notify_one();
			} else if (gone < cancelled) {
				ck_assert_int_eq(pthread_cancel(takers[gone++].native_handle()), 0);
			}
		}
		m.lock();
		while (tokens) /* the survivors have to come for them */
			MUST(pthread_cond_wait(done.native_handle(), m.native_handle()));
		ck_assert_int_eq(taken, tokens_given);
		closed = true;
		came.notify_all();
		m.unlock();
		takers.join();
		ck_assert_int_eq(taken, tokens_given);
		ck_assert(free_again(m.native_handle()));
		assert_no_complaint();
	}
}
END_TEST

/* pthread_exit with guards in several frames, those of a recursive mutex. */
template <int depth> void leave_from(std::recursive_mutex &m, std::mutex &n, int &destroyed)
{
	std::lock_guard<std::recursive_mutex> lock(m);
	witness frame(m.native_handle(), destroyed);

	if constexpr (depth > 1) {
		leave_from<depth - 1>(m, n, destroyed);
	} else {
		std::lock_guard<std::mutex> second(n);
		pthread_exit(nullptr);
	}
}

START_TEST(exit_with_guards)
{
	for (int round = 0; round < int(suite_scale(50)); round++) {
		std::recursive_mutex m;
		std::mutex n;
		int destroyed = 0;

		std::thread([&] { leave_from<4>(m, n, destroyed); }).join();
		assert_no_complaint();
		ck_assert_int_eq(destroyed, 4);
		ck_assert(free_again(m.native_handle()));
		ck_assert(free_again(n.native_handle()));
	}
}
END_TEST

/* A predicate that throws in the middle of a wait: with the lock held, and the others wait on. */
START_TEST(predicate_throws)
{
	for (int round = 0; round < int(suite_scale(50)); round++) {
		std::mutex m;
		std::condition_variable c;
		int looks = 0, caught = 0;
		bool open = false;
		crew waiters(3, [&](int index) {
			std::unique_lock<std::mutex> lock(m);

			try {
				c.wait(lock, [&] {
					looks++;
					if (index == 0 && open)
						throw thrown{index};
					return open;
				});
			} catch (const thrown &) {
				if (!lock.owns_lock() || !mine(m.native_handle()))
					complain("a predicate's exception is caught without the mutex");
				caught++;
			}
		});

		for (bool all = false; !all;) {
			std::lock_guard<std::mutex> lock(m);
			all = looks >= 3;
			open = all && round % 2;
		}
		{
			std::lock_guard<std::mutex> lock(m);
			open = true;
		}
		c.notify_all();
		waiters.join();
		assert_no_complaint();
		ck_assert_int_eq(caught, 1);
		ck_assert(free_again(m.native_handle()));
	}
}
END_TEST

} // namespace

int main()
{
	Suite *s = suite_make("cxx-unwind");

	SUITE_CASE_OF(s, cancelled_in_a_wait, 60, ways);
	SUITE_CASE(s, cancelled_with_a_signal, 60);
	SUITE_CASE(s, exit_with_guards, 60);
	SUITE_CASE(s, predicate_throws, 60);
	return suite_run(s);
}

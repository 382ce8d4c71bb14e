/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite cxx-cond: the condition variables of C++17's library, every kind of wait with every kind of lock.
 *
 * libstdc++ makes none by pthread_cond_init and waits by pthread_cond_clockwait; the general one has a mutex of its own
 * beside ours, which may be a reader-writer lock.  It would catch: one of these calls that is served by another library
 * than the rest, a wait that ends without the lock or before its deadline, a signal that is lost between waits of
 * several kinds, a reader's wait that misses its turn, a notice at a thread's end that comes too early, a waiter that
 * writes to the condition variable after its end.
 */

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <iterator>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <thread>
#include <utility>
#include <vector>

#include "cxx.hh"

namespace
{

/* ---- producers and consumers, with every kind of wait ---- */

/* How often something must have happened exactly once: marks, of which each is set once. */
class marks
{
	std::vector<std::atomic<unsigned char>> mark;

      public:
	explicit marks(size_t size) : mark(size)
	{
	}
	void set(size_t i)
	{
		if (mark.at(i).fetch_add(1))
			complain("number %zu comes twice", i);
	}
	void check(size_t made) const
	{
		for (size_t i = 0; i < mark.size(); i++)
			ck_assert_msg(mark[i] == (i < made), "number %zu of %zu came %d times", i, made, int(mark[i]));
	}
};

template <class Cond, class Mutex> class bounded_buffer
{
	const size_t slots;
	Mutex m;
	Cond not_full, not_empty;
	std::deque<int> items;
	bool closed = false;
	shadow s;

	template <class Lock, class Ready> void await(Cond &c, Lock &lock, unsigned luck, Ready ready)
	{
		auto wait = std::chrono::microseconds(luck / 8 % 200);
		auto looked = [&] { /* the library calls it with the mutex held, only */
				    shadowed in(s);

				    return ready();
		};

		while (!looked())
			switch (slots > 1 ? luck % 6 : 4) { /* a deadline would make good for a lost signal */
			case 0:
				c.wait(lock, looked);
				break;
			case 1:
				c.wait_for(lock, wait);
				break;
			case 2:
				c.wait_until(lock, steady_clock::now() + wait, looked);
				break;
			case 3:
				c.wait_until(lock, system_clock::now() + wait);
				break;
			default:
				c.wait(lock);
			}
	}

      public:
	explicit bounded_buffer(size_t slots) : slots(slots)
	{
	}
	void put(int item, unsigned luck)
	{
		std::unique_lock<Mutex> lock(m);

		await(not_full, lock, luck, [&] { return items.size() < slots; });
		{
			shadowed in(s);
			items.push_back(item);
		}
		if (luck & 1)
			lock.unlock();
		not_empty.notify_one();
	}
	bool get(int &item, unsigned luck)
	{
		std::unique_lock<Mutex> lock(m);

		await(not_empty, lock, luck, [&] { return closed || !items.empty(); });
		if (items.empty())
			return false;
		{
			shadowed in(s);
			item = items.front();
			items.pop_front();
		}
		if (luck & 1)
			lock.unlock();
		not_full.notify_one();
		return true;
	}
	void close()
	{
		std::lock_guard<Mutex> lock(m);

		closed = true;
		not_empty.notify_all();
	}
};

template <class Cond, class Mutex> void produce_and_consume(int producers, int consumers, size_t slots)
{
	int limit = suite_scale(1500);
	bounded_buffer<Cond, Mutex> buffer(slots);
	std::atomic<int> next{0}, made{0}, taken{0}, producing{producers};
	std::atomic<unsigned long> sum{0};
	marks seen(limit);
	curfew over;

	crew(producers + consumers, [&](int index) {
		uint32_t luck = 47 * (index + 1);
		int item;

		if (index < producers) {
			while (!over.passed(made) && (item = next++) < limit) {
				buffer.put(item, dice(&luck) >> 4);
				made++;
			}
			if (--producing == 0)
				buffer.close();
		} else {
			while (buffer.get(item, dice(&luck) >> 4)) {
				seen.set(item);
				sum += item;
				taken++;
			}
		}
	}).join();
	assert_no_complaint();
	ck_assert_int_gt(made.load(), 0);
	ck_assert_int_eq(taken.load(), made.load());
	ck_assert_uint_eq(sum.load(), (unsigned long)made * (made - 1) / 2);
	seen.check(made);
}

START_TEST(producers_and_consumers)
{
	produce_and_consume<std::condition_variable, std::mutex>(3, 3, 3);
	produce_and_consume<std::condition_variable, std::mutex>(1, 1, 1);
}
END_TEST

/* The general one makes a mutex of its own, and unlocks ours through whatever interface it has. */
START_TEST(any_lock)
{
	produce_and_consume<std::condition_variable_any, std::mutex>(3, 3, 3);
	produce_and_consume<std::condition_variable_any, std::mutex>(1, 1, 1);
	produce_and_consume<std::condition_variable_any, std::timed_mutex>(3, 3, 3);
	produce_and_consume<std::condition_variable_any, std::recursive_mutex>(3, 3, 3);
	produce_and_consume<std::condition_variable_any, std::shared_timed_mutex>(3, 3, 3);
}
END_TEST

/* ---- condition variables, call by call ---- */

template <class Cond> void run_out_of_time()
{
	std::mutex m;
	Cond c;
	std::unique_lock<std::mutex> lock(m);

	c.notify_one(); /* meets nobody and is not kept */
	c.notify_all();
	for (auto wait : {-1000000us, 0us, 1us, 300us, 5000us}) {
		auto steady = steady_clock::now() + wait;
		while (c.wait_until(lock, steady) == std::cv_status::no_timeout)
			; /* of its own accord, as it may */
		ck_assert(steady_clock::now() >= steady);
		auto system = system_clock::now() + wait;
		while (c.wait_until(lock, system) == std::cv_status::no_timeout)
			;
		ck_assert(system_clock::now() >= system);
		steady = steady_clock::now() + wait;
		ck_assert(!c.wait_for(lock, wait, [] { return false; }));
		ck_assert(steady_clock::now() >= steady);
		ck_assert(lock.owns_lock());
		ck_assert(std::async(std::launch::async, [&] { return !m.try_lock(); }).get());
	}
	ck_assert(c.wait_until(lock, steady_clock::now() - 1s, [] { return true; }));
}

START_TEST(waits_run_out)
{
	run_out_of_time<std::condition_variable>();
	run_out_of_time<std::condition_variable_any>();
}
END_TEST

/* Readers wait with shared locks for what a writer does. */
START_TEST(shared_waits)
{
	int turns = suite_scale(60), turn = 0, waiting = 0;
	std::shared_timed_mutex m;
	std::condition_variable_any came, turned;
	std::mutex counting;
	std::atomic<int> seen{0};
	crew readers(crew_size, [&](int) {
		for (int n = 1; n <= turns; n++) {
			std::shared_lock<std::shared_timed_mutex> lock(m);

			{
				std::lock_guard<std::mutex> count(counting);
				waiting++;
			}
			came.notify_one();
			turned.wait(lock, [&] { return turn >= n; });
			if (turn != n)
				complain("a reader slept through turn %d", n);
			seen++;
		}
	});

	for (int n = 1; n <= turns; n++) {
		{
			std::unique_lock<std::mutex> lock(counting);
			came.wait(lock, [&] { return waiting == crew_size; });
			waiting = 0;
		}
		std::unique_lock<std::shared_timed_mutex> lock(m);
		turn = n;
		turned.notify_all();
	}
	readers.join();
	assert_no_complaint();
	ck_assert_int_eq(seen.load(), turns * crew_size);
}
END_TEST

/* The notification comes after the thread's own objects are destroyed, and with the mutex. */
START_TEST(notified_at_thread_exit)
{
	for (int round = 0; round < int(suite_scale(60)); round++) {
		static std::atomic<int> destroyed;
		struct last_will {
			~last_will()
			{
				std::this_thread::sleep_for(100us);
				destroyed++;
			}
		};
		std::mutex m;
		std::condition_variable c;
		bool ready = false;

		destroyed = 0;
		std::thread leaving([&] {
			thread_local last_will will;
			std::unique_lock<std::mutex> lock(m);

			(void)&will;
			ready = true;
			std::notify_all_at_thread_exit(c, std::move(lock));
		});
		crew waiters(3, [&](int) {
			std::unique_lock<std::mutex> lock(m);

			c.wait(lock, [&] { return ready; });
			if (destroyed != 1)
				complain("woken before the thread's own objects were destroyed");
		});
		waiters.join();
		leaving.join();
	}
	assert_no_complaint();
}
END_TEST

/* ---- its end ---- */

/*
 * A condition variable may be destroyed as soon as all who wait are notified, though they have yet to come back
 * from it; its memory is then anything else.
 */
START_TEST(destroyed_behind_the_last_notice)
{
	curfew over;

	for (int round = 0; round < int(suite_scale(150)) && !over.passed(round); round++) {
		alignas(std::condition_variable) unsigned char memory[sizeof(std::condition_variable)];
		auto *c = new (memory) std::condition_variable;
		std::mutex m;
		int waiting = 0, back = 0;
		bool open = false;
		crew waiters(4, [&](int index) {
			std::unique_lock<std::mutex> lock(m);

			waiting++;
			while (!open)
				if (index % 2)
					c->wait(lock);
				else
					c->wait_for(lock, 60s);
			back++;
		});
		std::unique_lock<std::mutex> lock(m);

		while (waiting < 4) {
			lock.unlock();
			std::this_thread::yield();
			lock.lock();
		}
		open = true;
		c->notify_all();
		if (round % 2)
			lock.unlock();
		c->~condition_variable();
		std::fill(std::begin(memory), std::end(memory), round % 4 < 2 ? 0xa5 : 0);
		if (lock)
			lock.unlock();
		waiters.join();
		ck_assert_int_eq(back, 4);
		for (auto byte : memory)
			ck_assert_msg(byte == (round % 4 < 2 ? 0xa5 : 0), "a waiter wrote to it after its end");
		ck_assert(free_again(m.native_handle()));
	}
	assert_no_complaint();
}
END_TEST

} // namespace

int main()
{
	Suite *s = suite_make("cxx-cond");

	SUITE_CASE(s, producers_and_consumers, 60);
	SUITE_CASE(s, any_lock, 60);
	SUITE_CASE(s, waits_run_out, 60);
	SUITE_CASE(s, shared_waits, 60);
	SUITE_CASE(s, notified_at_thread_exit, 60);
	SUITE_CASE(s, destroyed_behind_the_last_notice, 60);
	return suite_run(s);
}

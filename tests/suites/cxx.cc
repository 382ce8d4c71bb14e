/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite cxx: the locks of C++17's library, and pthread calls beneath C++ frames.
 *
 * libstdc++ makes no object by pthread_mutex_init and destroys no mutex, locks timed ones by pthread_mutex_clocklock,
 * and waits by pthread_cond_clockwait.  Cancellation and pthread_exit unwind the stack as exceptions do: what stands
 * in it is destroyed, with the mutex of an interrupted wait held.  It would catch: one of these calls that is served
 * by another library than the rest, a wait from which an exception cannot escape, a mutex that an unwound wait leaves
 * free or locks twice, a signal lost with a cancelled waiter, and whatever breaks the classics below.
 */

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <numeric>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cerrno>
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

namespace
{

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

/* The thrown one, of our own, so that nobody else catches or throws it. */
struct thrown {
	int number;
};

/* ---- mutexes ---- */

/* Every way to take a mutex, exceptions thrown while it is held. */
template <class Mutex> void take_and_count(Mutex &m, unsigned luck, shadow &s, unsigned long &count)
{
	switch (luck % 4) {
	case 0: {
		std::lock_guard<Mutex> lock(m);
		shadowed in(s);
		count++;
		break;
	}
	case 1: {
		std::unique_lock<Mutex> lock(m, std::defer_lock);
		while (!lock.try_lock())
			std::this_thread::yield();
		shadowed in(s);
		count++;
		break;
	}
	case 2:
		try {
			std::lock_guard<Mutex> lock(m);
			shadowed in(s);
			count++;
			throw thrown{int(luck)};
		} catch (const thrown &t) {
			if (t.number != int(luck))
				complain("another exception arrived");
		}
		break;
	default: {
		std::unique_lock<Mutex> lock(m);
		s.enter();
		count++;
		s.leave();
		lock.unlock();
		lock.lock();
		shadowed in(s);
	}
	}
}

template <class Mutex, class Take> void count_exactly(Take take)
{
	unsigned long count = 0, limit = suite_scale(3000);
	std::atomic<unsigned long> done{0};
	Mutex m;
	shadow s;
	curfew over;

	crew(crew_size, [&](int index) {
		uint32_t luck = 41 * (index + 1);
		unsigned long n = 0;

		for (; n < limit && !over.passed(n); n++)
			take(m, dice(&luck) >> 4, s, count);
		done += n;
	}).join();
	assert_no_complaint();
	ck_assert_uint_gt(count, 0);
	ck_assert_uint_eq(count, done.load());
	ck_assert(m.try_lock());
	m.unlock();
}

START_TEST(mutexes)
{
	count_exactly<std::mutex>(take_and_count<std::mutex>);
}
END_TEST

/* As above, or with a deadline of each clock. */
template <class Mutex> void take_timed(Mutex &m, unsigned luck, shadow &s, unsigned long &count)
{
	std::unique_lock<Mutex> lock(m, std::defer_lock);
	auto wait = std::chrono::microseconds(luck / 8 % 100);
	bool got;

	switch (luck % 8) {
	case 0:
		got = lock.try_lock_for(wait);
		break;
	case 1:
		got = lock.try_lock_until(steady_clock::now() + wait);
		break;
	case 2:
		got = lock.try_lock_until(system_clock::now() + wait);
		break;
	default:
		take_and_count(m, luck / 8, s, count);
		return;
	}
	if (!got)
		lock.lock();
	shadowed in(s);
	count++;
}

START_TEST(timed_mutexes)
{
	count_exactly<std::timed_mutex>(take_timed<std::timed_mutex>);
}
END_TEST

template <class Mutex> void take_deeper(Mutex &m, unsigned luck, shadow &s, unsigned long &count)
{
	std::lock_guard<Mutex> once(m);

	if (luck & 1 && !m.try_lock())
		complain("the owner's try_lock of a recursive mutex fails");
	take_and_count(m, luck >> 1, s, count);
	if (luck & 1)
		m.unlock();
}

START_TEST(recursive_mutexes)
{
	count_exactly<std::recursive_mutex>(take_deeper<std::recursive_mutex>);
	count_exactly<std::recursive_timed_mutex>(take_deeper<std::recursive_timed_mutex>);
	count_exactly<std::recursive_timed_mutex>(take_timed<std::recursive_timed_mutex>);
}
END_TEST

/* While another thread holds it: try_lock fails, a deadline is never early. */
template <class Mutex> void fail_timely()
{
	std::promise<void> held, enough;
	Mutex m;
	std::thread holder([&] {
		std::lock_guard<Mutex> lock(m);

		held.set_value();
		enough.get_future().wait();
	});

	held.get_future().wait();
	ck_assert(!m.try_lock());
	for (auto wait : {-1000000us, 0us, 1us, 300us, 5000us}) {
		auto steady = steady_clock::now() + wait;
		ck_assert(!m.try_lock_until(steady));
		ck_assert(steady_clock::now() >= steady);
		auto system = system_clock::now() + wait;
		ck_assert(!m.try_lock_until(system));
		ck_assert(system_clock::now() >= system);
		steady = steady_clock::now() + wait;
		ck_assert(!m.try_lock_for(wait));
		ck_assert(steady_clock::now() >= steady);
	}
	enough.set_value();
	ck_assert(m.try_lock_for(60s));
	m.unlock();
	holder.join();
}

START_TEST(deadlines)
{
	fail_timely<std::timed_mutex>();
	fail_timely<std::recursive_timed_mutex>();
	fail_timely<std::shared_timed_mutex>();
	assert_no_complaint();
}
END_TEST

/* std::lock takes several in any order, without a deadlock. */
START_TEST(several_at_once)
{
	constexpr int size = 4;
	std::array<std::mutex, size> m;
	std::array<unsigned long, size> count{};
	std::atomic<unsigned long> done{0};
	unsigned long limit = suite_scale(1500);
	curfew over;

	crew(crew_size, [&](int index) {
		uint32_t luck = 43 * (index + 1);
		unsigned long n = 0;

		for (; n < limit && !over.passed(n); n++) {
			int a = dice(&luck) % size, b = (a + 1 + luck / 8 % (size - 1)) % size;
			std::scoped_lock lock(m[a], m[b]);

			count[a]++;
			count[b]++;
		}
		done += n;
	}).join();
	ck_assert_uint_gt(done.load(), 0);
	ck_assert_uint_eq(std::accumulate(count.begin(), count.end(), 0UL), 2 * done.load());
	assert_no_complaint();
}
END_TEST

/* ---- producers and consumers, with every kind of wait ---- */

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

/* ---- classics ---- */

/* A pool of threads: tasks with results, exceptions among them, some made by tasks; shut down with work left. */
class pool
{
	std::mutex m;
	std::condition_variable work;
	std::deque<std::function<void()>> tasks;
	bool closed = false;
	crew workers;

	void serve()
	{
		for (;;) {
			std::function<void()> task;
			{
				std::unique_lock<std::mutex> lock(m);

				work.wait(lock, [this] { return closed || !tasks.empty(); });
				if (tasks.empty())
					return;
				task = std::move(tasks.front());
				tasks.pop_front();
			}
			task();
		}
	}

      public:
	explicit pool(int size) : workers(size, [this](int) { serve(); })
	{
	}
	template <class F> auto submit(F f)
	{
		auto task = std::make_shared<std::packaged_task<decltype(f())()>>(std::move(f));
		auto result = task->get_future();
		{
			std::lock_guard<std::mutex> lock(m);
			tasks.emplace_back([task] { (*task)(); });
		}
		work.notify_one();
		return result;
	}
	~pool()
	{
		{
			std::lock_guard<std::mutex> lock(m);
			closed = true;
		}
		work.notify_all();
		workers.join();
	}
};

START_TEST(thread_pool)
{
	curfew over;

	for (int round = 0; round < int(suite_scale(20)) && !over.passed(round); round++) {
		constexpr int tasks = 60;
		std::vector<std::future<int>> results;
		std::vector<std::future<std::future<int>>> nested;
		std::atomic<int> run{0};
		{
			pool p(4);

			for (int i = 0; i < tasks; i++)
				nested.push_back(p.submit([&run, &p, i] {
					run++;
					return p.submit([&run, i] {
						run++;
						return i;
					});
				}));
			for (int i = 0; i < tasks; i++)
				ck_assert_int_eq(nested[i].get().get(), i);
			for (int i = 0; i < tasks; i++)
				results.push_back(p.submit([&run, i] {
					run++;
					if (i % 5 == 0)
						throw thrown{i};
					return i * i;
				}));
		}
		ck_assert_int_eq(run.load(), 3 * tasks);
		for (int i = 0; i < tasks; i++) {
			int got;

			try {
				got = results[i].get();
			} catch (const thrown &t) {
				got = -t.number;
			}
			ck_assert_int_eq(got, i % 5 ? i * i : -i);
		}
	}
	assert_no_complaint();
}
END_TEST

/* A barrier, generation after generation. */
START_TEST(barriers)
{
	int generations = suite_scale(250), generation = 0, arrived = 0;
	std::mutex m;
	std::condition_variable turn;
	std::array<int, crew_size> at{};
	std::atomic<int> serial{0};
	curfew over;
	bool ended = false;
	auto pass = [&](bool may_end) { /* false: it was the last one */
					std::unique_lock<std::mutex> lock(m);
					int mine = generation;

					if (++arrived == crew_size) {
						arrived = 0;
						generation++;
						serial++;
						ended = may_end &&
							(generation / 2 >= generations || over.passed(generation));
						turn.notify_all();
					}
					turn.wait(lock, [&] { return generation != mine; });
					if (generation != mine + 1)
						complain("somebody slept through a generation");
					return !ended;
	};

	crew(crew_size, [&](int index) {
		int n = 0;

		do {
			at[index] = ++n;
			pass(false);
			for (int other : at)
				if (other != n)
					complain("past barrier %d, but somebody is at %d", n, other);
		} while (pass(true));
	}).join();
	assert_no_complaint();
	ck_assert_int_ge(generation, 2);
	ck_assert_int_eq(generation, 2 * at[0]);
	ck_assert_int_eq(serial.load(), generation);
}
END_TEST

/* Readers and writers: what is read under a shared lock is never half written. */
template <class Mutex> void read_and_write(bool timed)
{
	unsigned long limit = suite_scale(1500);
	std::array<unsigned long, 8> words{};
	std::atomic<unsigned long> written{0}, reads{0};
	Mutex m;
	curfew over;

	crew(crew_size, [&](int index) {
		uint32_t luck = 53 * (index + 1);

		for (unsigned long n = 0; n < limit && !over.passed(n); n++) {
			if (dice(&luck) >> 5 & 3) {
				std::shared_lock<Mutex> lock(m, std::defer_lock);
				if constexpr (std::is_same_v<Mutex, std::shared_timed_mutex>)
					if (timed && !lock.try_lock_for(std::chrono::microseconds(luck / 64 % 50)))
						continue;
				if (!lock.owns_lock())
					lock.lock();
				for (unsigned long word : words)
					if (word != words[0])
						complain("a reader sees a half-written text");
				reads++;
			} else {
				std::lock_guard<Mutex> lock(m);
				for (auto &word : words)
					word++;
				written++;
			}
		}
	}).join();
	assert_no_complaint();
	ck_assert_uint_gt(written.load(), 0);
	for (unsigned long word : words)
		ck_assert_uint_eq(word, written.load());
}

START_TEST(readers_and_writers)
{
	read_and_write<std::shared_mutex>(false);
	read_and_write<std::shared_timed_mutex>(true);
}
END_TEST

/* ---- once, futures ---- */

START_TEST(once)
{
	for (int round = 0; round < int(suite_scale(60)); round++) {
		std::once_flag flag;
		std::mutex m;
		int calls = 0;

		crew(crew_size, [&](int) {
			std::call_once(flag, [&] {
				std::lock_guard<std::mutex> lock(m);
				std::this_thread::yield();
				calls++;
			});
			if (calls != 1)
				complain("call_once came back after %d calls", calls);
		}).join();
	}
	assert_no_complaint();
}
END_TEST

START_TEST(futures)
{
	for (int round = 0; round < int(suite_scale(30)); round++) {
		std::promise<int> question;
		std::shared_future<int> answer = question.get_future().share();
		std::packaged_task<int(int)> task([](int x) -> int { throw thrown{x}; });
		std::future<int> failing = task.get_future(), broken = std::promise<int>().get_future();
		std::vector<std::future<int>> sums;
		int sum = 0, caught = 0;

		ck_assert(answer.wait_for(round % 3 * 200us) == std::future_status::timeout);
		ck_assert(answer.wait_until(system_clock::now() + round % 2 * 200us) == std::future_status::timeout);
		for (int i = 0; i < 4; i++)
			sums.push_back(std::async(std::launch::async, [answer, i] { return answer.get() + i; }));
		std::thread([&] { question.set_value_at_thread_exit(round); }).join();
		for (auto &future : sums)
			sum += future.get();
		ck_assert_int_eq(sum, 4 * round + 6);
		std::thread(std::move(task), round).join();
		try {
			failing.get();
		} catch (const thrown &t) {
			caught += t.number == round;
		}
		try {
			broken.get();
		} catch (const std::future_error &e) {
			caught += e.code() == std::future_errc::broken_promise;
		}
		ck_assert_int_eq(caught, 2);
	}
	assert_no_complaint();
}
END_TEST

/* ---- unwinding: what cancellation, pthread_exit and exceptions leave behind ---- */

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

bool mine(pthread_mutex_t *m)
{
	return m->__data.__lock && m->__data.__owner == gettid();
}

bool free_again(pthread_mutex_t *m)
{
	return !m->__data.__lock && !m->__data.__owner && !m->__data.__nusers;
}

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
	Suite *s = suite_make("cxx");

	SUITE_CASE(s, mutexes, 60);
	SUITE_CASE(s, timed_mutexes, 60);
	SUITE_CASE(s, recursive_mutexes, 60);
	SUITE_CASE(s, deadlines, 60);
	SUITE_CASE(s, several_at_once, 60);
	SUITE_CASE(s, producers_and_consumers, 60);
	SUITE_CASE(s, any_lock, 60);
	SUITE_CASE(s, waits_run_out, 60);
	SUITE_CASE(s, shared_waits, 60);
	SUITE_CASE(s, notified_at_thread_exit, 60);
	SUITE_CASE(s, thread_pool, 60);
	SUITE_CASE(s, barriers, 60);
	SUITE_CASE(s, readers_and_writers, 60);
	SUITE_CASE(s, once, 60);
	SUITE_CASE(s, futures, 60);
	SUITE_CASE_OF(s, cancelled_in_a_wait, 60, ways);
	SUITE_CASE(s, cancelled_with_a_signal, 60);
	SUITE_CASE(s, exit_with_guards, 60);
	SUITE_CASE(s, predicate_throws, 60);
	SUITE_CASE(s, destroyed_behind_the_last_notice, 60);
	return suite_run(s);
}

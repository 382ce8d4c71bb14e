/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite cxx-mutex: the mutexes of C++17's library, taken in every way.
 *
 * libstdc++ makes none by pthread_mutex_init and destroys none, and locks timed ones by pthread_mutex_clocklock.  It
 * would catch: one of these calls that is served by another library than the rest, two inside at once, a recursive
 * mutex that is miscounted, a mutex that is not free when guards and exceptions have left it, a try_lock that gets what
 * another thread holds, a deadline that is early, a deadlock of those who lock several in any order.
 */

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <numeric>
#include <shared_mutex>
#include <thread>

#include "cxx.hh"

namespace
{

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

} // namespace

int main()
{
	Suite *s = suite_make("cxx-mutex");

	SUITE_CASE(s, mutexes, 60);
	SUITE_CASE(s, timed_mutexes, 60);
	SUITE_CASE(s, recursive_mutexes, 60);
	SUITE_CASE(s, deadlines, 60);
	SUITE_CASE(s, several_at_once, 60);
	return suite_run(s);
}

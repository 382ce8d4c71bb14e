/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite cxx-classics: mutexes, condition variables and shared mutexes of C++17's library in use.
 *
 * A pool of threads, a barrier, readers and writers, each with a result that proves that nothing was lost or done
 * twice.  It would catch: a wake-up that is lost between those who submit, those who work and the one who shuts down, a
 * thread that sleeps through a generation of the barrier or passes it early, a reader or a writer beside a writer.
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
#include <shared_mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "cxx.hh"

namespace
{

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

} // namespace

int main()
{
	Suite *s = suite_make("cxx-classics");

	SUITE_CASE(s, thread_pool, 60);
	SUITE_CASE(s, barriers, 60);
	SUITE_CASE(s, readers_and_writers, 60);
	return suite_run(s);
}

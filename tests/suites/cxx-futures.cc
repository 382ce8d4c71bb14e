/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/*
 * Suite cxx-futures: call_once, promises, futures and tasks of C++17's library.
 *
 * libstdc++ waits for them by pthread_once and by the futex call itself, beside a library that serves only locks.  It
 * would catch: a call_once that comes back before the call is over or makes a second one, a result, an exception or a
 * broken promise that does not arrive, a wait without a result that does not say so when its deadline passes.
 */

#include <chrono>
#include <future>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "cxx.hh"

namespace
{

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

} // namespace

int main()
{
	Suite *s = suite_make("cxx-futures");

	SUITE_CASE(s, once, 60);
	SUITE_CASE(s, futures, 60);
	return suite_run(s);
}

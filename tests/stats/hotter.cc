/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* SPDX-FileCopyrightText: 2026 The parkade authors */
/* The same as hot.c, in short, by the C++ library's locks. */
#include <chrono>
#include <cstdio>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "stats/sleepers.h"

namespace
{
constexpr int threads = 4, rounds = 10;

struct account {
	std::mutex hot;
	std::shared_mutex shared;
	std::timed_mutex timed;

	__attribute__((noinline)) void waited_for_hot()
	{
		sleepers_about_to_wait();
		std::lock_guard<std::mutex> lock(hot);
	}

	__attribute__((noinline)) void waited_to_read()
	{
		sleepers_about_to_wait();
		std::shared_lock<std::shared_mutex> lock(shared);
	}

	__attribute__((noinline)) void waited_late()
	{
		sleepers_about_to_wait();
		if (timed.try_lock_for(std::chrono::milliseconds(1)))
			std::abort();
	}
};

template <class Lock> void wait_for(account &a, Lock &lock, int n, void (account::*body)(), bool is_late = false)
{
	std::vector<std::thread> waiting;

	lock.lock();
	sleepers_expect(n);
	for (int i = 0; i < n; i++)
		waiting.emplace_back(body, &a);
	if (!is_late)
		sleepers_await();
	else
		for (auto &thread : waiting)
			thread.join();
	lock.unlock();
	for (auto &thread : waiting)
		if (thread.joinable())
			thread.join();
}
} // namespace

int main()
{
	account a;

	for (int i = 0; i < rounds; i++)
		wait_for(a, a.hot, threads, &account::waited_for_hot);
	wait_for(a, a.shared, threads, &account::waited_to_read);
	wait_for(a, a.timed, 1, &account::waited_late, true);
	std::printf("waited_for_hot mutex %d 0\n", threads * rounds);
	std::printf("waited_to_read read %d 0\n", threads);
	std::printf("waited_late mutex 0 1\n");
	return 0;
}

// SPDX-License-Identifier: LGPL-2.1-or-later
// SPDX-FileCopyrightText: 2026 The parkade authors
// Small tests of java.util.concurrent and of monitors; each prints its name and what it found out.

import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import java.util.concurrent.locks.*;
import java.util.stream.*;

public class Concurrent {
    static final int THREADS = 8, ROUNDS = 20000;

    interface Body { void run(int number) throws Exception; }

    /** THREADS threads, from 0 on; an exception in one is one here. */
    static void team(Body body) throws Exception {
        List<FutureTask<Void>> tasks = new ArrayList<>();
        for (int i = 0; i < THREADS; i++) {
            int number = i;
            FutureTask<Void> task = new FutureTask<>(() -> { body.run(number); return null; });
            tasks.add(task);
            new Thread(task).start();
        }
        for (FutureTask<Void> task : tasks)
            task.get();
    }

    static long shared;

    static Object monitor() throws Exception {
        Object lock = new Object();
        shared = 0;
        team(n -> { for (int i = 0; i < ROUNDS; i++) synchronized (lock) { shared += i % 7; } });
        return shared;
    }

    static Object waitNotify() throws Exception {
        Object lock = new Object();
        shared = 0;
        team(n -> {
            for (int i = 0; i < 300; i++)
                synchronized (lock) {
                    while (shared % THREADS != n)
                        lock.wait();
                    shared++;
                    lock.notifyAll();
                }
        });
        return shared;
    }

    static Object reentrantLock() throws Exception {
        ReentrantLock lock = new ReentrantLock(true);
        Condition even = lock.newCondition();
        shared = 0;
        team(n -> {
            for (int i = 0; i < 500; i++) {
                lock.lockInterruptibly();
                try { shared += 2; even.signal(); if (i % 16 == 0) even.awaitNanos(1000); } finally { lock.unlock(); }
            }
        });
        return shared;
    }

    static Object readWriteLock() throws Exception {
        ReadWriteLock lock = new ReentrantReadWriteLock();
        long[] pair = new long[2];
        AtomicLong torn = new AtomicLong();
        team(n -> {
            for (int i = 0; i < ROUNDS; i++)
                if (i % 10 == n % 10) {
                    lock.writeLock().lock();
                    try { pair[0]++; pair[1]++; } finally { lock.writeLock().unlock(); }
                } else {
                    lock.readLock().lock();
                    try { if (pair[0] != pair[1]) torn.incrementAndGet(); } finally { lock.readLock().unlock(); }
                }
        });
        return pair[0] + " torn " + torn;
    }

    static Object queues() throws Exception {
        long sum = 0;
        for (BlockingQueue<Integer> queue : List.of(new ArrayBlockingQueue<Integer>(4), new LinkedBlockingQueue<Integer>(),
                                                   new SynchronousQueue<Integer>(), new LinkedTransferQueue<Integer>())) {
            AtomicLong got = new AtomicLong();
            team(n -> {
                for (int i = 0; i < 2000; i++)
                    if (n % 2 == 0) queue.put(i); else got.addAndGet(queue.take());
            });
            sum = sum * 31 + got.get();
        }
        return sum;
    }

    static Object pool() throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(THREADS);
        List<Future<Long>> results = new ArrayList<>();
        for (int i = 0; i < 3000; i++) {
            long n = i;
            results.add(pool.submit(() -> LongStream.range(0, n).sum()));
        }
        long sum = 0;
        for (Future<Long> result : results)
            sum += result.get();
        pool.shutdown();
        return sum + " " + pool.awaitTermination(20, TimeUnit.SECONDS);
    }

    static Object forkJoin() {
        return IntStream.range(0, 2_000_000).parallel().mapToLong(i -> (long) i * i % 1009).sum();
    }

    static Object phasers() throws Exception {
        CyclicBarrier barrier = new CyclicBarrier(THREADS);
        Phaser phaser = new Phaser(THREADS);
        AtomicLong turns = new AtomicLong();
        team(n -> { for (int i = 0; i < 300; i++) { barrier.await(); turns.incrementAndGet(); phaser.arriveAndAwaitAdvance(); } });
        return turns + " " + phaser.getPhase();
    }

    static Object semaphore() throws Exception {
        Semaphore two = new Semaphore(2);
        AtomicInteger inside = new AtomicInteger(), most = new AtomicInteger();
        team(n -> {
            for (int i = 0; i < 1000; i++) {
                two.acquire();
                most.accumulateAndGet(inside.incrementAndGet(), Math::max);
                inside.decrementAndGet();
                two.release();
            }
        });
        return two.availablePermits() + " " + (most.get() <= 2);
    }

    static Object interrupts() throws Exception {
        int seen = 0;
        for (int i = 0; i < 300; i++) {
            Object lock = new Object();
            AtomicInteger caught = new AtomicInteger();
            int how = i % 3;
            Thread sleeper = new Thread(() -> {
                try {
                    if (how == 0) Thread.sleep(100000);
                    else if (how == 1) synchronized (lock) { lock.wait(); }
                    else { LockSupport.park(); if (Thread.interrupted()) throw new InterruptedException(); }
                } catch (InterruptedException e) { caught.set(1); }
            });
            sleeper.start();
            if (i % 2 == 0) Thread.sleep(1);
            sleeper.interrupt();
            sleeper.join();
            seen += caught.get();
        }
        return seen;
    }

    static Object shortThreads() throws Exception {
        AtomicLong sum = new AtomicLong();
        for (int i = 0; i < 100; i++)
            team(n -> sum.addAndGet(n));
        return sum;
    }

    static Object garbage() throws Exception {
        ConcurrentHashMap<Integer, byte[]> map = new ConcurrentHashMap<>();
        team(n -> {
            for (int i = 0; i < 20000; i++) {
                map.put(i % 500, new byte[1024 + i % 100]);
                if (i % 5000 == 0) System.gc();
            }
        });
        return map.size();
    }

    static Object timers() throws Exception {
        ScheduledExecutorService timer = Executors.newScheduledThreadPool(2);
        CountDownLatch latch = new CountDownLatch(500);
        for (int i = 0; i < 500; i++)
            timer.schedule(latch::countDown, i % 50, TimeUnit.MILLISECONDS);
        boolean all = latch.await(20, TimeUnit.SECONDS);
        timer.shutdownNow();
        return all;
    }

    static Object exchanger() throws Exception {
        List<Exchanger<Long>> pairs = Stream.generate(Exchanger<Long>::new).limit(THREADS / 2).collect(Collectors.toList());
        AtomicLong sum = new AtomicLong();
        team(n -> { for (int i = 0; i < 500; i++) sum.addAndGet(pairs.get(n / 2).exchange((long) n * i)); });
        return sum;
    }

    interface Test { Object run() throws Exception; }

    public static void main(String[] args) throws Exception {
        Map<String, Test> tests = new LinkedHashMap<>();
        tests.put("monitor", Concurrent::monitor);
        tests.put("waitNotify", Concurrent::waitNotify);
        tests.put("reentrantLock", Concurrent::reentrantLock);
        tests.put("readWriteLock", Concurrent::readWriteLock);
        tests.put("queues", Concurrent::queues);
        tests.put("pool", Concurrent::pool);
        tests.put("forkJoin", Concurrent::forkJoin);
        tests.put("phasers", Concurrent::phasers);
        tests.put("semaphore", Concurrent::semaphore);
        tests.put("interrupts", Concurrent::interrupts);
        tests.put("shortThreads", Concurrent::shortThreads);
        tests.put("garbage", Concurrent::garbage);
        tests.put("timers", Concurrent::timers);
        tests.put("exchanger", Concurrent::exchanger);
        for (Map.Entry<String, Test> test : tests.entrySet())
            System.out.println(test.getKey() + " " + test.getValue().run());
        System.exit(0);
    }
}

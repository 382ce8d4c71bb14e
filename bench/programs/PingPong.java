// SPDX-License-Identifier: LGPL-2.1-or-later
// SPDX-FileCopyrightText: 2026 The parkade authors
/** Pairs of threads that hand a turn to and fro by a monitor: PingPong PAIRS TURNS. */
class PingPong {
	private boolean turn;

	private synchronized void play(boolean mine, int turns) throws InterruptedException {
		for (int i = 0; i < turns; i++) {
			while (turn != mine)
				wait();
			turn = !mine;
			notify();
		}
	}

	public static void main(String[] args) throws InterruptedException {
		int pairs = Integer.parseInt(args[0]), turns = Integer.parseInt(args[1]);
		Thread[] threads = new Thread[2 * pairs];
		long begun = System.nanoTime();

		for (int i = 0; i < pairs; i++) {
			PingPong ball = new PingPong();

			for (int side = 0; side < 2; side++) {
				boolean mine = side == 0;

				threads[2 * i + side] = new Thread(() -> {
					try {
						ball.play(mine, turns);
					} catch (InterruptedException e) {
						throw new IllegalStateException(e);
					}
				});
				threads[2 * i + side].start();
			}
		}
		for (Thread thread : threads)
			thread.join();
		System.out.printf(java.util.Locale.ROOT, "%d operations in %.6f s%n", 2L * pairs * turns,
				(System.nanoTime() - begun) / 1e9);
	}
}

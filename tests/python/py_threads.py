#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One network gives the same bits in several threads, in forked processes and in spawned processes.  Prints TAP.  The environment has
srcdir: the source; LIBRARY: the shared library."""
import multiprocessing
import os
import pickle
import sys
import threading
import time
import unittest
import warnings

import py_tap

py_tap.need_numpy()
import numpy as np  # noqa: E402

import cellgrad  # noqa: E402

# Python's warning about a fork beside threads is ignored, since this file tests such forks.
warnings.filterwarnings("ignore", category=DeprecationWarning)
NETWORK = cellgrad.Network("lstm", input=7, units=20, layers=2, bidirectional=True)
PARAMS = NETWORK.init_params(seed=3)
CELL = cellgrad.Cell("cell leaky\ngates  a\noutput h\nparam  leak = 0.1\n\nh = tanh(a) + leak * h_prev\nsave h\n")


def step(seed):
    """Runs a forward and a backward pass on inputs by this seed; returns the bytes of the results."""
    x = np.random.RandomState(seed).standard_normal((9, 4, 7)).astype(np.float32)
    run = NETWORK.forward(PARAMS, x, lengths=[9, 3, 0, 5])
    gradient = NETWORK.backward(run, d_output=run.output)
    return b"".join(a.tobytes() for a in (run.output, run.h, run.c, *gradient))


WANT = [step(seed) for seed in range(6)]


def in_child(call):
    """Makes a call in a forked child; returns 0 if the call returns a true value, else the exit status, or minus the signal that ended it.
    A child that runs for more than 20 s is killed; in_child then returns a text."""
    child = os.fork()
    if not child:
        try:
            os._exit(0 if call() else 1)
        except BaseException as error:  # pylint: disable=broad-except
            print(f"# {error!r}", file=sys.stderr, flush=True)
            os._exit(2)
    for _ in range(1000):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
        time.sleep(0.02)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return "the child did not end"


class Dataset:
    """A data loader's dataset: a network that was made in the parent and is called in the child."""

    def __getitem__(self, k):
        return step(k)


class Threads(unittest.TestCase):
    def test_threads(self):
        """Eight threads that share a network get the same bits as one thread"""
        wrong, ended = [], []

        def work(first):
            for k in range(12):
                seed = (first + k) % len(WANT)
                if step(seed) != WANT[seed]:
                    wrong.append(seed)
            ended.append(first)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((wrong, len(ended)), ([], 8))

    def test_messages(self):
        """A failure in one thread is reported in that thread alone"""
        wrong, ended = [], []

        def work(k):
            for _ in range(50):
                try:
                    cellgrad.Network("lstm", input=3, units=4, options=f"no{k}")
                    wrong.append("none")
                except ValueError as error:
                    if f"'no{k}'" not in str(error):
                        wrong.append(str(error))
            ended.append(k)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((wrong, len(ended)), ([], 4))

    def test_lock(self):
        """Other threads run while a call computes"""
        network = cellgrad.Network("lstm", input=256, units=256, context=cellgrad.Context("cpu:threads=1"))
        params, x = network.init_params("uniform uniform uniform"), np.zeros((60, 32, 256), np.float32)
        network.forward(params, x)
        done, ticks = threading.Event(), []

        def tick():
            while not done.is_set():
                ticks.append(time.perf_counter())
                time.sleep(0.0005)

        thread = threading.Thread(target=tick)
        thread.start()
        begin = time.perf_counter()
        network.forward(params, x)
        end = time.perf_counter()
        done.set()
        thread.join()
        # If the call held Python's lock, the other thread would tick only near the begin and the end of the call.
        inside = [t for t in ticks if begin + 0.1 * (end - begin) < t < end - 0.1 * (end - begin)]
        self.assertGreaterEqual(len(inside), 3, f"{end - begin:.4f} s")

    @unittest.skipUnless(hasattr(os, "fork"), "there is no fork")
    def test_fork(self):
        """A forked child calls a network that the parent made, and the parent's network still works"""
        run = NETWORK.forward(PARAMS, np.ones((9, 4, 7), np.float32))
        want = NETWORK.backward(run, d_output=run.output).params

        def child():
            # The child runs the backward pass of a run that the parent made before the fork; new networks and kernels work in the child,
            # too.
            gradient = NETWORK.backward(run, d_output=run.output).params
            leaky = cellgrad.Network(CELL, input=2, units=3)
            leaky.forward(leaky.init_params(), np.ones((2, 1, 2), np.float32))
            kernel = cellgrad.Kernel(CELL, "forward")
            return np.array_equal(gradient, want) and step(1) == WANT[1] and in_child(lambda: step(2) == WANT[2]) == 0 and kernel.emit("c")

        self.assertEqual(in_child(child), 0)
        self.assertEqual(step(0), WANT[0])

    @unittest.skipUnless(hasattr(os, "fork"), "there is no fork")
    def test_fork_beside_threads(self):
        """Processes that are forked while threads open and call networks get right results"""
        done = threading.Event()

        def work(k):
            count = 0
            while not done.is_set():
                cellgrad.Network("gru", input=3, units=4 + (count + k) % 40)
                step(k)
                count += 1

        threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
        for thread in threads:
            thread.start()
        try:
            statuses = [in_child(lambda: step(3) == WANT[3]) for _ in range(12)]
        finally:
            done.set()
            for thread in threads:
                thread.join()
        self.assertEqual(statuses, [0] * 12)

    @unittest.skipUnless("fork" in multiprocessing.get_all_start_methods(), "there is no fork")
    def test_workers(self):
        """Two forked workers of a pool, which call the items of a dataset, give the parent's bits"""
        with multiprocessing.get_context("fork").Pool(2) as pool:
            self.assertEqual(pool.map(Dataset().__getitem__, range(len(WANT))), WANT)

    def test_spawn(self):
        """A network, a cell, a context and a run pass through pickle, and a spawned process calls a network of its parent"""
        run = NETWORK.forward(PARAMS, np.ones((9, 4, 7), np.float32))
        network, cell, context, again = pickle.loads(pickle.dumps((NETWORK, CELL, cellgrad.default_context(), run)))
        self.assertEqual((cell.name, cell.params), (CELL.name, CELL.params))
        self.assertEqual(context.about, cellgrad.default_context().about)
        self.assertTrue(np.array_equal(network.forward(PARAMS, run.x).output, run.output))
        self.assertTrue(np.array_equal(again.backward(again.output).params, run.backward(run.output).params))
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            output = pool.apply(NETWORK.forward, (PARAMS, run.x)).output
        self.assertTrue(np.array_equal(output, run.output))


if __name__ == "__main__":
    py_tap.main()

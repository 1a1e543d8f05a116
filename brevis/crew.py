"""Threads that work on chunks: jobs go in, and their results come out in the same order.

It may assume that jobs are independent, or wait only for jobs that came before. It does not know what they
do.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from operator import index
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple

# More threads than these win nothing, but every one keeps a chunk in memory.
MAX_THREADS = 256
MAX_PER_PROCESSOR = 4

# A job that keeps so much takes a while. It's worth a thread even where it's alone, so that the thread that
# waits for it can be interrupted.
WORTH_A_THREAD = 2 << 20

_SHARE = 32 << 20  # bytes that jobs may keep for each thread: a job on the largest of chunks


def check_threads(threads: int) -> None:
    """Refuse what is no number of threads."""
    if index(threads) < 0:
        raise ValueError(f"can't work with {threads} threads")


class _Job(NamedTuple):
    weight: int
    work: Future[Any] | Callable[[], Any]


class Crew:
    """Runs jobs side by side, and gives their results back in the order in which the jobs came."""

    def __init__(self, threads: int, memory: int | None = None) -> None:
        """Take `threads`, 0 for one a processor, to work on jobs that keep up to `memory` bytes together."""
        self._process = os.getpid()
        self._jobs: deque[_Job] = deque()
        self._weight = 0
        self._queue: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] | None = None
        self._workers: list[Thread] = []
        check_threads(threads)
        processors = _processors()
        self.threads = min(threads or processors, MAX_PER_PROCESSOR * processors, MAX_THREADS)
        self._memory = _SHARE * (self.threads + 2) if memory is None else memory

    def __len__(self) -> int:
        return len(self._jobs)

    def __del__(self) -> None:
        self.close(wait=False)

    @property
    def full(self) -> bool:
        """Whether results should be taken before more jobs are added: every job keeps memory."""
        return len(self._jobs) >= (1 if self.threads == 1 else self.threads + 2)

    @property
    def done(self) -> bool:
        """Whether the oldest result can be had without waiting."""
        return bool(self._jobs) and isinstance(work := self._jobs[0].work, Future) and work.done()

    def fits(self, weight: int) -> bool:
        """Tell whether there's memory for one more job."""
        return not self._jobs or self._weight + weight <= self._memory

    def add(self, weight: int, function: Callable[..., Any], *arguments: Any) -> None:
        """Add a job that keeps about `weight` bytes of memory."""
        self._stay_in_process()
        # A small job that stays alone is run by whoever takes its result.
        if not self._queue and (weight >= WORTH_A_THREAD or (self._jobs and self.threads > 1)):
            self._queue = SimpleQueue()
            self._jobs = deque(_Job(job.weight, self._submit(job.work)) for job in self._jobs)
        work = partial(function, *arguments)
        self._jobs.append(_Job(weight, self._submit(work) if self._queue else work))
        self._weight += weight

    def take(self) -> Any:
        """Return the result of the oldest job, when there is one."""
        self._stay_in_process()
        job = self._jobs.popleft()
        self._weight -= job.weight
        return job.work.result() if isinstance(job.work, Future) else job.work()

    def close(self, wait: bool) -> None:
        """Drop what has not begun, and wait for what has, where it writes to others' memory."""
        jobs, self._jobs = self._jobs, deque()
        self._weight = 0
        if os.getpid() != self._process:
            return  # a copy made by fork, which has no workers
        for job in jobs:
            if isinstance(job.work, Future):
                job.work.cancel()
        workers, self._workers = self._workers, []
        if self._queue:
            for _ in workers:
                self._queue.put(None)
            self._queue = None
        if wait:
            for worker in workers:
                worker.join()

    def _submit(self, work: Any) -> Future[Any]:
        if isinstance(work, Future):
            return work
        assert self._queue is not None
        if len(self._workers) < self.threads:
            # Unlike a ThreadPoolExecutor's, these don't hold up the end of a program that was interrupted.
            worker = Thread(target=_work, args=(self._queue,), name="brevis", daemon=True)
            worker.start()
            self._workers.append(worker)
        future: Future[Any] = Future()
        self._queue.put((future, work))
        return future

    def _stay_in_process(self) -> None:
        if os.getpid() != self._process:
            if self._jobs:
                raise RuntimeError("this was begun before a fork: only the process that began it can go on")
            self._process, self._queue, self._workers = os.getpid(), None, []


def _work(queue: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]) -> None:
    """Be a worker: run jobs until there's none more."""
    while item := queue.get():
        future, work = item
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)
        del item, future, work  # what they keep may be large, and the next job may come late


def _processors() -> int:
    """Return how many processors this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1

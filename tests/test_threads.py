"""Threads that stay, and the memory that they keep: whose is what, for how long, and in what order."""

import multiprocessing
import threading
import time

import numpy as np
import pytest
import torch

from geobias_torch.scratch import _KEPT, Scratch, Shelf
from geobias_torch.threads import spread


@pytest.fixture(params=[1, 2, 3])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def test_results_come_in_the_order_of_the_items(threads):
    def slow_first(item, other):
        time.sleep(0.02 * (item == 0))
        return item, other

    assert list(spread(slow_first, range(20), range(20, 40), most=20)) == list(
        zip(range(20), range(20, 40), strict=True)
    )
    assert list(spread(slow_first, [], [], most=0)) == []


def test_as_many_threads_as_asked_for_and_always_the_same(threads):
    def name(_):
        time.sleep(0.005)
        return threading.current_thread().name

    first, second = (set(spread(name, range(24), most=24)) for _ in range(2))
    assert len(first) <= threads
    assert second <= first  # no new ones
    assert set(spread(name, range(5), most=1)) == {threading.current_thread().name}


def test_an_error_comes_out_and_the_threads_go_on_working(threads):
    def fail(item):
        if item == 3:
            raise ValueError("three")
        return item

    with pytest.raises(ValueError, match="three"):
        list(spread(fail, range(9), most=9))
    assert list(spread(fail, [1, 2], most=2)) == [1, 2]


def _in_a_fork(queue):
    queue.put(list(spread(lambda item: item + 1, range(8), most=8)))


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_has_threads_of_its_own():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        list(spread(str, range(8), most=8))  # the parent has its threads
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        child = context.Process(target=_in_a_fork, args=(queue,))
        child.start()
        assert queue.get(timeout=30) == list(range(1, 9))
        child.join(timeout=30)
        assert child.exitcode == 0
    finally:
        torch.set_num_threads(before)


def test_scratch_is_the_same_memory_for_the_same_name_and_thread():
    scratch = Scratch()
    first = scratch.take("a", (3, 4), np.float64)
    assert np.shares_memory(first, scratch.take("a", (2, 2), np.float64))
    for other in (scratch.take("b", (3, 4), np.float64), scratch.take("a", (3, 4), np.int64)):
        assert not np.shares_memory(first, other)
    assert scratch.take("a", (5, 5), np.float64).shape == (5, 5)  # a larger one replaces it
    found = []
    thread = threading.Thread(target=lambda: found.append(scratch.take("a", (5, 5), np.float64)))
    thread.start()
    thread.join()
    assert not np.shares_memory(found[0], scratch.take("a", (5, 5), np.float64))


def test_large_memory_is_given_back():
    scratch, shelf = Scratch(), Shelf()
    small = scratch.take("a", (8,), np.uint8)
    large = scratch.take("a", (_KEPT + 1,), np.uint8)
    assert not np.shares_memory(large, scratch.take("a", (_KEPT + 1,), np.uint8))
    assert np.shares_memory(small, scratch.take("a", (8,), np.uint8))
    whole = shelf.take(_KEPT + 1, np.uint8)
    assert not np.shares_memory(whole, shelf.take(1, np.uint8))


def test_what_lies_on_a_shelf_is_nobody_elses():
    shelf = Shelf()
    taken = [shelf.take(size, np.int32) for size in (5, 3_000_000, 7, 0, 2)]
    for number, one in enumerate(taken):
        one[:] = number
    assert [set(one.tolist()) for one in taken] == [{0}, {1}, {2}, set(), {4}]

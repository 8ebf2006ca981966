from __future__ import annotations

import os
import signal
import threading

import pytest

from experiments.termination import Terminated, terminating, undisturbed


def test_sigterm_is_an_exception_in_the_block_and_the_handler_is_put_back() -> None:
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    with pytest.raises(Terminated) as error, terminating():
        os.kill(os.getpid(), signal.SIGTERM)
    assert error.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_that_it_came_is_known_also_where_the_exception_is_caught() -> None:
    with terminating() as outer:
        assert not outer()
        with terminating() as inner, pytest.raises(SystemExit):
            os.kill(os.getpid(), signal.SIGTERM)
        assert (inner(), outer()) == (True, True)
    with terminating() as later:
        assert not later()


def test_a_users_handler_is_left_alone() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    try:
        with terminating():
            os.kill(os.getpid(), signal.SIGTERM)
        assert seen == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_another_thread_touches_no_signal() -> None:
    seen: list[object] = []

    def look() -> None:
        with terminating(), undisturbed():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [signal.SIG_DFL]


def test_last_words_are_not_interrupted_and_the_signal_comes_after() -> None:
    said = []

    def last_words() -> None:
        with undisturbed():
            os.kill(os.getpid(), signal.SIGINT)
            said.append("all of it")

    with pytest.raises(KeyboardInterrupt):
        last_words()
    assert said == ["all of it"]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_dies_of_the_signal() -> None:
    with terminating():
        child = os.fork()
        if child == 0:
            try:
                os.kill(os.getpid(), signal.SIGTERM)
            finally:
                os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM

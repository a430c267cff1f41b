"""Long commands: which signals interrupt them, and who may have their directory."""

import os
import signal

import pytest

from subgroup_offset.cluster.processes import exclusive_lock, terminable

HANGUP = signal.SIGHUP


@pytest.fixture(autouse=True)
def _handlers():
    before = signal.getsignal(HANGUP)
    yield
    signal.signal(HANGUP, before)


def test_a_hangup_ends_as_ctrl_c_does_and_only_inside():
    signal.signal(HANGUP, signal.SIG_DFL)
    with pytest.raises(KeyboardInterrupt), terminable():
        os.kill(os.getpid(), HANGUP)
    assert signal.getsignal(HANGUP) == signal.SIG_DFL


def test_under_nohup_a_hangup_stays_ignored():
    signal.signal(HANGUP, signal.SIG_IGN)
    with terminable():
        os.kill(os.getpid(), HANGUP)
    assert signal.getsignal(HANGUP) == signal.SIG_IGN


def test_a_directory_has_one_holder_at_a_time(tmp_path):
    lock = tmp_path / "made" / "lock"
    with exclusive_lock(lock, ValueError("another one runs")), pytest.raises(ValueError, match="another one runs"):
        exclusive_lock(lock, ValueError("another one runs"))
    with exclusive_lock(lock, ValueError("free again")):
        pass

"""The tests' own clock."""

import pytest

from tests.runner.world import LoopClock

pytestmark = pytest.mark.looptime


async def test_a_sleep_below_the_clocks_resolution_moves_it() -> None:
    """Else whoever sleeps for what is left until a moment would do so for ever: real clocks move by themselves."""
    clock = LoopClock()
    began = clock.monotonic()
    await clock.sleep(1e-12)
    assert clock.monotonic() > began

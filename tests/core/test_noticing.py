"""Who watches whom."""

from collections import Counter

from turnkeeper.core.noticing import ALL_MAX, WATCHERS, watchers


def test_a_few_watch_one_another_and_of_many_each_has_three() -> None:
    """Nobody watches itself."""
    few = [f"s{number}" for number in range(ALL_MAX)]
    assert all(sorted(watchers(session, few)) == sorted(set(few) - {session}) for session in few)
    many = [f"s{number}" for number in range(500)]
    lines = {session: watchers(session, many) for session in many}
    assert all(len(line) == WATCHERS and session not in line for session, line in lines.items())
    load = Counter(watcher for line in lines.values() for watcher in line)
    assert max(load.values()) <= 5 * WATCHERS


def test_everybody_sees_the_same_line_and_little_moves_when_one_comes() -> None:
    """The order in which sessions are seen does not matter, and a new one takes over few watches."""
    many = [f"s{number}" for number in range(200)]
    assert watchers("s7", many) == watchers("s7", many[::-1])
    changed = sum(watchers(session, many) != watchers(session, [*many, "new"]) for session in many)
    assert changed <= 15


def test_one_alone_is_watched_by_nobody() -> None:
    """Nor is a session that is seen for the first time a reason to fail."""
    assert watchers("s", ["s"]) == []
    assert watchers("s", ["other"]) == ["other"]

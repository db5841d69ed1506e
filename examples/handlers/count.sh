#!/bin/sh
# A handler in POSIX shell: it counts the bytes of its turn.
#
#     turnkeeper run --exec "sh examples/handlers/count.sh"
#
# A script need not read its turn at all. An exit with 0 completes the turn, any other fails it, and what it writes to
# stderr is in the run's log. Ids may hold quotes: put them into JSON only with a tool that escapes them.

echo "attempt $TURN_ATTEMPT in thread $TURN_THREAD" >&2
bytes=$(head -n 1 | wc -c)
printf '{"type":"event","event":"counted"}\n'
printf '{"type":"answer","answer":{"bytes":%d}}\n' "$bytes"

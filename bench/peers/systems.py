"""The systems that are measured side by side, by the names that people know them by, in the order of every table."""

SYSTEMS = {
    "floor": "the bare commits of a turn",
    "turnkeeper": "turnkeeper",
    "dbos": "DBOS Transact",
    "dbos_fast": "DBOS Transact, its queue polled each 20 ms",
    "procrastinate": "Procrastinate",
    "temporal": "Temporal",
}

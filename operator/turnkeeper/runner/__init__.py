"""The runner: takes what is owed, runs it, and hands over. Knows the ports and the core, and no adapter."""

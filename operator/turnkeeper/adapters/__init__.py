"""What stands at the doors: databases, memory, handlers, metrics. Each knows its library and the ports, no more."""

"""The protocol, pure: values in, values out.

No await, clock, randomness, logging or environment in here. Functions are given what was seen and the time, and return
what to do. The names of its functions are the names of the actions in `spec/ThreadClaim.tla`.
"""

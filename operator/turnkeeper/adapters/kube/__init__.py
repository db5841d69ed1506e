"""Kubernetes: its API as plain JSON, and sessions and claims as Leases."""

"""Brings the cluster to what each Workspace says, asks its runners to recover, and tells what it saw."""

"""Bytes and values of the specifications; no I/O, no clock, no randomness of its own."""

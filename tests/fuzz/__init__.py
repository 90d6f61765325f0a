"""Fuzzing of every reader of untrusted bytes: ``python -m tests.fuzz TARGET --count N --seed S``."""

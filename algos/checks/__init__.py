"""Checks: one fact about an optimizer a function, by theme."""

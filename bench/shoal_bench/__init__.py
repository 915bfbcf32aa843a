"""Experiments, their peers, and their reports."""

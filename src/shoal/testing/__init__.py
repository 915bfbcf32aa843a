"""Public test kit: the deterministic simulator, its faults and its checkers."""

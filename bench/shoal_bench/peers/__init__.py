"""Other people's implementations, as Shoal's contestants and conversation partners."""

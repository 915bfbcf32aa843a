"""What a store recorded, as Arrow data."""

//! Shoal's frames and message encoding.

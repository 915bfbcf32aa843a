//! NORM (RFC 5740) as a sans-IO engine: bytes and time in; bytes, deadlines and events out.

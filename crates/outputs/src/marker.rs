//! What stands between head and tail.

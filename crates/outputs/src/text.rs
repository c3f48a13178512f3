//! Characters and lines in bytes that may not be UTF-8.

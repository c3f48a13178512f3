//! The host's parent process for development and containers.

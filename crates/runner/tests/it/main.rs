//! The built binary, driven over real sockets as an executor drives it.

mod caps;
mod disk;
mod failures;
mod isolation;
mod leftovers;
mod losses;
mod results;
mod spawner;
mod support;
mod timeouts;

//! The packaged link.
use std::process::ExitCode;

fn main() -> ExitCode {
    willcall_link::main_from(std::env::args_os())
}

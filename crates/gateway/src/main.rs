//! The gateway's binary; everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    willcall_gateway::main_from(std::env::args_os())
}

//! The thin binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    willcall_executor::main_from(std::env::args_os())
}

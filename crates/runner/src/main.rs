//! `willcall-runner`: see the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    willcall_runner::main_from(std::env::args_os())
}

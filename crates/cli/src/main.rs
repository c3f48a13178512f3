//! The combined program: commands for people, and every role behind hidden arguments.
use std::process::ExitCode;

fn main() -> ExitCode {
    willcall::main_from(std::env::args_os())
}

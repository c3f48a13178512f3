//! The packaged agent.
use std::process::ExitCode;

fn main() -> ExitCode {
    willcall_agent::main_from(std::env::args_os())
}

//! The system's processes, in this same program.

use crate::exit;
use clap::ValueEnum;
use nix::sys::signal::{SigSet, Signal};
use std::ffi::OsString;
use std::process::ExitCode;
use willcall_agent::roles::Roles;

/// Set for the processes of demo and dev: they end when whoever started them is gone, however it went.
pub const TIED: &str = "WILLCALL_TIED_TO_PARENT";

/// A process of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RoleName {
    /// The control plane's side.
    Gateway,
    /// The host's websocket.
    Link,
    /// The host's decisions and memory.
    Executor,
    /// Forks runners.
    Spawner,
    /// The host's parent process.
    Agent,
}

/// Becomes the role.
pub fn main_from(role: RoleName, args: Vec<OsString>) -> ExitCode {
    // Whoever waits for signals in a thread of its own blocks them, and a blocked signal stays blocked over exec.
    let _ = SigSet::empty().thread_set_mask();
    if std::env::var_os(TIED).is_some() {
        let _ = nix::sys::prctl::set_pdeathsig(Signal::SIGTERM);
    }
    match role {
        RoleName::Gateway => willcall_gateway::main_from(named("willcall-gateway", args)),
        RoleName::Link => willcall_link::main_from(named("willcall-link", args)),
        RoleName::Executor => willcall_executor::main_from(named("willcall-executor", args)),
        RoleName::Spawner => {
            let args = std::iter::once("spawner".into()).chain(args);
            willcall_runner::main_from(named("willcall-runner", args))
        }
        RoleName::Agent => match std::env::current_exe() {
            Ok(program) => willcall_agent::main_with(
                named("willcall-agent", args),
                Roles::Combined { program },
            ),
            Err(_) => exit::code(exit::OURS),
        },
    }
}

fn named(name: &str, args: impl IntoIterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    std::iter::once(name.into()).chain(args)
}

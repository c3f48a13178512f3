//! The command line of the privileged role.

use crate::spawner::{self, SpawnerConfig};
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(
    name = "willcall-runner",
    version,
    about = "Runs commands for willcall's executor"
)]
struct Cli {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Listen for launches and fork a runner for each
    Spawner {
        /// Where to listen
        #[arg(long, value_name = "PATH")]
        socket: PathBuf,
        /// A user who may launch, besides root and the user of this process
        #[arg(long, value_name = "UID")]
        allow_uid: Option<u32>,
        /// End, in order, when stdin (a pipe) is closed at its other end
        #[arg(long)]
        lifeline: bool,
    },
}

/// Runs the role that `args` (the program's name first) asks for, to its end. Call it before this process
/// has a second thread or any runtime: a spawner forks without exec.
///
/// Logs go to stderr; `WILLCALL_LOG` chooses them, `info` by default.
pub fn main_from(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli: Cli = match willcall_daemon::parse(args) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    willcall_daemon::log_to_stderr();
    let Role::Spawner {
        socket,
        allow_uid,
        lifeline,
    } = cli.role;
    let config = SpawnerConfig {
        socket,
        allow_uid,
        lifeline,
    };
    willcall_daemon::end("the spawner", spawner::run(config))
}

//! The command line of the privileged role.

use crate::spawner::{self, SpawnerConfig};
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

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
    },
}

/// Runs the role that `args` (the program's name first) asks for, to its end. Call it before this process
/// has a second thread or any runtime: a spawner forks without exec.
///
/// Logs go to stderr; `WILLCALL_LOG` chooses them, `info` by default.
pub fn main_from(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let filter = EnvFilter::try_from_env("WILLCALL_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    // A second subscriber in the same process is no reason not to serve.
    let _ = log.with_target(false).try_init();
    let Role::Spawner { socket, allow_uid } = cli.role;
    match spawner::run(SpawnerConfig { socket, allow_uid }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("the spawner ends: {:#}", anyhow::Error::from(error));
            ExitCode::FAILURE
        }
    }
}

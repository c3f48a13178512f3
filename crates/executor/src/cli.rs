//! The command line.

use crate::config::Config;
use crate::limits::{MAX_BLOCKING_THREADS, RUNNER_MARGIN, SHUTDOWN_TIME};
use crate::runs::order;
use crate::service::{self, ExecutorConfig};
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Debug, Parser)]
#[command(
    name = "willcall-executor",
    version,
    about = "Decides and remembers what runs on this host"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve links and runners until told to end; runs go on without it
    Run {
        /// The directory of the ledger and the spool files
        #[arg(long, value_name = "DIR")]
        state: PathBuf,
        /// The directory of the sockets
        #[arg(long, value_name = "DIR")]
        run_dir: PathBuf,
        /// The directory where commands start; their outputs are kept in its .outputs
        #[arg(long, value_name = "DIR")]
        workspace: PathBuf,
        /// The configuration [default: /etc/willcall/config.toml, if there is one]
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// A user whose process may be the link, besides root and the user of this process; may be given again
        #[arg(long, value_name = "UID")]
        allow_uid: Vec<u32>,
        /// Milliseconds that a runner may take longer than all its times together
        #[arg(long, value_name = "MS", default_value_t = order::millis(RUNNER_MARGIN), hide = true)]
        runner_margin_ms: u64,
        /// End, in order, when stdin (a pipe) is closed at its other end
        #[arg(long)]
        lifeline: bool,
    },
}

/// Runs the executor with `args` (the program's name first) to its end. No thread or runtime may
/// exist before.
///
/// Logs go to stderr; `WILLCALL_LOG` chooses them, `info` by default.
pub fn main_from(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli: Cli = match willcall_daemon::parse(args) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    willcall_daemon::log_to_stderr();
    let Command::Run {
        state,
        run_dir,
        workspace,
        config,
        allow_uid,
        runner_margin_ms,
        lifeline,
    } = cli.command;
    let served = Config::load(config.as_deref())
        .map_err(anyhow::Error::from)
        .and_then(|config| {
            serve(ExecutorConfig {
                state,
                run_dir,
                workspace,
                allow_uids: allow_uid,
                runner_margin: Duration::from_millis(runner_margin_ms),
                outputs: config.outputs,
                lifeline,
            })
        });
    willcall_daemon::end("the executor", served)
}

fn serve(config: ExecutorConfig) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(MAX_BLOCKING_THREADS)
        .build()?;
    let ended = runtime.block_on(service::run(config));
    // A page that is read from a hung disk keeps nobody.
    runtime.shutdown_timeout(SHUTDOWN_TIME / 2);
    Ok(ended?)
}

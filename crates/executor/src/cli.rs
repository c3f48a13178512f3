//! The command line.

use crate::config::Config;
use crate::limits::{MAX_BLOCKING_THREADS, SHUTDOWN_TIME};
use crate::service::{self, ExecutorConfig};
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

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
    },
}

/// Runs the executor with `args` (the program's name first) to its end. No thread or runtime may
/// exist before.
///
/// Logs go to stderr; `WILLCALL_LOG` chooses them, `info` by default.
pub fn main_from(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // Where nobody reads, nobody misses it.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let filter = EnvFilter::try_from_env("WILLCALL_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    // A subscriber that is there already serves as well.
    let _ = log.with_target(false).try_init();
    let Command::Run {
        state,
        run_dir,
        workspace,
        config,
        allow_uid,
    } = cli.command;
    let served = Config::load(config.as_deref())
        .map_err(anyhow::Error::from)
        .and_then(|config| {
            serve(ExecutorConfig {
                state,
                run_dir,
                workspace,
                allow_uids: allow_uid,
                outputs: config.outputs,
            })
        });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("the executor ends: {error:#}");
            ExitCode::FAILURE
        }
    }
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

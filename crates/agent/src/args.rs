//! The command line.

use crate::layout::Layout;
use crate::roles::Roles;
use crate::service::{self, Host};
use anyhow::Context;
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// The host's side of willcall.
#[derive(Debug, Parser)]
#[command(name = "willcall-agent", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run spawner, executor and link below one parent, until SIGTERM.
    Run(RunArgs),
}

#[derive(Debug, clap::Args)]
struct RunArgs {
    /// Where the host keeps its ledger.
    #[arg(long, value_name = "DIR")]
    state: PathBuf,
    /// The gateway: wss://HOST:PORT/v1/link
    #[arg(long, value_name = "URL")]
    gateway: OsString,
    /// Key and certificate of this host, in one PEM file.
    #[arg(long, value_name = "FILE")]
    identity: PathBuf,
    /// The CA that the gateway's certificate must come from.
    #[arg(long, value_name = "FILE")]
    ca: PathBuf,
    /// Where commands start and outputs are kept [default: STATE/workspace]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Where the sockets are [default: STATE/run]
    #[arg(long, value_name = "DIR")]
    run_dir: Option<PathBuf>,
    /// The host's configuration [default: /etc/willcall/config.toml, if there is one]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// The agent, as a process, with the other roles as programs beside it. `args` begin with the program's name.
pub fn main_from(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    match Roles::siblings() {
        Ok(roles) => main_with(args, roles),
        Err(error) => {
            willcall_daemon::log_to_stderr();
            tracing::error!("this program's own path cannot be found: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The agent, as a process, with the other roles as `roles` says. `args` begin with the program's name.
pub fn main_with(args: impl IntoIterator<Item = OsString>, roles: Roles) -> ExitCode {
    let args: Args = match willcall_daemon::parse(args) {
        Ok(args) => args,
        Err(code) => return code,
    };
    willcall_daemon::log_to_stderr();
    let Command::Run(args) = args.command;
    willcall_daemon::end("the agent", serve(args, roles))
}

fn serve(args: RunArgs, roles: Roles) -> anyhow::Result<()> {
    let layout = Layout::new(
        &args.state,
        args.run_dir.as_deref(),
        args.workspace.as_deref(),
    )?;
    layout.make()?;
    let host = Host {
        roles,
        layout,
        gateway: args.gateway,
        identity: args.identity,
        ca: args.ca,
        config: args.config,
    };
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the event loop cannot be set up")?
        .block_on(service::run(host))
}

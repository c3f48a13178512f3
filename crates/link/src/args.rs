//! The command line.

use crate::dial::GatewayUrl;
use crate::lifeline::Lifeline;
use crate::limits::Times;
use crate::service::{self, Settings};
use anyhow::Context;
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Holds the host's identity and its websocket; relays frames and runs nothing.
#[derive(Debug, Parser)]
#[command(name = "willcall-link", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Keep a session with the gateway open until SIGTERM.
    Run {
        /// The gateway: wss://HOST:PORT/v1/link
        #[arg(long, value_name = "URL")]
        gateway: GatewayUrl,
        /// Key and certificate of this host, in one PEM file.
        #[arg(long, value_name = "FILE")]
        identity: PathBuf,
        /// The CA that the gateway's certificate must come from.
        #[arg(long, value_name = "FILE")]
        ca: PathBuf,
        /// The executor's socket.
        #[arg(long, value_name = "SOCKET")]
        socket: PathBuf,
        /// End, in order, when stdin (a pipe) is closed at its other end.
        #[arg(long)]
        lifeline: bool,
    },
}

/// The link, as a process. `args` begin with the program's name.
pub fn main_from(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Args = match willcall_daemon::parse(args) {
        Ok(args) => args,
        Err(code) => return code,
    };
    willcall_daemon::log_to_stderr();
    let Command::Run {
        gateway,
        identity,
        ca,
        socket,
        lifeline,
    } = args.command;
    let settings = Settings {
        gateway,
        identity,
        ca,
        socket,
        times: Times::REAL,
    };
    willcall_daemon::end("the link", serve(settings, lifeline))
}

fn serve(settings: Settings, lifeline: bool) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the event loop cannot be set up")?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).context("SIGTERM cannot be caught")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT cannot be caught")?;
        let mut lifeline =
            Lifeline::new(lifeline).context("the pipe on stdin cannot be followed")?;
        let cancel = CancellationToken::new();
        let service = service::run(settings, cancel.clone());
        let mut service = std::pin::pin!(service);
        tokio::select! {
            biased;
            () = &mut service => return Ok(()),
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = lifeline.end() => {}
        }
        cancel.cancel();
        service.await;
        Ok(())
    })
}

//! The command line.

use crate::clock::now_ms;
use crate::db::{self, hosts, tokens};
use crate::descriptors;
use crate::limits::{MAX_HOST_NAME, Timeouts};
use crate::pki::{AGENT_LIFE_DAYS, Ca};
use crate::server::Server;
use crate::state::{self, StateDir};
use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use willcall_protocol::ids::AgentId;

/// The control plane's side of Willcall.
#[derive(Debug, Parser)]
#[command(name = "willcall-gateway", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make the CA, the server's certificate, the database and an API token, as far as they are not there.
    Init {
        /// The state directory.
        #[arg(long)]
        state: PathBuf,
        /// A further DNS name or IP address that hosts dial, besides localhost.
        #[arg(long = "name")]
        names: Vec<String>,
    },
    /// Register a host and make its certificate, valid for 90 days. There is no renewal yet: make a new one in time.
    AgentCert {
        /// The state directory.
        #[arg(long)]
        state: PathBuf,
        /// The host's name: letters, digits, `.`, `_` and `-`.
        #[arg(long)]
        name: String,
        /// Where to write agent.pem and ca.pem.
        #[arg(long)]
        out: PathBuf,
    },
    /// Serve hosts and callers until SIGTERM or SIGINT.
    Serve {
        /// The state directory.
        #[arg(long)]
        state: PathBuf,
        /// Where hosts dial: websocket over mutual TLS.
        #[arg(long, default_value = "127.0.0.1:0")]
        agents: SocketAddr,
        /// Where callers call: HTTP with a bearer token, without TLS.
        #[arg(long, default_value = "127.0.0.1:0")]
        api: SocketAddr,
    },
}

/// Runs the gateway's command line; the first argument is the program's name.
pub fn main_from(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Arguments = match willcall_daemon::parse(args) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    willcall_daemon::log_to_stderr();
    willcall_daemon::end("the gateway", run(arguments.command))
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Init { state, names } => init(&StateDir::new(state), names),
        Command::AgentCert { state, name, out } => agent_cert(&StateDir::new(state), &name, &out),
        Command::Serve { state, agents, api } => {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .enable_all()
                .build();
            let runtime = runtime.context("cannot start the runtime")?;
            runtime.block_on(Box::pin(serve(StateDir::new(state), agents, api)))
        }
    }
}

fn init(state: &StateDir, names: Vec<String>) -> anyhow::Result<()> {
    state.create()?;
    let ca = ca(state)?;
    if state::exists(&state.server())? {
        if !names.is_empty() {
            tracing::warn!("the server's certificate is there already and keeps its names");
        }
    } else {
        let all: Vec<String> = ["localhost", "127.0.0.1", "::1"]
            .map(String::from)
            .into_iter()
            .chain(names)
            .collect();
        let server = ca.issue_server(&all, SystemTime::now())?;
        state::write_private(&state.server(), &server.pem())?;
    }
    let database = db::open(&state.database())?;
    if !state::exists(&state.token())? {
        let token = format!(
            "willcall_{}",
            URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>())
        );
        tokens::insert(&database, &token, "admin", now_ms()).context("cannot store the token")?;
        state::write_private(&state.token(), &format!("{token}\n"))?;
    }
    Ok(())
}

/// The CA that is there, or a new one. One half of a CA is never completed or replaced: hosts may trust it.
fn ca(state: &StateDir) -> anyhow::Result<Ca> {
    let (certificate, key) = (state.ca_certificate(), state.ca_key());
    match (state::exists(&certificate)?, state::exists(&key)?) {
        (true, true) => Ok(Ca::from_pem(
            state::read(&certificate)?,
            state::read(&key)?,
        )?),
        (false, false) => {
            let ca = Ca::generate(SystemTime::now())?;
            state::write_private(&key, ca.key_pem())?;
            state::write_public(&certificate, ca.certificate_pem())?;
            Ok(ca)
        }
        (true, false) => bail!(
            "{} is there but {} is not",
            certificate.display(),
            key.display()
        ),
        (false, true) => bail!(
            "{} is there but {} is not",
            key.display(),
            certificate.display()
        ),
    }
}

fn agent_cert(state: &StateDir, name: &str, out: &Path) -> anyhow::Result<()> {
    check_name(name)?;
    if !state::exists(&state.ca_key())? {
        bail!("there is no CA in the state directory: run `willcall-gateway init` first");
    }
    let ca = ca(state)?;
    let agent = AgentId(Uuid::new_v4());
    let identity = ca.issue_agent(agent, SystemTime::now())?;
    let mut database = db::open(&state.database())?;
    let registration = database
        .transaction()
        .context("cannot write to the database")?;
    let taken = || format!("cannot register {name:?}: is the name taken?");
    hosts::insert(&registration, agent, name, now_ms()).with_context(taken)?;
    StateDir::new(out).create()?;
    state::write_private(&out.join("agent.pem"), &identity.pem())?;
    let ca_copy = out.join("ca.pem");
    if !state::exists(&ca_copy)? {
        state::write_public(&ca_copy, ca.certificate_pem())?;
    }
    registration
        .commit()
        .context("cannot write to the database")?;
    tracing::info!(
        host = name,
        "the certificate is valid for {AGENT_LIFE_DAYS} days; there is no renewal yet"
    );
    print_line(&agent.to_string())
}

fn check_name(name: &str) -> anyhow::Result<()> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    let starts = name
        .bytes()
        .next()
        .is_some_and(|b| b.is_ascii_alphanumeric());
    if !starts || name.len() > MAX_HOST_NAME || !name.bytes().all(allowed) {
        bail!("{name:?} is not a host's name: 1 to {MAX_HOST_NAME} of A-Z a-z 0-9 . _ -");
    }
    if name.parse::<AgentId>().is_ok() {
        bail!("{name:?} looks like an agent's id, so it cannot be a name");
    }
    Ok(())
}

async fn serve(state: StateDir, agents: SocketAddr, api: SocketAddr) -> anyhow::Result<()> {
    descriptors::raise();
    let mut term = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut int = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let server = Server::open(&state, Timeouts::default()).await?;
    let agents = bind(agents).await?;
    let api = bind(api).await?;
    let bound = serde_json::json!({"agents": agents.local_addr()?, "api": api.local_addr()?});
    print_line(&bound.to_string())?;
    let shutdown = CancellationToken::new();
    let serving = server.serve(agents, api, shutdown.clone());
    let stopping = async {
        tokio::select! {
            _ = term.recv() => tracing::info!("stopping on SIGTERM"),
            _ = int.recv() => tracing::info!("stopping on SIGINT"),
        }
        shutdown.cancel();
        std::future::pending().await
    };
    tokio::select! {
        served = serving => Ok(served?),
        never = stopping => never,
    }
}

async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}"))
}

fn print_line(line: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}")
        .and_then(|()| stdout.flush())
        .context("cannot write to stdout")
}

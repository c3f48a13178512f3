//! A gateway on port 0, and the two kinds of peers that it has.

mod http;
mod peer;

pub(crate) use http::{Answer, Caller};
pub(crate) use peer::{Host, Socket, client_config, closed, dial, exited, hello, stream};

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use willcall_gateway::db::Db;
use willcall_gateway::fleet::Fleet;
use willcall_gateway::limits::Timeouts;
use willcall_gateway::pki::Ca;
use willcall_gateway::server::{Server, ServerError};
use willcall_gateway::state::StateDir;
use willcall_protocol::ids::AgentId;

/// How long a test waits for what has to come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A running gateway in a directory of its own.
pub(crate) struct Gateway {
    pub(crate) agents: SocketAddr,
    pub(crate) api: SocketAddr,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) db: Db,
    pub(crate) token: String,
    shutdown: CancellationToken,
    serving: JoinSet<Result<(), ServerError>>,
    pub(crate) dir: TempDir,
}

/// A registered host: its id, and its key and certificate.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) agent: AgentId,
    pub(crate) pem: String,
}

/// Times short enough to be waited for.
pub(crate) fn short() -> Timeouts {
    Timeouts {
        tls: Duration::from_millis(700),
        upgrade: Duration::from_millis(700),
        hello: Duration::from_millis(700),
        alive: Duration::from_millis(700),
        read: Duration::from_millis(400),
        caller: Duration::from_millis(300),
        ..Timeouts::default()
    }
}

/// Runs the command line.
pub(crate) fn command(args: &[&str]) -> ExitCode {
    let all = std::iter::once("willcall-gateway").chain(args.iter().copied());
    willcall_gateway::main_from(all.map(OsString::from))
}

pub(crate) fn succeeds(args: &[&str]) {
    let done = format!("{:?}", command(args));
    assert_eq!(done, format!("{:?}", ExitCode::SUCCESS), "{args:?}");
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

impl Gateway {
    pub(crate) async fn start() -> Self {
        Self::start_with(Timeouts::default()).await
    }

    pub(crate) async fn start_with(timeouts: Timeouts) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        succeeds(&["init", "--state", text(&dir.path().join("state"))]);
        Self::serve(dir, timeouts).await
    }

    async fn serve(dir: TempDir, timeouts: Timeouts) -> Self {
        let state = StateDir::new(dir.path().join("state"));
        let server = Server::open(&state, timeouts).await.expect("opened");
        let (fleet, db) = (server.fleet(), server.db());
        let agents = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let api = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let shutdown = CancellationToken::new();
        let token = std::fs::read_to_string(state.token()).expect("a token");
        let mut gateway = Self {
            agents: agents.local_addr().expect("an address"),
            api: api.local_addr().expect("an address"),
            fleet,
            db,
            token: token.trim().to_owned(),
            shutdown: shutdown.clone(),
            serving: JoinSet::new(),
            dir,
        };
        gateway.serving.spawn(server.serve(agents, api, shutdown));
        gateway
    }

    /// Drains; gives back the directory.
    pub(crate) async fn stop(self) -> TempDir {
        let Self {
            shutdown,
            mut serving,
            db,
            dir,
            ..
        } = self;
        shutdown.cancel();
        drop(db);
        let ended = tokio::time::timeout(PATIENCE, serving.join_next()).await;
        ended
            .expect("in time")
            .expect("one task")
            .expect("no panic")
            .expect("a sound end");
        dir
    }

    pub(crate) async fn restart(self) -> Self {
        Self::serve(self.stop().await, Timeouts::default()).await
    }

    pub(crate) fn state(&self) -> StateDir {
        StateDir::new(self.dir.path().join("state"))
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.state().database()
    }

    pub(crate) fn ca(&self) -> Ca {
        let read = |path| std::fs::read_to_string(path).expect("readable");
        let state = self.state();
        Ca::from_pem(read(state.ca_certificate()), read(state.ca_key())).expect("a CA")
    }

    /// Registers a host.
    pub(crate) fn register(&self, name: &str) -> Identity {
        let out = self.dir.path().join(name);
        let state = self.dir.path().join("state");
        succeeds(&[
            "agent-cert",
            "--state",
            text(&state),
            "--name",
            name,
            "--out",
            text(&out),
        ]);
        let pem = std::fs::read_to_string(out.join("agent.pem")).expect("readable");
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate");
        let agent = willcall_gateway::pki::agent_of(Some(&[certificate])).expect("an agent");
        Identity { agent, pem }
    }

    pub(crate) fn caller(&self) -> Caller {
        Caller::new(self.api, Some(self.token.clone()))
    }

    /// Waits until so many links are in the fleet.
    pub(crate) async fn links(&self, expected: usize) {
        let mut changes = self.fleet.changes();
        let reached = async {
            while self.fleet.len() != expected {
                changes.changed().await.expect("the fleet is there");
            }
        };
        tokio::time::timeout(PATIENCE, reached)
            .await
            .expect("in time");
    }
}

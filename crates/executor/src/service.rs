//! The executor's process: what is opened in which order, and how it ends.
//!
//! ```text
//! lock both directories ─► open the store ─► open the ledger ─► adopt runs ─► serve ─► end
//!                                                  │   ▲
//!                                       cannot be  ▼   │ every 5 s
//!                                       opened: serve, and refuse every dispatch by name
//! ```
//!
//! At its end it leaves the runs alone: their runners live on, and the next start adopts them.

use crate::config::Outputs;
use crate::ledger::{Ledger, LedgerError, LedgerThread};
use crate::lifeline::Lifeline;
use crate::limits::{LEDGER_REOPEN, SHUTDOWN_TIME};
use crate::runs::order::Surroundings;
use crate::runs::{Parts, Runs, callers};
use crate::sockets::{Guests, listen, listen_to, private_dir, socket_dir};
use crate::{host, server, sweep};
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{sleep, timeout};
use willcall_daemon::in_words;
use willcall_outputs::store::{Store, StoreError};
use willcall_protocol::limits::{OLDEST_VERSION, VERSION};
use willcall_protocol::message::{Capabilities, Hello};

/// Where an executor works, and by which thresholds.
#[derive(Debug, Clone)]
pub struct ExecutorConfig {
    /// The directory of its ledger and spool files.
    pub state: PathBuf,
    /// The directory of the sockets.
    pub run_dir: PathBuf,
    /// The directory where commands start, with the store of their outputs.
    pub workspace: PathBuf,
    /// Users whose processes may be the link, besides root and the executor's own.
    pub allow_uids: Vec<u32>,
    /// How much longer than all its times together a runner may take to end its run.
    pub runner_margin: Duration,
    /// What is kept, and what may leave.
    pub outputs: Outputs,
    /// Whether to end when stdin, a pipe, is closed at its other end.
    pub lifeline: bool,
}

/// Why an executor could not begin, or had to end.
#[derive(Debug, Error)]
pub enum ServiceError {
    /// Another executor works in the directory.
    #[error("{0} is in use by another executor")]
    InUse(PathBuf),
    /// The store cannot be opened.
    #[error("cannot open the store of outputs")]
    Store(#[from] StoreError),
    /// Something else that every executor needs.
    #[error("cannot {what} {on}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        on: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A fault of our own.
    #[error("a run's task failed; the next start takes its runs over")]
    TaskFailed,
}

/// Serves until SIGTERM or SIGINT, or the end of its lifeline.
pub async fn run(config: ExecutorConfig) -> Result<(), ServiceError> {
    let lifeline = Lifeline::new(config.lifeline);
    let lifeline = lifeline.map_err(at("follow", Path::new("the pipe on stdin")))?;
    let mut signals = Signals::new(lifeline).map_err(at("receive", Path::new("signals")))?;
    let opened = Opened::new(config)?;
    let (ledger, thread) = match opened.open_ledger() {
        Ok(open) => open,
        Err(error) => {
            let why = in_words(&error);
            tracing::error!("every dispatch is refused until this is put right: {why}");
            tokio::select! {
                ended = opened.serve(Ledger::closed(&why), &mut signals) => return ended,
                open = opened.reopen_ledger() => open,
            }
        }
    };
    let ended = opened.serve(ledger, &mut signals).await;
    // What still waits for the disk then has a runner or a spool that remembers it.
    let _ = timeout(SHUTDOWN_TIME, tokio::task::spawn_blocking(|| thread.join())).await;
    ended
}

/// What is open for as long as the process lives.
struct Opened {
    config: ExecutorConfig,
    store: Arc<Store>,
    boot_id: String,
    /// Who may be the link, too.
    guests: Guests,
    /// Of the state and of the sockets: another executor may have one of both in common with us.
    _locks: [File; 2],
}

impl Opened {
    fn new(config: ExecutorConfig) -> Result<Self, ServiceError> {
        private_dir(&config.state).map_err(at("create", &config.state))?;
        let guests = Guests(config.allow_uids.clone());
        socket_dir(&config.run_dir, &guests).map_err(at("create", &config.run_dir))?;
        let locks = [
            lock(&config.state, "lock")?,
            lock(&config.run_dir, "executor.lock")?,
        ];
        let store = Arc::new(Store::open(&config.workspace)?);
        let boot_id = host::boot_id().map_err(at("read", Path::new("the kernel's boot id")))?;
        Ok(Self {
            config,
            store,
            boot_id,
            guests,
            _locks: locks,
        })
    }

    fn open_ledger(&self) -> Result<(Ledger, LedgerThread), LedgerError> {
        Ledger::open(&self.config.state.join("ledger.db"), &self.boot_id)
    }

    /// Waits until the ledger can be opened.
    async fn reopen_ledger(&self) -> (Ledger, LedgerThread) {
        loop {
            sleep(LEDGER_REOPEN).await;
            match self.open_ledger() {
                Ok(open) => return open,
                Err(error) => tracing::debug!("{}", in_words(&error)),
            }
        }
    }

    async fn serve(&self, ledger: Ledger, signals: &mut Signals) -> Result<(), ServiceError> {
        let (link, runner) = (self.socket("link.sock"), self.socket("runner.sock"));
        let (user, env) = host::user();
        let hello = self.hello(&ledger, &user);
        let runs = Runs::new(Parts {
            ledger,
            store: Arc::clone(&self.store),
            spool_dir: self.config.state.join("spool"),
            spawner: self.socket("spawner.sock"),
            surroundings: Surroundings {
                env,
                workspace: self.workspace(),
                redial: runner.to_string_lossy().into_owned(),
                outputs: self.config.outputs,
            },
            boot_id: self.boot_id.clone(),
            runner_margin: self.config.runner_margin,
        });
        // Before anybody can ask or call, so that nobody meets a run that is not there yet.
        if let Err(error) = runs.adopt().await {
            tracing::error!("no run is taken over: {}", in_words(&error));
        }
        let runners = listen(&runner).map_err(at("listen on", &runner))?;
        let links = listen_to(&link, &self.guests).map_err(at("listen on", &link))?;
        tracing::info!(socket = %link.display(), "the executor is ready");
        let ended = tokio::select! {
            () = signals.end() => Ok(()),
            () = runs.failed() => Err(ServiceError::TaskFailed),
            () = server::serve(Arc::clone(&runs), links, &self.guests, hello) => Ok(()),
            () = callers::serve(Arc::clone(&runs), runners) => Ok(()),
            () = sweep::serve(&runs) => Ok(()),
        };
        runs.shutdown().await;
        ended
    }

    fn hello(&self, ledger: &Ledger, user: &str) -> Hello {
        let identity = ledger.identity();
        Hello {
            min_version: OLDEST_VERSION,
            max_version: VERSION,
            boot_id: self.boot_id.clone(),
            incarnation: identity.incarnation,
            ledger: identity.ledger,
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            capabilities: Capabilities {
                run_as: user.to_owned(),
                outputs: self.store.root().to_string_lossy().into_owned(),
                max_bytes_ceiling: self.config.outputs.previews.ceiling(),
            },
            running: Vec::new(),
        }
    }

    fn socket(&self, name: &str) -> PathBuf {
        // Runners dial from wherever their commands are.
        let dir = self.config.run_dir.canonicalize();
        dir.unwrap_or_else(|_| self.config.run_dir.clone())
            .join(name)
    }

    /// The store has found the workspace's true path already.
    fn workspace(&self) -> String {
        let root = self.store.root();
        root.parent().unwrap_or(root).to_string_lossy().into_owned()
    }
}

/// What ends an executor from outside.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    lifeline: Lifeline,
}

impl Signals {
    fn new(lifeline: Lifeline) -> io::Result<Self> {
        Ok(Self {
            lifeline,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn end(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            () = self.lifeline.end() => {}
        }
        tracing::info!("the executor ends; runs go on without it");
    }
}

fn lock(dir: &Path, name: &str) -> Result<File, ServiceError> {
    let path = dir.join(name);
    let mut options = OpenOptions::new();
    let file = options
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(&path);
    let file = file.map_err(at("open", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(ServiceError::InUse(dir.to_owned())),
        Err(TryLockError::Error(source)) => Err(at("lock", &path)(source)),
    }
}

fn at(what: &'static str, on: &Path) -> impl FnOnce(io::Error) -> ServiceError {
    let on = on.to_owned();
    move |source| ServiceError::Io { what, on, source }
}

//! All of it together, from two bound listeners to the end of the drain.

use crate::agents::Reception;
use crate::api::Api;
use crate::clock::now_ms;
use crate::db::tokens::{self, TokenRow};
use crate::db::{self, Access, Db, DbError};
use crate::fleet::Fleet;
use crate::limits::{KEEP_RUNS, SWEEP_EVERY, Timeouts};
use crate::lock::{DirectoryLock, LockError};
use crate::pki::{self, TlsError};
use crate::runs::Runs;
use crate::state::{self, StateDir, StateError};
use rustls::ServerConfig;
use std::sync::Arc;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Why a gateway cannot start or go on.
#[derive(Debug, Error)]
pub enum ServerError {
    /// A file.
    #[error("the state directory cannot be used; has `willcall-gateway init` been run?")]
    State(#[from] StateError),
    /// Another gateway.
    #[error("there is a gateway on this state directory")]
    InUse(#[from] LockError),
    /// A certificate or key.
    #[error("the gateway's certificates cannot be used")]
    Tls(#[from] TlsError),
    /// The database.
    #[error("the gateway's database cannot be used")]
    Db(#[from] DbError),
    /// It ended by itself.
    #[error("the gateway's database stopped working")]
    DbGone,
}

/// A gateway, ready to serve.
#[derive(Debug)]
pub struct Server {
    tls: ServerConfig,
    db: Db,
    thread: db::DbThread,
    tokens: Vec<TokenRow>,
    fleet: Arc<Fleet>,
    timeouts: Timeouts,
    /// Given back when everything has ended.
    _lock: DirectoryLock,
}

impl Server {
    /// Takes the state directory for this gateway, and reads it. Other commands may use it at the same time.
    pub async fn open(state: &StateDir, timeouts: Timeouts) -> Result<Self, ServerError> {
        let ca = state::read(&state.ca_certificate())?;
        let lock = state.lock()?;
        let tls = pki::server_config(&ca, &state::read(&state.server())?)?;
        let (db, thread) = Db::start(db::open(&state.database())?)?;
        let tokens = db.call(Access::Read, tokens::all).await?;
        Ok(Self {
            tls,
            db,
            thread,
            tokens,
            fleet: Arc::default(),
            timeouts,
            _lock: lock,
        })
    }

    /// Who is connected.
    pub fn fleet(&self) -> Arc<Fleet> {
        Arc::clone(&self.fleet)
    }

    /// The way to the database.
    pub fn db(&self) -> Db {
        self.db.clone()
    }

    /// Serves hosts and callers until `shutdown` is canceled, then drains.
    pub async fn serve(
        self,
        agents: TcpListener,
        api: TcpListener,
        shutdown: CancellationToken,
    ) -> Result<(), ServerError> {
        let runs = Runs::new(self.db.clone(), self.fleet, shutdown.clone());
        let hosts = Reception::new(self.tls, runs.clone(), self.timeouts, shutdown.clone());
        let callers = Api::new(runs.clone(), self.tokens, self.timeouts);
        let mut services = JoinSet::new();
        services.spawn(hosts.serve(agents));
        services.spawn(callers.serve(api, shutdown.clone()));
        services.spawn(sweep(runs, shutdown.clone()));
        let gone = tokio::select! {
            () = shutdown.cancelled() => false,
            () = self.db.closed() => true,
        };
        shutdown.cancel();
        drain(services, self.timeouts).await;
        drop(self.db);
        let sound = tokio::task::spawn_blocking(|| self.thread.join())
            .await
            .unwrap_or(false);
        if gone || !sound {
            Err(ServerError::DbGone)
        } else {
            Ok(())
        }
    }
}

/// What is not over by then is cut off: hosts keep their results, and callers can ask again.
async fn drain(mut services: JoinSet<()>, timeouts: Timeouts) {
    let ended = async {
        while let Some(done) = services.join_next().await {
            if let Err(error) = done {
                tracing::error!(%error, "a service of the gateway ended badly");
            }
        }
    };
    if tokio::time::timeout(timeouts.drain, ended).await.is_err() {
        tracing::warn!("the drain took too long; what is left is cut off");
        services.shutdown().await;
    }
}

/// Forgets old runs, at the start and every hour, and gives up those whose hosts are gone. That not at the start: hosts need
/// the time to come back to a gateway that was away itself.
async fn sweep(runs: Runs, shutdown: CancellationToken) {
    loop {
        forget(&runs.db).await;
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(SWEEP_EVERY) => {}
        }
        if let Err(error) = runs.give_up(now_ms()).await {
            tracing::error!(?error, "runs of hosts that are gone cannot be given up");
        }
    }
}

async fn forget(db: &Db) {
    let keep = i64::try_from(KEEP_RUNS.as_millis()).unwrap_or(i64::MAX);
    let before = now_ms().saturating_sub(keep);
    let forgotten = db.call(Access::Write, move |c| db::runs::sweep(c, before));
    match forgotten.await {
        Ok(0) => {}
        Ok(forgotten) => tracing::info!(forgotten, "old runs are forgotten"),
        Err(error) => tracing::error!(?error, "old runs cannot be forgotten"),
    }
}

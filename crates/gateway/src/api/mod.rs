//! The callers' listener: HTTP with a bearer token. Every refusal is a [`Problem`]: it says who is to blame and whether
//! anything was started.

mod auth;
mod extract;
mod hosts;
mod listener;
mod outputs;
mod problem;
mod runs;
mod turns;
mod window;

pub use problem::{Code, Problem, Started};

use crate::db::tokens::TokenRow;
use crate::limits::Timeouts;
use crate::runs::Runs;
use axum::Router;
use axum::middleware;
use axum::routing::{get, post};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use listener::Bounded;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

/// What every request needs.
#[derive(Debug, Clone)]
pub struct Api {
    runs: Runs,
    tokens: Arc<[TokenRow]>,
    timeouts: Timeouts,
}

impl Api {
    /// An API over these runs, for the holders of these tokens.
    pub fn new(runs: Runs, tokens: Vec<TokenRow>, timeouts: Timeouts) -> Self {
        Self {
            runs,
            tokens: tokens.into(),
            timeouts,
        }
    }

    /// Serves the listener; after `shutdown`, returns when the last request is answered.
    pub async fn serve(self, listener: TcpListener, shutdown: CancellationToken) {
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(self.timeouts.caller);
        let listener = Bounded::new(listener, self.timeouts.caller);
        let service = TowerToHyperService::new(self.router());
        let graceful = GracefulShutdown::new();
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                Some(done) = connections.join_next() => finished(done),
                connection = listener.accept() => {
                    let connection = TokioIo::new(connection);
                    let served = http.serve_connection(connection, service.clone());
                    connections.spawn(graceful.watch(served));
                }
            }
        }
        drop(listener);
        graceful.shutdown().await;
        while let Some(done) = connections.join_next().await {
            finished(done);
        }
    }

    fn router(self) -> Router {
        let authenticated = Router::new()
            .route("/v1/hosts", get(hosts::list))
            .route("/v1/hosts/{host}/runs", post(runs::submit))
            .route("/v1/hosts/{host}/output", get(outputs::of_host))
            .route("/v1/runs/{run}", get(runs::show))
            .route("/v1/runs/{run}/cancel", post(runs::cancel))
            .route("/v1/runs/{run}/output", get(outputs::of_run))
            .fallback(unknown_path)
            .method_not_allowed_fallback(wrong_method)
            .layer(middleware::from_fn_with_state(self.clone(), auth::require))
            .with_state(self);
        Router::new()
            .route("/healthz", get(async || "ok\n"))
            .method_not_allowed_fallback(wrong_method)
            .fallback_service(authenticated)
    }
}

/// What one caller does wrong, or we for it, is no matter of the others'.
fn finished(done: Result<hyper::Result<()>, JoinError>) {
    match done {
        Ok(Err(error)) => tracing::debug!(%error, "a caller's connection ended early"),
        Err(error) if error.is_panic() => {
            tracing::error!(%error, "a caller's connection panicked: this is a fault of the gateway");
        }
        Ok(Ok(())) | Err(_) => {}
    }
}

async fn unknown_path(uri: axum::http::Uri) -> Problem {
    let path: String = uri.path().chars().take(200).collect();
    Problem::new(Code::UnknownPath, format!("there is nothing at {path}"))
}

async fn wrong_method(method: axum::http::Method) -> Problem {
    Problem::new(Code::WrongMethod, format!("{method} is not for this path"))
}

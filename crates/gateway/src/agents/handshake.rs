//! From a TCP connection to a host that has said hello. Each step has its time, and its own name for what went wrong.

use super::closing::Refusal;
use super::wire::{self, Wire};
use super::{Closing, Reception};
use crate::db::hosts::Standing;
use crate::pki;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::StatusCode;
use willcall_protocol::ids::AgentId;
use willcall_protocol::message::Hello;
use willcall_protocol::session::{GatewayEvent, GatewaySession, SessionError};

/// Where hosts dial.
const PATH: &str = "/v1/link";

/// A host that has said hello.
#[derive(Debug)]
pub(super) struct Guest {
    pub(super) wire: Wire,
    pub(super) session: GatewaySession,
    pub(super) agent: AgentId,
    pub(super) name: String,
    pub(super) hello: Box<Hello>,
}

/// Receives a host.
pub(super) async fn receive(
    reception: &Reception,
    stream: TcpStream,
) -> Result<Box<Guest>, Refusal> {
    let times = &reception.timeouts;
    // Small messages must not wait for each other.
    stream.set_nodelay(true).map_err(Refusal::Tls)?;
    let tls = within(times.tls, "TLS handshake", reception.tls.accept(stream)).await?;
    let tls = tls.map_err(Refusal::Tls)?;
    let agent = pki::agent_of(tls.get_ref().1.peer_certificates())?;
    let standing = reception.runs.standing(agent).await?;
    let socket = Box::pin(within(
        times.upgrade,
        "websocket upgrade",
        upgrade(tls, &standing),
    ))
    .await?;
    let name = match standing {
        Standing::Known(name) => name,
        Standing::Revoked => {
            return Err(Refusal::Stranger {
                agent,
                standing: "revoked",
            });
        }
        Standing::Unknown => {
            return Err(Refusal::Stranger {
                agent,
                standing: "not registered",
            });
        }
    };
    let mut wire = Wire::new(socket.map_err(|e| Refusal::Upgrade(Box::new(e)))?);
    let mut session = GatewaySession::new(Instant::now(), rand::random());
    let hello = tokio::time::timeout(times.hello, greet(&mut wire, &mut session)).await;
    match hello.unwrap_or(Err(Closing::NoHello)) {
        Ok(hello) => Ok(Box::new(Guest {
            wire,
            session,
            agent,
            name,
            hello,
        })),
        Err(why) => {
            wire.close(&why, times.linger).await;
            Err(Refusal::Session { agent, why })
        }
    }
}

async fn within<T>(
    time: Duration,
    step: &'static str,
    doing: impl Future<Output = T>,
) -> Result<T, Refusal> {
    tokio::time::timeout(time, doing)
        .await
        .map_err(|_| Refusal::Slow(step))
}

/// A stranger gets its answer as HTTP: there is no session to close yet.
async fn upgrade(
    tls: TlsStream<TcpStream>,
    standing: &Standing,
) -> Result<WebSocketStream<TlsStream<TcpStream>>, tokio_tungstenite::tungstenite::Error> {
    #[expect(
        clippy::result_large_err,
        reason = "the callback's type is the library's"
    )]
    let answer = |request: &Request, response: Response| match standing {
        Standing::Known(_) if request.uri().path() == PATH => Ok(response),
        Standing::Known(_) => Err(no(StatusCode::NOT_FOUND, "hosts dial /v1/link")),
        Standing::Revoked => Err(no(StatusCode::FORBIDDEN, "this agent is revoked")),
        Standing::Unknown => Err(no(StatusCode::FORBIDDEN, "this agent is not registered")),
    };
    tokio_tungstenite::accept_hdr_async_with_config(tls, answer, Some(wire::config())).await
}

fn no(status: StatusCode, why: &str) -> ErrorResponse {
    let mut response = ErrorResponse::new(Some(why.to_owned()));
    *response.status_mut() = status;
    response
}

async fn greet(wire: &mut Wire, session: &mut GatewaySession) -> Result<Box<Hello>, Closing> {
    let message = wire.next(session).await?;
    match session.handle(message, Instant::now())? {
        Some(GatewayEvent::Hello(hello)) => Ok(hello),
        _ => Err(SessionError::OutOfOrder.into()),
    }
}

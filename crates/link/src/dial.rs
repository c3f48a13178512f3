//! From a URL to an open websocket: TCP, TLS, upgrade, each with its own time.

use crate::limits::{MAX_WRITE_BUFFER, READ_BUFFER, WRITE_BUFFER};
use crate::observed::{LastHeard, Observed};
use crate::tls::{self, TlsFault};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use std::fmt;
use std::future::Future;
use std::io;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::Response;
use tokio_tungstenite::tungstenite::http::{Uri, header::RETRY_AFTER};
use tokio_tungstenite::tungstenite::{Error as WsError, protocol::WebSocketConfig};
use willcall_protocol::limits::MAX_MESSAGE;

const DEFAULT_PORT: u16 = 443;

/// A websocket to the gateway.
pub type Websocket = WebSocketStream<TlsStream<Observed<TcpStream>>>;

/// Where the gateway is: `wss://HOST[:PORT]/PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayUrl {
    uri: Uri,
    host: String,
    port: u16,
    name: ServerName<'static>,
}

/// A URL that does not name a gateway.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UrlError {
    /// Not a URL at all.
    #[error("{0:?} is not a URL; expected wss://HOST:PORT/v1/link")]
    NotAUrl(String),
    /// Not over TLS.
    #[error("{0:?} is not a wss:// URL; a link speaks to its gateway over TLS only")]
    NotWss(String),
    /// A password in it.
    #[error("a user or password in the gateway's URL is not used; the certificate says who we are")]
    UserInfo,
    /// A host that no certificate could be for.
    #[error("{0:?} is neither a DNS name nor an IP address")]
    Host(String),
}

impl FromStr for GatewayUrl {
    type Err = UrlError;

    fn from_str(url: &str) -> Result<Self, UrlError> {
        let not_a_url = || UrlError::NotAUrl(url.chars().take(200).collect());
        let uri: Uri = url.parse().map_err(|_| not_a_url())?;
        let authority = uri.authority().ok_or_else(not_a_url)?;
        if uri.scheme_str() != Some("wss") {
            return Err(UrlError::NotWss(url.chars().take(200).collect()));
        }
        if authority.as_str().contains('@') {
            return Err(UrlError::UserInfo);
        }
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(host.clone()).map_err(|_| UrlError::Host(host.clone()))?;
        let port = match authority.as_str().rsplit_once(':') {
            Some((_, digits)) if !digits.contains(']') => {
                digits.parse().map_err(|_| not_a_url())?
            }
            _ => DEFAULT_PORT,
        };
        Ok(Self {
            uri,
            host,
            port,
            name,
        })
    }
}

impl fmt::Display for GatewayUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.uri.fmt(f)
    }
}

/// A step of a dial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Name resolution and TCP.
    Connect,
    /// The TLS handshake.
    Tls,
    /// The websocket upgrade.
    Upgrade,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "the connection",
            Self::Tls => "the TLS handshake",
            Self::Upgrade => "the websocket upgrade",
        })
    }
}

/// A dial that failed.
#[derive(Debug, Error)]
pub enum DialError {
    /// A step took too long.
    #[error("{stage} was not done within {limit:?}")]
    Timeout {
        /// The step.
        stage: Stage,
        /// The time it had.
        limit: Duration,
    },
    /// No TCP connection: nobody listens there, or the network is down.
    #[error("the gateway cannot be reached")]
    Unreachable(#[source] io::Error),
    /// TLS says who is to blame.
    #[error("{fault}")]
    Tls {
        /// Who is to blame.
        fault: TlsFault,
        /// What TLS says.
        source: rustls::Error,
    },
    /// The connection broke during a step.
    #[error("the connection to the gateway broke during {stage}")]
    Broken {
        /// The step.
        stage: Stage,
        /// Why.
        source: io::Error,
    },
    /// The gateway answered the upgrade with another status.
    #[error("the gateway refused the websocket with HTTP status {status}")]
    Refused {
        /// The status.
        status: u16,
        /// When it wants to be asked again.
        retry_after: Option<Duration>,
    },
    /// What answered does not speak websocket.
    #[error("what answered is not a gateway")]
    NotAGateway(#[source] Box<WsError>),
}

impl DialError {
    /// The pause that the gateway asked for.
    pub fn pace(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    fn io(stage: Stage, source: io::Error) -> Self {
        match tls::inside(&source).cloned() {
            Some(source) => Self::Tls {
                fault: TlsFault::of(&source),
                source,
            },
            None => Self::Broken { stage, source },
        }
    }

    fn upgrade(error: WsError) -> Self {
        match error {
            WsError::Io(source) => Self::io(Stage::Upgrade, source),
            WsError::Http(response) => Self::Refused {
                status: response.status().as_u16(),
                retry_after: retry_after(&response),
            },
            other => Self::NotAGateway(Box::new(other)),
        }
    }
}

fn retry_after<B>(
    response: &tokio_tungstenite::tungstenite::http::Response<B>,
) -> Option<Duration> {
    let value = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    value.trim().parse().ok().map(Duration::from_secs)
}

/// An open websocket, and when bytes last came on it.
#[derive(Debug)]
pub struct Dialed {
    /// The websocket.
    pub websocket: Websocket,
    /// When bytes last came.
    pub heard: LastHeard,
}

/// Dials. Each step has `limit`.
pub async fn dial(
    url: &GatewayUrl,
    tls: ClientConfig,
    limit: Duration,
) -> Result<Dialed, DialError> {
    let tcp = within(
        Stage::Connect,
        limit,
        TcpStream::connect((url.host.as_str(), url.port)),
    )
    .await?
    .map_err(DialError::Unreachable)?;
    // A dispatch is one small message: it must not wait for company.
    tcp.set_nodelay(true).map_err(DialError::Unreachable)?;
    let heard = LastHeard::new();
    let handshake = TlsConnector::from(Arc::new(tls))
        .connect(url.name.clone(), Observed::new(tcp, heard.clone()));
    let stream = within(Stage::Tls, limit, handshake)
        .await?
        .map_err(|error| DialError::io(Stage::Tls, error))?;
    let (websocket, _) = within(Stage::Upgrade, limit, upgrade(url, stream))
        .await?
        .map_err(DialError::upgrade)?;
    Ok(Dialed { websocket, heard })
}

async fn upgrade(
    url: &GatewayUrl,
    stream: TlsStream<Observed<TcpStream>>,
) -> Result<(Websocket, Response), WsError> {
    let config = Some(websocket_config());
    Box::pin(tokio_tungstenite::client_async_with_config(
        url.uri.clone(),
        stream,
        config,
    ))
    .await
}

/// All limits of the websocket; the defaults cost 256 KiB a connection and bound no queue.
pub fn websocket_config() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(WRITE_BUFFER)
        .max_write_buffer_size(MAX_WRITE_BUFFER)
        .max_message_size(Some(MAX_MESSAGE))
        .max_frame_size(Some(MAX_MESSAGE))
        .accept_unmasked_frames(false)
}

async fn within<T>(
    stage: Stage,
    limit: Duration,
    step: impl Future<Output = T>,
) -> Result<T, DialError> {
    tokio::time::timeout(limit, step)
        .await
        .map_err(|_| DialError::Timeout { stage, limit })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(url: &str, host: &str, port: u16) {
        let parsed: GatewayUrl = url.parse().unwrap();
        assert_eq!((parsed.host.as_str(), parsed.port), (host, port));
        assert_eq!(parsed.to_string(), url);
    }

    #[test]
    fn a_gateway_is_a_wss_url() {
        check("wss://gateway.example/v1/link", "gateway.example", 443);
        check(
            "wss://gateway.example:8443/v1/link",
            "gateway.example",
            8443,
        );
        check("wss://127.0.0.1:1/v1/link", "127.0.0.1", 1);
        check("wss://[::1]:7443/v1/link", "::1", 7443);
        check("wss://[::1]/v1/link", "::1", 443);
    }

    #[test]
    fn what_is_not_a_gateway_is_refused_by_name() {
        let parse = |url: &str| url.parse::<GatewayUrl>().unwrap_err();
        for url in ["ws://host/x", "https://host/x", "host"] {
            assert!(matches!(parse(url), UrlError::NotWss(_)), "{url}");
        }
        for url in [
            "",
            "wss://",
            "/v1/link",
            "wss://host:70000/",
            "wss://host:x/",
        ] {
            assert!(matches!(parse(url), UrlError::NotAUrl(_)), "{url}");
        }
        assert_eq!(parse("wss://me:secret@host/"), UrlError::UserInfo);
        assert!(matches!(
            parse("wss://under_score-.host-/"),
            UrlError::Host(_)
        ));
    }
}

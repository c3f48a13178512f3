//! One session: a websocket and a connection to the executor, until one of them ends.
//!
//! ```text
//! executor ──frame──► [up]   ──message──► gateway      session messages only
//! executor ◄──frame── [down] ◄──message── gateway      session: relayed unread; link: for us
//! ```
//!
//! The two directions are two futures of one task: neither waits for the other, each holds one message, so
//! that a full peer is felt by the other peer and nothing piles up here.

use crate::clock::Skew;
use crate::dial::Dialed;
use crate::frames::{self, FrameReadError, FrameReader};
use crate::limits::{CLOSE_TIMEOUT, Times};
use crate::observed::Observed;
use crate::tls::{self, TlsFault};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use std::io;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};
use thiserror::Error;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Bytes, Error as WsError, Message};
use tokio_util::sync::CancellationToken;
use willcall_protocol::frame::{self, Channel, FrameError};
use willcall_protocol::message::ToLink;

type Socket = WebSocketStream<TlsStream<Observed<TcpStream>>>;

/// How a session went.
#[derive(Debug)]
pub struct Ended {
    /// When the gateway's first session message came; `None` if it never did.
    pub connected: Option<Instant>,
    /// The pause that the gateway asked for.
    pub pace: Option<Duration>,
    /// Why it is over.
    pub why: End,
}

/// Why a session is over.
#[derive(Debug, Error)]
pub enum End {
    /// We were asked to stop.
    #[error("we were asked to stop")]
    Asked,
    /// The executor takes no connection.
    #[error("the executor took no connection within {0:?}")]
    ExecutorAway(Duration),
    /// The executor left.
    #[error("the executor closed its connection")]
    ExecutorLeft,
    /// The executor sent something that is no frame.
    #[error(transparent)]
    ExecutorFrame(#[from] FrameReadError),
    /// The executor sent something that is no session message.
    #[error("the executor sent something that is not a session message")]
    ExecutorMessage(#[source] FrameError),
    /// The executor spoke on the link's own channel.
    #[error("the executor sent a message on the link's own channel")]
    ExecutorChannel,
    /// The executor does not read.
    #[error("the executor did not take a message within {0:?}")]
    ExecutorStalled(Duration),
    /// The executor's socket failed.
    #[error("the executor's socket cannot be written")]
    ExecutorWrite(#[source] io::Error),
    /// The executor said no hello, so that there was nothing to welcome.
    #[error("the executor did not say hello within {0:?}")]
    NoHello(Duration),
    /// The gateway did not answer the hello.
    #[error("the gateway did not say welcome within {0:?}")]
    NoWelcome(Duration),
    /// The gateway closed the websocket.
    #[error("the gateway closed the connection{}", Reason(code, reason))]
    GatewayClosed {
        /// Its code, if it gave one.
        code: Option<u16>,
        /// Its words.
        reason: String,
    },
    /// The gateway fell silent.
    #[error("nothing came from the gateway for {0:?}")]
    GatewaySilent(Duration),
    /// The gateway does not read.
    #[error("the gateway did not take a message within {0:?}")]
    GatewayStalled(Duration),
    /// The gateway sent text.
    #[error("the gateway sent a text message; there are binary ones only")]
    GatewayText,
    /// The gateway sent something that is no message.
    #[error("the gateway sent something that is not a message")]
    GatewayMessage(#[source] FrameError),
    /// TLS says who is to blame: the refusal of our certificate arrives here.
    #[error("{fault}")]
    Tls {
        /// Who is to blame.
        fault: TlsFault,
        /// What TLS says.
        source: rustls::Error,
    },
    /// The connection broke, or broke the websocket's rules.
    #[error("the connection to the gateway broke")]
    Broken(#[source] Box<WsError>),
}

/// A close code and its words, for the end of a sentence.
struct Reason<'a>(&'a Option<u16>, &'a str);

impl std::fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self(None, _) => Ok(()),
            Self(Some(code), "") => write!(f, " with code {code}"),
            Self(Some(code), words) => write!(f, " with code {code}: {words:?}"),
        }
    }
}

impl From<WsError> for End {
    fn from(error: WsError) -> Self {
        let inside = match &error {
            WsError::Io(io) => tls::inside(io).cloned(),
            _ => None,
        };
        match (inside, error) {
            (Some(source), _) => Self::Tls {
                fault: TlsFault::of(&source),
                source,
            },
            (None, WsError::ConnectionClosed | WsError::AlreadyClosed) => Self::GatewayClosed {
                code: None,
                reason: String::new(),
            },
            (None, other) => Self::Broken(Box::new(other)),
        }
    }
}

/// What the two directions know of each other; each thing happens once.
#[derive(Debug, Default)]
struct Progress {
    /// The executor's first message went up.
    greeted: OnceLock<()>,
    /// When the gateway's first session message came.
    welcomed: OnceLock<Instant>,
    /// The pause that the gateway asked for.
    pace: OnceLock<Duration>,
    /// The clocks were compared.
    skew: OnceLock<Skew>,
}

/// Relays until one side ends, then closes both.
pub async fn relay(
    dialed: Dialed,
    executor: UnixStream,
    times: Times,
    cancel: &CancellationToken,
) -> Ended {
    let Dialed { websocket, heard } = dialed;
    let (mut sink, mut stream) = websocket.split();
    let (reader, mut writer) = executor.into_split();
    let progress = Progress::default();
    let why = tokio::select! {
        biased;
        () = cancel.cancelled() => End::Asked,
        () = heard.silence(times.dead_after) => End::GatewaySilent(times.dead_after),
        end = unwelcome(&progress, times.handshake) => end,
        end = down(&mut stream, &mut writer, &progress, times.executor_stalled) => end,
        end = up(FrameReader::new(reader), &mut sink, &progress, times.dead_after) => end,
    };
    drop(writer);
    close(sink, stream, &why).await;
    Ended {
        connected: progress.welcomed.get().copied(),
        pace: progress.pace.get().copied(),
        why,
    }
}

/// Ends a session that has no executor, before it has begun.
pub async fn give_up(dialed: Dialed, why: End) -> Ended {
    say_goodbye(dialed.websocket).await;
    Ended {
        connected: None,
        pace: None,
        why,
    }
}

/// Returns if no welcome came in time.
async fn unwelcome(progress: &Progress, limit: Duration) -> End {
    tokio::time::sleep(limit).await;
    match (progress.welcomed.get(), progress.greeted.get()) {
        (Some(_), _) => std::future::pending().await,
        (None, Some(())) => End::NoWelcome(limit),
        (None, None) => End::NoHello(limit),
    }
}

/// Executor → gateway.
async fn up(
    mut reader: FrameReader<OwnedReadHalf>,
    sink: &mut SplitSink<Socket, Message>,
    progress: &Progress,
    stalled: Duration,
) -> End {
    loop {
        let message = match reader.next().await {
            Ok(Some(message)) => message,
            Ok(None) => return End::ExecutorLeft,
            Err(error) => return error.into(),
        };
        match frame::channel(&message) {
            Ok(Channel::Session) => {}
            Ok(Channel::Link) => return End::ExecutorChannel,
            Err(error) => return End::ExecutorMessage(error),
        }
        let sending = sink.send(Message::Binary(message.into()));
        match tokio::time::timeout(stalled, sending).await {
            Ok(Ok(())) => _ = progress.greeted.set(()),
            Ok(Err(error)) => return error.into(),
            Err(_) => return End::GatewayStalled(stalled),
        }
    }
}

/// Gateway → executor.
async fn down(
    stream: &mut SplitStream<Socket>,
    writer: &mut OwnedWriteHalf,
    progress: &Progress,
    stalled: Duration,
) -> End {
    loop {
        let message = match stream.next().await {
            Some(Ok(message)) => message,
            Some(Err(error)) => return error.into(),
            None => return WsError::ConnectionClosed.into(),
        };
        let handled = match message {
            Message::Binary(message) => deliver(&message, writer, progress, stalled).await,
            Message::Text(_) => Err(End::GatewayText),
            Message::Close(close) => Err(closed(close)),
            // tungstenite answers pings by itself.
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => Ok(()),
        };
        if let Err(end) = handled {
            return end;
        }
    }
}

fn closed(close: Option<tokio_tungstenite::tungstenite::protocol::CloseFrame>) -> End {
    let (code, reason) = close.map_or((None, String::new()), |close| {
        (Some(close.code.into()), close.reason.as_str().to_owned())
    });
    End::GatewayClosed { code, reason }
}

/// A session message goes on unread; a link message stays here.
async fn deliver(
    message: &Bytes,
    writer: &mut OwnedWriteHalf,
    progress: &Progress,
    stalled: Duration,
) -> Result<(), End> {
    match frame::channel(message).map_err(End::GatewayMessage)? {
        Channel::Link => return for_us(message, progress),
        Channel::Session => {}
    }
    if progress.welcomed.set(Instant::now()).is_ok() {
        tracing::info!("connected");
    }
    match tokio::time::timeout(stalled, frames::write(writer, message)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => Err(End::ExecutorLeft),
        Ok(Err(error)) => Err(End::ExecutorWrite(error)),
        Err(_) => Err(End::ExecutorStalled(stalled)),
    }
}

fn for_us(message: &[u8], progress: &Progress) -> Result<(), End> {
    match frame::decode(message).map_err(End::GatewayMessage)? {
        ToLink::Clock { server_time_ms } => {
            let skew = Skew::measure(server_time_ms, SystemTime::now());
            if progress.skew.set(skew).is_ok() {
                skew.log();
            }
        }
        ToLink::Drain { reconnect_after_ms } => {
            tracing::info!("the gateway is about to close this connection");
            let _ = progress.pace.set(Duration::from_millis(reconnect_after_ms));
        }
        ToLink::Unknown => tracing::debug!("a link message of an unknown type was ignored"),
    }
    Ok(())
}

/// Says goodbye where somebody may still listen. A gateway that is gone or broken gets no second chance to hold us.
async fn close(sink: SplitSink<Socket, Message>, stream: SplitStream<Socket>, why: &End) {
    let listens = !matches!(
        why,
        End::GatewaySilent(_) | End::GatewayStalled(_) | End::Tls { .. } | End::Broken(_)
    );
    if let Ok(websocket) = sink.reunite(stream)
        && listens
    {
        say_goodbye(websocket).await;
    }
}

async fn say_goodbye(mut websocket: Socket) {
    let closing = websocket.close(None);
    if tokio::time::timeout(CLOSE_TIMEOUT, closing).await.is_err() {
        tracing::debug!("the gateway did not take our goodbye");
    }
}

//! A websocket that sends while it receives: a host that does not read while it writes blocks nobody but itself.

use super::Closing;
use crate::limits::{MAX_WRITE_BUFFER, READ_BUFFER, WRITE_BUFFER};
use futures_util::{Sink, SinkExt, Stream, StreamExt};
use serde::Serialize;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Bytes, Message};
use willcall_protocol::frame::{self, Channel};
use willcall_protocol::limits::MAX_MESSAGE;
use willcall_protocol::message::{ToGateway, ToLink};
use willcall_protocol::session::GatewaySession;

/// The websocket's bounds. The library's defaults cost an idle link 154 KiB, and its queue has no end.
pub(super) fn config() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(WRITE_BUFFER)
        .max_write_buffer_size(MAX_WRITE_BUFFER)
        .max_message_size(Some(MAX_MESSAGE))
        .max_frame_size(Some(MAX_MESSAGE))
}

/// One host's websocket.
#[derive(Debug)]
pub(super) struct Wire {
    /// Boxed, because every step that it is moved through would otherwise keep room for it in the link's task.
    socket: Box<WebSocketStream<TlsStream<TcpStream>>>,
    unflushed: bool,
}

impl Wire {
    pub(super) fn new(socket: WebSocketStream<TlsStream<TcpStream>>) -> Self {
        Self {
            socket: Box::new(socket),
            unflushed: false,
        }
    }

    /// Sends what the session has to say, as the peer takes it, until a message arrives. Cancel safe.
    pub(super) async fn next(
        &mut self,
        session: &mut GatewaySession,
    ) -> Result<ToGateway, Closing> {
        loop {
            let message = poll_fn(|cx| {
                self.poll_send(session, cx)?;
                Pin::new(&mut self.socket)
                    .poll_next(cx)
                    .map(|m| m.transpose().map_err(Closing::from))
            });
            match message.await?.ok_or(Closing::Gone)? {
                Message::Binary(bytes) => return read(&bytes),
                Message::Text(_) => return Err(Closing::Text),
                Message::Close(_) => return Err(Closing::Gone),
                // Answered by the library.
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            }
        }
    }

    /// Puts everything that the session has to say on its way.
    pub(super) async fn send_now(&mut self, session: &mut GatewaySession) -> Result<(), Closing> {
        while let Some(message) = session.poll_transmit() {
            self.unflushed = true;
            self.socket
                .feed(encode(Channel::Session, &message)?)
                .await?;
        }
        Ok(())
    }

    /// Puts a message for the link on its way, before whatever the session says next.
    pub(super) async fn tell_link(&mut self, message: &ToLink) -> Result<(), Closing> {
        let message = encode(Channel::Link, message)?;
        self.unflushed = true;
        Ok(self.socket.feed(message).await?)
    }

    /// Writes out everything, tells the peer why, and waits for its half of the close, at most that long.
    pub(super) async fn close(mut self, why: &Closing, linger: Duration) {
        let Some(frame) = why.frame() else { return };
        let farewell = async {
            let told = self.socket.send(Message::Close(Some(frame))).await;
            if matches!(why, Closing::TooLong) {
                // The rest of a message that nobody reads: bytes left in the kernel would reset the connection, and
                // the peer would never see why.
                let mut rest = vec![0; READ_BUFFER];
                while matches!(self.socket.get_mut().read(&mut rest).await, Ok(n) if n > 0) {}
            } else if told.is_ok() {
                while let Some(Ok(_)) = self.socket.next().await {}
            }
        };
        // A peer that does not answer has had its time.
        drop(tokio::time::timeout(linger, farewell).await);
    }

    fn poll_send(
        &mut self,
        session: &mut GatewaySession,
        cx: &mut Context<'_>,
    ) -> Result<(), Closing> {
        let mut socket = Pin::new(&mut self.socket);
        while let Poll::Ready(ready) = socket.as_mut().poll_ready(cx) {
            ready?;
            let Some(message) = session.poll_transmit() else {
                break;
            };
            socket
                .as_mut()
                .start_send(encode(Channel::Session, &message)?)?;
            self.unflushed = true;
        }
        if self.unflushed && socket.poll_flush(cx)?.is_ready() {
            self.unflushed = false;
        }
        Ok(())
    }
}

fn encode<T: Serialize>(channel: Channel, message: &T) -> Result<Message, Closing> {
    Ok(Message::Binary(Bytes::from(frame::encode(
        channel, message,
    )?)))
}

fn read(bytes: &[u8]) -> Result<ToGateway, Closing> {
    match frame::channel(bytes)? {
        Channel::Session => Ok(frame::decode(bytes)?),
        Channel::Link => Err(Closing::ForLink),
    }
}

//! The connection to the spawner: launches go out, answers come back to their runs.

use crate::limits::SOCKET_CHUNK;
use crate::sync::lock;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use thiserror::Error;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use uuid::Uuid;
use willcall_runner::wire::{self, Launch, Launched, MAX_LAUNCH, SpawnError, WireError};

/// Why a launch could not be sent. Nothing ran.
#[derive(Debug, Error)]
pub(crate) enum SpawnerError {
    /// Nobody listens, or it closed the connection.
    #[error("the spawner at {path} does not answer")]
    Unreachable {
        /// Its socket.
        path: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// The launch is no message.
    #[error("cannot make a launch of it")]
    Wire(#[from] WireError),
}

/// Who waits to hear that a launch failed.
type Waiting = Mutex<HashMap<Uuid, oneshot::Sender<SpawnError>>>;

/// The way to the spawner. It is dialled when it is needed.
#[derive(Debug)]
pub(crate) struct Spawner {
    path: PathBuf,
    connection: tokio::sync::Mutex<Option<Arc<Connection>>>,
    /// Reads the answers of the one connection.
    readers: Mutex<JoinSet<()>>,
}

#[derive(Debug)]
struct Connection {
    stream: UnixStream,
    waiting: Waiting,
}

impl Spawner {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            connection: tokio::sync::Mutex::new(None),
            readers: Mutex::new(JoinSet::new()),
        }
    }

    /// Makes sure that somebody is there.
    pub(crate) async fn reach(&self) -> Result<(), SpawnerError> {
        self.connect(&mut *self.connection.lock().await)
            .await
            .map(drop)
    }

    /// Sends a launch with its descriptors. The receiver hears of a failure; a fork is told by the
    /// runner itself.
    pub(crate) async fn launch(
        &self,
        launch: &Launch,
        fds: &[BorrowedFd<'_>],
    ) -> Result<oneshot::Receiver<SpawnError>, SpawnerError> {
        let frame = wire::encode(launch)?;
        if frame.len() > MAX_LAUNCH {
            return Err(WireError::TooLong {
                len: frame.len(),
                max: MAX_LAUNCH,
            }
            .into());
        }
        // Launches are whole messages: one at a time.
        let mut slot = self.connection.lock().await;
        let connection = self.connect(&mut slot).await?;
        let (failed, failure) = oneshot::channel();
        lock(&connection.waiting).insert(launch.run, failed);
        if let Err(source) = send(&connection.stream, &frame, fds).await {
            // Half a launch may have gone out: nothing may follow it.
            *slot = None;
            lock(&self.readers).abort_all();
            return Err(SpawnerError::Unreachable {
                path: self.path.clone(),
                source,
            });
        }
        Ok(failure)
    }

    async fn connect(
        &self,
        slot: &mut Option<Arc<Connection>>,
    ) -> Result<Arc<Connection>, SpawnerError> {
        let ended = lock(&self.readers).try_join_next();
        match (ended, &slot) {
            (Some(Err(error)), _) if error.is_panic() => resume_unwind(error.into_panic()),
            (None, Some(connection)) => return Ok(Arc::clone(connection)),
            // The reader sees first that the spawner is gone.
            _ => {}
        }
        let unreachable = |source| SpawnerError::Unreachable {
            path: self.path.clone(),
            source,
        };
        let stream = UnixStream::connect(&self.path).await.map_err(unreachable)?;
        let connection = Arc::new(Connection {
            stream,
            waiting: Waiting::default(),
        });
        let mut readers = JoinSet::new();
        readers.spawn(read_answers(Arc::clone(&connection)));
        // Whoever read the old connection ends with it.
        *lock(&self.readers) = readers;
        *slot = Some(Arc::clone(&connection));
        Ok(connection)
    }
}

/// Sends it whole, the descriptors beside its first byte.
async fn send(stream: &UnixStream, frame: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let fds: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    let mut sent = 0;
    while sent < frame.len() {
        let rest = [IoSlice::new(frame.get(sent..).unwrap_or_default())];
        let rights = [ControlMessage::ScmRights(&fds)];
        let beside = if sent == 0 { rights.as_slice() } else { &[] };
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        sent += stream
            .async_io(Interest::WRITABLE, || {
                Ok(sendmsg::<()>(
                    stream.as_raw_fd(),
                    &rest,
                    beside,
                    flags,
                    None,
                )?)
            })
            .await?;
    }
    Ok(())
}

/// Tells each launch that failed so, until the connection ends.
async fn read_answers(connection: Arc<Connection>) {
    let mut inbox = Vec::new();
    loop {
        match read_some(&connection.stream, &mut inbox).await {
            Ok(true) => {}
            Ok(false) => break tracing::warn!("the spawner closed its connection"),
            Err(error) => break tracing::warn!(%error, "the connection to the spawner failed"),
        }
        if let Err(error) = take_answers(&connection.waiting, &mut inbox) {
            break tracing::error!(%error, "the spawner sent something that is no answer");
        }
    }
}

async fn read_some(stream: &UnixStream, inbox: &mut Vec<u8>) -> io::Result<bool> {
    loop {
        stream.readable().await?;
        inbox.reserve(4096);
        match stream.try_read_buf(inbox) {
            Ok(n) => return Ok(n > 0),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

fn take_answers(waiting: &Waiting, inbox: &mut Vec<u8>) -> Result<(), WireError> {
    while let Some(len) = wire::frame_len(inbox, SOCKET_CHUNK)? {
        let Some(frame) = inbox.get(..len) else { break };
        let launched: Launched = wire::decode(frame)?;
        inbox.drain(..len);
        let (Launched::Forked { run, .. } | Launched::Failed { run, .. }) = &launched;
        let waits = lock(waiting).remove(run);
        if let (Some(waits), Launched::Failed { error, .. }) = (waits, launched) {
            // A run that is over by now needs no explanation.
            let _ = waits.send(error);
        }
    }
    Ok(())
}

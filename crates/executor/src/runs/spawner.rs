//! The connection to the spawner: launches go out, answers come back to their runs.

use crate::limits::SOCKET_CHUNK;
use crate::sync::lock;
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, connect, sendmsg, socket,
};
use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
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

/// The way to the spawner. It is dialled when it is needed.
#[derive(Debug)]
pub(crate) struct Spawner {
    path: PathBuf,
    connection: Mutex<Option<Arc<Connection>>>,
    /// Read the answers of the connection, and of older ones until they are closed.
    readers: Mutex<JoinSet<()>>,
}

#[derive(Debug)]
struct Connection {
    stream: UnixStream,
    /// Launches are whole messages: one at a time.
    sending: tokio::sync::Mutex<()>,
    /// Who waits to hear that a launch failed.
    waiting: Mutex<HashMap<Uuid, oneshot::Sender<SpawnError>>>,
    /// Nothing more can be sent on it.
    gone: AtomicBool,
}

impl Spawner {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            connection: Mutex::new(None),
            readers: Mutex::new(JoinSet::new()),
        }
    }

    /// Makes sure that somebody is there. Does not wait.
    pub(crate) fn reach(&self) -> Result<(), SpawnerError> {
        self.connect().map(drop)
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
        let connection = self.connect()?;
        if let Ok(failure) = connection.launch(launch.run, &frame, fds).await {
            return Ok(failure);
        }
        // One that was restarted takes its launches on a new connection. It has seen no whole one of this
        // run, or the old connection would have taken it.
        let connection = self.connect()?;
        let sent = connection.launch(launch.run, &frame, fds).await;
        sent.map_err(|source| self.unreachable(source))
    }

    fn connect(&self) -> Result<Arc<Connection>, SpawnerError> {
        let mut slot = lock(&self.connection);
        if let Some(connection) = &*slot
            && !connection.gone.load(Ordering::Relaxed)
        {
            return Ok(Arc::clone(connection));
        }
        *slot = None;
        let stream = dial(&self.path).map_err(|source| self.unreachable(source))?;
        let connection = Arc::new(Connection::new(stream));
        let mut readers = lock(&self.readers);
        while let Some(ended) = readers.try_join_next() {
            if let Err(error) = ended
                && error.is_panic()
            {
                resume_unwind(error.into_panic());
            }
        }
        readers.spawn(read_answers(Arc::clone(&connection)));
        *slot = Some(Arc::clone(&connection));
        Ok(connection)
    }

    fn unreachable(&self, source: io::Error) -> SpawnerError {
        SpawnerError::Unreachable {
            path: self.path.clone(),
            source,
        }
    }
}

impl Connection {
    fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            sending: tokio::sync::Mutex::new(()),
            waiting: Mutex::new(HashMap::new()),
            gone: AtomicBool::new(false),
        }
    }

    async fn launch(
        &self,
        run: Uuid,
        frame: &[u8],
        fds: &[BorrowedFd<'_>],
    ) -> io::Result<oneshot::Receiver<SpawnError>> {
        let _turn = self.sending.lock().await;
        let (failed, failure) = oneshot::channel();
        lock(&self.waiting).insert(run, failed);
        // Half a launch may have gone out: nothing may follow it.
        let mut whole = Whole {
            connection: self,
            sent: false,
        };
        send(&self.stream, frame, fds).await?;
        whole.sent = true;
        Ok(failure)
    }
}

/// Gives the connection up unless the message went out whole: also when its sender is dropped.
struct Whole<'a> {
    connection: &'a Connection,
    sent: bool,
}

impl Drop for Whole<'_> {
    fn drop(&mut self) {
        if !self.sent {
            self.connection.gone.store(true, Ordering::Relaxed);
        }
    }
}

/// Dials without waiting: a listener whose queue is full counts as not there.
fn dial(path: &Path) -> io::Result<UnixStream> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    UnixStream::from_std(socket.into())
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
        if let Err(error) = connection.take_answers(&mut inbox) {
            break tracing::error!(%error, "the spawner sent something that is no answer");
        }
    }
    connection.gone.store(true, Ordering::Relaxed);
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

impl Connection {
    fn take_answers(&self, inbox: &mut Vec<u8>) -> Result<(), WireError> {
        while let Some(len) = wire::frame_len(inbox, SOCKET_CHUNK)? {
            let Some(frame) = inbox.get(..len) else { break };
            let launched: Launched = wire::decode(frame)?;
            inbox.drain(..len);
            let (Launched::Forked { run, .. } | Launched::Failed { run, .. }) = &launched;
            let waits = lock(&self.waiting).remove(run);
            if let (Some(waits), Launched::Failed { error, .. }) = (waits, launched) {
                // A run that is over by now needs no explanation.
                let _ = waits.send(error);
            }
        }
        Ok(())
    }
}

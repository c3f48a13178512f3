//! The one privileged process: forks a runner for each launch, answers, and forgets it.
//!
//! It has one thread and keeps no state but its connections and the ids of its children. It reads nothing but launches,
//! and whatever a peer does costs that peer its connection and nobody else anything. What a runner that was killed
//! leaves behind it kills.

mod listener;
mod orphans;
mod peer;

use crate::limits::{ACCEPT_PAUSE, MAX_CONNECTIONS, SOCKET_CHUNK};
use crate::runner::{self, LaunchFds};
use crate::sys::{self, Forked};
use crate::wire::{Launch, Launched, SpawnError, Stage};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use orphans::Orphans;
pub(crate) use orphans::announce;
use peer::{Peer, PeerError};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use thiserror::Error;

/// What a spawner has to know.
#[derive(Debug, Clone)]
pub struct SpawnerConfig {
    /// Where to listen. A socket that nobody listens on is replaced.
    pub socket: PathBuf,
    /// A user who may launch, besides root and the spawner's own: the socket is given to it.
    pub allow_uid: Option<u32>,
    /// Whether to end when stdin, a pipe, is closed at its other end: when whoever started us is gone.
    pub lifeline: bool,
}

/// Why a spawner could not begin, or had to end.
#[derive(Debug, Error)]
pub enum SpawnerError {
    /// Another spawner listens on the socket, whether or not it answers.
    #[error("another spawner listens on {}: end it first", .0.display())]
    InUse(PathBuf),
    /// Something else stands where the socket should be, and is left alone.
    #[error("{0} exists and is not a socket")]
    NotASocket(PathBuf),
    /// The socket could not be made.
    #[error("cannot listen on {path}")]
    Listen {
        /// The socket.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The kernel refused something that every process may do.
    #[error("cannot {what}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why not.
        source: Errno,
    },
}

/// Serves until SIGTERM or SIGINT, or the end of its lifeline; runners live on. Call it before the process has a second thread.
pub fn run(config: SpawnerConfig) -> Result<(), SpawnerError> {
    let mut spawner = Spawner::begin(config)?;
    tracing::info!(socket = %spawner.config.socket.display(), "the spawner listens");
    // Nobody else knows whose run is still to be killed.
    while !spawner.ended || spawner.orphans.is_sweeping() {
        spawner.turn()?;
    }
    // Before the listener closes: nobody finds a socket that answers no more.
    let _ = std::fs::remove_file(&spawner.config.socket);
    Ok(())
}

struct Spawner {
    config: SpawnerConfig,
    signals: SignalFd,
    orphans: Orphans,
    listener: UnixListener,
    /// Until when the listener is left alone.
    paused: Option<Instant>,
    peers: Vec<Peer>,
    buffer: Vec<u8>,
    ended: bool,
}

impl Spawner {
    fn begin(config: SpawnerConfig) -> Result<Self, SpawnerError> {
        let mask: SigSet = [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT]
            .into_iter()
            .collect();
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let signals = mask
            .thread_set_mask()
            .and_then(|()| SignalFd::with_flags(&mask, flags));
        let signals = signals.map_err(|source| SpawnerError::System {
            what: "receive signals",
            source,
        })?;
        let orphans = Orphans::begin().map_err(|source| SpawnerError::System {
            what: "inherit orphans",
            source,
        })?;
        Ok(Self {
            signals,
            orphans,
            listener: listener::listen(&config)?,
            paused: None,
            peers: Vec::new(),
            buffer: vec![0; SOCKET_CHUNK],
            ended: false,
            config,
        })
    }

    /// Waits, then serves everybody who is ready, once.
    fn turn(&mut self) -> Result<(), SpawnerError> {
        let ready = self.wait().map_err(|source| SpawnerError::System {
            what: "poll",
            source,
        })?;
        if ready.signals {
            self.receive_signals();
        }
        self.ended |= ready.lifeline;
        let now = Instant::now();
        if ready.signals || self.orphans.deadline().is_some_and(|at| at <= now) {
            self.orphans.work();
        }
        let peers = std::mem::take(&mut self.peers);
        for (peer, events) in peers.into_iter().zip(ready.peers) {
            self.serve(peer, events, now);
        }
        if ready.listener && !self.ended {
            self.accept(now);
        }
        Ok(())
    }

    /// Serves a peer, and keeps it unless it has to go.
    fn serve(&mut self, mut peer: Peer, events: PollFlags, now: Instant) {
        match self.converse(&mut peer, events, now) {
            Ok(()) => self.peers.push(peer),
            Err(PeerError::Closed) => {}
            Err(error) => {
                let error = anyhow::Error::from(error);
                tracing::warn!("a connection is closed: {error:#}");
            }
        }
    }

    fn converse(
        &mut self,
        peer: &mut Peer,
        events: PollFlags,
        now: Instant,
    ) -> Result<(), PeerError> {
        peer.flush()?;
        if events.intersects(!PollFlags::POLLOUT) {
            peer.read(&mut self.buffer, now)?;
            while let Some((launch, fds)) = peer.next_launch()? {
                let launched = launch_runner(launch, fds, self.orphans.notices());
                if let Launched::Forked { pid, .. } = launched {
                    self.orphans.add(pid);
                }
                peer.answer(&launched)?;
            }
        }
        peer.check(now)
    }

    fn accept(&mut self, now: Instant) {
        match listener::accept(&self.listener, &self.config) {
            Ok(Some(_)) if self.peers.len() >= MAX_CONNECTIONS => {
                tracing::warn!("too many connections; the newest is closed");
            }
            Ok(Some(socket)) => self.peers.push(Peer::new(socket)),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                self.paused = Some(now + ACCEPT_PAUSE);
            }
        }
    }

    fn receive_signals(&mut self) {
        while let Ok(Some(signal)) = self.signals.read_signal() {
            self.ended |= signal.ssi_signo != Signal::SIGCHLD as u32;
        }
    }

    fn wait(&mut self) -> nix::Result<Ready> {
        let now = Instant::now();
        self.paused = self.paused.filter(|until| *until > now);
        let listen = if self.paused.is_some() || self.ended {
            PollFlags::empty()
        } else {
            PollFlags::POLLIN
        };
        let mut fds = vec![
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.listener.as_fd(), listen),
        ];
        let stdin = std::io::stdin();
        // Nothing is ever written to it: what there is to hear is that it was closed.
        let follows = self.config.lifeline && !self.ended;
        fds.extend(follows.then(|| PollFd::new(stdin.as_fd(), PollFlags::POLLIN)));
        fds.extend(self.peers.iter().map(|peer| {
            let output = if peer.wants_to_write() {
                PollFlags::POLLOUT
            } else {
                PollFlags::empty()
            };
            PollFd::new(peer.as_fd(), PollFlags::POLLIN | output)
        }));
        let deadlines = self
            .peers
            .iter()
            .filter_map(Peer::deadline)
            .chain(self.paused)
            .chain(self.orphans.deadline());
        match poll(&mut fds, until(deadlines.min(), now)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
        let mut events = fds
            .iter()
            .map(|fd| fd.revents().unwrap_or(PollFlags::POLLERR));
        let mut any = || events.next().is_some_and(|events| !events.is_empty());
        Ok(Ready {
            signals: any(),
            listener: any(),
            lifeline: follows && any(),
            peers: events.collect(),
        })
    }
}

/// Who is ready.
#[derive(Debug)]
struct Ready {
    signals: bool,
    listener: bool,
    /// It was closed.
    lifeline: bool,
    peers: Vec<PollFlags>,
}

fn until(deadline: Option<Instant>, now: Instant) -> PollTimeout {
    let Some(deadline) = deadline else {
        return PollTimeout::NONE;
    };
    let left = deadline.saturating_duration_since(now) + Duration::from_micros(999);
    PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
}

/// Forks a runner. Our copies of its descriptors are closed when this returns.
fn launch_runner(launch: Launch, fds: LaunchFds, notices: BorrowedFd<'_>) -> Launched {
    let run = launch.run;
    let failed = |errno: Errno, on: &str| Launched::Failed {
        run,
        error: SpawnError {
            stage: Stage::Fork,
            errno: errno as i32,
            on: on.to_owned(),
        },
    };
    // A fork copies one thread only, and with it locks that others hold.
    if threads() != Some(1) {
        return failed(Errno::EDEADLK, "a spawner that has more than one thread");
    }
    match sys::fork() {
        Ok(Forked::Parent(pid)) => Launched::Forked { run, pid },
        Ok(Forked::Child) => be_runner(launch, fds, notices),
        Err(errno) => failed(errno, "a runner"),
    }
}

/// The forked child's whole life. It never goes back into the spawner's code.
fn be_runner(launch: Launch, fds: LaunchFds, notices: BorrowedFd<'_>) -> ! {
    let run = launch.run;
    let run_it = || runner::run(launch, fds, notices);
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run_it));
    let code = match ended {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => {
            tracing::error!(%run, "a runner failed: {error:#}");
            1
        }
        Err(_) => 101,
    };
    sys::exit_now(code)
}

/// How many threads this process has.
fn threads() -> Option<usize> {
    std::fs::read_dir("/proc/self/task")
        .ok()
        .map(Iterator::count)
}

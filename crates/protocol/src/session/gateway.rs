//! The gateway's end.
//!
//! ```text
//! AwaitHello ──hello──► Greeted ──welcome()──► Open ──silence, nonsense──► (error: the shell closes)
//! ```

use super::SessionError;
use crate::ids::RunId;
use crate::limits::{
    DEAD_AFTER, HANDSHAKE_TIMEOUT, MAX_DISPATCHES_IN_FLIGHT, MAX_QUEUED, OLDEST_VERSION,
    PING_EVERY, VERSION,
};
use crate::message::{Dispatch, Hello, PageReport, Read, ReadFailure, Refusal, ToAgent, ToGateway};
use crate::outcome::Report;
use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

/// What the shell has to act on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GatewayEvent {
    /// Who is there. Answer with [`GatewaySession::welcome`].
    Hello(Box<Hello>),
    /// The host has claimed the run.
    Accepted {
        /// The run.
        run: RunId,
        /// The timeout that applies.
        timeout_ms: Option<u64>,
    },
    /// The host refused the dispatch; nothing was executed for it.
    Refused(Refusal),
    /// A run is over. Commit it, then call [`GatewaySession::committed`]. May come more than once.
    Finished {
        /// Its number in the host's outbox.
        seq: u64,
        /// What it came to.
        report: Box<Report>,
    },
    /// The answer to a read.
    Page {
        /// The read's call number.
        call: u64,
        /// The page.
        page: PageReport,
    },
    /// A read that was refused.
    ReadFailed {
        /// The read's call number.
        call: u64,
        /// Why, by name.
        reason: ReadFailure,
        /// Why, for a person.
        message: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    AwaitHello,
    Greeted { version: u32 },
    Open,
}

/// The gateway's end of one session.
#[derive(Debug)]
pub struct GatewaySession {
    state: State,
    last_heard: Instant,
    opened_by: Instant,
    ping_every: Duration,
    next_ping: Instant,
    nonce: u64,
    ponged: u64,
    queue: VecDeque<ToAgent>,
    unanswered: BTreeSet<RunId>,
    waiting: VecDeque<Dispatch>,
    acked: u64,
    unknown: u64,
}

impl GatewaySession {
    /// Begins a session. `jitter` is from 0 to 1 and spreads the pings of a fleet over ±10 %.
    pub fn new(now: Instant, jitter: f64) -> Self {
        let ping_every = PING_EVERY.mul_f64(0.9 + 0.2 * jitter.clamp(0.0, 1.0));
        Self {
            state: State::AwaitHello,
            last_heard: now,
            opened_by: later(now, HANDSHAKE_TIMEOUT),
            ping_every,
            next_ping: later(now, ping_every),
            nonce: 0,
            ponged: 0,
            queue: VecDeque::new(),
            unanswered: BTreeSet::new(),
            waiting: VecDeque::new(),
            acked: 0,
            unknown: 0,
        }
    }

    /// Takes a message from the host. An error ends the session.
    pub fn handle(
        &mut self,
        message: ToGateway,
        now: Instant,
    ) -> Result<Option<GatewayEvent>, SessionError> {
        self.last_heard = now;
        if self.state != State::Open {
            return self.handle_hello(message).map(Some);
        }
        Ok(match message {
            // One connection is one session: whoever wants another one dials again.
            ToGateway::Hello(_) => return Err(SessionError::Reopened),
            ToGateway::Accepted { run, timeout_ms } => {
                self.answered(run);
                Some(GatewayEvent::Accepted { run, timeout_ms })
            }
            ToGateway::Refused(refusal) => {
                self.answered(refusal.run);
                Some(GatewayEvent::Refused(refusal))
            }
            ToGateway::Finished { seq, report } => {
                self.answered(report.run);
                Some(GatewayEvent::Finished { seq, report })
            }
            ToGateway::Page { call, page } => Some(GatewayEvent::Page { call, page }),
            ToGateway::ReadFailed {
                call,
                reason,
                message,
            } => Some(GatewayEvent::ReadFailed {
                call,
                reason,
                message,
            }),
            ToGateway::Pong { nonce } => {
                self.ponged = self.ponged.max(nonce.min(self.nonce));
                None
            }
            // A newer host may say more than we understand; it must not need it.
            ToGateway::Unknown => {
                self.unknown = self.unknown.saturating_add(1);
                None
            }
        })
    }

    /// Opens the session. `resume_from` is the last result of the hello's ledger that is committed here.
    pub fn welcome(&mut self, resume_from: u64, now: Instant) -> Result<(), SessionError> {
        let State::Greeted { version } = self.state else {
            return Err(SessionError::OutOfOrder);
        };
        self.state = State::Open;
        self.acked = resume_from;
        self.next_ping = later(now, self.ping_every);
        self.queue.push_front(ToAgent::Welcome {
            version,
            resume_from,
        });
        self.fill_window()
    }

    /// Whether the session is open.
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// Sends a dispatch as soon as the window allows. The host answers each, even one that it knows.
    pub fn dispatch(&mut self, dispatch: Dispatch) -> Result<(), SessionError> {
        if self.waiting.len() >= MAX_QUEUED {
            return Err(SessionError::Stalled);
        }
        self.waiting.push_back(dispatch);
        self.fill_window()
    }

    /// Asks the host to end a run.
    pub fn cancel(&mut self, run: RunId) -> Result<(), SessionError> {
        self.send(ToAgent::Cancel { run })
    }

    /// Asks the host for a page.
    pub fn read(&mut self, read: Read) -> Result<(), SessionError> {
        self.send(ToAgent::Read(read))
    }

    /// Every result up to `seq` is committed: acknowledges them. Repeated for a result that came again.
    pub fn committed(&mut self, seq: u64) -> Result<(), SessionError> {
        self.acked = self.acked.max(seq);
        self.send(ToAgent::Ack { seq: self.acked })
    }

    /// Call when [`GatewaySession::poll_timeout`] has come. An error ends the session.
    pub fn handle_timeout(&mut self, now: Instant) -> Result<(), SessionError> {
        if now >= self.dead_at() {
            return Err(SessionError::Silent);
        }
        if self.is_open() && now >= self.next_ping {
            self.ping(now)?;
        }
        Ok(())
    }

    /// Asks the host for a sign of life, besides those that are asked for regularly; gives the number to compare with
    /// [`GatewaySession::ponged`].
    pub fn ping(&mut self, now: Instant) -> Result<u64, SessionError> {
        self.next_ping = later(now, self.ping_every);
        self.nonce = self.nonce.wrapping_add(1);
        let nonce = self.nonce;
        self.send(ToAgent::Ping { nonce })?;
        Ok(nonce)
    }

    /// The number of the last ping that the host has answered; 0 for none.
    pub fn ponged(&self) -> u64 {
        self.ponged
    }

    /// When [`GatewaySession::handle_timeout`] wants to be called.
    pub fn poll_timeout(&self) -> Instant {
        if self.is_open() {
            self.dead_at().min(self.next_ping)
        } else {
            self.dead_at()
        }
    }

    /// The next message to send.
    pub fn poll_transmit(&mut self) -> Option<ToAgent> {
        let next = self.queue.pop_front();
        // There is room again for a dispatch that found none.
        let _ = self.fill_window();
        next
    }

    /// How many messages of unknown types came.
    pub fn unknown_messages(&self) -> u64 {
        self.unknown
    }

    fn handle_hello(&mut self, message: ToGateway) -> Result<GatewayEvent, SessionError> {
        let (State::AwaitHello, ToGateway::Hello(hello)) = (self.state, message) else {
            return Err(SessionError::OutOfOrder);
        };
        let version = hello.max_version.min(VERSION);
        if version < hello.min_version.max(OLDEST_VERSION) {
            return Err(SessionError::Version {
                min: hello.min_version,
                max: hello.max_version,
                ours_min: OLDEST_VERSION,
                ours_max: VERSION,
            });
        }
        self.state = State::Greeted { version };
        Ok(GatewayEvent::Hello(Box::new(hello)))
    }

    fn dead_at(&self) -> Instant {
        if self.is_open() {
            later(self.last_heard, DEAD_AFTER)
        } else {
            self.opened_by
        }
    }

    fn answered(&mut self, run: RunId) {
        self.unanswered.remove(&run);
        // Where the queue is full the dispatch goes on waiting: `poll_transmit` makes room.
        let _ = self.fill_window();
    }

    fn fill_window(&mut self) -> Result<(), SessionError> {
        while self.is_open() && self.unanswered.len() < MAX_DISPATCHES_IN_FLIGHT {
            if self.queue.len() >= MAX_QUEUED && !self.waiting.is_empty() {
                return Err(SessionError::Stalled);
            }
            let Some(dispatch) = self.waiting.pop_front() else {
                break;
            };
            self.unanswered.insert(dispatch.run);
            self.send(ToAgent::Dispatch(Box::new(dispatch)))?;
        }
        Ok(())
    }

    fn send(&mut self, message: ToAgent) -> Result<(), SessionError> {
        if self.queue.len() >= MAX_QUEUED {
            return Err(SessionError::Stalled);
        }
        self.queue.push_back(message);
        Ok(())
    }
}

fn later(now: Instant, by: Duration) -> Instant {
    now.checked_add(by).unwrap_or(now)
}

//! The executor's end.
//!
//! ```text
//! AwaitWelcome ──welcome──► Open ──silence, nonsense──► (error: the shell closes and a new session begins)
//! ```
//!
//! Results come from the ledger, one at a time and in its order: [`AgentSession::wants_result_after`] says
//! which is next, so that nothing waits in memory.

use super::SessionError;
use crate::ids::RunId;
use crate::limits::{
    DEAD_AFTER, HANDSHAKE_TIMEOUT, MAX_QUEUED, MAX_UNACKED_RESULTS, OLDEST_VERSION, VERSION,
};
use crate::message::{Dispatch, Hello, Read, ToAgent, ToGateway};
use crate::outcome::Report;
use std::collections::VecDeque;
use std::time::Instant;

/// What the shell has to act on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentEvent {
    /// The session is open.
    Welcome,
    /// Claim and run.
    Dispatch(Box<Dispatch>),
    /// End a run, or leave a tombstone.
    Cancel(RunId),
    /// Read a page.
    Read(Read),
    /// The gateway has every result up to this number: they may be forgotten.
    Acked(u64),
}

/// The executor's end of one session.
#[derive(Debug)]
pub struct AgentSession {
    open: bool,
    last_heard: Instant,
    opened_by: Instant,
    queue: VecDeque<ToGateway>,
    /// The last result handed to this session, and the last acknowledged one.
    sent: u64,
    acked: u64,
    in_flight: VecDeque<u64>,
    unknown: u64,
}

impl AgentSession {
    /// Begins a session: the hello is the first message to send.
    pub fn new(hello: Hello, now: Instant) -> Self {
        Self {
            open: false,
            last_heard: now,
            opened_by: later(now, HANDSHAKE_TIMEOUT),
            queue: VecDeque::from([ToGateway::Hello(hello)]),
            sent: 0,
            acked: 0,
            in_flight: VecDeque::new(),
            unknown: 0,
        }
    }

    /// Takes a message from the gateway. An error ends the session.
    pub fn handle(
        &mut self,
        message: ToAgent,
        now: Instant,
    ) -> Result<Vec<AgentEvent>, SessionError> {
        self.last_heard = now;
        if !self.open {
            return self.handle_welcome(&message);
        }
        match message {
            // One connection is one session: whoever wants another one dials again.
            ToAgent::Welcome { .. } => Err(SessionError::Reopened),
            ToAgent::Dispatch(dispatch) => Ok(vec![AgentEvent::Dispatch(dispatch)]),
            ToAgent::Cancel { run } => Ok(vec![AgentEvent::Cancel(run)]),
            ToAgent::Read(read) => Ok(vec![AgentEvent::Read(read)]),
            ToAgent::Ack { seq } => self.handle_ack(seq),
            ToAgent::Ping { nonce } => self.send(ToGateway::Pong { nonce }).map(|()| Vec::new()),
            // A newer gateway may say more than we understand; it must not need it.
            ToAgent::Unknown => {
                self.unknown = self.unknown.saturating_add(1);
                Ok(Vec::new())
            }
        }
    }

    /// Call when [`AgentSession::poll_timeout`] has come. An error ends the session.
    pub fn handle_timeout(&self, now: Instant) -> Result<(), SessionError> {
        if now >= self.poll_timeout() {
            Err(SessionError::Silent)
        } else {
            Ok(())
        }
    }

    /// When [`AgentSession::handle_timeout`] wants to be called; moves with every message from the gateway.
    pub fn poll_timeout(&self) -> Instant {
        if self.open {
            later(self.last_heard, DEAD_AFTER)
        } else {
            self.opened_by
        }
    }

    /// The next message to send.
    pub fn poll_transmit(&mut self) -> Option<ToGateway> {
        self.queue.pop_front()
    }

    /// Queues an answer that need not survive this session.
    pub fn send(&mut self, message: ToGateway) -> Result<(), SessionError> {
        if self.queue.len() >= MAX_QUEUED {
            return Err(SessionError::Stalled);
        }
        self.queue.push_back(message);
        Ok(())
    }

    /// Which result is next: the first one in the ledger after this number. `None` while the window is full or
    /// the session is not open. Ask again after every acknowledgement and every new result.
    pub fn wants_result_after(&self) -> Option<u64> {
        (self.open && self.in_flight.len() < MAX_UNACKED_RESULTS).then_some(self.sent)
    }

    /// Sends the result that [`AgentSession::wants_result_after`] asked for.
    pub fn send_result(&mut self, seq: u64, report: Report) -> Result<(), SessionError> {
        self.sent = seq;
        self.in_flight.push_back(seq);
        self.send(ToGateway::Finished {
            seq,
            report: Box::new(report),
        })
    }

    /// Answers a dispatch of a run that is over. A result whose turn has not come yet is not sent out of
    /// order, which would make the gateway acknowledge those before it: it comes by itself.
    pub fn repeat_result(&mut self, seq: u64, report: Report) -> Result<(), SessionError> {
        if seq > self.sent {
            return Ok(());
        }
        self.send(ToGateway::Finished {
            seq,
            report: Box::new(report),
        })
    }

    /// How many messages of unknown types came.
    pub fn unknown_messages(&self) -> u64 {
        self.unknown
    }

    fn handle_welcome(&mut self, message: &ToAgent) -> Result<Vec<AgentEvent>, SessionError> {
        let ToAgent::Welcome {
            version,
            resume_from,
        } = *message
        else {
            return Err(SessionError::OutOfOrder);
        };
        if !(OLDEST_VERSION..=VERSION).contains(&version) {
            return Err(SessionError::Version {
                min: version,
                max: version,
                ours_min: OLDEST_VERSION,
                ours_max: VERSION,
            });
        }
        self.open = true;
        self.sent = resume_from;
        self.acked = resume_from;
        Ok(vec![AgentEvent::Welcome, AgentEvent::Acked(resume_from)])
    }

    fn handle_ack(&mut self, seq: u64) -> Result<Vec<AgentEvent>, SessionError> {
        if seq > self.sent {
            return Err(SessionError::AckAhead {
                acked: seq,
                sent: self.sent,
            });
        }
        while self.in_flight.front().is_some_and(|first| *first <= seq) {
            self.in_flight.pop_front();
        }
        // A late or repeated acknowledgement says nothing new.
        if seq <= self.acked {
            return Ok(Vec::new());
        }
        self.acked = seq;
        Ok(vec![AgentEvent::Acked(seq)])
    }
}

fn later(now: Instant, by: std::time::Duration) -> Instant {
    now.checked_add(by).unwrap_or(now)
}

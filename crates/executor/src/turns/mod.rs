//! The gate of the turn budget: what of a call's texts may leave, given what else its turn has sent.
//!
//! | module | what | I/O |
//! |---|---|---|
//! | this | the turns, behind a lock and a clock | none |
//! | `parcels` | keeps what has no file yet, while a caller waits | files |
//!
//! A share is decided once, when a result is first made for its call; what it comes to is what the ledger
//! stores, so that whoever asks again gets the same text, and it costs nothing again.

mod parcels;

pub(crate) use parcels::Parcels;

use crate::sync::lock;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use willcall_outputs::turn::{Call, Share, TurnKey, Turns};
use willcall_protocol::ids::SessionId;
use willcall_protocol::message::Turn;

/// The turns of this host.
#[derive(Debug)]
pub(crate) struct Gate(Mutex<Turns>);

/// A call from its arrival to its end; its turn, if it has one, learns of that when this is dropped.
#[derive(Debug)]
pub(crate) struct Pass(Option<(Arc<Gate>, Call)>);

impl Gate {
    /// `budget` in bytes of text, for each turn.
    pub(crate) fn new(budget: u64) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Turns::new(budget))))
    }

    /// A call has come. Without a turn it has no budget but its own limits.
    pub(crate) fn arrive(self: &Arc<Self>, session: &SessionId, turn: Option<&Turn>) -> Pass {
        Pass(turn.map(|turn| {
            let key = TurnKey {
                session: session.as_str().to_owned(),
                turn: turn.id.as_str().to_owned(),
            };
            let calls = turn.calls.map(std::num::NonZeroU32::get);
            let call = lock(&self.0).arrive(key, calls, Instant::now());
            (Arc::clone(self), call)
        }))
    }
}

impl Pass {
    /// What of each of a call's texts may leave, by their lengths in bytes.
    pub(crate) fn allot(&mut self, lens: &[u64]) -> Vec<Share> {
        match &mut self.0 {
            Some((gate, call)) => lock(&gate.0).allot(call, lens, Instant::now()),
            None => vec![Share::Whole; lens.len()],
        }
    }

    /// What of a page of `len` bytes may leave.
    pub(crate) fn allot_page(&mut self, len: u64) -> Share {
        match &mut self.0 {
            Some((gate, call)) => lock(&gate.0).allot_page(call, len, Instant::now()),
            None => Share::Whole,
        }
    }

    /// Only `used` bytes left in the end.
    pub(crate) fn correct(&mut self, used: u64) {
        if let Some((gate, call)) = &mut self.0 {
            lock(&gate.0).correct(call, used, Instant::now());
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if let Some((gate, call)) = &self.0 {
            lock(&gate.0).leave(call, Instant::now());
        }
    }
}

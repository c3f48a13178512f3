//! How much text all results of one turn may carry, together.
//!
//! ```text
//!             arrive               allot               correct
//! (unknown) ─────────► under way ─────────► settled ─────────► settled, for less
//!                          └── leave: refused, or a duplicate; it never came
//! ```
//!
//! A call that is settled gets what is left of the budget once every other call of its turn that
//! is still outstanding has its [`TURN_RESERVE`] set aside. So whoever comes last gets that much, as
//! long as there are no more than budget / reserve calls and all of them were announced. More calls
//! than that share what there is, first come, first served; the budget is never exceeded.
//!
//! Nothing here waits or looks at earlier turns.

use crate::limits::{MAX_IDLE_TURNS, TURN_IDLE, TURN_RESERVE};
use std::collections::HashMap;
use std::time::Instant;

/// A turn: the calls that a model issues together, in one session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TurnKey {
    /// The session.
    pub session: String,
    /// The turn's id in it.
    pub turn: String,
}

/// How much of one text may leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// All of it.
    Whole,
    /// At most that many bytes, marks included. 0: its fields only.
    Only(u64),
}

/// One call of a turn, from its arrival on. Its turn is remembered until [`Turns::leave`].
#[derive(Debug)]
pub struct Call {
    key: TurnKey,
    /// What the budget was charged for it, once it is settled.
    charged: Option<u64>,
}

/// The turns that are remembered: those with a call under way, and [`MAX_IDLE_TURNS`] others.
#[derive(Debug)]
pub struct Turns {
    budget: u64,
    turns: HashMap<TurnKey, Turn>,
}

#[derive(Debug)]
struct Turn {
    used: u64,
    /// Calls that were announced, at least.
    announced: u64,
    arrived: u64,
    settled: u64,
    /// Calls that have come and not left.
    open: u64,
    last: Instant,
}

impl Turns {
    /// `budget` in bytes of text, for each turn.
    pub fn new(budget: u64) -> Self {
        Self {
            budget,
            turns: HashMap::new(),
        }
    }

    /// A call has come. `calls` says how many its turn has in all, if its caller knows.
    pub fn arrive(&mut self, key: TurnKey, calls: Option<u32>, now: Instant) -> Call {
        if self.turns.get(&key).is_none_or(|turn| turn.is_over(now)) {
            self.begin(key.clone(), now);
        }
        if let Some(turn) = self.turns.get_mut(&key) {
            turn.arrived += 1;
            turn.open += 1;
            turn.announced = turn.announced.max(calls.unwrap_or(0).into());
            turn.last = now;
        }
        Call { key, charged: None }
    }

    /// The texts of a call's results, by their lengths, those first that matter most: what of each may
    /// leave. It is charged at once. What was settled before gets nothing more.
    pub fn allot(&mut self, call: &mut Call, lens: &[u64], now: Instant) -> Vec<Share> {
        let mut purse = self.settle(call, now);
        let mut charged = 0;
        let shares = lens.iter().map(|&len| {
            let share = if len <= purse {
                Share::Whole
            } else {
                Share::Only(purse.min(TURN_RESERVE))
            };
            let cost = share.of(len);
            purse -= cost;
            charged += cost;
            share
        });
        let shares = shares.collect();
        self.charge(call, charged);
        shares
    }

    /// A page of `len` bytes. One that does not fit may have all that is left: it needs no mark, and where it
    /// ends the next one begins.
    pub fn allot_page(&mut self, call: &mut Call, len: u64, now: Instant) -> Share {
        let purse = self.settle(call, now);
        self.charge(call, len.min(purse));
        if len <= purse {
            Share::Whole
        } else {
            Share::Only(purse)
        }
    }

    /// Only `used` bytes left for a settled call: the rest of what it was charged is there for others.
    pub fn correct(&mut self, call: &mut Call, used: u64, now: Instant) {
        let unused = call.charged.unwrap_or(0).saturating_sub(used);
        if let Some(turn) = self.turns.get_mut(&call.key) {
            turn.used = turn.used.saturating_sub(unused);
            turn.last = now;
            call.charged = call.charged.map(|charged| charged - unused);
        }
    }

    /// The call is over. One that was not settled has never come: it was refused, or is a duplicate.
    pub fn leave(&mut self, call: &Call, now: Instant) {
        if let Some(turn) = self.turns.get_mut(&call.key) {
            turn.open = turn.open.saturating_sub(1);
            turn.arrived -= u64::from(call.charged.is_none() && turn.arrived > 0);
            turn.last = now;
        }
    }

    /// What a call may take at most, itself no longer outstanding; 0 if it is settled already.
    fn settle(&mut self, call: &mut Call, now: Instant) -> u64 {
        let Some(turn) = self.turns.get_mut(&call.key) else {
            return 0;
        };
        if call.charged.is_some() {
            return 0;
        }
        call.charged = Some(0);
        turn.settled += 1;
        turn.last = now;
        let left = self.budget.saturating_sub(turn.used);
        let reserved = turn.outstanding().saturating_mul(TURN_RESERVE);
        // Its own reserve is there as long as anything is.
        left.saturating_sub(reserved).max(left.min(TURN_RESERVE))
    }

    fn charge(&mut self, call: &mut Call, bytes: u64) {
        if let (Some(charged), Some(turn)) = (&mut call.charged, self.turns.get_mut(&call.key)) {
            *charged += bytes;
            turn.used += bytes;
        }
    }

    /// Begins a turn, and forgets those that are over.
    fn begin(&mut self, key: TurnKey, now: Instant) {
        self.turns.retain(|_, turn| !turn.is_over(now));
        let idle = self.turns.iter().filter(|(_, turn)| turn.open == 0);
        if idle.clone().count() >= MAX_IDLE_TURNS
            && let Some((longest, _)) = idle.min_by_key(|(_, turn)| turn.last)
        {
            let longest = longest.clone();
            self.turns.remove(&longest);
        }
        self.turns.insert(
            key,
            Turn {
                used: 0,
                announced: 0,
                arrived: 0,
                settled: 0,
                open: 0,
                last: now,
            },
        );
    }
}

impl Turn {
    /// Calls that are still to be settled: those that have come, and those that were announced.
    fn outstanding(&self) -> u64 {
        self.arrived
            .max(self.announced)
            .saturating_sub(self.settled)
    }

    /// A turn with a call under way is not idle, however long that takes.
    fn is_over(&self, now: Instant) -> bool {
        self.open == 0 && now.saturating_duration_since(self.last) >= TURN_IDLE
    }
}

impl Share {
    /// What a text of `len` bytes takes of the budget, at most.
    fn of(self, len: u64) -> u64 {
        match self {
            Self::Whole => len,
            Self::Only(bytes) => bytes.min(len),
        }
    }
}

#[cfg(test)]
mod tests;

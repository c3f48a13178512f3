//! The newest results, for the session that is about to send them. The ledger has them all.

use crate::limits::{MAX_RECENT, MAX_RECENT_TEXT};
use crate::sync::lock;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::sync::watch;
use willcall_protocol::outcome::Report;

/// The newest results, and word of them.
#[derive(Debug)]
pub(crate) struct Outbox {
    recent: Mutex<BTreeMap<u64, Arc<Report>>>,
    newest: watch::Sender<u64>,
}

impl Outbox {
    pub(crate) fn new() -> Self {
        Self {
            recent: Mutex::new(BTreeMap::new()),
            newest: watch::Sender::new(0),
        }
    }

    /// A result is in the ledger: tells the session.
    pub(crate) fn publish(&self, seq: u64, report: Arc<Report>) {
        let streams = [&report.stdout, &report.stderr, &report.tty];
        let text: usize = streams
            .iter()
            .filter_map(|s| Some(s.as_ref()?.result.len()))
            .sum();
        if text <= MAX_RECENT_TEXT {
            let mut recent = lock(&self.recent);
            recent.insert(seq, report);
            if recent.len() > MAX_RECENT {
                recent.pop_first();
            }
        }
        self.newest.send_modify(|newest| *newest = seq.max(*newest));
    }

    /// Changes with every new result; 0 until there is one since our start.
    pub(crate) fn newest(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// The result right after `seq`, if it is here. It is given out once.
    pub(crate) fn take_after(&self, seq: u64) -> Option<(u64, Arc<Report>)> {
        let next = seq.checked_add(1)?;
        Some((next, lock(&self.recent).remove(&next)?))
    }

    /// Forgets every result up to `seq`: the gateway has them.
    pub(crate) fn forget(&self, seq: u64) {
        lock(&self.recent).retain(|recent, _| *recent > seq);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;
    use willcall_protocol::ids::{RunId, SessionId};
    use willcall_protocol::outcome::RunState;

    fn report() -> Arc<Report> {
        let run = RunId(Uuid::from_u128(1));
        Arc::new(Report::bare(run, SessionId::unnamed(), RunState::Exited))
    }

    #[test]
    fn only_the_very_next_result_is_given_and_only_once() {
        let outbox = Outbox::new();
        outbox.publish(5, report());
        outbox.publish(4, report());
        assert_eq!(*outbox.newest().borrow(), 5);
        assert!(outbox.take_after(2).is_none());
        assert!(outbox.take_after(3).is_some());
        assert!(outbox.take_after(3).is_none());
        outbox.forget(5);
        assert!(outbox.take_after(4).is_none());
    }

    #[test]
    fn few_results_are_kept() {
        let outbox = Outbox::new();
        (1..=100).for_each(|seq| outbox.publish(seq, report()));
        assert!(outbox.take_after(100 - MAX_RECENT as u64 - 1).is_none());
        assert!(outbox.take_after(100 - MAX_RECENT as u64).is_some());
    }
}

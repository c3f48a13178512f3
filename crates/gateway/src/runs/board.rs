//! Where open runs stand, and who waits for them. In memory: what is final is in the database.
//!
//! Waiting is for a value, never for an event. A run's end is queued for the database before it is published here, and
//! whoever waits looks into the database after subscribing: one of the two always shows it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use willcall_protocol::ids::{AgentId, RunId};
use willcall_protocol::outcome::Report;

/// Where a run stands.
#[derive(Debug, Clone, Default)]
pub(crate) enum Progress {
    /// Its host has not answered.
    #[default]
    Dispatched,
    /// Its host has claimed it; the timeout that applies, in milliseconds.
    Accepted(Option<u64>),
    /// It is over.
    Over(Arc<Report>),
    /// Its host knows the id with another body.
    Conflict,
}

impl Progress {
    /// Whether nothing follows.
    pub(crate) fn is_last(&self) -> bool {
        matches!(self, Self::Over(_) | Self::Conflict)
    }
}

/// The open runs.
#[derive(Debug, Default)]
pub(crate) struct Board(Mutex<HashMap<RunId, Entry>>);

#[derive(Debug)]
struct Entry {
    host: AgentId,
    progress: watch::Sender<Progress>,
}

impl Board {
    /// Watches a run of that host; begins an entry where there is none.
    pub(crate) fn watch(&self, run: RunId, host: AgentId) -> watch::Receiver<Progress> {
        let mut entries = self.entries();
        let entry = entries.entry(run).or_insert_with(|| Entry {
            host,
            progress: watch::Sender::default(),
        });
        entry.progress.subscribe()
    }

    /// Notes where a run stands, if it is one of that host's. What is last ends the entry.
    pub(crate) fn publish(&self, run: RunId, host: AgentId, progress: Progress) {
        let mut entries = self.entries();
        let Some(entry) = entries.get(&run).filter(|entry| entry.host == host) else {
            return;
        };
        let last = progress.is_last();
        entry.progress.send_replace(progress);
        if last {
            entries.remove(&run);
        }
    }

    /// Ends the entry of a run that turned out to be over.
    pub(crate) fn remove(&self, run: RunId) {
        self.entries().remove(&run);
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<RunId, Entry>> {
        // No code that holds the lock can leave it half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;
    use willcall_protocol::ids::SessionId;
    use willcall_protocol::outcome::RunState;

    fn over(run: RunId) -> Progress {
        let report = Report::bare(run, SessionId::unnamed(), RunState::Exited);
        Progress::Over(Arc::new(report))
    }

    #[test]
    fn the_end_is_seen_by_those_who_watched_before_and_ends_the_entry() {
        let (run, host) = (RunId(Uuid::from_u128(1)), AgentId(Uuid::from_u128(2)));
        let board = Board::default();
        let early = board.watch(run, host);
        board.publish(run, host, Progress::Accepted(None));
        let late = board.watch(run, host);
        board.publish(run, host, over(run));
        assert!(early.borrow().is_last() && late.borrow().is_last());
        assert!(board.entries().is_empty());
    }

    #[test]
    fn another_host_cannot_say_how_a_run_ended() {
        let (run, host) = (RunId(Uuid::from_u128(1)), AgentId(Uuid::from_u128(2)));
        let board = Board::default();
        let watch = board.watch(run, host);
        board.publish(run, AgentId(Uuid::from_u128(3)), over(run));
        assert!(!watch.borrow().is_last());
    }
}

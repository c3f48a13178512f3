//! How long a lost connection is tried again. No clock inside.

use crate::limits::{PATIENCE, RETRY};
use std::time::{Duration, Instant};

/// What to do after a connection failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Try again after that long. Always safe: the run's id makes a second request the same as the first.
    Retry(Duration),
    /// Nothing was ever sent, and nobody is there: say so at once.
    Unreachable,
    /// It did not come back.
    GiveUp,
}

/// The history of one call.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Patience {
    /// Whether anything may have arrived at the gateway.
    sent: bool,
    /// Since when there is no answer.
    lost: Option<Instant>,
}

impl Patience {
    /// The call is about something that the gateway knows already.
    pub(crate) fn known() -> Self {
        Self {
            sent: true,
            lost: None,
        }
    }

    /// A connection failed; `reached` if the request may have arrived.
    pub(crate) fn failed(&mut self, now: Instant, reached: bool) -> Next {
        self.sent |= reached;
        let lost = *self.lost.get_or_insert(now);
        if !self.sent {
            Next::Unreachable
        } else if now.saturating_duration_since(lost) >= PATIENCE {
            Next::GiveUp
        } else {
            Next::Retry(RETRY)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_there_is_said_at_once_and_a_loss_is_tried_again() {
        let now = Instant::now();
        let mut first = Patience::default();
        assert_eq!(first.failed(now, false), Next::Unreachable);
        let mut lost = Patience::default();
        assert_eq!(lost.failed(now, true), Next::Retry(RETRY));
        assert_eq!(lost.failed(now + RETRY, false), Next::Retry(RETRY));
        assert_eq!(lost.failed(now + PATIENCE, false), Next::GiveUp);
        let mut known = Patience::known();
        assert_eq!(known.failed(now, false), Next::Retry(RETRY));
    }
}

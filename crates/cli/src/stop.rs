//! Ctrl-C and TERM, as something that can be looked at and waited for.

use nix::sys::signal::{SigSet, Signal};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Whether somebody wants us to end.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    signal: Mutex<Option<Signal>>,
    came: Condvar,
}

impl Stop {
    /// Nobody ever does: signals have their usual effect.
    pub fn never() -> Self {
        Self::default()
    }

    /// INT, TERM and HUP no longer end this process; they are noted here. Call it before there is another thread.
    pub fn watch() -> std::io::Result<Self> {
        let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]);
        signals.thread_block()?;
        let stop = Self::default();
        let noted = stop.clone();
        // Never joined: it waits for as long as the process lives.
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                while let Ok(signal) = signals.wait() {
                    noted.note(signal);
                }
            })?;
        Ok(stop)
    }

    fn note(&self, signal: Signal) {
        let mut noted = self.0.signal.lock().unwrap_or_else(PoisonError::into_inner);
        noted.get_or_insert(signal);
        self.0.came.notify_all();
    }

    /// The first signal that came.
    pub fn signal(&self) -> Option<Signal> {
        *self.0.signal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a signal, at most for `limit`.
    pub fn pause(&self, limit: Duration) -> Option<Signal> {
        let noted = self.0.signal.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .0
            .came
            .wait_timeout_while(noted, limit, |signal| signal.is_none());
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_noted_once_and_ends_every_pause() {
        let stop = Stop::never();
        assert_eq!(stop.pause(Duration::ZERO), None);
        stop.note(Signal::SIGTERM);
        stop.note(Signal::SIGINT);
        assert_eq!(stop.signal(), Some(Signal::SIGTERM));
        assert_eq!(stop.pause(Duration::MAX), Some(Signal::SIGTERM));
    }
}

//! Ctrl-C and TERM, as something that can be looked at and waited for.

use nix::sys::signal::{SigSet, Signal};
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// From now on these signals no longer end this process, and `told` is called for each one that comes. Those that whoever
/// started us had us ignore (`nohup`, a script's background) stay ignored. Call it before there is another thread.
pub(crate) fn on_each(
    signals: &[Signal],
    mut told: impl FnMut(Signal) + Send + 'static,
) -> io::Result<()> {
    let ignored = ignored(&std::fs::read_to_string("/proc/self/status")?);
    let heeded = signals.iter().copied();
    let heeded: SigSet = heeded.filter(|s| !is_in(ignored, *s)).collect();
    heeded.thread_block()?;
    // Never joined: it waits for as long as the process lives.
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            while let Ok(signal) = heeded.wait() {
                told(signal);
            }
        })?;
    Ok(())
}

/// The signals that a process ignores, by the kernel's account of it.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

fn is_in(mask: u64, signal: Signal) -> bool {
    mask >> (signal as u32 - 1) & 1 == 1
}

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
    pub fn watch() -> io::Result<Self> {
        let stop = Self::default();
        let noted = stop.clone();
        let signals = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
        on_each(&signals, move |signal| noted.note(signal))?;
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
    fn what_is_ignored_is_read_from_the_kernels_account() {
        let mask = ignored("SigBlk:\t0000000000000002\nSigIgn:\t0000000000001001\nSigCgt:\tffff\n");
        assert!(is_in(mask, Signal::SIGHUP) && is_in(mask, Signal::SIGPIPE));
        assert!(!is_in(mask, Signal::SIGINT) && !is_in(mask, Signal::SIGTERM));
        assert_eq!(ignored(""), 0);
    }

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

//! When to come back. No clock and no randomness inside: both come in as arguments.

use crate::limits::{
    BACKOFF_CAP, BACKOFF_FIRST, EXECUTOR_RETRY_CAP, EXECUTOR_RETRY_FIRST, HEALTHY_AFTER, MAX_PACE,
};
use std::time::{Duration, Instant};

/// Pauses between attempts at the gateway: full jitter, so that a fleet that lost its gateway in one second
/// does not come back in one second.
#[derive(Debug, Clone, Default)]
pub struct Backoff {
    /// Attempts since the last healthy connection.
    attempts: u32,
}

impl Backoff {
    /// The pause after an attempt or a connection has ended.
    ///
    /// `connected` is when the connection was established, if it was. `pace` is what the gateway asked for; the jitter comes on
    /// top of it. `random` is uniform over its whole range.
    pub fn pause(
        &mut self,
        connected: Option<Instant>,
        now: Instant,
        pace: Option<Duration>,
        random: u32,
    ) -> Duration {
        if connected.is_some_and(|at| now.saturating_duration_since(at) >= HEALTHY_AFTER) {
            self.attempts = 0;
        }
        let ceiling = self.ceiling();
        self.attempts = self.attempts.saturating_add(1);
        let jitter = ceiling.mul_f64(f64::from(random) / f64::from(u32::MAX));
        pace.unwrap_or_default().min(MAX_PACE) + jitter
    }

    /// The longest jitter of the next pause.
    fn ceiling(&self) -> Duration {
        1_u32
            .checked_shl(self.attempts)
            .and_then(|factor| BACKOFF_FIRST.checked_mul(factor))
            .map_or(BACKOFF_CAP, |ceiling| ceiling.min(BACKOFF_CAP))
    }
}

/// Pauses between attempts at the executor's socket. No jitter: it is alone on its host.
#[derive(Debug, Clone)]
pub struct ExecutorRetry(Duration);

impl Default for ExecutorRetry {
    fn default() -> Self {
        Self(EXECUTOR_RETRY_FIRST)
    }
}

impl ExecutorRetry {
    /// The next pause.
    pub fn pause(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (pause * 2).min(EXECUTOR_RETRY_CAP);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LOSSES: usize = 40;

    fn pauses(random: u32) -> Vec<Duration> {
        let now = Instant::now();
        let mut backoff = Backoff::default();
        (0..LOSSES)
            .map(|_| backoff.pause(None, now, None, random))
            .collect()
    }

    #[test]
    fn the_ceiling_doubles_from_one_second_to_sixty() {
        let seconds: Vec<u64> = pauses(u32::MAX).iter().map(Duration::as_secs).collect();
        assert_eq!(seconds[..8], [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(seconds[LOSSES - 1], 60);
    }

    #[test]
    fn jitter_is_full_even_at_the_cap() {
        assert!(pauses(0).iter().all(Duration::is_zero));
    }

    #[test]
    fn only_a_healthy_connection_starts_from_the_beginning() {
        let start = Instant::now();
        let after = |held: Duration| {
            let mut backoff = Backoff { attempts: 4 };
            backoff.pause(Some(start), start + held, None, u32::MAX)
        };
        assert_eq!(after(Duration::from_secs(59)), Duration::from_secs(16));
        assert_eq!(after(HEALTHY_AFTER), Duration::from_secs(1));
    }

    #[test]
    fn the_executor_is_found_within_a_second() {
        let mut retry = ExecutorRetry::default();
        assert_eq!(retry.pause(), EXECUTOR_RETRY_FIRST);
        assert!((0..20).all(|_| retry.pause() <= EXECUTOR_RETRY_CAP));
    }

    proptest! {
        #[test]
        fn a_pause_is_bounded_whatever_happens(
            losses in proptest::collection::vec((any::<u32>(), proptest::option::of(any::<u64>()), any::<bool>()), 1..100),
        ) {
            let start = Instant::now();
            let mut backoff = Backoff::default();
            for (random, pace, healthy) in losses {
                let now = start + HEALTHY_AFTER;
                let pace = pace.map(Duration::from_millis);
                let pause = backoff.pause(healthy.then_some(start), now, pace, random);
                prop_assert!(pause <= BACKOFF_CAP + MAX_PACE);
                prop_assert!(pause >= pace.unwrap_or_default().min(MAX_PACE));
            }
        }
    }
}

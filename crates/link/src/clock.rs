//! How far the host's clock is from the gateway's. A wrong clock makes good certificates look expired.

use crate::limits::{SKEW_ALARMING, SKEW_NOTABLE};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The host's clock against the gateway's; the time that the message travelled is not taken off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skew {
    /// Near enough.
    Small,
    /// The host's clock is ahead by that long.
    Ahead(Duration),
    /// The host's clock is behind by that long.
    Behind(Duration),
}

impl Skew {
    /// Compares the gateway's clock, in milliseconds since 1970, with the host's.
    pub fn measure(gateway_ms: u64, host: SystemTime) -> Self {
        let gateway = Duration::from_millis(gateway_ms);
        let host = host.duration_since(UNIX_EPOCH).unwrap_or_default();
        match host.checked_sub(gateway) {
            Some(ahead) if ahead >= SKEW_NOTABLE => Self::Ahead(ahead),
            Some(_) => Self::Small,
            None => match gateway.saturating_sub(host) {
                behind if behind >= SKEW_NOTABLE => Self::Behind(behind),
                _ => Self::Small,
            },
        }
    }

    /// Says it in the log, once per session.
    pub fn log(self) {
        let (word, by) = match self {
            Self::Small => return tracing::debug!("this host's clock agrees with the gateway's"),
            Self::Ahead(by) => ("ahead of", by),
            Self::Behind(by) => ("behind", by),
        };
        if by >= SKEW_ALARMING {
            tracing::warn!(
                "this host's clock is {by:?} {word} the gateway's: set it, or good certificates will look wrong"
            );
        } else {
            tracing::info!("this host's clock is {by:?} {word} the gateway's");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(gateway_ms: u64, host_ms: u64, expected: Skew) {
        let host = UNIX_EPOCH + Duration::from_millis(host_ms);
        assert_eq!(Skew::measure(gateway_ms, host), expected);
    }

    #[test]
    fn a_skew_has_a_direction_and_a_threshold() {
        check(10_000, 11_999, Skew::Small);
        check(11_999, 10_000, Skew::Small);
        check(10_000, 12_000, Skew::Ahead(Duration::from_secs(2)));
        check(86_410_000, 10_000, Skew::Behind(Duration::from_hours(24)));
        check(u64::MAX, 0, Skew::Behind(Duration::from_millis(u64::MAX)));
    }
}

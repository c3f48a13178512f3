//! Waiting for a value instead of for time.

use std::time::{Duration, Instant};

const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Looks until there is a value, and panics with `what` after `limit`.
#[track_caller]
pub fn wait_for<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let mut value = None;
    wait_until(limit, || {
        value = look();
        value.is_some()
    });
    value.unwrap_or_else(|| panic!("{what}: not within {limit:?}"))
}

/// Looks until `look` says yes; whether it did within `limit`.
pub fn wait_until(limit: Duration, mut look: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    while !look() {
        if Instant::now() >= deadline {
            return false;
        }
        pause();
    }
    true
}

#[expect(
    clippy::disallowed_methods,
    reason = "between two looks at something that cannot call back"
)]
fn pause() {
    std::thread::sleep(LOOK_EVERY);
}

//! Killing processes faster than they fork.

use super::{Process, visit};
use crate::limits::{FREEZE_TIME, FREEZE_WALKS};
use nix::libc;
use std::collections::HashSet;
use std::time::Instant;

/// Kills everybody whom `concerns` says yes to, among the children of ours that `own` lists and below them. True if
/// nobody of them was left before: that is proven. Otherwise they end now, and the caller looks again.
///
/// They are stopped first, until a walk meets nobody new: who is stopped forks no more, and its place in a process
/// limit is not free for another. Time and walks are bounded: what could not be stopped is killed all the same.
pub(crate) fn kill(
    mut own: impl FnMut() -> Option<Vec<i32>>,
    mut concerns: impl FnMut(&Process) -> bool,
) -> bool {
    let until = Instant::now() + FREEZE_TIME;
    let mut stopped = HashSet::new();
    for _ in 0..FREEZE_WALKS {
        let (mut left, mut new) = (false, false);
        let walk = visit(own(), |found| {
            if !concerns(&found.process) {
                return;
            }
            left = true;
            if stopped.insert((found.process.pid, found.process.start_time)) {
                new = true;
                found.signal(libc::SIGSTOP);
            }
        });
        let is_whole = walk.is_whole(own());
        if is_whole && !left {
            return true;
        }
        if (is_whole && !new) || until <= Instant::now() {
            break;
        }
    }
    visit(own(), |found| {
        if concerns(&found.process) {
            found.signal(libc::SIGKILL);
        }
    });
    false
}

//! The steps after which this process may be gone. In tests one of them is the last: from then on the disk takes
//! nothing more, as if nobody were there to write to it.

use nix::errno::Errno;

#[cfg(test)]
thread_local! {
    /// Steps that this thread may still make; `None`: any number.
    static LEFT: std::cell::Cell<Option<u32>> = const { std::cell::Cell::new(None) };
}

/// To be asked before every change of the disk.
#[cfg(not(test))]
#[expect(
    clippy::unnecessary_wraps,
    reason = "only a test makes a process end at a chosen step"
)]
pub(super) fn step() -> Result<(), Errno> {
    Ok(())
}

#[cfg(test)]
pub(super) fn step() -> Result<(), Errno> {
    match LEFT.get() {
        None => Ok(()),
        Some(0) => Err(Errno::EIO),
        Some(left) => {
            LEFT.set(Some(left - 1));
            Ok(())
        }
    }
}

/// After so many steps of this thread there are no more.
#[cfg(test)]
pub(super) fn end_after(steps: Option<u32>) {
    LEFT.set(steps);
}

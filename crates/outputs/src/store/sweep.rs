//! Sweeping: list what is held, let [`retention`](crate::retention) decide, remove.
//!
//! ```text
//!  survey ──► the caller learns which runs are not settled ──► sweep: decide ──► lock ──► remove
//! ```
//!
//! The survey comes first: what it lists belongs to runs that were claimed before it, so that whoever
//! asks about them afterwards misses none. What is removed is locked before, and what a runner or a reader
//! with a lock holds is skipped. Every name is removed through the descriptor of its directory.

use super::names::{Owner, Part};
use super::survey::{Entry, Survey, mtime_ms, open_ours};
use super::{Store, dir, parcel};
use crate::retention::{Item, Now, Reason, Retention, Verdict, decide};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::{Mode, UtimensatFlags, fstat, fstatat, futimens, utimensat};
use nix::sys::time::TimeSpec;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use uuid::Uuid;

/// What a sweep found, and what it did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// Runs and parcels that stay.
    pub kept: u64,
    /// Bytes of their files.
    pub kept_bytes: u64,
    /// Runs and parcels that are gone, by reason.
    pub removed: BTreeMap<Reason, u64>,
    /// Bytes of their files.
    pub removed_bytes: u64,
    /// Those that should have gone and are locked: they are looked at again next time.
    pub locked: u64,
    /// Those that should have gone and could not be removed.
    pub failed: u64,
    /// Directories of sessions that were empty, and are gone.
    pub sessions: u64,
}

impl Store {
    /// Removes what need not be held any longer. `unsettled` are the runs that are not over, or whose result
    /// the gateway does not have, as of after the survey. Stops between two removals once `stop` is set.
    pub fn sweep(
        &self,
        mut survey: Survey,
        unsettled: &BTreeSet<Uuid>,
        now: Now,
        retention: &Retention,
        stop: &AtomicBool,
    ) -> Swept {
        for entry in &mut survey.entries {
            entry.item.settled = match entry.owner {
                Owner::Run(run) => !unsettled.contains(&run),
                Owner::Parcel(_) => true,
            };
        }
        let items: Vec<Item> = survey.entries.iter().map(|entry| entry.item).collect();
        let verdicts = decide(&items, now, retention);
        let mut swept = Swept::default();
        let mut entries = survey.entries.into_iter().zip(verdicts).peekable();
        for (number, session) in survey.sessions.iter().enumerate() {
            let of_session = std::iter::from_fn(|| entries.next_if(|(e, _)| e.session == number));
            let of_session: Vec<_> = of_session.collect();
            if stop.load(Ordering::Relaxed) {
                break;
            }
            if let Ok(dir) = open_ours(&self.root_dir().dir, session) {
                self.sweep_session(&dir, &of_session, now, stop, &mut swept);
                swept.sessions += u64::from(self.remove_session(&dir, session));
            }
        }
        swept
    }

    /// When the last sweep was, in milliseconds since 1970; when the store was made where there was none.
    pub fn last_sweep_ms(&self) -> io::Result<u64> {
        Ok(mtime_ms(&fstat(&self.root_dir().lock)?))
    }

    /// Notes that a sweep is over.
    pub fn note_sweep(&self, now_ms: u64) -> io::Result<()> {
        let time = time_spec(now_ms);
        Ok(futimens(&self.root_dir().lock, &time, &time)?)
    }

    fn sweep_session(
        &self,
        dir: &OwnedFd,
        entries: &[(Entry, Verdict)],
        now: Now,
        stop: &AtomicBool,
        swept: &mut Swept,
    ) {
        for (entry, verdict) in entries {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            match verdict {
                Verdict::Keep(_) => {
                    correct_time(dir, entry, now);
                    swept.kept += 1;
                    swept.kept_bytes += entry.item.bytes;
                }
                Verdict::Remove(reason) => {
                    let removed = self.remove(dir, entry);
                    note(swept, entry, *reason, &removed);
                }
            }
        }
    }

    /// Locks and removes all files of one owner, the record first.
    fn remove(&self, dir: &OwnedFd, entry: &Entry) -> Result<Removed, Errno> {
        let _parcels = matches!(entry.owner, Owner::Parcel(_)).then(|| parcel::exclusive(self));
        let names = || {
            entry
                .parts()
                .filter_map(|part| Some((part, part.file_name(entry.owner)?)))
        };
        // Its other half may have come since: whoever is settled now had written it by then.
        let record = Part::Record.file_name(entry.owner).unwrap_or_default();
        if !entry.has_record() && exists(dir, &record) {
            return Ok(Removed::Locked);
        }
        let mut held = Vec::new();
        for (part, name) in names() {
            let file = match dir::open(dir, &name, OFlag::O_RDONLY, Mode::empty()) {
                Ok(fd) => File::from(fd),
                Err(Errno::ENOENT) => continue,
                Err(errno) => return Err(errno),
            };
            // A parcel that was stored again since is a new one.
            let renewed = mtime_ms(&fstat(&file)?) > entry.item.mtime_ms;
            if (renewed && part == Part::Record) || file.try_lock().is_err() {
                return Ok(Removed::Locked);
            }
            held.push(file);
        }
        for (_, name) in names() {
            match dir::unlink(dir, &name) {
                Ok(()) | Err(Errno::ENOENT) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(Removed::Gone)
    }

    /// Removes a session's directory if it is empty and no runner may still make files in it.
    fn remove_session(&self, dir: &OwnedFd, session: &str) -> bool {
        let Ok(lock) = dir.try_clone().map(File::from) else {
            return false;
        };
        let free = lock.try_lock().is_ok();
        free && dir::remove_dir(&self.root_dir().dir, session).is_ok()
    }
}

fn exists(dir: &OwnedFd, name: &str) -> bool {
    fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW).is_ok()
}

enum Removed {
    Gone,
    Locked,
}

fn note(swept: &mut Swept, entry: &Entry, reason: Reason, removed: &Result<Removed, Errno>) {
    match removed {
        Ok(Removed::Gone) => {
            *swept.removed.entry(reason).or_default() += 1;
            swept.removed_bytes += entry.item.bytes;
        }
        Ok(Removed::Locked) => swept.locked += 1,
        Err(_) => swept.failed += 1,
    }
}

/// Gives a kept thing's file the time that the next sweep has to count from. What cannot be
/// corrected is judged by its record alone, or goes when the clock says so.
fn correct_time(dir: &OwnedFd, entry: &Entry, now: Now) {
    let corrected = now.corrected(entry.item.mtime_ms);
    if corrected == entry.item.mtime_ms {
        return;
    }
    let time = time_spec(corrected);
    let counts = |part: &Part| *part == Part::Record || !entry.has_record();
    for name in entry
        .parts()
        .filter(counts)
        .filter_map(|p| p.file_name(entry.owner))
    {
        let _ = utimensat(
            dir,
            name.as_str(),
            &time,
            &time,
            UtimensatFlags::NoFollowSymlink,
        );
    }
}

fn time_spec(ms: u64) -> TimeSpec {
    Duration::from_millis(ms).into()
}

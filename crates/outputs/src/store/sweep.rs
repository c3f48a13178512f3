//! Sweeping: list what is held, let [`retention`](crate::retention) decide, remove.
//!
//! ```text
//!  survey ──► the caller learns which runs are not settled ──► sweep: decide ──► lock ──► remove
//! ```
//!
//! The survey comes first: what it lists belongs to runs that were claimed before it, so that whoever
//! asks about them afterwards misses none. What is removed is locked before, and what a runner or a reader
//! with a lock holds is skipped. Every name is removed through the descriptor of its directory.

use super::dir;
use super::names::{Owner, Part, parse};
use super::{Store, check_session, parcel};
use crate::record::{MAX_RECORD_BYTES, Record, RecordError};
use crate::retention::{Item, Now, Reason, Retention, State, Verdict, decide};
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::{FileStat, Mode, SFlag, UtimensatFlags, fstat, fstatat, futimens, utimensat};
use nix::sys::time::TimeSpec;
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
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

/// What is held, as it was listed.
#[derive(Debug)]
pub struct Survey {
    sessions: Vec<String>,
    /// In the order of the sessions.
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    /// Index of its session.
    session: usize,
    owner: Owner,
    /// Which of [`Part::ALL`] are there, by bit.
    parts: u16,
    item: Item,
}

impl Survey {
    /// How many runs and parcels have files.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl Store {
    /// Lists what is held. Stops early, with what it has, once `stop` is set.
    pub fn survey(&self, stop: &AtomicBool) -> io::Result<Survey> {
        let mut survey = Survey {
            sessions: Vec::new(),
            entries: Vec::new(),
        };
        for session in names(&self.dir)? {
            if stop.load(Ordering::Relaxed) || check_session(&session).is_err() {
                continue;
            }
            if let Ok(dir) = open_ours(&self.dir, &session) {
                list(&dir, &session, &mut survey)?;
                survey.sessions.push(session);
            }
        }
        Ok(survey)
    }

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
            if let Ok(dir) = open_ours(&self.dir, session) {
                self.sweep_session(&dir, &of_session, now, stop, &mut swept);
                swept.sessions += u64::from(self.remove_session(&dir, session));
            }
        }
        swept
    }

    /// When the last sweep was, in milliseconds since 1970; when the store was made where there was none.
    pub fn last_sweep_ms(&self) -> io::Result<u64> {
        Ok(mtime_ms(&fstat(&self.lock)?))
    }

    /// Notes that a sweep is over.
    pub fn note_sweep(&self, now_ms: u64) -> io::Result<()> {
        let time = time_spec(now_ms);
        Ok(futimens(&self.lock, &time, &time)?)
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
        let names = || parts(entry).filter_map(|part| Some((part, part.file_name(entry.owner)?)));
        // Its other half may have come since: whoever is settled now had written it by then.
        let record = Part::Record.file_name(entry.owner).unwrap_or_default();
        if entry.parts & bit(Part::Record) == 0 && exists(dir, &record) {
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
        free && unlinkat(&self.dir, session, UnlinkatFlags::RemoveDir).is_ok()
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

/// Opens a session's directory that is ours; it is not created, and nothing about it is changed.
fn open_ours(root: &OwnedFd, session: &str) -> Result<OwnedFd, dir::DirError> {
    let dir = dir::open_dir(root, session)?;
    if fstat(&dir)?.st_uid == geteuid().as_raw() {
        Ok(dir)
    } else {
        Err(Errno::EPERM.into())
    }
}

fn names(dir: &OwnedFd) -> io::Result<Vec<String>> {
    let listed = dir::open(dir, ".", OFlag::O_DIRECTORY, Mode::empty())?;
    let mut names = Vec::new();
    for entry in Dir::from_fd(listed)?.iter() {
        // What is no text is none of our names.
        if let Ok(name) = entry?.file_name().to_str() {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// What is known of one owner while its directory is listed.
#[derive(Debug, Default)]
struct Found {
    parts: u16,
    bytes: u64,
    newest_ms: u64,
    record_ms: Option<u64>,
}

fn list(dir: &OwnedFd, session: &str, survey: &mut Survey) -> io::Result<()> {
    let mut found: BTreeMap<Owner, Found> = BTreeMap::new();
    for name in names(dir)? {
        let Some((owner, part)) = parse(&name) else {
            continue;
        };
        let stat = fstatat(dir, name.as_str(), AtFlags::AT_SYMLINK_NOFOLLOW);
        match stat {
            Ok(stat) if dir::is(stat.st_mode, SFlag::S_IFREG) => {
                found.entry(owner).or_default().add(part, &stat);
            }
            // Somebody else's: a link, a directory. Or gone by now.
            _ => {}
        }
    }
    let number = survey.sessions.len();
    let entries = found.into_iter().map(|(owner, found)| Entry {
        session: number,
        owner,
        parts: found.parts,
        item: found.item(dir, session, owner),
    });
    survey.entries.extend(entries);
    Ok(())
}

impl Found {
    fn add(&mut self, part: Part, stat: &FileStat) {
        let mtime_ms = mtime_ms(stat);
        self.parts |= bit(part);
        self.bytes += u64::try_from(stat.st_size).unwrap_or(0);
        self.newest_ms = self.newest_ms.max(mtime_ms);
        if part == Part::Record {
            self.record_ms = Some(mtime_ms);
        }
    }

    fn item(&self, dir: &OwnedFd, session: &str, owner: Owner) -> Item {
        let has_content = Part::ALL
            .into_iter()
            .any(|part| part.is_content() && self.parts & bit(part) != 0);
        let finished = match self.record_ms {
            Some(_) => finished_ms(dir, session, owner),
            None => Finished::Never,
        };
        let (state, finished_ms) = match finished {
            Finished::At(ms) if has_content => (State::Whole, Some(ms)),
            Finished::Unreadable if has_content => (State::Whole, None),
            _ => (State::Half, None),
        };
        Item {
            state,
            finished_ms,
            mtime_ms: self.record_ms.unwrap_or(self.newest_ms),
            bytes: self.bytes,
            settled: false,
        }
    }
}

/// What a record says about the end.
enum Finished {
    At(u64),
    /// A record of a later version, or one that cannot be read now: no reason to lose what it is about.
    Unreadable,
    /// It is no record.
    Never,
}

fn finished_ms(dir: &OwnedFd, session: &str, owner: Owner) -> Finished {
    let Some(name) = Part::Record.file_name(owner) else {
        return Finished::Never;
    };
    let mut json = Vec::new();
    let read = dir::open(dir, &name, OFlag::O_RDONLY, Mode::empty())
        .map_err(io::Error::from)
        .and_then(|fd| {
            let bounded = MAX_RECORD_BYTES as u64 + 1;
            File::from(fd).take(bounded).read_to_end(&mut json)
        });
    if read.is_err() {
        return Finished::Unreadable;
    }
    match owner {
        Owner::Run(run) => match Record::from_json(&json) {
            Ok(record) if record.run == run && record.session == session => {
                Finished::At(record.finished_ms)
            }
            Err(RecordError::Version { .. }) => Finished::Unreadable,
            _ => Finished::Never,
        },
        Owner::Parcel(hash) => match parcel::created_ms(&json, &hash) {
            Ok(ms) => Finished::At(ms),
            Err(RecordError::Version { .. }) => Finished::Unreadable,
            Err(_) => Finished::Never,
        },
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
    let counts = |part: &Part| *part == Part::Record || entry.parts & bit(Part::Record) == 0;
    for name in parts(entry)
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

fn parts(entry: &Entry) -> impl Iterator<Item = Part> {
    let there = entry.parts;
    Part::ALL
        .into_iter()
        .filter(move |part| there & bit(*part) != 0)
}

fn bit(part: Part) -> u16 {
    let position = Part::ALL.iter().position(|other| *other == part);
    position.map_or(0, |position| 1 << position)
}

fn mtime_ms(stat: &FileStat) -> u64 {
    let seconds = u64::try_from(stat.st_mtime).unwrap_or(0);
    let nanos = u64::try_from(stat.st_mtime_nsec).unwrap_or(0);
    seconds
        .saturating_mul(1000)
        .saturating_add(nanos / 1_000_000)
}

fn time_spec(ms: u64) -> TimeSpec {
    Duration::from_millis(ms).into()
}

//! Lists what is held, with what its records say.

use super::names::{Owner, Part, parse};
use super::{Store, check_session, dir, parcel};
use crate::record::{MAX_RECORD_BYTES, Record, RecordError};
use crate::retention::{Item, State};
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};
use nix::unistd::geteuid;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use uuid::Uuid;

/// What is held, as it was listed.
#[derive(Debug)]
pub struct Survey {
    pub(super) sessions: Vec<String>,
    /// In the order of the sessions.
    pub(super) entries: Vec<Entry>,
}

#[derive(Debug)]
pub(super) struct Entry {
    /// Index of its session.
    pub(super) session: usize,
    pub(super) owner: Owner,
    /// Which of [`Part::ALL`] are there, by bit.
    parts: u16,
    pub(super) item: Item,
}

impl Entry {
    /// Which files are there, in the order of their removal.
    pub(super) fn parts(&self) -> impl Iterator<Item = Part> {
        let there = self.parts;
        let all = Part::ALL.into_iter();
        all.filter(move |part| there & bit(*part) != 0)
    }

    /// Whether its record is there.
    pub(super) fn has_record(&self) -> bool {
        self.parts & bit(Part::Record) != 0
    }

    fn has_content(&self) -> bool {
        has_content(self.parts)
    }
}

impl Survey {
    /// How many runs and parcels have files.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Runs that have files of streams and no record, with their sessions. Where somebody was told of one
    /// (its record found no room), it is no orphan.
    pub fn without_record(&self) -> impl Iterator<Item = (&str, Uuid)> {
        self.entries.iter().filter_map(|entry| match entry.owner {
            Owner::Run(run) if entry.has_content() && !entry.has_record() => {
                Some((self.sessions.get(entry.session)?.as_str(), run))
            }
            _ => None,
        })
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
        for session in names(&self.root_dir().dir)? {
            if stop.load(Ordering::Relaxed) || check_session(&session).is_err() {
                continue;
            }
            if let Ok(dir) = open_ours(&self.root_dir().dir, &session) {
                list(&dir, &session, &mut survey)?;
                survey.sessions.push(session);
            }
        }
        Ok(survey)
    }
}

/// Opens a session's directory that is ours; it is not created, and nothing about it is changed.
pub(super) fn open_ours(root: &OwnedFd, session: &str) -> Result<OwnedFd, dir::DirError> {
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
        let has_content = has_content(self.parts);
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

fn has_content(parts: u16) -> bool {
    let all = Part::ALL.into_iter();
    all.filter(|part| part.is_content())
        .any(|part| parts & bit(part) != 0)
}

fn bit(part: Part) -> u16 {
    let position = Part::ALL.iter().position(|other| *other == part);
    position.map_or(0, |position| 1 << position)
}

pub(super) fn mtime_ms(stat: &FileStat) -> u64 {
    let seconds = u64::try_from(stat.st_mtime).unwrap_or(0);
    let nanos = u64::try_from(stat.st_mtime_nsec).unwrap_or(0);
    seconds
        .saturating_mul(1000)
        .saturating_add(nanos / 1_000_000)
}

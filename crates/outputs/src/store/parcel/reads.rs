//! Reads of parcels. Their name is the digest of their bytes, so that an id cannot mean anything else.

use super::super::dir::{self, DirError};
use super::super::lines::{self, Lines};
use super::super::names::{self, Owner, Part};
use super::super::read::{plain_parent, read_window, refused};
use super::super::{ReadError, Store, check_session};
use super::{ParcelRecord, name, record_of};
use crate::digest;
use crate::page::{Ask, Page, PageRequest, Source, Start};
use crate::record::MAX_RECORD_BYTES;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::{Mode, SFlag, fstat};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::Path;

/// One parcel of one session: what a read names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParcelKey {
    /// The session that holds it.
    pub session: String,
    /// The BLAKE3 hash of its bytes.
    pub hash: [u8; 32],
}

/// The id for reads: its digest.
impl fmt::Display for ParcelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", digest::PREFIX, names::hex(&self.hash))
    }
}

impl Store {
    /// One page of a parcel. One that begins at a line reads all before it: parcels are small.
    pub fn parcel_page(&self, key: &ParcelKey, ask: Ask) -> Result<Page, ReadError> {
        let output = key.to_string();
        let file = self.open_parcel(key)?;
        let total = file.metadata().map_err(ReadError::io(&output))?.len();
        if ask.verify {
            verify(&file, &output)?;
        }
        let source = Source {
            total,
            finished: true,
        };
        let start = offset_of(ask.start, &file, total).map_err(ReadError::io(&output))?;
        let request = PageRequest::at(start, ask.extent);
        let range = request.range(total);
        let window = read_window(&file, range.start, range.end).map_err(ReadError::io(&output))?;
        let mut page = request.page(&window, source);
        if !page.content.is_empty() {
            let before = lines::count_between(&file, 0, page.offset);
            page.line = Some(before.map_err(ReadError::io(&output))? + 1);
        }
        page.digest = Some(output);
        page.verified = ask.verify;
        Ok(page)
    }

    /// The parcel that an absolute path names, if it has a parcel's name; whether one is there, and whose it is, is
    /// judged as for any output.
    pub fn resolve_parcel(
        &self,
        session: &str,
        path: &Path,
    ) -> Result<Option<ParcelKey>, ReadError> {
        check_session(session)?;
        let shown = path.display().to_string();
        let Some((root, key)) = parse_path(path) else {
            return Ok(None);
        };
        if !self.is_root(root).map_err(ReadError::io(&shown))? {
            return Err(ReadError::NotAnOutput(shown));
        }
        if key.session != session {
            return Err(ReadError::AccessDenied(shown));
        }
        self.open_parcel(&key).map(|_| Some(key))
    }

    /// Opens a parcel: a regular file in its own session, with a record that says as many bytes.
    fn open_parcel(&self, key: &ParcelKey) -> Result<File, ReadError> {
        check_session(&key.session)?;
        let output = key.to_string();
        let dir = match dir::open_dir(&self.root_dir().dir, &key.session) {
            Ok(dir) => dir,
            Err(DirError::Io(Errno::ENOENT)) => return Err(self.no_parcel(key)),
            Err(error) => return Err(refused(&output, error)),
        };
        let Some(record) = read_record(&dir, key)? else {
            return Err(self.no_parcel(key));
        };
        let fd = match dir::open(&dir, &file_name(key), OFlag::O_RDONLY, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::ENOENT) => return Err(ReadError::Missing(output)),
            Err(errno) => return Err(ReadError::open(&output)(errno)),
        };
        let stat = fstat(&fd).map_err(ReadError::io(&output))?;
        if !dir::is(stat.st_mode, SFlag::S_IFREG) {
            return Err(ReadError::NotAnOutput(output));
        }
        match u64::try_from(stat.st_size).unwrap_or(0) {
            found if found == record.stored => Ok(File::from(fd)),
            found => Err(ReadError::Damaged {
                output,
                recorded: record.stored,
                found,
            }),
        }
    }

    /// Why the session has no such parcel: because another session has, or nobody.
    fn no_parcel(&self, key: &ParcelKey) -> ReadError {
        let output = key.to_string();
        match self.is_elsewhere(&key.session, &[file_name(key)]) {
            Ok(true) => ReadError::AccessDenied(output),
            Ok(false) => ReadError::NotFound(output),
            Err(errno) => ReadError::io(&output)(errno),
        }
    }
}

fn file_name(key: &ParcelKey) -> String {
    name(Part::Parcel, Owner::Parcel(key.hash))
}

fn read_record(dir: &OwnedFd, key: &ParcelKey) -> Result<Option<ParcelRecord>, ReadError> {
    let output = key.to_string();
    let name = name(Part::Record, Owner::Parcel(key.hash));
    let fd = match dir::open(dir, &name, OFlag::O_RDONLY, Mode::empty()) {
        Ok(fd) => fd,
        Err(Errno::ENOENT) => return Ok(None),
        Err(errno) => return Err(ReadError::open(&output)(errno)),
    };
    let mut json = Vec::new();
    let bounded = File::from(fd)
        .take(MAX_RECORD_BYTES as u64 + 1)
        .read_to_end(&mut json);
    bounded.map_err(ReadError::io(&output))?;
    let record = record_of(&json, &key.hash);
    record
        .map(Some)
        .map_err(|source| ReadError::Record { output, source })
}

fn verify(file: &File, output: &str) -> Result<(), ReadError> {
    let found = digest::of(file).map_err(ReadError::io(output))?;
    if found == output {
        return Ok(());
    }
    Err(ReadError::Altered {
        output: output.to_owned(),
        recorded: output.to_owned(),
        found,
    })
}

/// Where a page begins.
fn offset_of(start: Start, file: &File, total: u64) -> io::Result<u64> {
    if let Start::Offset(offset) = start {
        return Ok(offset);
    }
    let lines = Lines::new(file, lines::scan(file, total)?);
    let changed = || io::Error::other("the file changes while it is read");
    lines
        .find(start)?
        .map(|start| start.offset)
        .ok_or_else(changed)
}

/// Splits `<root>/<session>/<hash>.txt`.
fn parse_path(path: &Path) -> Option<(&Path, ParcelKey)> {
    let parent = plain_parent(path)?;
    let (Owner::Parcel(hash), Part::Parcel) = names::parse(path.file_name()?.to_str()?)? else {
        return None;
    };
    let session = parent.file_name()?.to_str()?.to_owned();
    check_session(&session).ok()?;
    Some((parent.parent()?, ParcelKey { session, hash }))
}

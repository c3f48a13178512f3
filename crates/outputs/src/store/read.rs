//! Reads: find the output, judge it by its record, read a bounded window of it.

use super::dir::{self, DirError};
use super::lines::{self, LineStart};
use super::{OutputKey, ReadError, Store, check_session, index_file};
use crate::limits::INDEX_ABOVE;
use crate::page::{Ask, Encoding, Extent, Page, PageCaps, PageRequest, Source, Start};
use crate::record::{MAX_RECORD_BYTES, Record, RecordError, Stream};
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::{Mode, SFlag, fstat, fstatat};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Component, Path};
use uuid::Uuid;

impl Store {
    /// One page of an output, from an offset on. `limit` is clamped to the page's caps; 0 is refused.
    pub fn read(
        &self,
        key: &OutputKey,
        offset: u64,
        limit: u64,
        encoding: Encoding,
    ) -> Result<Page, ReadError> {
        let extent = Extent::new(Some(limit), None, encoding, PageCaps::default())?;
        let ask = Ask {
            start: Start::Offset(offset),
            extent,
            verify: false,
        };
        self.page(key, ask)
    }

    /// One page of an output. A page that begins at a line may have to read the whole file once, to make its
    /// line index; one that begins at an offset never does. A line beyond the end gives an empty page at the end.
    /// An output that has no record yet is read as running: `next` at its present end is that offset.
    pub fn page(&self, key: &OutputKey, ask: Ask) -> Result<Page, ReadError> {
        let output = key.to_string();
        let (dir, file) = self.open_output(key)?;
        let judged = self.judge(key, &file)?;
        let source = judged.source;
        let (digest, verified) = if ask.verify {
            let verified = self.verify(key, &dir, &file, &judged)?;
            (Some(verified.digest), verified.compared)
        } else {
            (judged.digest, false)
        };
        let found = Found {
            dir: &dir,
            key,
            file: &file,
            source,
        };
        let start = found.start(ask.start).map_err(ReadError::io(&output))?;
        let request = PageRequest::at(start.offset, ask.extent);
        let range = request.range(source.total);
        let window = read_window(&file, range.start, range.end).map_err(ReadError::io(&output))?;
        if window.len() as u64 != range.end - range.start {
            let found = range.start + window.len() as u64;
            return Err(ReadError::Damaged {
                output,
                recorded: source.total,
                found,
            });
        }
        let mut page = request.page(&window, source);
        page.line = found
            .line_of(&page, &start)
            .map_err(ReadError::io(&output))?;
        page.digest = digest;
        page.verified = verified;
        Ok(page)
    }

    /// The record of a run, if it is written.
    pub fn record(&self, session: &str, run: Uuid) -> Result<Option<Record>, ReadError> {
        check_session(session)?;
        match dir::open_dir(&self.root_dir().dir, session) {
            Ok(dir) => read_record(&dir, session, run),
            Err(DirError::Io(Errno::ENOENT)) => Ok(None),
            Err(error) => Err(refused(&run.to_string(), error)),
        }
    }

    /// The output that an absolute path names, if it is one of `session`'s in this store.
    ///
    /// The name tells which output it is, and the directory that it really stands in (device and
    /// inode) that it is ours: links inside the store are not followed, and `..` is refused.
    pub fn resolve(&self, session: &str, path: &Path) -> Result<OutputKey, ReadError> {
        check_session(session)?;
        let shown = path.display().to_string();
        let not_ours = || ReadError::NotAnOutput(shown.clone());
        let (root, key) = parse_path(path).ok_or_else(not_ours)?;
        if !self.is_root(root).map_err(ReadError::io(&shown))? {
            return Err(not_ours());
        }
        if key.session != session {
            return Err(ReadError::AccessDenied(shown));
        }
        self.open_output(&key).map(|_| key)
    }

    pub(super) fn is_root(&self, path: &Path) -> io::Result<bool> {
        let ours = fstat(&self.root_dir().dir)?;
        match fs::metadata(path) {
            Ok(theirs) => Ok((theirs.dev(), theirs.ino()) == (ours.st_dev, ours.st_ino)),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// Opens the file of an output, a regular one, in its own session; and that session's directory.
    fn open_output(&self, key: &OutputKey) -> Result<(OwnedFd, File), ReadError> {
        check_session(&key.session)?;
        let output = key.to_string();
        let dir = match dir::open_dir(&self.root_dir().dir, &key.session) {
            Ok(dir) => dir,
            Err(DirError::Io(Errno::ENOENT)) => return Err(self.absent(key)),
            Err(error) => return Err(refused(&output, error)),
        };
        let fd = match dir::open(&dir, &key.file_name(), OFlag::O_RDONLY, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::ENOENT) => return Err(self.gone(key, &dir)),
            Err(errno) => return Err(ReadError::open(&output)(errno)),
        };
        let stat = fstat(&fd).map_err(ReadError::io(&output))?;
        if !dir::is(stat.st_mode, SFlag::S_IFREG) {
            return Err(ReadError::NotAnOutput(output));
        }
        Ok((dir, File::from(fd)))
    }

    /// What the record says about the file. The size is taken after the record: a file without one
    /// may still grow.
    fn judge(&self, key: &OutputKey, file: &File) -> Result<Judged, ReadError> {
        let output = key.to_string();
        let record = self.record(&key.session, key.run)?;
        let found = file.metadata().map_err(ReadError::io(&output))?.len();
        let judged = |finished, digest| Judged {
            source: Source {
                total: found,
                finished,
            },
            digest,
        };
        let Some(mut record) = record else {
            return Ok(judged(false, None));
        };
        match record.streams.remove(&key.stream) {
            None => Err(ReadError::NotFound(output)),
            Some(stream) if stream.stored != found => Err(ReadError::Damaged {
                output,
                recorded: stream.stored,
                found,
            }),
            Some(stream) => Ok(judged(true, stream.digest)),
        }
    }

    /// Why there is no file in the session's directory.
    fn gone(&self, key: &OutputKey, dir: &OwnedFd) -> ReadError {
        match read_record(dir, &key.session, key.run) {
            Ok(Some(record)) if record.streams.contains_key(&key.stream) => {
                ReadError::Missing(key.to_string())
            }
            Ok(Some(_)) => ReadError::NotFound(key.to_string()),
            Ok(None) => self.absent(key),
            Err(error) => error,
        }
    }

    /// Why the session knows nothing of the run: because another session does, or nobody.
    fn absent(&self, key: &OutputKey) -> ReadError {
        let output = key.to_string();
        let names = [key.file_name(), Record::file_name(key.run)];
        match self.is_elsewhere(&key.session, &names) {
            Ok(true) => ReadError::AccessDenied(output),
            Ok(false) => ReadError::NotFound(output),
            Err(errno) => ReadError::io(&output)(errno),
        }
    }

    /// Whether another session has a file of one of these names.
    pub(super) fn is_elsewhere(&self, ours: &str, names: &[String]) -> Result<bool, Errno> {
        let listed = dir::open(&self.root_dir().dir, ".", OFlag::O_DIRECTORY, Mode::empty())?;
        for entry in Dir::from_fd(listed)?.iter() {
            let entry = entry?;
            let session = entry.file_name().to_str().unwrap_or_default();
            if session == ours || check_session(session).is_err() {
                continue;
            }
            let Ok(dir) = dir::open_dir(&self.root_dir().dir, session) else {
                continue;
            };
            if names.iter().any(|name| exists(&dir, name)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// A file and what its record says about it.
pub(super) struct Judged {
    pub(super) source: Source,
    pub(super) digest: Option<String>,
}

/// A file whose lines somebody asks for.
struct Found<'a> {
    dir: &'a OwnedFd,
    key: &'a OutputKey,
    file: &'a File,
    source: Source,
}

/// Where a page begins, and in which line, where that had to be found out anyway.
struct PageStart {
    offset: u64,
    line: Option<u64>,
}

impl Found<'_> {
    fn start(&self, start: Start) -> io::Result<PageStart> {
        if let Start::Offset(offset) = start {
            return Ok(PageStart { offset, line: None });
        }
        let known = |LineStart { offset, line }| PageStart {
            offset,
            line: Some(line),
        };
        if let Some(lines) = index_file::at_hand(self.dir, self.key, self.file, self.source)?
            && let Some(found) = lines.find(start)?
        {
            return Ok(known(found));
        }
        let lines = index_file::made(self.dir, self.key, self.file, self.source)?;
        let changed = || io::Error::other("the file changes while it is read");
        lines.find(start)?.map(known).ok_or_else(changed)
    }

    /// The line that a page begins in, where that is known or cheap to find out.
    fn line_of(&self, page: &Page, start: &PageStart) -> io::Result<Option<u64>> {
        if page.content.is_empty() {
            return Ok(None);
        }
        if page.offset == start.offset && start.line.is_some() {
            return Ok(start.line);
        }
        if page.offset <= INDEX_ABOVE {
            return lines::count_between(self.file, 0, page.offset).map(|before| Some(before + 1));
        }
        let lines = index_file::at_hand(self.dir, self.key, self.file, self.source)?;
        let at = lines.map(|lines| lines.line_at(page.offset)).transpose()?;
        Ok(at.map(|at| at.line))
    }
}

fn exists(dir: &OwnedFd, name: &str) -> bool {
    fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW).is_ok()
}

/// A session's directory that cannot be used: by a link in its place, or by the file system.
pub(super) fn refused(output: &str, error: DirError) -> ReadError {
    match error {
        DirError::Unsafe(_) => ReadError::NotAnOutput(output.to_owned()),
        DirError::Io(errno) => ReadError::io(output)(errno),
    }
}

impl OutputKey {
    /// The output that a path names by its form, `…/<session>/<run>.<stream>.txt`, wherever that is.
    pub fn of_path(path: &Path) -> Option<Self> {
        parse_path(path).map(|(_, key)| key)
    }
}

/// Splits `<root>/<session>/<run>.<stream>.txt`.
fn parse_path(path: &Path) -> Option<(&Path, OutputKey)> {
    let parent = plain_parent(path)?;
    let (run, stream) = path
        .file_name()?
        .to_str()?
        .strip_suffix(".txt")?
        .split_once('.')?;
    let session = parent.file_name()?.to_str()?;
    let key = OutputKey {
        session: session.to_owned(),
        run: Uuid::parse_str(run).ok()?,
        stream: Stream::parse(stream)?,
    };
    let exact = path.file_name()?.to_str()? == key.file_name();
    (exact && check_session(session).is_ok()).then_some((parent.parent()?, key))
}

/// The directory of an absolute path without `..` in it.
pub(super) fn plain_parent(path: &Path) -> Option<&Path> {
    let plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
    let sound = path.is_absolute() && path.components().all(plain);
    path.parent().filter(|_| sound)
}

/// Reads a record of bounded length, which must be that of this run and session.
pub(super) fn read_record(
    dir: &OwnedFd,
    session: &str,
    run: Uuid,
) -> Result<Option<Record>, ReadError> {
    let output = run.to_string();
    let fd = match dir::open(dir, &Record::file_name(run), OFlag::O_RDONLY, Mode::empty()) {
        Ok(fd) => fd,
        Err(Errno::ENOENT) => return Ok(None),
        Err(errno) => return Err(ReadError::open(&output)(errno)),
    };
    let mut json = Vec::new();
    let bounded = File::from(fd)
        .take(MAX_RECORD_BYTES as u64 + 1)
        .read_to_end(&mut json);
    bounded.map_err(ReadError::io(&output))?;
    let unusable = |source| ReadError::Record {
        output: output.clone(),
        source,
    };
    let record = Record::from_json(&json).map_err(unusable)?;
    if record.run != run || record.session != session {
        let Record { run, session, .. } = record;
        return Err(unusable(RecordError::Misplaced { run, session }));
    }
    Ok(Some(record))
}

/// The bytes of a range, fewer if the file ends before.
pub(super) fn read_window(file: &File, from: u64, to: u64) -> io::Result<Vec<u8>> {
    // A page's range is bounded; on no platform of ours is it longer than an address.
    let mut window = vec![0; usize::try_from(to - from).unwrap_or(0)];
    let mut filled = 0;
    while filled < window.len() {
        match file.read_at(&mut window[filled..], from + filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    window.truncate(filled);
    Ok(window)
}

//! The `.outputs` directory. All access goes through directory descriptors and follows no link.
//!
//! ```text
//! <workspace>/.outputs/                   2750, group willcall-outputs where there is one, locked by the one store that has it open
//!     .lock
//!     <session>/                          2750
//!         <run>.<stream>.txt              0640, exact bytes; locked by its runner while it is written
//!         <run>.<stream>.idx          0640, where lines are in a large file; can be made again
//!         <run>.json                      0640, the record, written last
//!         <hash>.txt, <hash>.json         0640, a parcel and its record
//! ```
//!
//! An output without a record is a running one, or one whose record is not written yet.
//!
//! Records and parcels are on the disk when they can be seen. The bytes of an output are not waited for: a result
//! is not held up for gigabytes that only a loss of power could take. Whoever is told of the end has them synced
//! after it; and a file that the power took a part of is shorter than its record says, and is named damaged.

use crate::limits::MAX_SESSION_NAME;
use crate::record::{Record, Stream};
use nix::fcntl::OFlag;
use nix::sys::stat::{Mode, fchmod, fstat};
use nix::unistd::{Gid, Group};
use std::fmt;
use std::fs::{DirBuilder, File, TryLockError};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use uuid::Uuid;

mod dir;
mod error;
mod fault;
mod index_file;
mod left;
mod lines;
mod names;
mod output_file;
mod parcel;
mod read;
mod survey;
mod sweep;
mod verify;

pub use dir::Distrust;
pub use error::{ReadError, SessionError, StoreError};
pub use output_file::OutputFile;
pub use parcel::{Parcel, ParcelKey};
pub use survey::Survey;
pub use sweep::Swept;

/// Who may read what is held: operators, and the users that commands run as.
pub const GROUP: &str = "willcall-outputs";
/// The store's directory in its workspace.
const DIRECTORY: &str = ".outputs";
/// Its lock. No session has this name.
const LOCK: &str = ".lock";
/// Of a workspace that has to be made: others may pass through to the outputs, and list nothing.
const MODE_WORKSPACE: u32 = 0o711;

/// Whether a session may have this name: `[A-Za-z0-9_-]{1,64}`. It is a directory's name, too.
pub fn check_session(name: &str) -> Result<(), SessionError> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if (1..=MAX_SESSION_NAME).contains(&name.len()) && name.bytes().all(allowed) {
        return Ok(());
    }
    Err(SessionError(name.chars().take(MAX_SESSION_NAME).collect()))
}

/// One run's stream in one session: what a read names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputKey {
    /// The session that owns the run.
    pub session: String,
    /// The run.
    pub run: Uuid,
    /// The stream.
    pub stream: Stream,
}

impl OutputKey {
    /// The output that `session` names by `id`, `RUN/STREAM`; `None` if it is no such id.
    pub fn parse(session: &str, id: &str) -> Option<Self> {
        let (run, stream) = id.split_once('/')?;
        let key = Self {
            session: session.to_owned(),
            run: Uuid::parse_str(run).ok()?,
            stream: Stream::parse(stream)?,
        };
        // One output has one id: no braces, no capitals.
        (key.to_string() == id).then_some(key)
    }

    fn file_name(&self) -> String {
        self.stream.file_name(self.run)
    }

    fn index_file_name(&self) -> String {
        self.stream.index_file_name(self.run)
    }
}

/// The id for reads, `RUN/STREAM`.
impl fmt::Display for OutputKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.run, self.stream.as_str())
    }
}

/// An open store. Holds the lock of its directory for as long as it lives.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
    held: RwLock<Arc<Held>>,
    /// Whether somebody removed the directory, and it was made again.
    was_renewed: AtomicBool,
    group: Option<Gid>,
    parcels: Mutex<()>,
    records: Mutex<()>,
}

/// The directory of a store, open and locked.
#[derive(Debug)]
struct Held {
    dir: OwnedFd,
    /// Its modification time is that of the last sweep.
    lock: File,
}

impl Held {
    /// Opens (creating what is missing) the directory `root`, and locks it.
    fn open(root: &Path, group: Option<Gid>) -> Result<Self, StoreError> {
        let workspace = root.parent().unwrap_or(root);
        let parent = File::open(workspace).map_err(StoreError::io("open", workspace))?;
        let dir = dir::ensure_dir(&parent, DIRECTORY, group).map_err(StoreError::dir(root))?;
        let lock = lock(&dir, root)?;
        Ok(Self { dir, lock })
    }

    /// Whether somebody removed it.
    fn is_gone(&self) -> bool {
        fstat(&self.dir).is_ok_and(|stat| stat.st_nlink == 0)
    }
}

impl Store {
    /// Opens (creating what is missing) `<workspace>/.outputs` and takes its lock. Directories are of the group
    /// [`GROUP`] if there is one that we may give, and otherwise of our own; files have their directory's.
    pub fn open(workspace: &Path) -> Result<Self, StoreError> {
        // A host whose groups cannot be looked up has none of that name.
        let group = Group::from_name(GROUP).ok().flatten();
        Self::open_for(workspace, group.map(|group| group.gid))
    }

    /// As [`Store::open`], with directories of that group.
    fn open_for(workspace: &Path, group: Option<Gid>) -> Result<Self, StoreError> {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(MODE_WORKSPACE);
        builder
            .create(workspace)
            .map_err(StoreError::io("create", workspace))?;
        let workspace = workspace
            .canonicalize()
            .map_err(StoreError::io("find", workspace))?;
        let root = workspace.join(DIRECTORY);
        let held = Held::open(&root, group)?;
        Ok(Self {
            root,
            held: RwLock::new(Arc::new(held)),
            was_renewed: AtomicBool::new(false),
            group,
            parcels: Mutex::new(()),
            records: Mutex::new(()),
        })
    }

    /// The directory's absolute path.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The session's directory, created if missing, for a runner to create its files in. As long as the
    /// descriptor or a copy of it is open, wherever, no sweep takes the directory away. Where somebody removed the
    /// store's own directory, it is made again.
    pub fn session_dir(&self, session: &str) -> Result<OwnedFd, StoreError> {
        check_session(session)?;
        let open = |held: &Held| {
            dir::ensure_shared_dir(&held.dir, session, self.group)
                .map_err(StoreError::dir(&self.root.join(session)))
        };
        let held = self.root_dir();
        match open(&held) {
            Err(_) if held.is_gone() => open(&*self.renew()?),
            opened => opened,
        }
    }

    /// Whether somebody removed the store's directory with all that was held since this was last asked; it was made
    /// again.
    pub fn was_renewed(&self) -> bool {
        self.was_renewed.swap(false, Ordering::Relaxed)
    }

    /// The directory. It stays the same for whoever holds it, though another one may take its place.
    fn root_dir(&self) -> Arc<Held> {
        Arc::clone(&self.held.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes the directory again that somebody removed, unless another call has done so.
    fn renew(&self) -> Result<Arc<Held>, StoreError> {
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        if held.is_gone() {
            *held = Arc::new(Held::open(&self.root, self.group)?);
            self.was_renewed.store(true, Ordering::Relaxed);
        }
        Ok(Arc::clone(&held))
    }

    /// Where a stream's file is, or would be.
    pub fn path_of(&self, key: &OutputKey) -> PathBuf {
        self.root.join(&key.session).join(key.file_name())
    }

    /// Writes the record, last and whole: temporary file, fsync, rename, fsync of the directory.
    /// Writing the same record twice is no error.
    pub fn write_record(&self, record: &Record) -> Result<(), StoreError> {
        let run = record.run;
        let json = record
            .to_json()
            .map_err(|source| StoreError::Record { run, source })?;
        let dir = self.session_dir(&record.session)?;
        let name = Record::file_name(run);
        let path = self.root.join(&record.session).join(&name);
        let temporary = format!(".{name}.tmp");
        let _exclusive = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        // Only this store writes records: one that is there is from a crash in the middle.
        let _ = dir::unlink(&dir, &temporary);
        write_synced(&dir, &temporary, &json).map_err(StoreError::io("write", &path))?;
        dir::rename(&dir, &temporary, &name).map_err(StoreError::io("rename", &path))?;
        dir::sync(&dir).map_err(StoreError::io("sync the directory of", &path))
    }
}

/// Writes a new file whole and to the disk, or leaves none.
fn write_synced(dir: &OwnedFd, name: &str, bytes: &[u8]) -> io::Result<()> {
    let mut file = dir::create_new(dir, name, OFlag::O_WRONLY)?;
    let written = fchmod(&file, dir::MODE_FILE)
        .map_err(io::Error::from)
        .and_then(|()| dir::write_synced(&mut file, bytes));
    if written.is_err() {
        let _ = dir::unlink(dir, name);
    }
    written
}

/// Takes the lock of the store, which goes with the process.
fn lock(dir: &OwnedFd, root: &Path) -> Result<File, StoreError> {
    let path = root.join(LOCK);
    // Never written to: a file system that turns read-only finds no writer here, and can be opened, too.
    let flags = OFlag::O_RDONLY | OFlag::O_CREAT;
    let fd = dir::open(dir, LOCK, flags, Mode::S_IRUSR | Mode::S_IWUSR)
        .map_err(StoreError::io("open", &path))?;
    let file = File::from(fd);
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::InUse(root.to_owned())),
        Err(TryLockError::Error(source)) => Err(StoreError::io("lock", &path)(source)),
    }
}

#[cfg(test)]
mod tests;

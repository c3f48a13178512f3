//! Directories and files by descriptor: every step is one name in an open directory, and no step
//! follows a link.

use super::fault::step;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::{Mode, SFlag, fchmod, fstat, mkdirat};
use nix::unistd::{Gid, UnlinkatFlags, fchown, fsync, geteuid, unlinkat};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use thiserror::Error;

/// Of files: the owner writes, operators and runs (the group) read, nobody else does either.
pub(super) const MODE_FILE: Mode = Mode::from_bits_truncate(0o640);
/// Of directories: the same, and what is made inside gets their group.
const MODE_DIR: Mode = Mode::from_bits_truncate(0o2750);
/// Until owner and mode are set, nobody else gets at what was created.
const MODE_NEW_FILE: Mode = Mode::from_bits_truncate(0o600);
const MODE_NEW_DIR: Mode = Mode::from_bits_truncate(0o700);

/// A sweep removes an empty directory at most once an hour.
const MAX_TRIES: usize = 8;

/// Why a directory of the store cannot be used.
#[derive(Debug, Clone, Copy, Error)]
pub(super) enum DirError {
    /// It is not one that we may trust.
    #[error("{0}")]
    Unsafe(Distrust),
    /// The file system refused.
    #[error("the file system refused")]
    Io(#[from] Errno),
}

/// What is wrong with a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Distrust {
    /// A link stands in its place: it could lead anywhere.
    #[error("it is a symbolic link")]
    Link,
    /// Something that is no directory stands in its place.
    #[error("it is not a directory")]
    NotADirectory,
    /// Someone else could replace what is in it.
    #[error("it belongs to uid {owner}, not to uid {us}")]
    Owner {
        /// Its owner.
        owner: u32,
        /// The user that we are.
        us: u32,
    },
    /// Group or others could replace what is in it.
    #[error("group or others may write to it (mode {mode:o})")]
    Writable {
        /// Its permission bits.
        mode: u32,
    },
}

/// Opens one name in a directory, without following a link and without waiting (a FIFO in its place).
pub(super) fn open(dir: impl AsFd, name: &str, flags: OFlag, mode: Mode) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    openat(dir, name, flags, mode)
}

/// Creates a file that was not there, readable by nobody else yet.
pub(super) fn create_new(dir: impl AsFd, name: &str, flags: OFlag) -> Result<File, Errno> {
    step()?;
    let flags = flags | OFlag::O_CREAT | OFlag::O_EXCL;
    open(dir, name, flags, MODE_NEW_FILE).map(File::from)
}

/// Removes one name of a file.
pub(super) fn unlink(dir: impl AsFd, name: &str) -> Result<(), Errno> {
    step()?;
    unlinkat(dir, name, UnlinkatFlags::NoRemoveDir)
}

/// Removes an empty directory.
pub(super) fn remove_dir(parent: impl AsFd, name: &str) -> Result<(), Errno> {
    step()?;
    unlinkat(parent, name, UnlinkatFlags::RemoveDir)
}

/// Gives a file another name in its directory; what had that name is gone.
pub(super) fn rename(dir: impl AsFd, from: &str, to: &str) -> Result<(), Errno> {
    step()?;
    renameat(&dir, from, &dir, to)
}

/// Brings the names of a directory to the disk.
pub(super) fn sync(dir: impl AsFd) -> Result<(), Errno> {
    step()?;
    fsync(dir)
}

/// Writes all of `bytes`, and brings them to the disk.
pub(super) fn write_synced(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    if let Err(errno) = step() {
        // Whoever ends in a write has written a part.
        let _ = file.write_all(&bytes[..bytes.len() / 2]);
        return Err(errno.into());
    }
    file.write_all(bytes)?;
    step()?;
    file.sync_all()
}

/// Opens one directory in another. Names a link in its place.
pub(super) fn open_dir(dir: impl AsFd, name: &str) -> Result<OwnedFd, DirError> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
    match open(&dir, name, flags, Mode::empty()) {
        Ok(fd) => Ok(fd),
        Err(Errno::ENOTDIR | Errno::ELOOP) => Err(DirError::Unsafe(what_stands_at(dir, name))),
        Err(errno) => Err(errno.into()),
    }
}

fn what_stands_at(dir: impl AsFd, name: &str) -> Distrust {
    let path_only = open(dir, name, OFlag::O_PATH, Mode::empty()).and_then(fstat);
    match path_only {
        Ok(stat) if is(stat.st_mode, SFlag::S_IFLNK) => Distrust::Link,
        _ => Distrust::NotADirectory,
    }
}

/// Whether `mode` is of that type of file.
pub(super) fn is(mode: u32, kind: SFlag) -> bool {
    SFlag::from_bits_truncate(mode) & SFlag::S_IFMT == kind
}

/// Opens a directory that must be ours alone to write, creating it durably if it is missing.
/// Its mode is set again, whatever umask or hand made of it, and its group if `group` says which.
pub(super) fn ensure_dir(
    parent: impl AsFd,
    name: &str,
    group: Option<Gid>,
) -> Result<OwnedFd, DirError> {
    step()?;
    match mkdirat(&parent, name, MODE_NEW_DIR) {
        Ok(()) => sync(&parent)?,
        Err(Errno::EEXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    let dir = open_dir(parent, name)?;
    let (mode, owned_by) = trusted(&dir)?;
    let give = group.filter(|gid| gid.as_raw() != owned_by);
    match give.map(|gid| fchown(&dir, None, Some(gid))) {
        // A group that is not ours to give: what is made here is our own group's.
        None | Some(Err(Errno::EPERM)) if mode == MODE_DIR.bits() => {}
        None | Some(Ok(()) | Err(Errno::EPERM)) => fchmod(&dir, MODE_DIR)?,
        Some(Err(errno)) => return Err(errno.into()),
    }
    Ok(dir)
}

/// The same, locked (shared): whoever wants to remove the directory locks it alone.
pub(super) fn ensure_shared_dir(
    parent: impl AsFd,
    name: &str,
    group: Option<Gid>,
) -> Result<OwnedFd, DirError> {
    for _ in 0..MAX_TRIES {
        let dir = File::from(ensure_dir(&parent, name, group)?);
        dir.lock_shared()
            .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(0)))?;
        // Gone between the two: then there is a new one to be made.
        if fstat(&dir)?.st_nlink > 0 {
            return Ok(dir.into());
        }
    }
    Err(Errno::ENOENT.into())
}

/// The permission bits and the group of a directory that is ours and that nobody else may write to.
fn trusted(dir: &OwnedFd) -> Result<(u32, u32), DirError> {
    let stat = fstat(dir)?;
    let us = geteuid().as_raw();
    if stat.st_uid != us {
        return Err(DirError::Unsafe(Distrust::Owner {
            owner: stat.st_uid,
            us,
        }));
    }
    let mode = stat.st_mode & 0o7777;
    if mode & 0o022 != 0 {
        return Err(DirError::Unsafe(Distrust::Writable { mode }));
    }
    Ok((mode, stat.st_gid))
}

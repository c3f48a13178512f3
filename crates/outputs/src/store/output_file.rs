//! The file of one stream while it is written.

use super::StoreError;
use super::dir::{self, MODE_FILE};
use super::fault::step;
use crate::capture::Loss;
use crate::digest;
use crate::index::LineIndex;
use crate::limits::INDEX_ABOVE;
use crate::record::Stream;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::{FileStat, fchmod, fstat};
use nix::unistd::{Gid, Uid, fchown};
use std::fs::File;
use std::io::{self, IoSlice, Seek, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use uuid::Uuid;

/// The file of one stream while it is written. Used by runners, which hold no store, only the
/// descriptor of the session's directory. Locked (flock) for as long as it is open, so that
/// nobody sweeps it.
#[derive(Debug)]
pub struct OutputFile {
    file: File,
    dir: OwnedFd,
    name: String,
    index_name: String,
}

impl OutputFile {
    /// Creates `<run>.<stream>.txt` in `dir`: `O_EXCL`, `O_NOFOLLOW`, 0640, owned like the directory, locked (flock).
    ///
    /// Where the owner cannot be set, the file stays ours if the directory's owner can read it all
    /// the same; otherwise it is removed and the loss is [`Loss::Permission`].
    pub fn create(dir: BorrowedFd<'_>, run: Uuid, stream: Stream) -> Result<Self, Loss> {
        let name = stream.file_name(run);
        let file =
            dir::create_new(dir, &name, OFlag::O_RDWR | OFlag::O_APPEND).map_err(on_create)?;
        let dir = dir.try_clone_to_owned().map_err(|error| loss_of(&error))?;
        let index_name = stream.index_file_name(run);
        let created = Self {
            file,
            dir,
            name,
            index_name,
        };
        if let Err(loss) = created.hand_over() {
            // The cause is what matters; what cannot be removed either is an orphan for the sweep.
            let _ = created.remove();
            return Err(loss);
        }
        Ok(created)
    }

    /// Locks first and sets the mode last: before that nobody but its creator can open the file.
    fn hand_over(&self) -> Result<(), Loss> {
        self.file
            .try_lock()
            .map_err(|error| loss_of(&error.into()))?;
        give(&self.file, &self.dir)
    }

    /// Appends once; returns how much was taken (more than 0 unless both slices are empty), or why
    /// nothing was.
    pub fn append(&mut self, slices: [&[u8]; 2]) -> Result<usize, Loss> {
        if slices.iter().all(|slice| slice.is_empty()) {
            return Ok(0);
        }
        step().map_err(on_write)?;
        loop {
            match self.file.write_vectored(&slices.map(IoSlice::new)) {
                Ok(0) => return Err(Loss::IoError),
                Ok(taken) => return Ok(taken),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(loss_of(&error)),
            }
        }
    }

    /// Writes the line index of the file beside it, if the file is large enough to need one. A loss here costs
    /// nothing but the time to make it again.
    pub fn write_index(&self, index: &LineIndex) -> Result<(), Loss> {
        if index.size() <= INDEX_ABOVE {
            return Ok(());
        }
        let mut file =
            dir::create_new(&self.dir, &self.index_name, OFlag::O_WRONLY).map_err(on_create)?;
        let written = file
            .write_all(&index.to_bytes())
            .map_err(|error| loss_of(&error))
            .and_then(|()| give(&file, &self.dir));
        if written.is_err() {
            let _ = dir::unlink(&self.dir, &self.index_name);
        }
        written
    }

    /// Makes the digest of the file by reading it back; `None` above `largest` bytes.
    pub fn seal(mut self, largest: u64) -> Result<Option<String>, Loss> {
        let size = self.file.metadata().map_err(|error| loss_of(&error))?.len();
        if size > largest {
            return Ok(None);
        }
        self.file.rewind().map_err(|error| loss_of(&error))?;
        digest::of(&self.file)
            .map(Some)
            .map_err(|error| loss_of(&error))
    }

    /// Removes the file: nothing could be written to it, so it holds nothing for anybody.
    pub fn remove(self) -> Result<(), Loss> {
        dir::unlink(&self.dir, &self.name).map_err(on_write)
    }
}

/// Makes a new file that of its directory's owner, and readable by the group.
fn give(file: &File, dir: &OwnedFd) -> Result<(), Loss> {
    let of_dir = fstat(dir).map_err(on_write)?;
    let of_file = fstat(file).map_err(on_write)?;
    if (of_file.st_uid, of_file.st_gid) != (of_dir.st_uid, of_dir.st_gid) {
        chown_like(file, &of_dir)?;
    }
    fchmod(file, MODE_FILE).map_err(on_write)
}

fn chown_like(file: &File, dir: &FileStat) -> Result<(), Loss> {
    let (uid, gid) = (Uid::from_raw(dir.st_uid), Gid::from_raw(dir.st_gid));
    // Without privileges the group may still be one of ours to give.
    let owned = fchown(file, Some(uid), Some(gid)).or_else(|_| fchown(file, None, Some(gid)));
    let of_file = fstat(file).map_err(on_write)?;
    let readable = uid.is_root() || of_file.st_uid == dir.st_uid || of_file.st_gid == dir.st_gid;
    match owned {
        Ok(()) => Ok(()),
        Err(_) if readable => Ok(()),
        Err(errno) => Err(on_write(errno)),
    }
}

/// ENOSPC means something else here: a file without bytes needs an inode and an entry, no space.
fn on_create(errno: Errno) -> Loss {
    match errno {
        Errno::ENOSPC => Loss::NoInodes,
        Errno::ENOENT => Loss::NoDirectory,
        Errno::EEXIST => Loss::NameTaken,
        other => on_write(other),
    }
}

fn on_write(errno: Errno) -> Loss {
    match errno {
        Errno::ENOSPC => Loss::DiskFull,
        Errno::EDQUOT => Loss::Quota,
        Errno::EROFS => Loss::ReadOnly,
        Errno::EACCES | Errno::EPERM => Loss::Permission,
        _ => Loss::IoError,
    }
}

impl StoreError {
    /// What a receipt says of bytes that could not be kept because of this.
    pub fn loss(&self) -> Loss {
        match self {
            Self::Io { source, .. } => loss_of(source),
            Self::Unsafe { .. } => Loss::UnsafeDirectory,
            Self::Session(_) => Loss::NoDirectory,
            _ => Loss::IoError,
        }
    }
}

fn loss_of(error: &io::Error) -> Loss {
    on_write(Errno::from_raw(error.raw_os_error().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(errno: Errno, create: Loss, write: Loss) {
        assert_eq!(
            (on_create(errno), on_write(errno)),
            (create, write),
            "{errno}"
        );
    }

    /// The device that is always full.
    #[test]
    fn a_full_disk_is_told_from_the_write() {
        let file = File::options()
            .write(true)
            .open("/dev/full")
            .expect("every Linux has it");
        let dir = File::open("/dev").expect("every Linux has it").into();
        let mut full = OutputFile {
            file,
            dir,
            name: "full".into(),
            index_name: "full".into(),
        };
        assert_eq!(full.append([b"a", b"b"]), Err(Loss::DiskFull));
        assert_eq!(full.append([b"", b""]), Ok(0));
    }

    #[test]
    fn every_errno_has_its_cause() {
        check(Errno::ENOSPC, Loss::NoInodes, Loss::DiskFull);
        check(Errno::EDQUOT, Loss::Quota, Loss::Quota);
        check(Errno::EROFS, Loss::ReadOnly, Loss::ReadOnly);
        check(Errno::EACCES, Loss::Permission, Loss::Permission);
        check(Errno::EPERM, Loss::Permission, Loss::Permission);
        check(Errno::ENOENT, Loss::NoDirectory, Loss::IoError);
        check(Errno::EEXIST, Loss::NameTaken, Loss::IoError);
        check(Errno::EIO, Loss::IoError, Loss::IoError);
    }
}

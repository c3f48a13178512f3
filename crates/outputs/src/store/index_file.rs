//! `<run>.<stream>.idx`: the line index of a file, beside it. Never synced and never trusted: what a crash left of one
//! is found out by its checksum, and made again.

use super::OutputKey;
use super::dir::{self, MODE_FILE};
use super::lines::{self, Lines};
use crate::index::{IndexError, LineIndex, MAX_LEN};
use crate::limits::INDEX_ABOVE;
use crate::page::Source;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::{Mode, fchmod};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

/// The index of a file of `size` bytes, if a sound one stands beside it.
fn read(dir: &OwnedFd, name: &str, size: u64) -> io::Result<Result<LineIndex, IndexError>> {
    let file = File::from(dir::open(dir, name, OFlag::O_RDONLY, Mode::empty())?);
    let mut bytes = Vec::with_capacity(MAX_LEN + 1);
    file.take(MAX_LEN as u64 + 1).read_to_end(&mut bytes)?;
    Ok(LineIndex::from_bytes(&bytes, size))
}

/// Puts an index in the place of what may be there. Under its own name from the start: who reads one that is
/// half written makes it again, and two who write it write the same.
fn replace(dir: &OwnedFd, name: &str, index: &LineIndex) -> io::Result<()> {
    match dir::unlink(dir, name) {
        Ok(()) | Err(Errno::ENOENT) => {}
        Err(errno) => return Err(errno.into()),
    }
    let mut file = dir::create_new(dir, name, OFlag::O_WRONLY)?;
    file.write_all(&index.to_bytes())?;
    Ok(fchmod(&file, MODE_FILE)?)
}

/// The lines of an output, if that is cheap: small, or with an index that is sound.
pub(super) fn at_hand<'a>(
    dir: &OwnedFd,
    key: &OutputKey,
    file: &'a File,
    source: Source,
) -> io::Result<Option<Lines<'a>>> {
    if source.total <= INDEX_ABOVE {
        return lines::scan(file, source.total).map(|index| Some(Lines::new(file, index)));
    }
    if !source.finished {
        return Ok(None);
    }
    match read(dir, &key.index_file_name(), source.total) {
        Ok(Ok(index)) => Ok(Some(Lines::new(file, index))),
        // Missing, damaged, or not ours to read: it can be made again.
        Ok(Err(_)) | Err(_) => Ok(None),
    }
}

/// The lines of an output, by reading all of it. Their index is kept if the output has ended; if it cannot be,
/// the next one who asks makes it again.
pub(super) fn made<'a>(
    dir: &OwnedFd,
    key: &OutputKey,
    file: &'a File,
    source: Source,
) -> io::Result<Lines<'a>> {
    let lines = Lines::new(file, lines::scan(file, source.total)?);
    if source.finished && source.total > INDEX_ABOVE {
        let _ = replace(dir, &key.index_file_name(), lines.index());
    }
    Ok(lines)
}

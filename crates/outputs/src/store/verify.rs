//! Verifying a file by its digest.
//!
//! A file that was too large for a digest when it was sealed gets one at the first read that asks for it, and its
//! record remembers that. Such a digest says nothing about the time before: only later reads are verified by it.

use super::read::{Judged, read_record};
use super::{OutputKey, ReadError, Store, dir, write_synced};
use crate::digest;
use crate::record::Record;
use nix::fcntl::AtFlags;
use nix::sys::stat::{UtimensatFlags, fstat, fstatat, utimensat};
use nix::sys::time::TimeSpec;
use std::fs::File;
use std::io::{self, Seek};
use std::os::fd::OwnedFd;
use std::sync::PoisonError;

/// What a verification came to, where nothing is wrong.
pub(super) struct Verified {
    /// Of the file.
    pub(super) digest: String,
    /// Whether there was one to compare it with.
    pub(super) compared: bool,
}

impl Store {
    /// Reads all of the file and compares it with its record.
    pub(super) fn verify(
        &self,
        key: &OutputKey,
        dir: &OwnedFd,
        file: &File,
        judged: &Judged,
    ) -> Result<Verified, ReadError> {
        let output = key.to_string();
        if !judged.source.finished {
            return Err(ReadError::Unfinished(output));
        }
        let found = digest_of(file).map_err(ReadError::io(&output))?;
        match &judged.digest {
            Some(recorded) if *recorded != found => Err(ReadError::Altered {
                output,
                recorded: recorded.clone(),
                found,
            }),
            Some(_) => Ok(Verified {
                digest: found,
                compared: true,
            }),
            None => {
                // What cannot be remembered is made again by the next one who asks.
                let _ = self.remember(key, dir, file, &found);
                Ok(Verified {
                    digest: found,
                    compared: false,
                })
            }
        }
    }

    /// Writes a digest into the record, which stays as old as it is. The lock keeps sweeps away: a record must not
    /// come back after its files are gone.
    fn remember(
        &self,
        key: &OutputKey,
        dir: &OwnedFd,
        file: &File,
        digest: &str,
    ) -> io::Result<()> {
        file.try_lock_shared()?;
        let name = Record::file_name(key.run);
        let temporary = format!(".{name}.tmp");
        let _exclusive = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        let is_held = fstat(file)?.st_nlink > 0;
        let record = read_record(dir, &key.session, key.run).map_err(io::Error::other)?;
        let Some(mut record) = record.filter(|_| is_held) else {
            return Ok(());
        };
        let Some(stream) = record.streams.get_mut(&key.stream) else {
            return Ok(());
        };
        stream.digest.get_or_insert_with(|| digest.to_owned());
        let json = record.to_json().map_err(io::Error::other)?;
        let age = fstatat(dir, name.as_str(), AtFlags::AT_SYMLINK_NOFOLLOW)?;
        let age = TimeSpec::new(age.st_mtime, age.st_mtime_nsec);
        let _ = dir::unlink(dir, &temporary);
        write_synced(dir, &temporary, &json)?;
        let flags = UtimensatFlags::NoFollowSymlink;
        let placed = utimensat(dir, temporary.as_str(), &age, &age, flags)
            .and_then(|()| dir::rename(dir, &temporary, &name));
        if placed.is_err() {
            let _ = dir::unlink(dir, &temporary);
        }
        Ok(placed?)
    }
}

fn digest_of(mut file: &File) -> io::Result<String> {
    file.rewind()?;
    digest::of(file)
}

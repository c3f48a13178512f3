//! Parcels: texts that are held under the hash of their bytes. The same bytes of a session are one file,
//! however often they are stored.

use super::dir;
use super::names::{Hash, Owner, Part};
use super::{Store, StoreError, write_synced};
use crate::digest;
use crate::record::{MAX_RECORD_BYTES, RECORD_VERSION, RecordError};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{MutexGuard, PoisonError};

mod reads;

pub use reads::ParcelKey;

/// Where a parcel is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parcel {
    /// Its file: `<session>/<hash>.txt`.
    pub path: PathBuf,
    /// `blake3:` and hex of its bytes.
    pub digest: String,
}

/// `<hash>.json`, written last.
#[derive(Debug, Serialize, Deserialize)]
struct ParcelRecord {
    version: u32,
    digest: String,
    session: String,
    stored: u64,
    created_ms: u64,
}

impl Store {
    /// Holds `bytes` in a session: whole and on the disk, or not at all. Bytes that are held already are
    /// found again under the same path, and held as long as if they were new.
    pub fn store_parcel(
        &self,
        session: &str,
        bytes: &[u8],
        now_ms: u64,
    ) -> Result<Parcel, StoreError> {
        let hash = *blake3::hash(bytes).as_bytes();
        let digest = format!("{}{}", digest::PREFIX, super::names::hex(&hash));
        let dir = self.session_dir(session)?;
        let owner = Owner::Parcel(hash);
        let path = self.root.join(session).join(name(Part::Parcel, owner));
        let record = ParcelRecord {
            version: RECORD_VERSION,
            digest: digest.clone(),
            session: session.to_owned(),
            stored: bytes.len() as u64,
            created_ms: now_ms,
        };
        let _exclusive = exclusive(self);
        if !is_held(&dir, owner, bytes).map_err(StoreError::io("look for", &path))? {
            place(
                &dir,
                (Part::ParcelInMaking, Part::Parcel),
                owner,
                bytes,
                &path,
            )?;
        }
        // Anew each time: what was stored again is as young as this.
        let json = record.to_json(&path)?;
        place(
            &dir,
            (Part::RecordInMaking, Part::Record),
            owner,
            &json,
            &path,
        )?;
        dir::sync(&dir).map_err(StoreError::io("sync the directory of", &path))?;
        Ok(Parcel { path, digest })
    }
}

/// Nobody stores or removes parcels meanwhile: what one finds there, the other must not take away.
pub(super) fn exclusive(store: &Store) -> MutexGuard<'_, ()> {
    store.parcels.lock().unwrap_or_else(PoisonError::into_inner)
}

/// When the parcel of `hash` was stored last, by its record.
pub(super) fn created_ms(json: &[u8], hash: &Hash) -> Result<u64, RecordError> {
    record_of(json, hash).map(|record| record.created_ms)
}

/// The record of the parcel of `hash`.
fn record_of(json: &[u8], hash: &Hash) -> Result<ParcelRecord, RecordError> {
    #[derive(Deserialize)]
    struct Versioned {
        version: u64,
    }
    if json.len() > MAX_RECORD_BYTES {
        return Err(RecordError::TooLong);
    }
    let Versioned { version } = serde_json::from_slice(json)?;
    if version != u64::from(RECORD_VERSION) {
        return Err(RecordError::Version { found: version });
    }
    let record: ParcelRecord = serde_json::from_slice(json)?;
    let digest = format!("{}{}", digest::PREFIX, super::names::hex(hash));
    if record.digest == digest {
        Ok(record)
    } else {
        Err(RecordError::OtherParcel(record.digest))
    }
}

impl ParcelRecord {
    fn to_json(&self, path: &Path) -> Result<Vec<u8>, StoreError> {
        let json = serde_json::to_vec_pretty(self).map_err(RecordError::from);
        let mut json = json.map_err(|source| StoreError::ParcelRecord {
            path: path.to_owned(),
            source,
        })?;
        json.push(b'\n');
        Ok(json)
    }
}

/// Whether the whole parcel is there. What differs was spoilt by the disk, or by hand, and is made anew.
fn is_held(dir: &OwnedFd, owner: Owner, bytes: &[u8]) -> io::Result<bool> {
    let fd = match dir::open(
        dir,
        &name(Part::Parcel, owner),
        OFlag::O_RDONLY,
        Mode::empty(),
    ) {
        Ok(fd) => fd,
        // A link in its place is replaced, never followed.
        Err(Errno::ENOENT | Errno::ELOOP) => return Ok(false),
        Err(errno) => return Err(errno.into()),
    };
    let file = File::from(fd);
    if !file.metadata()?.is_file() {
        return Ok(false);
    }
    let mut held = Vec::with_capacity(bytes.len());
    file.take(bytes.len() as u64 + 1).read_to_end(&mut held)?;
    Ok(held == bytes)
}

/// Writes a file whole under another name, and gives it its own.
fn place(
    dir: &OwnedFd,
    (making, made): (Part, Part),
    owner: Owner,
    bytes: &[u8],
    path: &Path,
) -> Result<(), StoreError> {
    let (temporary, name) = (name(making, owner), name(made, owner));
    // Left by a crash: nobody else makes one now.
    let _ = dir::unlink(dir, &temporary);
    write_synced(dir, &temporary, bytes).map_err(StoreError::io("write", path))?;
    let placed = dir::rename(dir, &temporary, &name);
    if placed.is_err() {
        let _ = dir::unlink(dir, &temporary);
    }
    placed.map_err(StoreError::io("rename", path))
}

/// Every part that is asked for here is one that parcels have.
fn name(part: Part, owner: Owner) -> String {
    part.file_name(owner).unwrap_or_default()
}

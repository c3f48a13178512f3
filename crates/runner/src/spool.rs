//! The spool file of a run: what is left of it when nobody is there to collect its result.

use crate::wire::SPOOL_GO;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

/// The open, locked spool. The lock lasts as long as this descriptor: no child gets a copy.
#[derive(Debug)]
pub(crate) struct Spool {
    file: File,
}

impl Spool {
    /// Takes over the descriptor and its lock.
    pub(crate) fn new(fd: OwnedFd) -> Self {
        Self { file: fd.into() }
    }

    /// Writes down that the command is about to be executed.
    pub(crate) fn write_go(&self) -> io::Result<()> {
        self.file.write_all_at(&[SPOOL_GO], 0)
    }

    /// Writes the framed result and syncs it; after a failure the spool holds none of it.
    pub(crate) fn write_result(&self, frame: &[u8]) -> io::Result<()> {
        let written = self
            .file
            .write_all_at(frame, 1)
            .and_then(|()| self.file.sync_data());
        if written.is_err() {
            self.file.set_len(1)?;
        }
        written
    }
}

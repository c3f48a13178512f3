//! The core of capturing one stream: bytes go in; head and tail windows, exact counts, and
//! what has to be written to a file come out. Memory is O(limits), whatever the stream's size.

use crate::limits::Limits;
use serde::{Deserialize, Serialize};

/// What happens to bytes beyond the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// A foreground run: everything is kept, up to `max_kept` bytes a stream; then drained and counted.
    Keep {
        /// Bytes that the file may have.
        max_kept: u64,
    },
}

/// Why bytes that had to be kept were not. The names are part of the receipt's JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// ENOSPC on a write.
    DiskFull,
    /// ENOSPC when the file was created: no inode or no directory block.
    NoInodes,
    /// EDQUOT.
    Quota,
    /// EROFS.
    ReadOnly,
    /// EACCES or EPERM.
    Permission,
    /// EIO or any other error of the file system.
    IoError,
    /// There was no directory to write to.
    NoDirectory,
    /// The policy's cap was reached.
    RunCap,
}

/// What stands in the file of a stream when it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kept")]
pub enum Kept {
    /// The stream passed straight through; there is no file.
    NotNeeded,
    /// There is a file with the first `stored` bytes of the stream.
    File {
        /// Bytes in the file.
        stored: u64,
        /// `blake3:` and hex of the file, where it was made at the seal.
        digest: Option<String>,
        /// Why the file is shorter than the stream, if it is.
        loss: Option<Loss>,
    },
    /// A file was needed and nothing could be kept.
    Nothing {
        /// Why.
        loss: Loss,
    },
}

/// A whole stream, as the capture saw it: all that a preview needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Captured {
    /// Bytes read from the stream.
    pub total_size: u64,
    /// LF bytes in the stream.
    pub newlines: u64,
    /// The first bytes of the stream: all of it where the stream fits the window.
    #[serde(skip)]
    pub head: Vec<u8>,
    /// The last bytes of the stream; may overlap `head`; empty where `head` is the whole stream.
    #[serde(skip)]
    pub tail: Vec<u8>,
    /// What stands in the file.
    #[serde(flatten)]
    pub kept: Kept,
}

/// Captures one stream. The shell reads into [`Capture::space`], says how much with
/// [`Capture::commit`], writes what [`Capture::pending`] holds, and repeats.
#[derive(Debug)]
pub struct Capture {
    _limits: Limits,
}

impl Capture {
    /// A capture of an empty stream. Allocates nothing yet.
    pub fn new(limits: Limits, policy: Policy) -> Self {
        let _ = policy;
        Self { _limits: limits }
    }

    /// Contiguous free space to read into: never empty, at most [`crate::limits::READ_CHUNK`].
    /// Anything that was pending must have been written (or given up) before.
    pub fn space(&mut self) -> &mut [u8] {
        todo!()
    }

    /// The first `n` bytes of [`Capture::space`] now hold the next bytes of the stream.
    pub fn commit(&mut self, n: usize) {
        let _ = n;
        todo!()
    }

    /// Whether the stream has to be in a file from now on. Becomes true at the byte that passes a limit.
    pub fn must_keep(&self) -> bool {
        todo!()
    }

    /// What has to be appended to the file now: two slices, in order, either may be empty.
    /// Empty while nothing has to be kept, and after a loss or the cap.
    pub fn pending(&self) -> [&[u8]; 2] {
        todo!()
    }

    /// `n` bytes of [`Capture::pending`] are in the file.
    pub fn wrote(&mut self, n: usize) {
        let _ = n;
        todo!()
    }

    /// The file cannot take more: nothing is pending from now on; further bytes count as dropped.
    pub fn lost(&mut self, loss: Loss) {
        let _ = loss;
        todo!()
    }

    /// The stream is at its end. Small output whose text is not exactly its bytes (invalid
    /// UTF-8, NUL) has to be kept, too: afterwards [`Capture::pending`] may hold the whole of it.
    pub fn end(&mut self) {
        todo!()
    }

    /// Bytes read so far.
    pub fn total_size(&self) -> u64 {
        todo!()
    }

    /// Bytes in the file so far.
    pub fn stored(&self) -> u64 {
        todo!()
    }

    /// The finished capture. `digest` is that of the file, where there is one and it was made.
    pub fn finish(self, digest: Option<String>) -> Captured {
        let _ = digest;
        todo!()
    }
}

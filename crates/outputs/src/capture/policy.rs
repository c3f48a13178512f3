//! What happens to bytes beyond the limits, and the names of what went wrong with keeping them.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What happens to bytes beyond the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// A foreground run: everything is kept, up to `max_kept` bytes a stream; then drained and counted.
    Keep {
        /// Bytes that the file may have.
        max_kept: u64,
    },
    /// A job: every byte is written as it is read, from the first one on, so that the file can be read at
    /// any moment. Past `cap` bytes the run has to be ended: see [`super::Capture::is_over_cap`].
    Background {
        /// Bytes that the file may have.
        cap: u64,
    },
    /// A host that keeps nothing: what does not leave as text is dropped as it is read, and counted.
    Discard,
    /// Half of it is worth nothing: past a limit nothing of the stream leaves, and nothing is kept.
    Reject,
}

impl Policy {
    /// What happens to a byte that has to be kept, as long as the file system takes it.
    pub(super) fn rule(self) -> Rule {
        match self {
            // The command goes on; what comes after the cap is drained and counted.
            Self::Keep { max_kept } => Rule {
                from_start: false,
                max_kept,
                beyond: Loss::RunCap,
            },
            // The file is there before anybody knows how long it will be.
            Self::Background { cap } => Rule {
                from_start: true,
                max_kept: cap,
                beyond: Loss::OutputCap,
            },
            // No file, ever.
            Self::Discard | Self::Reject => Rule {
                from_start: false,
                max_kept: 0,
                beyond: Loss::Discarded,
            },
        }
    }
}

/// A policy in numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rule {
    /// Whether the first byte has to be in the file already.
    pub(super) from_start: bool,
    /// Bytes that the file may have.
    pub(super) max_kept: u64,
    /// Why the file lacks what comes after them.
    pub(super) beyond: Loss,
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
    /// The file system did not answer in time.
    TooSlow,
    /// There was no directory to write to.
    NoDirectory,
    /// What stands in the directory's place is none, or one that others could put something into.
    UnsafeDirectory,
    /// Something else has the file's name.
    NameTaken,
    /// Whoever wrote the file ended before the stream did; what came after it nobody read.
    RunnerLost,
    /// The policy's cap was reached.
    RunCap,
    /// The job's cap was reached, and the run was ended for it.
    OutputCap,
    /// The policy keeps nothing.
    Discarded,
    /// The stream is longer than a limit, and the policy refuses such a one whole.
    Rejected,
}

/// In words, for the one who reads a preview: at most 40 bytes.
impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DiskFull => "the disk is full",
            Self::NoInodes => "the file system has no inodes left",
            Self::Quota => "the disk quota is used up",
            Self::ReadOnly => "the file system is read-only",
            Self::Permission => "no permission to write the file",
            Self::IoError => "the file system failed",
            Self::TooSlow => "the file system did not answer",
            Self::RunnerLost => "its runner was lost",
            Self::NoDirectory => "there is no directory for outputs",
            Self::UnsafeDirectory => "the directory for outputs is not safe",
            Self::NameTaken => "something stands in the file's place",
            Self::RunCap => "the cap on kept output was reached",
            Self::OutputCap => "the cap on the job's output was reached",
            Self::Discarded => "output is not kept here",
            Self::Rejected => "it is longer than what is taken whole",
        })
    }
}

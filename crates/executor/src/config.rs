//! What an administrator can decide, read once from a TOML file into values that are sound by themselves and with each
//! other. Nothing else of the process looks at the file; what it does not say has its default.
//!
//! | module | what | I/O |
//! |---|---|---|
//! | this | the values, and where they are read from | files |
//! | `keys` | every key: name, bounds, default | none |
//! | `file` | text in; values, or the line at which something is wrong | none |

mod file;
mod keys;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use thiserror::Error;
use willcall_outputs::limits::{
    BACKGROUND_CAP, DEFAULT_TURN_BUDGET, DIGEST_AT_SEAL, LimitRange, MAX_RUN_BYTES,
};
use willcall_outputs::page::PageCaps;
use willcall_outputs::retention::Retention;

/// Where the file is if nobody says where. There may be none.
pub const DEFAULT_PATH: &str = "/etc/willcall/config.toml";
/// The longest file that is read, in bytes: every key with a comment takes a tenth of that.
pub const MAX_FILE: u64 = 64 * 1024;

/// The configuration of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Config {
    /// Section `[outputs]`.
    pub outputs: Outputs,
}

/// What may leave, what is kept, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outputs {
    /// Limits of previews.
    pub previews: LimitRange,
    /// What a page may carry.
    pub pages: PageCaps,
    /// Bytes that a stream of a foreground run may keep.
    pub max_run_bytes: u64,
    /// Bytes that a stream of a background job may write.
    pub background_cap: u64,
    /// Bytes up to which a file gets its digest when it is sealed.
    pub digest_at_seal: u64,
    /// How long, how much and how many are held.
    pub retention: Retention,
    /// Bytes of text that all results of one turn may carry.
    pub turn_budget: u64,
}

impl Default for Outputs {
    fn default() -> Self {
        Self {
            previews: LimitRange::default(),
            pages: PageCaps::default(),
            max_run_bytes: MAX_RUN_BYTES,
            background_cap: BACKGROUND_CAP,
            digest_at_seal: DIGEST_AT_SEAL,
            retention: Retention::default(),
            turn_budget: DEFAULT_TURN_BUDGET,
        }
    }
}

/// Why a configuration cannot be used. Nothing is guessed then: the process does not start.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file is longer than any configuration.
    #[error("the configuration {} is longer than {MAX_FILE} bytes", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// Something in it is wrong.
    #[error("{}, line {line}: {what}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong, and what would be right.
        what: String,
    },
}

impl Config {
    /// What the file says: the one that is named, which has to be there, or the one at [`DEFAULT_PATH`], if it is.
    pub fn load(named: Option<&Path>) -> Result<Self, ConfigError> {
        let path = named.unwrap_or_else(|| Path::new(DEFAULT_PATH));
        match read(path) {
            Ok(text) => Self::parse(path, &text),
            Err(ConfigError::Read { source, .. })
                if named.is_none() && source.kind() == io::ErrorKind::NotFound =>
            {
                Ok(Self::default())
            }
            Err(error) => Err(error),
        }
    }

    /// What the text of a file says; `path` is named where it is wrong.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        file::parse(text).map_err(|fault| ConfigError::Wrong {
            path: path.to_owned(),
            line: 1 + text
                .get(..fault.at)
                .map_or(0, |before| before.matches('\n').count()),
            what: fault.what,
        })
    }
}

fn read(path: &Path) -> Result<String, ConfigError> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(MAX_FILE + 1).read_to_string(&mut text));
    match read {
        Ok(len) if len as u64 > MAX_FILE => Err(ConfigError::TooLong {
            path: path.to_owned(),
        }),
        Ok(_) => Ok(text),
        Err(source) => Err(ConfigError::Read {
            path: path.to_owned(),
            source,
        }),
    }
}

#[cfg(test)]
mod tests;

//! Every bound of this crate, each with its why.

use serde::{Deserialize, Serialize};
use std::time::Duration;
use thiserror::Error;

/// Default of a preview's bytes: about 25,000 tokens, a tenth of a model's context.
pub const DEFAULT_MAX_BYTES: u32 = 102_400;
/// Ceiling of a preview's bytes: both streams at the ceiling, escaped as JSON, still fit a frame.
pub const CEILING_MAX_BYTES: u32 = 262_144;
/// Default of a preview's lines.
pub const DEFAULT_MAX_LINES: u32 = 2_000;
/// A page carries at most this many bytes, whatever the caller asks.
pub const MAX_PAGE_BYTES: u32 = 102_400;
/// A page carries at most this many lines.
pub const MAX_PAGE_LINES: u32 = 2_000;
/// One read from a pipe takes at most this much: more gains no speed and costs memory.
pub const READ_CHUNK: usize = 262_144;
/// The first reads of a stream take at most this much, so that a small run touches little memory.
pub const FIRST_READ_CHUNK: usize = 16 * 1024;
/// The longest thing that no cut divides: a character of 4 bytes.
pub const LONGEST_CUT_UNIT: usize = 4;
/// A stream is judged binary by the characters that begin in its first bytes.
pub const SNIFF_BYTES: usize = 8_192;
/// So many bytes decide it: the last character that begins in the first ones counts whole.
pub const SNIFF_WINDOW: usize = SNIFF_BYTES + LONGEST_CUT_UNIT - 1;
/// A digest is made when a stream is sealed only up to this size, so that sealing stays short.
pub const DIGEST_AT_SEAL: u64 = 64 * 1024 * 1024;
/// A line index knows how many lines end before each block of this many bytes: one block is read in microseconds.
pub const INDEX_BLOCK: u64 = 64 * 1024;
/// Blocks that an index tells apart: 512 MiB of them. Beyond, blocks get longer: an index stays below 65 KiB, and
/// reading and checking it takes no longer than reading a block.
pub const MAX_INDEX_ENTRIES: usize = 8_192;
/// Files up to this size have no line index: counting their lines takes no longer than reading one.
pub const INDEX_ABOVE: u64 = 1024 * 1024;
/// Longest name of a session, in bytes: it is a directory's name, too.
pub const MAX_SESSION_NAME: usize = 64;
/// What one foreground run may keep; past it the rest is drained and counted as dropped.
pub const MAX_RUN_BYTES: u64 = 1024 * 1024 * 1024;
/// Default of what all results of one turn may carry, in bytes of text: two previews at their default.
pub const DEFAULT_TURN_BUDGET: u64 = 204_800;
/// Set aside for each call of a turn that is still outstanding: enough to see how a text begins and where it is.
pub const TURN_RESERVE: u64 = 2_304;
/// What a degraded result shows of its text.
pub const DEGRADED_TEXT: usize = 2_048;
/// What the mark after it may cost; a path that does not fit is left out.
pub const DEGRADED_MARK: usize = 256;
/// A turn without a call for this long is forgotten: a model that comes back later begins another one.
pub const TURN_IDLE: Duration = Duration::from_mins(10);
/// Turns that are remembered without a call under way; beyond, the one that is idle for longest is forgotten early.
pub const MAX_IDLE_TURNS: usize = 1_024;
/// What one stream of a background job may write; the job is ended at the byte that would pass it, since
/// nobody watches it fill the disk.
pub const BACKGROUND_CAP: u64 = 50 * 1024 * 1024;

/// The two limits of a preview. Both count what leaves: bytes of UTF-8 text, and lines of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    max_bytes: u32,
    max_lines: u32,
}

/// Why a pair of limits was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum LimitError {
    /// A limit of 0 would allow no answer at all.
    #[error("{name} is 0; it must be at least 1")]
    Zero {
        /// `max_bytes`, `max_lines`, `limit` or `lines`.
        name: &'static str,
    },
    /// Lines have no number 0.
    #[error("line is 0; lines are counted from 1, or from -1 for the last one")]
    LineZero,
    /// A page begins at one place.
    #[error("both line and offset are given; a page begins at one of them")]
    LineAndOffset,
    /// The limit is above this host's ceiling.
    #[error("max_bytes is {asked}; this host allows at most {ceiling}")]
    AboveCeiling {
        /// What was asked.
        asked: u64,
        /// What is allowed.
        ceiling: u32,
    },
}

impl Limits {
    /// Parses a pair of limits: both at least 1, bytes at most [`CEILING_MAX_BYTES`].
    pub fn new(max_bytes: u32, max_lines: u32) -> Result<Self, LimitError> {
        if max_bytes == 0 {
            return Err(LimitError::Zero { name: "max_bytes" });
        }
        if max_lines == 0 {
            return Err(LimitError::Zero { name: "max_lines" });
        }
        if max_bytes > CEILING_MAX_BYTES {
            return Err(LimitError::AboveCeiling {
                asked: max_bytes.into(),
                ceiling: CEILING_MAX_BYTES,
            });
        }
        Ok(Self {
            max_bytes,
            max_lines,
        })
    }

    /// Bytes of UTF-8 text that the result may have, marker included.
    pub fn max_bytes(self) -> u32 {
        self.max_bytes
    }

    /// Lines that the result may have, marker included.
    pub fn max_lines(self) -> u32 {
        self.max_lines
    }

    /// The same limits where no more than `bytes` may leave; `None` where nothing may.
    pub fn at_most(self, bytes: u64) -> Option<Self> {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let max_bytes = self.max_bytes.min(bytes);
        (max_bytes > 0).then_some(Self { max_bytes, ..self })
    }

    /// The raw bytes that a capture holds of each end of a stream, at most.
    ///
    /// Text is never shorter than its bytes, so a side shows at most `max_bytes` raw bytes. The line
    /// after them is cut only if its text alone is longer than the side may be: deciding that takes
    /// as many bytes again.
    pub const fn window(self) -> usize {
        let sides = 2 * self.max_bytes as usize;
        if sides > SNIFF_WINDOW {
            sides
        } else {
            SNIFF_WINDOW
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_bytes: DEFAULT_MAX_BYTES,
            max_lines: DEFAULT_MAX_LINES,
        }
    }
}

/// The limits of previews on one host: what a caller gets who asks for none, and the most that one may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitRange {
    default: Limits,
    ceiling: u32,
}

impl Default for LimitRange {
    fn default() -> Self {
        Self {
            default: Limits::default(),
            ceiling: CEILING_MAX_BYTES,
        }
    }
}

impl LimitRange {
    /// `ceiling` bounds the bytes; it is at least those of the default and at most [`CEILING_MAX_BYTES`]. Lines have
    /// no ceiling of their own: each is at least a byte of text.
    pub fn new(default: Limits, ceiling: u32) -> Result<Self, LimitError> {
        for (asked, ceiling) in [
            (ceiling, CEILING_MAX_BYTES),
            (default.max_bytes, ceiling.min(CEILING_MAX_BYTES)),
        ] {
            if asked > ceiling {
                let asked = asked.into();
                return Err(LimitError::AboveCeiling { asked, ceiling });
            }
        }
        Ok(Self { default, ceiling })
    }

    /// Bytes that a caller may ask for.
    pub fn ceiling(self) -> u32 {
        self.ceiling
    }

    /// What a caller gets who asks for none.
    pub fn default_limits(self) -> Limits {
        self.default
    }

    /// What a caller gets who asks for these. What is above the ceiling is refused, not clamped: who asked for more
    /// than it gets should know.
    pub fn resolve(
        self,
        max_bytes: Option<u64>,
        max_lines: Option<u64>,
    ) -> Result<Limits, LimitError> {
        let asked = max_bytes.unwrap_or_else(|| self.default.max_bytes.into());
        let bytes = u32::try_from(asked)
            .ok()
            .filter(|&bytes| bytes <= self.ceiling);
        let bytes = bytes.ok_or(LimitError::AboveCeiling {
            asked,
            ceiling: self.ceiling,
        })?;
        let lines = max_lines.map_or(self.default.max_lines, |lines| {
            u32::try_from(lines).unwrap_or(u32::MAX)
        });
        Limits::new(bytes, lines)
    }
}

/// Which end of a stream a preview shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// Beginning and end; failures tend to stand at the end, causes at the beginning.
    #[default]
    HeadTail,
    /// The beginning only.
    Head,
    /// The end only.
    Tail,
}

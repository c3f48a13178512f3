//! The line index: how many LF bytes stand before each block of a file, so that a line of a file of
//! many GB is found by reading one block. Sparse, of bounded size, and never needed: whoever misses one
//! makes it again from the file.
//!
//! ```text
//! "wcindex" 1 │ size of the file, u64 │ bytes of a block, u64 │ BLAKE3 of all the rest │ LFs up to the end of each block, u64 each
//! ```
//!
//! All numbers are little-endian. A block is 64 KiB; where that would make more than
//! [`MAX_ENTRIES`] of them it is twice as long, and so on. A last block that is not whole has no entry.

use crate::limits::{INDEX_BLOCK, MAX_INDEX_ENTRIES};
use crate::text::count_newlines;
use thiserror::Error;

const MAGIC: [u8; 8] = *b"wcindex\x01";
const HEAD_LEN: usize = 24;
const CHECKSUM_LEN: usize = 32;
const ENTRY_LEN: usize = 8;
/// Of blocks that an index tells apart.
pub const MAX_ENTRIES: usize = MAX_INDEX_ENTRIES;
/// The longest index, in bytes.
pub const MAX_LEN: usize = HEAD_LEN + CHECKSUM_LEN + MAX_ENTRIES * ENTRY_LEN;

/// A place in a file of which it is known how many LF bytes stand before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Anchor {
    /// Bytes before it.
    pub offset: u64,
    /// LF bytes before it.
    pub newlines: u64,
}

/// Why bytes are not the index of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum IndexError {
    /// They do not begin like an index of this version.
    #[error("it is no line index of this version")]
    NotAnIndex,
    /// They are the index of a file of another size.
    #[error("it is the line index of {found} bytes, not of {size}")]
    OtherFile {
        /// The file's size.
        size: u64,
        /// The size that the index says.
        found: u64,
    },
    /// They are cut, longer than they say, or changed.
    #[error("the line index is damaged")]
    Damaged,
}

/// Counts while bytes pass. Constant memory: at most [`MAX_ENTRIES`] numbers.
#[derive(Debug, Clone)]
pub struct IndexBuilder {
    seen: u64,
    newlines: u64,
    block: u64,
    max_entries: usize,
    counts: Vec<u64>,
}

impl Default for IndexBuilder {
    fn default() -> Self {
        Self::of(INDEX_BLOCK, MAX_ENTRIES)
    }
}

impl IndexBuilder {
    /// With blocks of that many bytes, a power of two, until there would be more than `max_entries`, an even number.
    fn of(block: u64, max_entries: usize) -> Self {
        Self {
            seen: 0,
            newlines: 0,
            block,
            max_entries,
            counts: Vec::new(),
        }
    }

    /// Takes the next bytes of the file, and returns how many of them are LF.
    pub fn feed(&mut self, mut bytes: &[u8]) -> u64 {
        let before = self.newlines;
        while !bytes.is_empty() {
            let left = self.block - self.seen % self.block;
            let n = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
            let (chunk, rest) = bytes.split_at(n);
            self.newlines += count_newlines(chunk) as u64;
            self.seen += n as u64;
            if self.seen.is_multiple_of(self.block) {
                self.end_block();
            }
            bytes = rest;
        }
        self.newlines - before
    }

    /// One entry too many makes blocks twice as long: every second end of a block stays one.
    fn end_block(&mut self) {
        if self.counts.len() < self.max_entries {
            self.counts.push(self.newlines);
            return;
        }
        let mut end_of_two = false;
        self.counts.retain(|_| {
            end_of_two = !end_of_two;
            !end_of_two
        });
        self.block *= 2;
    }

    /// The index of the first `size` bytes of what was fed, at most all of it.
    pub fn index_of(&self, size: u64) -> LineIndex {
        let size = size.min(self.seen);
        let whole = usize::try_from(size / self.block).unwrap_or(usize::MAX);
        LineIndex {
            size,
            block: self.block,
            counts: self.counts[..whole.min(self.counts.len())].to_vec(),
        }
    }
}

/// Where lines are in a file of a known size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineIndex {
    size: u64,
    block: u64,
    /// LF bytes up to the end of each whole block.
    counts: Vec<u64>,
}

impl LineIndex {
    /// The size of the file, in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The last place at or before `offset` of which it is known how many LF stand before it. Less than
    /// [`LineIndex::block`] bytes before it, unless it is beyond the file's end.
    pub fn before(&self, offset: u64) -> Anchor {
        let blocks = usize::try_from(offset / self.block).unwrap_or(usize::MAX);
        self.anchor(blocks.min(self.counts.len()))
    }

    /// The last such place in the file.
    pub fn last(&self) -> Anchor {
        self.anchor(self.counts.len())
    }

    /// The place from which on the `n`th LF of the file (from 1) is to be looked for: in the one block after
    /// it, or, where that is the last anchor, maybe nowhere.
    pub fn before_newline(&self, n: u64) -> Anchor {
        self.anchor(self.counts.partition_point(|&count| count < n))
    }

    /// Bytes between two anchors.
    pub fn block(&self) -> u64 {
        self.block
    }

    fn anchor(&self, blocks: usize) -> Anchor {
        Anchor {
            offset: blocks as u64 * self.block,
            newlines: blocks
                .checked_sub(1)
                .and_then(|last| self.counts.get(last))
                .copied()
                .unwrap_or(0),
        }
    }

    /// The bytes of the index's file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_LEN + CHECKSUM_LEN + self.counts.len() * ENTRY_LEN);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&self.size.to_le_bytes());
        bytes.extend_from_slice(&self.block.to_le_bytes());
        bytes.extend_from_slice(&[0; CHECKSUM_LEN]);
        for count in &self.counts {
            bytes.extend_from_slice(&count.to_le_bytes());
        }
        let checksum = checksum(&bytes[..HEAD_LEN], &bytes[HEAD_LEN + CHECKSUM_LEN..]);
        bytes[HEAD_LEN..HEAD_LEN + CHECKSUM_LEN].copy_from_slice(&checksum);
        bytes
    }

    /// Reads what [`LineIndex::to_bytes`] wrote, if it is the index of a file of `size` bytes.
    pub fn from_bytes(bytes: &[u8], size: u64) -> Result<Self, IndexError> {
        let (head, rest) = bytes
            .split_first_chunk::<HEAD_LEN>()
            .ok_or(IndexError::NotAnIndex)?;
        if head[..8] != MAGIC {
            return Err(IndexError::NotAnIndex);
        }
        let (found, block) = (number(&head[8..16]), number(&head[16..24]));
        if found != size {
            return Err(IndexError::OtherFile { size, found });
        }
        let (sum, entries) = rest
            .split_first_chunk::<CHECKSUM_LEN>()
            .ok_or(IndexError::Damaged)?;
        if *sum != checksum(head, entries) {
            return Err(IndexError::Damaged);
        }
        Self::checked(size, block, entries).ok_or(IndexError::Damaged)
    }

    /// What a sound writer makes, so that a lookup needs no further checks.
    fn checked(size: u64, block: u64, entries: &[u8]) -> Option<Self> {
        let whole = usize::try_from(size.checked_div(block)?).ok()?;
        if !block.is_power_of_two() || whole > MAX_ENTRIES || entries.len() != whole * ENTRY_LEN {
            return None;
        }
        let (entries, _) = entries.as_chunks::<ENTRY_LEN>();
        let counts: Vec<u64> = entries.iter().copied().map(u64::from_le_bytes).collect();
        // Without branches: a block has from none to all of its bytes.
        let sound =
            |before: u64, after: u64| (before <= after) & (after.wrapping_sub(before) <= block);
        let first = counts.first().is_none_or(|&first| sound(0, first));
        let others = counts
            .windows(2)
            .fold(first, |all, pair| all & sound(pair[0], pair[1]));
        others.then_some(Self {
            size,
            block,
            counts,
        })
    }
}

fn checksum(head: &[u8], entries: &[u8]) -> [u8; CHECKSUM_LEN] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(head).update(entries);
    *hasher.finalize().as_bytes()
}

fn number(bytes: &[u8]) -> u64 {
    bytes
        .first_chunk()
        .map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests;

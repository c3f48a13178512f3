//! The slip: fields that say what is held, how big it is and how to pick it up.

use crate::capture::Loss;
use serde::{Deserialize, Serialize};

/// What a preview leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Omitted {
    /// Raw bytes between the end of the head and the beginning of the tail.
    pub bytes: u64,
    /// Lines all of whose bytes are omitted.
    pub lines: u64,
    /// The line (from 1) that holds the first omitted byte.
    pub from_line: u64,
    /// The line (from 1) that holds the last omitted byte.
    pub to_line: u64,
    /// The raw offset of the first omitted byte: where to pick up.
    pub offset: u64,
}

/// How the text was made from the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum View {
    /// The bytes themselves, as text.
    Text,
    /// Without escape sequences, as a person would have seen it.
    Rendered,
    /// Size, type and a short hex dump.
    Binary,
}

/// The result of one stream: the text that leaves, and the receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the names and types of the wire"
)]
pub struct Receipt {
    /// The text that leaves.
    pub result: String,
    /// Whether something is left out of `result`.
    pub truncated: bool,
    /// Bytes of the stream, every one that was read.
    pub total_size: u64,
    /// Lines of the stream; a last line without LF is a line.
    pub total_lines: u64,
    /// What is left out; null exactly when `truncated` is false.
    pub omitted: Option<Omitted>,
    /// Where the exact bytes are on the host.
    pub file_path: Option<String>,
    /// The id for reads, `RUN/STREAM`.
    pub output: Option<String>,
    /// `blake3:` and hex of the file.
    pub digest: Option<String>,
    /// Whether every byte that had to be kept is in the file (true where nothing had to be).
    pub complete: bool,
    /// Bytes that had to be kept and are not.
    pub dropped_bytes: u64,
    /// Whether something shown stands for bytes that are not text.
    pub lossy: bool,
    /// Whether a view changed what is shown.
    pub rendered: bool,
    /// How the text was made.
    pub view: View,
    /// Whether the exact bytes are (at least in part) on disk.
    pub saved: bool,
    /// Why something that had to be kept was not; null when all was.
    pub reason: Option<Loss>,
}

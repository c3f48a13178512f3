//! What one bounded read returns.

use serde::{Deserialize, Serialize};

/// How a page's bytes travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Encoding {
    /// As text; what is not UTF-8 is replaced and `lossy` says so.
    #[default]
    #[serde(rename = "utf-8")]
    Utf8,
    /// The exact bytes, as base64.
    #[serde(rename = "base64")]
    Base64,
}

/// One bounded read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// Text, or base64.
    pub content: String,
    /// How `content` is encoded.
    pub encoding: Encoding,
    /// Where `content` begins, in raw bytes.
    pub offset: u64,
    /// Where the next page begins; null at the end of a finished output.
    pub next: Option<u64>,
    /// Whether there is more after this page.
    pub truncated: bool,
    /// Raw bytes of the whole output.
    pub total: u64,
    /// Whether something in `content` stands for bytes that are not text.
    pub lossy: bool,
}

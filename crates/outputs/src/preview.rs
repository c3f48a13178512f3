//! The law of the preview.

use crate::capture::Captured;
use crate::limits::{Limits, Strategy};
use crate::receipt::Receipt;

/// Where a stream's file is, for marker and receipt.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// Absolute path of the file.
    pub file_path: &'a str,
    /// The id for reads, `RUN/STREAM`.
    pub output: &'a str,
}

/// Makes the text that leaves, and its receipt, from a finished capture.
/// `place` is where the file is if one was needed; it is not mentioned unless bytes are there.
pub fn preview(
    captured: &Captured,
    limits: Limits,
    strategy: Strategy,
    place: Place<'_>,
) -> Receipt {
    let _ = (captured, limits, strategy, place);
    todo!()
}

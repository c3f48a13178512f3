//! The law of the preview: what of a stream leaves the host.
//!
//! ```text
//!   refused? ── yes ──► how long it is, and nothing of it
//!      │ no
//!   binary?  ── yes ──► size, type and a hex dump
//!      │ no
//!   a PTY's? ── yes ──► the same as below, read on a model of a terminal
//!      │ no
//!   fits?    ── yes ──► its text, whole (from here on "text" is what a view left of it)
//!      │ no
//!   marker affordable? ─ yes ─► head, marker, tail (or one side and the marker)
//!      │ no
//!   one side alone ── empty? ─► "..."
//! ```

use crate::capture::{Captured, Kept};
use crate::limits::{Limits, Strategy};
use crate::marker::{Held, Marker};
use crate::receipt::{Omitted, Receipt, View};
use crate::text;
use ends::Ends;
use sides::Side;

mod binary;
mod degraded;
mod ends;
mod rejected;
mod screen;
mod sides;

pub use degraded::degraded;

/// What stands for a text of which not even one character fits.
const ELLIPSIS: &str = "...";

/// Where a stream's file is, for marker and receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    /// Absolute path of the file.
    pub file_path: &'a str,
    /// The id for reads, `RUN/STREAM`.
    pub output: &'a str,
}

/// What a preview shows, and what it leaves out.
#[derive(Debug)]
struct Shown {
    result: String,
    omitted: Option<Omitted>,
    lossy: bool,
    view: View,
}

/// Makes the text that leaves, and its receipt, from a finished capture with the same limits.
/// `place` is where the file is if one was needed; it is not mentioned unless bytes are there.
pub fn preview(
    captured: &Captured,
    limits: Limits,
    strategy: Strategy,
    place: Place<'_>,
) -> Receipt {
    let held = Held::of(captured, place);
    let shown = if captured.is_rejected() {
        rejected::show(captured, limits)
    } else if text::is_binary(&captured.head) {
        binary::show(captured, limits, held)
    } else if let Some(size) = captured.terminal {
        screen::show(captured, size, limits, strategy, held)
    } else {
        through(captured, limits).unwrap_or_else(|| cut(captured, limits, strategy, held))
    };
    receipt(captured, shown, place)
}

/// The whole text, if it is within both limits.
fn through(captured: &Captured, limits: Limits) -> Option<Shown> {
    let ends = Ends::of(captured);
    let within = |bytes: usize| bytes <= limits.max_bytes() as usize;
    if !ends.whole
        || !within(ends.head.len())
        || text::count_lines(ends.head) > limits.max_lines() as usize
    {
        return None;
    }
    let (result, lossy) = text::decode(ends.head);
    within(result.len()).then_some(Shown {
        result,
        omitted: None,
        lossy,
        view: view(captured),
    })
}

/// How the text was made that is not binary.
fn view(captured: &Captured) -> View {
    match captured.rendered {
        Some(_) => View::Rendered,
        None => View::Text,
    }
}

/// Head, marker and tail of a text that does not fit.
fn cut(captured: &Captured, limits: Limits, strategy: Strategy, held: Held<'_>) -> Shown {
    let follows_head = strategy != Strategy::Tail;
    let marker = Marker::choose(captured, limits, held, follows_head);
    let (for_head, for_tail) = budgets(limits, strategy, marker.as_ref());
    let ends = Ends::of(captured);
    let head = for_head.of_beginning(ends.head, ends.whole);
    let tail = for_tail.of_end(ends.tail, ends.whole);
    let omitted = ends.omitted(head.len(), tail.len());
    let (head, head_lossy) = text::decode(head);
    let (tail, tail_lossy) = text::decode(tail);
    Shown {
        result: assemble(marker, &omitted, &head, &tail, limits),
        omitted: Some(omitted),
        lossy: head_lossy || tail_lossy,
        view: view(captured),
    }
}

/// Head, marker and tail in a row; if nothing of the text fits, what stands for it.
fn assemble(
    marker: Option<Marker<'_>>,
    omitted: &Omitted,
    head: &str,
    tail: &str,
    limits: Limits,
) -> String {
    let mut result = head.to_owned();
    if let Some(marker) = marker {
        if !head.is_empty() && !head.ends_with('\n') {
            result.push('\n');
        }
        result.push_str(&marker.text(omitted));
    }
    result.push_str(tail);
    if result.is_empty() {
        result.push_str(ellipsis(limits));
    }
    result
}

/// What head and tail may take: what the marker leaves, or everything on one side if there is none.
fn budgets(limits: Limits, strategy: Strategy, marker: Option<&Marker<'_>>) -> (Side, Side) {
    let mut rest = Side {
        bytes: limits.max_bytes() as usize,
        lines: limits.max_lines() as usize,
    };
    let strategy = match (marker, strategy) {
        (None, Strategy::HeadTail) => Strategy::Head,
        (_, strategy) => strategy,
    };
    if let Some(marker) = marker {
        rest.bytes -= marker.cost.bytes;
        rest.lines -= marker.cost.lines;
    }
    match strategy {
        Strategy::HeadTail => rest.halves(),
        Strategy::Head => (rest, Side::default()),
        Strategy::Tail => (Side::default(), rest),
    }
}

/// Everything is left out.
fn all_omitted(captured: &Captured) -> Omitted {
    Ends::of_bytes(captured).omitted(0, 0)
}

fn ellipsis(limits: Limits) -> &'static str {
    &ELLIPSIS[..ELLIPSIS.len().min(limits.max_bytes() as usize)]
}

/// The slip that goes with what is shown. Only what has a file has a path.
fn receipt(captured: &Captured, shown: Shown, place: Place<'_>) -> Receipt {
    let rendered = shown.view == View::Rendered;
    let needed = shown.omitted.is_some() || shown.lossy || rendered;
    let (stored, digest, reason) = match &captured.kept {
        Kept::File {
            stored,
            digest,
            loss,
        } => (Some(*stored), digest.clone(), *loss),
        Kept::Nothing { loss } => (None, None, Some(*loss)),
        Kept::NotNeeded if needed => (None, None, Some(crate::capture::Loss::IoError)),
        Kept::NotNeeded => (None, None, None),
    };
    let saved = stored.is_some();
    let dropped_bytes = match reason {
        Some(_) => captured.total_size.saturating_sub(stored.unwrap_or(0)),
        None => 0,
    };
    Receipt {
        result: shown.result,
        truncated: shown.omitted.is_some(),
        total_size: captured.total_size,
        total_lines: captured.total_lines(),
        omitted: shown.omitted,
        file_path: saved.then(|| place.file_path.to_owned()),
        output: saved.then(|| place.output.to_owned()),
        digest,
        complete: reason.is_none(),
        dropped_bytes,
        lossy: shown.lossy,
        rendered,
        view: shown.view,
        saved,
        reason,
    }
}

#[cfg(test)]
mod tests;

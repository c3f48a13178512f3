//! A PTY's stream, as a terminal would have shown it.
//!
//! Each side is the text of its own part of the stream, read on a fresh terminal: the head that of the longest
//! prefix whose text fits, the tail that of the longest suffix. So true ends hold as for any other
//! text, and what is omitted are the bytes between the two parts. What draws over itself across
//! megabytes shows how it began and how it ended.

use super::ends::Ends;
use super::sides::Side;
use super::{Shown, assemble, budgets};
use crate::capture::Captured;
use crate::limits::{Limits, Strategy};
use crate::marker::{Held, Marker};
use crate::receipt::View;
use crate::terminal::{Model, Size};
use crate::text;
use crate::view::{LineView, Step};
use std::ops::Range;

/// The whole text, if it is within the limits; else head, marker and tail.
pub(super) fn show(
    captured: &Captured,
    size: Size,
    limits: Limits,
    strategy: Strategy,
    held: Held<'_>,
) -> Shown {
    let mut model = Model::new(size);
    through(captured, &mut model, limits)
        .unwrap_or_else(|| cut(captured, &mut model, limits, strategy, held))
}

/// The whole text, if it is within the limits.
pub(super) fn through(captured: &Captured, model: &mut Model, limits: Limits) -> Option<Shown> {
    let ends = Ends::of_bytes(captured);
    if !ends.whole {
        return None;
    }
    let side = Side {
        bytes: limits.max_bytes() as usize,
        lines: limits.max_lines() as usize,
    };
    let result = read(model, ends.head, side)?;
    Some(Shown {
        lossy: is_lossy(ends.head, &result),
        view: view(ends.head, &result),
        omitted: None,
        result,
    })
}

fn cut(
    captured: &Captured,
    model: &mut Model,
    limits: Limits,
    strategy: Strategy,
    held: Held<'_>,
) -> Shown {
    let marker = Marker::choose(captured, limits, held, strategy != Strategy::Tail);
    let (for_head, for_tail) = budgets(limits, strategy, marker.as_ref());
    let ends = Ends::of_bytes(captured);
    let head = beginning(model, &ends, for_head);
    let tail = end(model, &ends, head.bytes.len(), for_tail);
    let omitted = ends.omitted(head.bytes.len(), tail.bytes.len());
    Shown {
        result: assemble(marker, &omitted, &head.text, &tail.text, limits),
        omitted: Some(omitted),
        lossy: head.is_lossy() || tail.is_lossy(),
        view: View::Rendered,
    }
}

/// A part of a stream and its text.
#[derive(Debug, Default)]
pub(super) struct Part<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) text: String,
}

impl Part<'_> {
    pub(super) fn is_lossy(&self) -> bool {
        is_lossy(self.bytes, &self.text)
    }
}

/// The longest prefix whose text fits: whole lines of the stream, and a part of the next if that alone is too long.
pub(super) fn beginning<'a>(model: &mut Model, of: &Ends<'a>, side: Side) -> Part<'a> {
    let window = of.head;
    let part = |bytes: &'a [u8], model: &mut Model| {
        let text = read(model, bytes, side)?;
        Some(Part { bytes, text })
    };
    let ends: Vec<usize> = memchr::memchr_iter(b'\n', window).map(|i| i + 1).collect();
    let lines = longest(ends.len(), |n| part(&window[..ends[n - 1]], model));
    let (lines, whole) = lines.unwrap_or_default();
    let from = whole.bytes.len();
    let next = ends.get(lines).copied();
    let line = &window[from..next.unwrap_or(window.len())];
    let is_complete = next.is_some() || of.whole;
    if is_complete && fits_alone(model, line, side) {
        return whole;
    }
    let to = |n| from + text::next_boundary(line, n);
    let cut = longest(line.len(), |n| part(&window[..to(n)], model));
    cut.map_or(whole, |(_, part)| part)
}

/// The longest suffix whose text fits. Where the windows are one, it begins behind the first `head` bytes, and
/// one more: something is omitted, even if drawing over leaves less than the sides could take.
fn end<'a>(model: &mut Model, of: &Ends<'a>, head: usize, side: Side) -> Part<'a> {
    let window = of.tail;
    let behind = if of.whole { head } else { 0 };
    let part = |from: usize, model: &mut Model| {
        let bytes = &window[from..];
        let text = read(model, bytes, side)?;
        Some(Part { bytes, text })
    };
    let starts = memchr::memrchr_iter(b'\n', window).map(|i| i + 1);
    let starts: Vec<usize> = starts
        .skip_while(|&at| at == window.len())
        .take_while(|&at| at > behind)
        .collect();
    let lines = longest(starts.len(), |n| part(starts[n - 1], model));
    let (lines, whole) = lines.unwrap_or_default();
    let to = window.len() - whole.bytes.len();
    let next = starts.get(lines).copied();
    let line = next.unwrap_or(behind)..to;
    let is_complete = next.is_some() || of.whole;
    if is_complete && fits_alone(model, &window[line.clone()], side) {
        return whole;
    }
    let safe = SafeStarts::of(window, line.clone());
    let max = line.len().saturating_sub(1);
    let cut = longest(max, |n| part(safe.at_or_after(to - n), model));
    cut.map_or(whole, |(_, part)| part)
}

/// Whether a line is left out where it does not fit, and not cut. One of which the window holds only a part is
/// longer than any side, or draws over itself.
fn fits_alone(model: &mut Model, line: &[u8], side: Side) -> bool {
    let lines = usize::MAX;
    read(model, line, Side { lines, ..side }).is_some()
}

fn read(model: &mut Model, bytes: &[u8], side: Side) -> Option<String> {
    let nothing = side.bytes == 0 || side.lines == 0;
    (!nothing).then(|| model.read(bytes, side.bytes, side.lines))?
}

/// The largest `n` of 1 to `max` that fits, as far as doubling and halving find it: drawing over makes
/// some parts fit that have longer and shorter ones that do not.
fn longest<T>(max: usize, mut fits: impl FnMut(usize) -> Option<T>) -> Option<(usize, T)> {
    let (mut best, mut too_long, mut n) = (None, max + 1, 1);
    while n < too_long {
        match fits(n) {
            Some(found) => best = Some((n, found)),
            None => too_long = n,
        }
        let fitting = best.as_ref().map_or(0, |(n, _)| *n);
        n = if too_long > max && fitting > 0 {
            (2 * fitting).min(max).max(fitting + 1)
        } else {
            fitting.midpoint(too_long).max(fitting + 1)
        };
    }
    best
}

/// Where a line can begin without the rest of an escape sequence.
struct SafeStarts<'a> {
    window: &'a [u8],
    shown: Vec<Range<usize>>,
    end: usize,
}

impl<'a> SafeStarts<'a> {
    fn of(window: &'a [u8], line: Range<usize>) -> Self {
        let mut shown = Vec::new();
        // Offsets are those of the window.
        LineView::new(line.start as u64).feed(&window[line.clone()], |step| {
            if let Step::Shown { from, bytes } = step {
                let from = usize::try_from(from).unwrap_or(line.end);
                shown.push(from..from + bytes.len());
            }
        });
        Self {
            window,
            shown,
            end: line.end,
        }
    }

    fn at_or_after(&self, at: usize) -> usize {
        let next = self.shown.partition_point(|run| run.end <= at);
        let start = self
            .shown
            .get(next)
            .map_or(self.end, |run| run.start.max(at));
        text::next_boundary(self.window, start)
    }
}

/// What is shown of invalid bytes is a replacement, if it is shown.
fn is_lossy(bytes: &[u8], text: &str) -> bool {
    text.contains(text::REPLACEMENT) && std::str::from_utf8(bytes).is_err()
}

fn view(bytes: &[u8], text: &str) -> View {
    if text.as_bytes() == bytes || text == text::decode(bytes).0 {
        View::Text
    } else {
        View::Rendered
    }
}

#[cfg(test)]
mod tests;

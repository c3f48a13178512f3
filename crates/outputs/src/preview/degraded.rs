//! A result that its turn has no room for: how the text begins, and where all of it is.
//!
//! ```text
//!   room for nothing? ── yes ──► fields only
//!      │ no
//!   the first 2,048 bytes of the text, then the longest of:
//!     N bytes omitted, whole output at PATH  ·  N bytes omitted  ·  nothing
//!   whose cost is at most 256 bytes, and at most half of each limit
//! ```

use super::ends::Ends;
use super::sides::Side;
use super::{Place, Shown, all_omitted, binary, receipt, screen, through, view};
use crate::capture::Captured;
use crate::limits::{DEGRADED_MARK, DEGRADED_TEXT, Limits};
use crate::marker::{Cost, Held, count};
use crate::receipt::{Receipt, View};
use crate::terminal::Model;
use crate::text;

/// Makes the result again with at most `room` bytes, 0 for its fields only. Beside that the call's own
/// `limits` hold. `captured` is what [`super::preview`] had, but for what is kept by now.
pub fn degraded(captured: &Captured, limits: Limits, room: u64, place: Place<'_>) -> Receipt {
    let held = Held::of(captured, place);
    let shown = match limits.at_most(room) {
        // What stands for a refused one tells of its limits, and those are not these.
        Some(limits) if !captured.is_rejected() => begin(captured, limits, held),
        _ => fields_only(captured),
    };
    receipt(captured, shown, place)
}

fn begin(captured: &Captured, limits: Limits, held: Held<'_>) -> Shown {
    if text::is_binary(&captured.head) {
        return binary::show(captured, limits, held);
    }
    let Some(size) = captured.terminal else {
        return through(captured, limits).unwrap_or_else(|| beginning(captured, limits, held));
    };
    let mut model = Model::new(size);
    screen::through(captured, &mut model, limits)
        .unwrap_or_else(|| beginning_on(captured, &mut model, limits, held))
}

fn fields_only(captured: &Captured) -> Shown {
    let binary = text::is_binary(&captured.head);
    Shown {
        result: String::new(),
        omitted: (captured.total_size > 0).then(|| all_omitted(captured)),
        lossy: binary,
        view: if binary { View::Binary } else { view(captured) },
    }
}

/// The beginning of a text that does not fit, on whole characters, and its mark.
fn beginning(captured: &Captured, limits: Limits, held: Held<'_>) -> Shown {
    let form = Form::choose(captured, limits, held);
    let Side { bytes, lines } = form_leaves(form, captured, limits, held);
    let ends = Ends::of(captured);
    let head = first(ends.head, bytes, lines);
    let (text, lossy) = text::decode(head);
    let omitted = ends.omitted(head.len(), 0);
    Shown {
        result: marked(text, form, omitted.bytes, held),
        omitted: Some(omitted),
        lossy,
        view: view(captured),
    }
}

/// The same of what a terminal shows.
fn beginning_on(captured: &Captured, model: &mut Model, limits: Limits, held: Held<'_>) -> Shown {
    let form = Form::choose(captured, limits, held);
    let side = form_leaves(form, captured, limits, held);
    let ends = Ends::of_bytes(captured);
    let head = screen::beginning(model, &ends, side);
    let (lossy, omitted) = (head.is_lossy(), ends.omitted(head.bytes.len(), 0));
    Shown {
        result: marked(head.text, form, omitted.bytes, held),
        omitted: Some(omitted),
        lossy,
        view: View::Rendered,
    }
}

/// What a mark leaves for the text.
fn form_leaves(form: Option<Form>, captured: &Captured, limits: Limits, held: Held<'_>) -> Side {
    let cost = form.map_or(0, |form| form.cost(captured, held).bytes);
    Side {
        bytes: (limits.max_bytes() as usize - cost).min(DEGRADED_TEXT),
        lines: limits.max_lines() as usize - usize::from(form.is_some()),
    }
}

fn marked(mut text: String, form: Option<Form>, omitted: u64, held: Held<'_>) -> String {
    if let Some(form) = form {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&form.text(omitted, held));
    }
    text
}

/// The longest prefix of so many lines whose text is so many bytes.
fn first(head: &[u8], bytes: usize, lines: usize) -> &[u8] {
    // At least one line: a mark takes at most half of them.
    let last = memchr::memchr_iter(b'\n', head).nth(lines.saturating_sub(1));
    let head = &head[..last.map_or(head.len(), |newline| newline + 1)];
    &head[..text::prefix_within(head, bytes)]
}

/// How much a mark says.
#[derive(Debug, Clone, Copy)]
enum Form {
    Path,
    Counts,
}

impl Form {
    fn choose(captured: &Captured, limits: Limits, held: Held<'_>) -> Option<Self> {
        let affordable = |form: &Self| {
            let cost = form.cost(captured, held);
            cost.bytes <= DEGRADED_MARK && cost.is_at_most_half(limits)
        };
        [Self::Path, Self::Counts].into_iter().find(affordable)
    }

    /// With the number at its largest (and a plural is longer), and the LF that an unfinished line before it needs.
    fn cost(self, captured: &Captured, held: Held<'_>) -> Cost {
        let Cost { bytes, lines } = Cost::of(&self.text(captured.total_size.max(2), held));
        Cost {
            bytes: bytes + 1,
            lines,
        }
    }

    fn text(self, omitted: u64, held: Held<'_>) -> String {
        let bytes = count(omitted, "byte");
        match (self, held) {
            (Self::Path, Held::Whole(Place { file_path, .. })) => {
                format!("[... {bytes} omitted, whole output at {file_path} ...]\n")
            }
            (Self::Path, Held::Part { place, stored, .. }) => {
                let stored = count(stored, "byte");
                let path = place.file_path;
                format!("[... {bytes} omitted, only the first {stored} saved at {path} ...]\n")
            }
            _ => format!("[... {bytes} omitted{} ...]\n", held.remark()),
        }
    }
}

#[cfg(test)]
mod tests;

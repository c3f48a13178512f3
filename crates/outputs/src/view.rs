//! The line-local view of a stream from a pipe: of each line what a person would have read.
//!
//! It removes
//! - escape sequences: CSI; OSC, DCS, SOS, PM and APC up to their terminator (BEL or ST) or the line's end;
//!   of all others ESC, intermediates and one final byte. A byte that cannot go on with a sequence ends it,
//!   and is read as if the sequence had not been there;
//! - of a line with bare CRs all but what follows the last one that has something shown after it in the
//!   line: `10%\r50%\r` shows `50%`.
//!
//! CR LF stays as it is, and so does every LF: lines keep their numbers. The view is a choice among the
//! stream's bytes; its text is that of the bytes that it leaves. It changes nothing in a stream that has
//! neither ESC nor a bare CR, so nobody looks at one until the first of them is there.
//!
//! ```text
//!           ┌── ESC ──► Escape ── 0x20–2f ──► Intermediate ─┐
//!   Text ◄──┤             │ [                    final byte ├──► Text
//!           │             ├──► Csi ─────────────────────────┘
//!           │             └ ] P X ^ _ ──► Str ── ESC ──► StrEscape ── \ ──► Text
//!           └── CR: held until the next byte says whether it is bare
//! ```
//!
//! [`LineView`] decides byte by byte, in whatever chunks they come; [`Rendering`] holds both ends of what
//! is shown, in memory bounded by the limits.

use serde::{Deserialize, Serialize};

mod rendering;
mod traced;

pub use rendering::{Before, Rendered, Rendering};
pub use traced::{Traced, Tracer};

const ESC: u8 = 0x1b;
const BEL: u8 = 0x07;
const CR: u8 = b'\r';
const LF: u8 = b'\n';

/// Whether a stream is shown as a person would have seen it, or as its bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The line-local view for a pipe, the terminal model for a PTY.
    #[default]
    Auto,
    /// The bytes themselves, as text.
    Raw,
}

/// Where the view of a stream stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Text,
    Escape,
    Intermediate,
    Csi,
    Str,
    /// In a string, after an ESC that may begin its ST.
    StrEscape,
}

/// What becomes of the next bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'a> {
    /// They are shown.
    Shown {
        /// Offset in the stream of the first.
        from: u64,
        /// The bytes; LFs among them end lines.
        bytes: &'a [u8],
    },
    /// What was shown of this line is written over by what follows.
    Restart,
}

/// The line-local view as a machine over bytes.
#[derive(Debug)]
pub struct LineView {
    state: State,
    /// Offset in the stream of the next byte.
    at: u64,
    /// The last byte is a CR that may belong to a CR LF.
    held_cr: bool,
    /// A bare CR came, and nothing was shown since.
    returned: bool,
}

impl LineView {
    /// A view that begins at an offset, inside no escape sequence and not behind a bare CR.
    pub fn new(at: u64) -> Self {
        Self {
            state: State::Text,
            at,
            held_cr: false,
            returned: false,
        }
    }

    /// The next bytes of the stream. What is not shown by a step is dropped; at the end of the stream
    /// there is nothing left to show.
    pub fn feed(&mut self, mut bytes: &[u8], mut show: impl FnMut(Step<'_>)) {
        while let Some(&first) = bytes.first() {
            let taken = match self.state {
                State::Text => self.text(first, bytes, &mut show),
                State::Str => self.string(bytes),
                State::Escape | State::Intermediate | State::Csi | State::StrEscape => {
                    self.sequence(bytes)
                }
            };
            self.at += taken as u64;
            bytes = &bytes[taken..];
        }
    }

    fn text(&mut self, first: u8, bytes: &[u8], show: &mut impl FnMut(Step<'_>)) -> usize {
        if std::mem::take(&mut self.held_cr) {
            self.judge_cr(first, show);
        }
        match first {
            ESC => {
                self.state = State::Escape;
                1
            }
            CR => {
                self.held_cr = true;
                1
            }
            _ => {
                if std::mem::take(&mut self.returned) && first != LF {
                    show(Step::Restart);
                }
                let len = plain_len(bytes);
                let (from, bytes) = (self.at, &bytes[..len]);
                show(Step::Shown { from, bytes });
                len
            }
        }
    }

    /// The byte after a CR says what it was.
    fn judge_cr(&mut self, next: u8, show: &mut impl FnMut(Step<'_>)) {
        if next == LF {
            self.returned = false;
            let from = self.at - 1;
            let bytes = &[CR];
            show(Step::Shown { from, bytes });
        } else {
            self.returned = true;
        }
    }

    /// As much of a sequence as there is.
    fn sequence(&mut self, bytes: &[u8]) -> usize {
        let mut taken = 0;
        while let Some(&byte) = bytes.get(taken) {
            let (next, n) = after(self.state, byte);
            taken += n;
            self.state = next;
            if matches!(next, State::Text | State::Str) {
                break;
            }
        }
        taken
    }

    /// A string ends at its terminator, or where the line does; a CR LF is the line's end as a whole.
    fn string(&mut self, bytes: &[u8]) -> usize {
        let was_cr = std::mem::take(&mut self.held_cr);
        let Some(end) = memchr::memchr3(BEL, ESC, LF, bytes) else {
            self.held_cr = bytes.last() == Some(&CR);
            return bytes.len();
        };
        match bytes[end] {
            LF => {
                self.state = State::Text;
                self.held_cr = end.checked_sub(1).map_or(was_cr, |i| bytes[i] == CR);
                end
            }
            ESC => {
                self.state = State::StrEscape;
                end + 1
            }
            _ => {
                self.state = State::Text;
                end + 1
            }
        }
    }
}

/// How many bytes come before the first ESC or CR. Between sequences they are few: those are looked at one by one.
fn plain_len(bytes: &[u8]) -> usize {
    let few = bytes.len().min(16);
    let is_special = |&b: &u8| b == ESC || b == CR;
    bytes[..few].iter().position(is_special).unwrap_or_else(|| {
        let rest = &bytes[few..];
        few + memchr::memchr2(ESC, CR, rest).unwrap_or(rest.len())
    })
}

/// Where a byte inside a sequence leads, and whether it is part of it (1) or has to be read anew (0).
fn after(state: State, byte: u8) -> (State, usize) {
    match (state, byte) {
        (State::Escape, b'[') | (State::Csi, 0x20..=0x3f) => (State::Csi, 1),
        (State::Escape, b']' | b'P' | b'X' | b'^' | b'_') => (State::Str, 1),
        (State::Escape | State::Intermediate, 0x20..=0x2f) => (State::Intermediate, 1),
        (State::Escape | State::Intermediate, 0x30..=0x7e)
        | (State::Csi, 0x40..=0x7e)
        | (State::StrEscape, b'\\') => (State::Text, 1),
        (State::StrEscape, _) => (State::Str, 0),
        _ => (State::Text, 0),
    }
}

/// What in a stream the view would first not show as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The byte of the chunk at this index.
    At(usize),
    /// The CR at the end of the chunk before.
    CrBefore,
}

/// Looks for a change in a chunk of a stream that had none so far. `held_cr`: whether the chunk before
/// ended with a CR, and afterwards whether this one does. Costs no more than a search for two bytes.
pub fn first_change(chunk: &[u8], held_cr: &mut bool) -> Option<Change> {
    let first = *chunk.first()?;
    if std::mem::take(held_cr) && first != LF {
        return Some(Change::CrBefore);
    }
    for at in memchr::memchr2_iter(ESC, CR, chunk) {
        match (chunk[at], chunk.get(at + 1)) {
            (CR, Some(&LF)) => {}
            (CR, None) => *held_cr = true,
            _ => return Some(Change::At(at)),
        }
    }
    None
}

#[cfg(test)]
mod tests;

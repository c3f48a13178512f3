//! A capture and the line-local view: nothing of it until ESC or a bare CR comes, then both ends of the
//! view beside those of the bytes.

use super::{Capture, Policy};
use crate::limits::SNIFF_WINDOW;
use crate::terminal::Size;
use crate::text;
use crate::view::{Before, Change, Mode, Rendered, Rendering, first_change};

/// How far a capture is with its view.
#[derive(Debug, Default)]
pub(super) enum Viewing {
    /// The bytes are shown as they are, whatever comes.
    #[default]
    Off,
    /// So far the view changes nothing.
    Idle {
        /// The last byte is a CR that may be bare.
        held_cr: bool,
    },
    /// Something was dropped: the stream has to be kept.
    On {
        rendering: Box<Rendering>,
        /// Whether enough was seen to know that the stream is text.
        is_text: bool,
    },
}

impl Capture {
    /// Shows the stream through the line-local view, unless the mode is raw. To be said before the first byte.
    /// What is refused past a limit is data, and has no view.
    #[must_use]
    pub fn with_view(mut self, mode: Mode) -> Self {
        self.viewing = match (mode, self.policy) {
            (Mode::Raw, _) | (_, Policy::Reject) => Viewing::Off,
            (Mode::Auto, _) => Viewing::Idle { held_cr: false },
        };
        self
    }

    /// Captures what a PTY's stream is: bytes for a terminal of this size, that are in a file from the
    /// first one on. To be said before it. The line-local view is not for them.
    #[must_use]
    pub fn on_terminal(mut self, size: Size, mode: Mode) -> Self {
        self.viewing = Viewing::Off;
        self.rule.from_start = true;
        self.terminal = (mode == Mode::Auto).then_some(size);
        self
    }

    /// The last `n` bytes before `at` are new.
    pub(super) fn view(&mut self, n: usize) {
        let chunk = &self.ring[self.at - n..self.at];
        match &mut self.viewing {
            Viewing::Off => {}
            Viewing::Idle { held_cr } => match first_change(chunk, held_cr) {
                None => {}
                Some(Change::At(index)) => self.begin_view(n - index),
                Some(Change::CrBefore) => self.begin_view(n + 1),
            },
            Viewing::On { rendering, .. } => rendering.feed(chunk),
        }
        self.judge_view();
    }

    /// A CR at the end of the stream is bare.
    pub(super) fn end_view(&mut self) {
        if matches!(self.viewing, Viewing::Idle { held_cr: true }) {
            self.begin_view(1);
        }
    }

    /// The view changes something for the first time in the last `n` bytes. They are in the ring: at most
    /// the newest chunk and the CR before it.
    fn begin_view(&mut self, n: usize) {
        let all = self.recent();
        let [older, newer] = split_end(all, n);
        let size = self.total - n as u64;
        let head =
            &self.head[..usize::try_from(size).map_or(self.head.len(), |n| n.min(self.head.len()))];
        let changed: u64 = newer
            .iter()
            .map(|part| text::count_newlines(part) as u64)
            .sum();
        let before = Before {
            size,
            newlines: self.newlines - changed,
            head,
            last: older,
        };
        let mut rendering = Box::new(Rendering::begin(self.limits.window(), before));
        for part in newer {
            rendering.feed(part);
        }
        self.viewing = Viewing::On {
            rendering,
            is_text: false,
        };
        self.must_keep = true;
    }

    /// What the ring holds of the stream's end, in order.
    fn recent(&self) -> [&[u8]; 2] {
        let (newer, older) = self.ring.split_at(self.at);
        let has_wrapped = self.total > self.ring.len() as u64;
        [if has_wrapped { older } else { &[] }, newer]
    }

    /// The binary decision comes first: once it is made, a view of no text would only cost time.
    fn judge_view(&mut self) {
        if let Viewing::On { is_text, .. } = &mut self.viewing
            && !*is_text
            && self.head.len() >= SNIFF_WINDOW
        {
            *is_text = true;
            if text::is_binary(&self.head) {
                self.viewing = Viewing::Off;
            }
        }
    }

    /// Both ends of the view, if it changed something.
    pub(super) fn rendered(&mut self) -> Option<Rendered> {
        match std::mem::take(&mut self.viewing) {
            Viewing::On { rendering, .. } => Some(rendering.finish()),
            _ => None,
        }
    }
}

/// The last `n` bytes of two slices in a row, and what is before them.
fn split_end([first, second]: [&[u8]; 2], n: usize) -> [[&[u8]; 2]; 2] {
    if let Some(at) = second.len().checked_sub(n) {
        let (before, end) = second.split_at(at);
        [[first, before], [&[], end]]
    } else {
        let at = (first.len() + second.len()).saturating_sub(n);
        let (before, end) = first.split_at(at);
        [[before, &[]], [end, second]]
    }
}

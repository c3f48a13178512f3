//! What stands between head and tail.
//!
//! A marker is a block of lines of its own and ends with LF. It has two forms, full and counts
//! only; where neither is cheap enough there is none. Pick-up instructions travel with it and
//! nowhere else, and whatever looks like one inside a stream is content: only the receipt's fields
//! are ever acted on.

use crate::capture::{Captured, Kept, Loss};
use crate::limits::Limits;
use crate::preview::Place;
use crate::receipt::Omitted;
use crate::text;

/// Longest full form, in bytes beside its path.
pub const MAX_BYTES: usize = 2048;
/// Longest full form, in lines.
pub const MAX_LINES: usize = 8;

/// Where what is left out can be had, if anywhere.
#[derive(Debug, Clone, Copy)]
pub enum Held<'a> {
    /// All of it is in the file.
    Whole(Place<'a>),
    /// The file ends early.
    Part {
        /// Where the file is.
        place: Place<'a>,
        /// Bytes in it.
        stored: u64,
        /// Bytes of the stream that it lacks; 0 where nobody knows how many.
        dropped: u64,
        /// Why.
        loss: Loss,
    },
    /// There is no file.
    Nothing(Loss),
}

impl<'a> Held<'a> {
    /// What is held of a stream that had to be kept.
    pub fn of(captured: &Captured, place: Place<'a>) -> Self {
        match captured.kept {
            Kept::File {
                stored,
                loss: Some(loss),
                ..
            } => {
                let dropped = captured.total_size.saturating_sub(stored);
                Self::Part {
                    place,
                    stored,
                    dropped,
                    loss,
                }
            }
            Kept::File { .. } => Self::Whole(place),
            Kept::Nothing { loss } => Self::Nothing(loss),
            // Limits below those of the capture: nobody kept it, and nobody said why.
            Kept::NotNeeded => Self::Nothing(Loss::IoError),
        }
    }

    /// Where a reader of the file picks up: at `offset`, or at the file's beginning if it ends before.
    pub fn pick_up_at(self, offset: u64) -> u64 {
        match self {
            Self::Part { stored, .. } if stored <= offset => 0,
            _ => offset,
        }
    }

    /// How to pick up from `offset` of the file, or that nobody can: lines of their own.
    pub fn pick_up(self, offset: u64) -> String {
        match self {
            Self::Whole(Place { file_path, output }) => format!(
                "[the whole output is on the host: {file_path}]\n{}",
                how_to(output, offset)
            ),
            Self::Part {
                place: Place { file_path, output },
                stored,
                dropped,
                loss,
            } => format!(
                "[only the first {} of the output are saved, since {loss}: {file_path}]\n{}{}",
                count(stored, "byte"),
                how_to(output, offset),
                beyond(dropped),
            ),
            Self::Nothing(loss) => format!(
                "[not saved, since {loss}: what is omitted cannot be recovered; \
                 narrow the command and run it again]\n"
            ),
        }
    }

    /// The same in two words, where there is no room for more.
    pub(crate) fn remark(self) -> &'static str {
        match self {
            Self::Whole(_) => "",
            Self::Part { .. } => ", not all saved",
            Self::Nothing(_) => ", not saved",
        }
    }
}

/// Bytes and lines that a marker takes from the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// Bytes, the LF that ends an unfinished head included.
    pub bytes: usize,
    /// Lines.
    pub lines: usize,
}

impl Cost {
    /// What `text` costs.
    pub(crate) fn of(text: &str) -> Self {
        Self {
            bytes: text.len(),
            lines: text::count_lines(text.as_bytes()),
        }
    }

    /// Whether at most half of each limit goes to it.
    pub(crate) fn is_at_most_half(self, limits: Limits) -> bool {
        2 * self.bytes <= limits.max_bytes() as usize
            && 2 * self.lines <= limits.max_lines() as usize
    }
}

/// How much a marker says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// What is missing, where it is, and how to pick it up.
    Full,
    /// What is missing.
    Counts,
}

/// A marker of a chosen form; its numbers are known only after head and tail are cut.
#[derive(Debug, Clone, Copy)]
pub struct Marker<'a> {
    /// Its form.
    pub form: Form,
    /// What it says about the file.
    pub held: Held<'a>,
    /// What is reserved for it: its cost with every number at its largest.
    pub cost: Cost,
}

impl<'a> Marker<'a> {
    /// The longest form that costs at most half of each limit, or `None`.
    /// `follows_head` reserves the LF that a head cut inside a line needs.
    pub fn choose(
        captured: &Captured,
        limits: Limits,
        held: Held<'a>,
        follows_head: bool,
    ) -> Option<Self> {
        let largest = largest(captured);
        let cost = |form| {
            let Cost { bytes, lines } = Cost::of(&text_of(form, held, &largest));
            Cost {
                bytes: bytes + usize::from(follows_head),
                lines,
            }
        };
        [Form::Full, Form::Counts]
            .map(|form| Self {
                form,
                held,
                cost: cost(form),
            })
            .into_iter()
            .find(|marker| marker.cost.is_at_most_half(limits))
    }

    /// The marker's lines, without the LF that may have to stand before them.
    pub fn text(&self, omitted: &Omitted) -> String {
        let offset = self.held.pick_up_at(omitted.offset);
        text_of(self.form, self.held, &Omitted { offset, ..*omitted })
    }
}

fn text_of(form: Form, held: Held<'_>, numbers: &Omitted) -> String {
    let bytes = count(numbers.bytes, "byte");
    let Omitted {
        from_line, to_line, ..
    } = numbers;
    match form {
        Form::Full => format!(
            "[... {bytes} omitted, from line {from_line} to line {to_line} ({} whole) ...]\n{}",
            count(numbers.lines, "line"),
            held.pick_up(numbers.offset),
        ),
        Form::Counts => {
            format!(
                "[... {bytes}, {} omitted{} ...]\n",
                count(numbers.lines, "line"),
                held.remark()
            )
        }
    }
}

/// What comes after the end of a file that lacks so many bytes, 0 for nobody knows how many.
fn beyond(dropped: u64) -> String {
    if dropped == 0 {
        return "[whether there was more is not known]\n".to_owned();
    }
    let dropped = count(dropped, "byte");
    format!("[the other {dropped} cannot be recovered; narrow the command and run it again]\n")
}

fn how_to(output: &str, offset: u64) -> String {
    format!(
        "[grep, head, jq and cut work on that path; or page it with the read tool: \
         output {output}, offset {offset}]\n"
    )
}

/// No number of a marker is larger than these. At least 2, since a plural is longer.
fn largest(captured: &Captured) -> Omitted {
    let (bytes, lines) = (captured.total_size.max(2), captured.total_lines().max(2));
    Omitted {
        bytes,
        lines,
        from_line: lines,
        to_line: lines,
        offset: bytes,
    }
}

/// A number with its unit, the unit in its number.
pub(crate) fn count(n: u64, unit: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{n} {unit}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place<'_> = Place {
        file_path: "/w/.outputs/s/01890000-0000-7000-8000-000000000000.stdout.txt",
        output: "01890000-0000-7000-8000-000000000000/stdout",
    };
    const LOSSES: [Loss; 15] = [
        Loss::DiskFull,
        Loss::NoInodes,
        Loss::Quota,
        Loss::ReadOnly,
        Loss::Permission,
        Loss::IoError,
        Loss::TooSlow,
        Loss::NoDirectory,
        Loss::UnsafeDirectory,
        Loss::NameTaken,
        Loss::RunnerLost,
        Loss::RunCap,
        Loss::OutputCap,
        Loss::Discarded,
        Loss::Rejected,
    ];

    fn captured(total_size: u64, newlines: u64, kept: Kept) -> Captured {
        Captured {
            total_size,
            newlines,
            head: Vec::new(),
            tail: b"x\n".to_vec(),
            rendered: None,
            terminal: None,
            kept,
        }
    }

    fn whole() -> Kept {
        Kept::File {
            stored: 5000,
            digest: None,
            loss: None,
        }
    }

    fn choose(kept: Kept, max_bytes: u32, max_lines: u32) -> Option<Form> {
        let captured = captured(5000, 900, kept);
        let limits = Limits::new(max_bytes, max_lines).expect("limits of a test");
        let held = Held::of(&captured, PLACE);
        Marker::choose(&captured, limits, held, true).map(|marker| marker.form)
    }

    #[test]
    fn the_longest_form_that_costs_at_most_half_is_taken() {
        assert_eq!(choose(whole(), 1000, 6), Some(Form::Full));
        assert_eq!(choose(whole(), 1000, 5), Some(Form::Counts));
        assert_eq!(choose(whole(), 200, 6), Some(Form::Counts));
        assert_eq!(choose(whole(), 1000, 2), Some(Form::Counts));
        assert_eq!(choose(whole(), 1000, 1), None);
        assert_eq!(choose(whole(), 40, 100), None);
    }

    #[test]
    fn every_full_form_is_short() {
        let parts = LOSSES.map(|loss| {
            let (stored, dropped) = (u64::MAX - 1, u64::MAX);
            Held::Part {
                place: PLACE,
                stored,
                dropped,
                loss,
            }
        });
        let all = [Held::Whole(PLACE)]
            .into_iter()
            .chain(parts)
            .chain(LOSSES.map(Held::Nothing));
        for held in all {
            let numbers = largest(&captured(u64::MAX, u64::MAX, whole()));
            let text = text_of(Form::Full, held, &numbers);
            let cost = Cost::of(&text);
            assert!(cost.bytes <= MAX_BYTES + PLACE.file_path.len() && cost.lines <= MAX_LINES);
            assert!(text.ends_with("]\n"));
        }
    }

    #[test]
    fn pick_up_names_the_path_the_tools_and_the_page() {
        let marker = Marker {
            form: Form::Full,
            held: Held::Whole(PLACE),
            cost: Cost { bytes: 0, lines: 0 },
        };
        let omitted = Omitted {
            bytes: 1,
            lines: 0,
            from_line: 3,
            to_line: 3,
            offset: 77,
        };
        let text = marker.text(&omitted);
        for needed in [
            "1 byte omitted",
            "0 lines",
            PLACE.file_path,
            PLACE.output,
            "offset 77",
        ] {
            assert!(text.contains(needed), "{needed} in {text}");
        }
        assert!(
            ["grep", "head", "jq", "cut", "read tool"]
                .iter()
                .all(|tool| text.contains(tool))
        );
    }

    #[test]
    fn what_was_not_kept_is_not_promised() {
        let text = Held::Nothing(Loss::DiskFull).pick_up(0);
        assert!(text.contains("not saved") && text.contains("cannot be recovered"));
        assert!(text.contains("narrow the command and run it again"));
        assert!(!text.contains('/'));
    }

    #[test]
    fn a_short_file_is_picked_up_where_it_has_something() {
        let held = Held::Part {
            place: PLACE,
            stored: 10,
            dropped: 90,
            loss: Loss::RunCap,
        };
        assert_eq!([9, 10, 50].map(|offset| held.pick_up_at(offset)), [9, 0, 0]);
        let text = held.pick_up(9);
        assert!(text.contains("first 10 bytes") && text.contains("other 90 bytes"));
        let held = Held::Part {
            place: PLACE,
            stored: 10,
            dropped: 0,
            loss: Loss::RunnerLost,
        };
        let text = held.pick_up(9);
        assert!(text.contains("first 10 bytes") && text.contains("more is not known"));
        assert!(!text.contains("run it again"));
    }
}

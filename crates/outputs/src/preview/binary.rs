//! What is shown of bytes that are no text: size, type and the beginning as a hex dump.

use super::{Shown, all_omitted, ellipsis};
use crate::capture::Captured;
use crate::limits::Limits;
use crate::marker::{Cost, Held, count};
use crate::media;
use crate::receipt::View;
use std::fmt::Write;

/// Bytes in a row of the dump.
const ROW: usize = 16;
/// Rows of the dump: enough to know a format by its header.
const ROWS: usize = 8;

/// Nothing of the stream is shown as text, so all of it is omitted.
pub(super) fn show(captured: &Captured, limits: Limits, held: Held<'_>) -> Shown {
    Shown {
        result: result(captured, limits, held),
        omitted: Some(all_omitted(captured)),
        lossy: true,
        view: View::Binary,
    }
}

fn result(captured: &Captured, limits: Limits, held: Held<'_>) -> String {
    let mut result = title(captured, held);
    if !fits(&result, limits) {
        return ellipsis(limits).to_owned();
    }
    // As everywhere, instructions take at most half of what may be shown.
    let instructions = result.clone() + &held.pick_up(0);
    let affordable = Cost::of(&instructions).is_at_most_half(limits);
    let pick_up = if affordable {
        held.pick_up(0)
    } else {
        String::new()
    };
    for (number, bytes) in captured.head.chunks(ROW).take(ROWS).enumerate() {
        let row = row(number * ROW, bytes);
        if !fits(&format!("{result}{row}{pick_up}"), limits) {
            break;
        }
        result.push_str(&row);
    }
    result + &pick_up
}

fn title(captured: &Captured, held: Held<'_>) -> String {
    let size = count(captured.total_size, "byte");
    format!(
        "[binary output: {size}, {}{}]\n",
        media::type_of(&captured.head),
        held.remark()
    )
}

fn fits(text: &str, limits: Limits) -> bool {
    let Cost { bytes, lines } = Cost::of(text);
    bytes <= limits.max_bytes() as usize && lines <= limits.max_lines() as usize
}

/// Offset, bytes in hex, and those that are printable ASCII.
fn row(offset: usize, bytes: &[u8]) -> String {
    let mut row = format!("{offset:08x} ");
    for i in 0..ROW {
        let gap = if i == ROW / 2 { " " } else { "" };
        let cell = bytes
            .get(i)
            .map_or_else(|| "  ".to_owned(), |byte| format!("{byte:02x}"));
        // Writing to a string cannot fail.
        let _ = write!(row, "{gap} {cell}");
    }
    let printable = |&b: &u8| {
        if matches!(b, b' '..=b'~') {
            char::from(b)
        } else {
            '.'
        }
    };
    let ascii: String = bytes.iter().map(printable).collect();
    let _ = writeln!(row, "  |{ascii}|");
    row
}

#[cfg(test)]
mod tests {
    use super::row;

    #[test]
    fn a_row_looks_like_that_of_every_hex_dump() {
        assert_eq!(
            row(16, b"0123456789abcdef"),
            "00000010  30 31 32 33 34 35 36 37  38 39 61 62 63 64 65 66  |0123456789abcdef|\n"
        );
        assert_eq!(
            row(0, b"a\0\xff"),
            "00000000  61 00 ff                                          |a..|\n"
        );
    }
}

//! What a terminal is shown: text that cannot steer it.
//!
//! A command's output, and the words of a host in a problem, may contain anything. Written to a terminal it could move
//! the cursor over what was said before, set titles, or answer questions in the user's name.

use std::borrow::Cow;
use std::fmt::Write;

/// The same text with a character that is only seen for each that is more. Tabs and ends of lines stay.
pub(super) fn harmless(text: &str) -> Cow<'_, str> {
    if text.chars().any(steers) {
        text.chars().map(seen).collect()
    } else {
        text.into()
    }
}

/// A character that is only seen.
pub(super) fn seen(c: char) -> char {
    match c {
        '\u{7f}' => '\u{2421}',
        // Each has a picture: ESC is shown as a small "ESC".
        c if c < ' ' && steers(c) => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
        c if steers(c) => '\u{fffd}',
        c => c,
    }
}

/// The same JSON with escapes for such characters; they can only stand in its strings.
pub(super) fn harmless_json(json: &str) -> Cow<'_, str> {
    if !json.chars().any(steers) {
        return json.into();
    }
    let mut escaped = String::with_capacity(json.len() + 64);
    for c in json.chars() {
        if steers(c) {
            let _ = write!(escaped, "\\u{:04x}", u32::from(c));
        } else {
            escaped.push(c);
        }
    }
    escaped.into()
}

/// Whether a terminal does something else with it than showing it: a control, or one of Unicode's for the direction of text.
fn steers(c: char) -> bool {
    let reorders = matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    reorders || (c.is_control() && c != '\n' && c != '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(harmless(text), expected, "{text:?}");
        assert_eq!(harmless(expected), expected);
    }

    #[test]
    fn what_steers_is_shown_and_the_rest_left_alone() {
        check(
            "a\tb\n\u{e4}\u{4e2d}\u{1f600}",
            "a\tb\n\u{e4}\u{4e2d}\u{1f600}",
        );
        check(
            "\u{1b}[2Jx\ry\0\u{7}",
            "\u{241b}[2Jx\u{240d}y\u{2400}\u{2407}",
        );
        check("\u{7f}\u{80}\u{9b}31m", "\u{2421}\u{fffd}\u{fffd}31m");
        check(
            "\u{202e}\u{2066}\u{200f}\u{61c}",
            "\u{fffd}\u{fffd}\u{fffd}\u{fffd}",
        );
    }

    #[test]
    fn json_stays_the_same_json() {
        let json = "{\n\t\"a\": \"\u{7f}\u{9b}\u{202e}b\"}";
        let shown = harmless_json(json);
        assert_eq!(shown, "{\n\t\"a\": \"\\u007f\\u009b\\u202eb\"}");
        let parse = |json: &str| serde_json::from_str::<serde_json::Value>(json).unwrap();
        assert_eq!(parse(&shown), parse(json));
    }
}

//! The line-local view: the same laws, judged on what it leaves.

use crate::laws::{
    check_binary, check_bounds, check_cut, check_kept, check_through, ends, limits, place, room,
};
use crate::oracle::{self, Seen};
use crate::shell::{self, PLACE, Room};
use crate::streams::{chunks, cuts, stream, terminal_stream};
use proptest::prelude::*;
use willcall_outputs::limits::{Limits, Strategy as Ends};
use willcall_outputs::preview::preview;
use willcall_outputs::receipt::{Receipt, View};
use willcall_outputs::view::Mode;

fn show(chunks: &[&[u8]], limits: Limits, ends: Ends) -> (Receipt, Vec<u8>) {
    let (captured, file) = shell::capture_as(Mode::Auto, chunks, limits, Room::ENDLESS);
    (preview(&captured, limits, ends, PLACE), file)
}

proptest! {
    #[test]
    fn previews_of_what_is_seen_obey_the_law(
        stream in terminal_stream(), cuts in cuts(), limits in limits(), ends in ends(),
        place in place(), room in room(),
    ) {
        let (captured, file) = shell::capture_as(Mode::Auto, &chunks(&stream, &cuts), limits, room);
        let receipt = preview(&captured, limits, ends, place);
        check_kept(&stream, &file, room, place, &receipt);
        if oracle::is_binary(&stream) {
            check_bounds(&stream, limits, &receipt);
            check_binary(&stream, &receipt);
            return Ok(());
        }
        let seen = Seen::by_line(&stream);
        let shown = seen.bytes();
        check_bounds(&shown, limits, &receipt);
        prop_assert_eq!(receipt.rendered, shown != stream);
        if oracle::fits(&shown, limits) {
            check_through(&shown, &receipt);
        } else {
            check_cut(&stream, &seen, &captured, limits, ends, place);
        }
    }

    /// Where the view would change nothing, nothing is different from having none.
    #[test]
    fn what_the_view_does_not_change_is_as_if_there_were_none(
        stream in stream(), cuts in cuts(), limits in limits(), room in room(),
    ) {
        let stream = Seen::by_line(&stream).bytes();
        let chunks = chunks(&stream, &cuts);
        let raw = shell::capture(&chunks, limits, room);
        prop_assert_eq!(shell::capture_as(Mode::Auto, &chunks, limits, room), raw);
    }

    #[test]
    fn chunks_do_not_show_in_a_view(
        stream in terminal_stream(), cuts in cuts(), limits in limits(), ends in ends(),
    ) {
        let whole = show(&[&stream], limits, ends);
        prop_assert_eq!(show(&chunks(&stream, &cuts), limits, ends), whole);
    }
}

#[test]
fn a_long_progress_bar_is_one_short_line() {
    let stream = b"\r12%".repeat(2_500_000);
    let (receipt, file) = show(&[&stream], Limits::default(), Ends::HeadTail);
    assert_eq!(receipt.result, "12%");
    assert!(!receipt.truncated && receipt.rendered && receipt.saved && receipt.complete);
    assert_eq!((receipt.view, receipt.omitted), (View::Rendered, None));
    assert_eq!((receipt.total_size, receipt.total_lines), (10_000_000, 1));
    assert!(file == stream);
}

/// What comes before a line that never fitted the windows is still there when that line is written over.
#[test]
fn a_line_of_megabytes_that_is_written_over_costs_the_head_nothing() {
    let beginning = b"first\nsecond\n";
    let long = vec![b'x'; 3_000_000];
    let stream = [beginning, &long[..], b"\rdone\nlast\n"].concat();
    let limits = Limits::new(1000, 100).expect("above 0");
    let (receipt, file) = show(&[&stream], limits, Ends::HeadTail);
    assert_eq!(receipt.result, "first\nsecond\ndone\nlast\n");
    assert!(!receipt.truncated && receipt.rendered && file == stream);
}

/// The tail may then show less than fits; what it shows is true.
#[test]
fn a_line_of_megabytes_may_cost_the_tail_what_was_before_it() {
    let lines = b"0123456\n".repeat(2000);
    let long = vec![b'x'; 3_000_000];
    let limits = Limits::new(1000, 100).expect("above 0");
    let show = |end: &[u8]| {
        let stream = [&lines, &long[..], end].concat();
        let (receipt, _) = show(&[&stream], limits, Ends::Tail);
        (receipt.result.clone(), receipt.omitted.expect("cut"))
    };
    let (result, omitted) = show(b"\rdone\nlast\n");
    assert!(result.ends_with("]\nlast\n"), "{result}");
    assert_eq!((omitted.offset, omitted.bytes), (0, 3_016_006));
    assert_eq!((omitted.from_line, omitted.to_line), (1, 2001));
    assert_eq!(omitted.lines, 2001);
    let (result, omitted) = show(b"\rdone");
    assert!(result.ends_with("]\ndone"), "{result}");
    assert_eq!((omitted.offset, omitted.bytes), (0, 3_016_001));
    assert_eq!((omitted.to_line, omitted.lines), (2001, 2000));
}

#[test]
fn a_view_that_leaves_nothing_is_an_empty_result_and_kept() {
    let (receipt, file) = show(
        &[b"\x1b[2J\x1b]0;title\x07"],
        Limits::default(),
        Ends::HeadTail,
    );
    assert_eq!((receipt.result.as_str(), receipt.truncated), ("", false));
    assert!(receipt.rendered && receipt.saved && !receipt.lossy);
    assert_eq!(file, b"\x1b[2J\x1b]0;title\x07");
}

#[test]
fn lossy_and_rendered_go_together() {
    let (receipt, file) = show(
        &[b"\x1b[31mcaf\xe9\x1b[0m\n"],
        Limits::default(),
        Ends::HeadTail,
    );
    assert_eq!(receipt.result, "caf\u{fffd}\n");
    assert!(receipt.lossy && receipt.rendered && receipt.saved);
    assert_eq!(file.len(), 14);
}

/// Offsets stay true where every character of gigantic coloured text has a sequence of its own.
#[test]
fn every_character_coloured() {
    let one = |c: char| format!("\x1b[38;5;{}m{c}\x1b[39m", u32::from(c));
    let stream: String = (0..60_000u32)
        .map(|i| match i % 50 {
            49 => "\n".to_owned(),
            i => one(char::from(b'A' + u8::try_from(i).expect("below 50"))),
        })
        .collect();
    let limits = Limits::new(5000, 2000).expect("above 0");
    let (captured, _) = shell::capture_as(Mode::Auto, &[stream.as_bytes()], limits, Room::ENDLESS);
    let seen = Seen::by_line(stream.as_bytes());
    check_cut(
        stream.as_bytes(),
        &seen,
        &captured,
        limits,
        Ends::HeadTail,
        PLACE,
    );
}

use super::*;
use crate::capture::{Kept, Loss};
use crate::limits::{self, TURN_RESERVE};
use crate::preview::preview;
use proptest::prelude::*;

const PLACE: Place<'_> = Place {
    file_path: "/o/r.stdout.txt",
    output: "r/stdout",
};

/// A stream that is in memory whole.
fn captured(stream: &[u8], kept: Kept) -> Captured {
    Captured {
        total_size: stream.len() as u64,
        newlines: text::count_newlines(stream) as u64,
        head: stream.to_vec(),
        tail: Vec::new(),
        rendered: None,
        terminal: None,
        kept,
    }
}

fn file(stored: usize, loss: Option<Loss>) -> Kept {
    Kept::File {
        stored: stored as u64,
        digest: None,
        loss,
    }
}

fn limits(max_bytes: u32, max_lines: u32) -> Limits {
    Limits::new(max_bytes, max_lines).expect("limits of a test")
}

fn show(stream: &[u8], room: u64) -> Receipt {
    let captured = captured(stream, file(stream.len(), None));
    degraded(&captured, Limits::default(), room, PLACE)
}

#[test]
fn the_first_bytes_and_where_all_of_it_is() {
    let receipt = show(&b"x".repeat(10_000), TURN_RESERVE);
    let expected = format!(
        "{}\n[... 7952 bytes omitted, whole output at /o/r.stdout.txt ...]\n",
        "x".repeat(2048)
    );
    assert_eq!(receipt.result, expected);
    let omitted = receipt.omitted.expect("cut");
    assert_eq!((omitted.bytes, omitted.offset), (7952, 2048));
    assert_eq!(
        (omitted.lines, omitted.from_line, omitted.to_line),
        (0, 1, 1)
    );
    assert!(receipt.truncated && receipt.saved && receipt.complete && !receipt.lossy);
    assert_eq!(receipt.file_path.as_deref(), Some(PLACE.file_path));
    assert_eq!(receipt.output.as_deref(), Some(PLACE.output));
}

#[test]
fn characters_are_whole() {
    // 2,048 is no multiple of 3.
    let receipt = show("€".repeat(5000).as_bytes(), TURN_RESERVE);
    assert!(
        receipt
            .result
            .starts_with(&format!("{}\n[", "€".repeat(682)))
    );
    let receipt = show(
        &[b"x".repeat(2047), b"\r\n".repeat(999)].concat(),
        TURN_RESERVE,
    );
    assert!(
        receipt
            .result
            .starts_with(&format!("{}\n[", "x".repeat(2047)))
    );
}

#[test]
fn a_path_that_does_not_fit_is_left_out_and_never_cut() {
    let long = format!("/{}", "p".repeat(250));
    let place = Place {
        file_path: &long,
        output: "r/stdout",
    };
    let stream = b"x\n".repeat(5000);
    let receipt = degraded(
        &captured(&stream, file(stream.len(), None)),
        Limits::default(),
        TURN_RESERVE,
        place,
    );
    assert!(
        receipt
            .result
            .ends_with("x\n[... 7952 bytes omitted ...]\n")
    );
    assert_eq!(receipt.file_path.as_deref(), Some(long.as_str()));
}

#[test]
fn what_is_not_saved_or_not_all_is_told() {
    let stream = b"x".repeat(10_000);
    let with = |kept| {
        degraded(
            &captured(&stream, kept),
            Limits::default(),
            TURN_RESERVE,
            PLACE,
        )
    };
    let nothing = with(Kept::Nothing {
        loss: Loss::DiskFull,
    });
    assert!(
        nothing
            .result
            .ends_with("x\n[... 7952 bytes omitted, not saved ...]\n")
    );
    assert_eq!(
        (nothing.saved, nothing.file_path, nothing.reason),
        (false, None, Some(Loss::DiskFull))
    );
    assert_eq!((nothing.complete, nothing.dropped_bytes), (false, 10_000));
    let part = with(file(9000, Some(Loss::DiskFull)));
    let end =
        "x\n[... 7952 bytes omitted, only the first 9000 bytes saved at /o/r.stdout.txt ...]\n";
    assert!(part.result.ends_with(end), "{}", part.result);
    assert_eq!((part.saved, part.dropped_bytes), (true, 1000));
}

#[test]
fn the_calls_own_limits_hold_all_the_same() {
    let stream = b"line\n".repeat(2000);
    let kept = file(stream.len(), None);
    let captured = captured(&stream, kept);
    let show = |bytes, lines| degraded(&captured, limits(bytes, lines), TURN_RESERVE, PLACE).result;
    assert_eq!(
        show(9000, 3),
        "line\nline\n[... 9990 bytes omitted, whole output at /o/r.stdout.txt ...]\n"
    );
    // A mark takes at most half of each limit.
    assert_eq!(show(9000, 1), "line\n");
    assert_eq!(
        show(68, 9),
        "line\n".repeat(7) + "li\n[... 9963 bytes omitted ...]\n"
    );
    assert_eq!(show(7, 9), "line\nli");
}

#[test]
fn where_there_is_no_room_there_are_only_fields() {
    let receipt = show(b"one\ntwo\n", 0);
    assert_eq!((receipt.result.as_str(), receipt.truncated), ("", true));
    let omitted = receipt.omitted.expect("all of it");
    assert_eq!((omitted.bytes, omitted.offset, omitted.lines), (8, 0, 2));
    let receipt = show("€".repeat(999).as_bytes(), 2);
    assert_eq!(receipt.result, "");
    assert_eq!(receipt.omitted.expect("all of it").bytes, 2997);
}

#[test]
fn a_binary_stream_is_shown_as_one_with_less_room() {
    let receipt = show(&b"\0\x01".repeat(5000), 400);
    assert!(
        receipt.result.starts_with("[binary output: 10000 bytes"),
        "{}",
        receipt.result
    );
    assert!(receipt.result.len() <= 400 && receipt.lossy);
    assert_eq!(
        (receipt.view, receipt.omitted.expect("all").bytes),
        (View::Binary, 10_000)
    );
    let receipt = show(&b"\0\x01".repeat(5000), 0);
    assert_eq!((receipt.result.as_str(), receipt.view), ("", View::Binary));
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => "[ -~\n]{0,200}",
        2 => "[ab€😀\r\n]{0,40}",
        1 => Just("\n".repeat(300)),
    ];
    let text = prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat().into_bytes());
    (text, prop::option::of(any::<prop::sample::Index>())).prop_map(|(mut text, ill)| {
        if let (Some(ill), false) = (ill, text.is_empty()) {
            let at = ill.index(text.len());
            text[at] = 0xff;
        }
        text
    })
}

proptest! {
    /// Whatever does not fit its room comes within room, reserve and the call's limits, shows the text's
    /// beginning, and its fields say what is left out.
    #[test]
    fn a_degraded_result_keeps_every_bound(
        stream in stream(),
        max_bytes in prop_oneof![1..200_u32, 1..6000_u32],
        max_lines in prop_oneof![1..4_u32, 1..400_u32],
        room in any::<prop::sample::Index>(),
    ) {
        let asked = limits(max_bytes, max_lines);
        let captured = captured(&stream, file(stream.len(), None));
        let whole = preview(&captured, asked, limits::Strategy::HeadTail, PLACE);
        // Any room that is too small for it.
        let Some(most) = whole.result.len().checked_sub(1) else {
            return Ok(());
        };
        let reserve = usize::try_from(TURN_RESERVE).expect("small");
        let room = room.index(most.min(reserve) + 1) as u64;
        if whole.view == View::Binary {
            return Ok(());
        }
        let got = degraded(&captured, asked, room, PLACE);
        let result = got.result.as_bytes();
        prop_assert!(result.len() as u64 <= room && result.len() <= max_bytes as usize);
        prop_assert!(text::count_lines(result) <= max_lines as usize);
        let omitted = got.omitted.expect("it does not fit");
        let shown = usize::try_from(omitted.offset).expect("short");
        prop_assert!(omitted.bytes > 0);
        prop_assert_eq!(omitted.bytes + omitted.offset, stream.len() as u64);
        prop_assert_eq!(omitted.from_line, text::count_newlines(&stream[..shown]) as u64 + 1);
        let (beginning, lossy) = text::decode(&stream[..shown]);
        prop_assert!(beginning.len() <= DEGRADED_TEXT && got.result.starts_with(&beginning));
        let mark = got.result[beginning.len()..].trim_start_matches('\n');
        prop_assert!(mark.is_empty() || mark.starts_with("[... ") && mark.ends_with(" ...]\n"));
        prop_assert_eq!(got.lossy, lossy);
        prop_assert_eq!((got.total_size, got.digest, got.file_path), (whole.total_size, whole.digest, whole.file_path));
    }
}

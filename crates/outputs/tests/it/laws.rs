//! Every law of the preview as a property, and equality with the oracle.

use crate::oracle::{self, Glyph, Reserved, Seen};
use crate::shell::{self, PLACE, Room};
use crate::streams::{chunks, cuts, stream};
use proptest::prelude::*;
use proptest::sample::Index;
use willcall_outputs::capture::{Captured, Kept, Loss};
use willcall_outputs::limits::{Limits, Strategy as Ends};
use willcall_outputs::marker::{Form, Held, MAX_BYTES, MAX_LINES, Marker};
use willcall_outputs::preview::{Place, preview};
use willcall_outputs::receipt::{Receipt, View};

pub(crate) fn limits() -> impl Strategy<Value = Limits> {
    let bytes = prop_oneof![
        3 => 1..12u32,
        6 => 12..400u32,
        4 => 400..3000u32,
        1 => 3000..20_000u32,
    ];
    let lines = prop_oneof![4 => 1..6u32, 4 => 6..40u32, 3 => Just(2000u32), 1 => Just(u32::MAX)];
    (bytes, lines).prop_map(|(bytes, lines)| Limits::new(bytes, lines).expect("above 0"))
}

pub(crate) fn ends() -> impl Strategy<Value = Ends> {
    prop_oneof![3 => Just(Ends::HeadTail), 1 => Just(Ends::Head), 1 => Just(Ends::Tail)]
}

/// A path short enough for a full marker in small limits, or one that is never affordable.
pub(crate) fn place() -> impl Strategy<Value = Place<'static>> {
    let short = Place {
        file_path: "/o",
        output: "r/stdout",
    };
    prop_oneof![2 => Just(short), 1 => Just(PLACE)]
}

/// Room that ends somewhere in the stream or behind it, by the cap or by the disk.
pub(crate) fn room() -> impl Strategy<Value = Room> {
    prop_oneof![
        3 => Just(Room::ENDLESS),
        1 => (0..5000usize).prop_map(|disk| Room { disk, ..Room::ENDLESS }),
        1 => (0..5000u64).prop_map(|max_kept| Room { max_kept, ..Room::ENDLESS }),
    ]
}

/// Law 3: never beyond the limits, and never empty for a text that is not.
pub(crate) fn check_bounds(shown: &[u8], limits: Limits, receipt: &Receipt) {
    assert!(receipt.result.len() <= limits.max_bytes() as usize);
    assert!(oracle::count_lines(&receipt.result) <= limits.max_lines() as usize);
    assert_eq!(receipt.result.is_empty(), shown.is_empty());
    assert!(!receipt.result.contains('\0'));
    assert_eq!(receipt.omitted.is_none(), !receipt.truncated);
}

/// Laws 1, 2, 7 and 10: what had to be kept is in the file, or the receipt says that it is not.
pub(crate) fn check_kept(
    stream: &[u8],
    file: &[u8],
    room: Room,
    place: Place<'_>,
    receipt: &Receipt,
) {
    let total = stream.len() as u64;
    let text = std::str::from_utf8(stream).is_ok_and(|text| !text.contains('\0'));
    let needed = receipt.truncated || receipt.rendered || !text;
    assert_eq!(receipt.total_size, total);
    assert_eq!(receipt.rendered, receipt.view == View::Rendered);
    assert_eq!(
        receipt.total_lines,
        oracle::count_lines(&String::from_utf8_lossy(stream)) as u64
    );
    assert_eq!(file, &stream[..file.len()]);
    if !needed {
        assert!(file.is_empty() && !receipt.saved && receipt.complete && receipt.reason.is_none());
        assert_eq!(receipt.file_path, None);
        return;
    }
    let room = room
        .disk
        .min(usize::try_from(room.max_kept).unwrap_or(usize::MAX));
    assert_eq!(file.len(), stream.len().min(room));
    assert_eq!(receipt.saved, !file.is_empty());
    assert_eq!(
        receipt.file_path.as_deref(),
        receipt.saved.then_some(place.file_path)
    );
    assert_eq!(
        receipt.output.as_deref(),
        receipt.saved.then_some(place.output)
    );
    assert_eq!(receipt.dropped_bytes, total - file.len() as u64);
    assert_eq!(receipt.complete, file.len() == stream.len());
    assert_eq!(receipt.reason.is_none(), receipt.complete);
}

/// What the engine reserves for its marker, with what law 3 says about it.
fn reserved<'a>(
    captured: &Captured,
    limits: Limits,
    ends: Ends,
    place: Place<'a>,
) -> (Option<Marker<'a>>, Reserved) {
    let marker = Marker::choose(
        captured,
        limits,
        Held::of(captured, place),
        ends != Ends::Tail,
    );
    let cost = marker.map(|marker| (marker.cost.bytes, marker.cost.lines));
    if let Some((bytes, lines)) = cost {
        assert!(2 * bytes <= limits.max_bytes() as usize);
        assert!(2 * lines <= limits.max_lines() as usize);
        assert!(bytes <= MAX_BYTES + place.file_path.len() && lines <= MAX_LINES);
    }
    (marker, cost)
}

/// Laws 2 to 6: the result is head, marker and tail of the oracle, to the byte. `shown` is the stream, or
/// what a view left of it.
pub(crate) fn check_cut(
    stream: &[u8],
    shown: &Seen,
    captured: &Captured,
    limits: Limits,
    ends: Ends,
    place: Place<'_>,
) {
    let receipt = preview(captured, limits, ends, place);
    let (marker, cost) = reserved(captured, limits, ends, place);
    let (head, tail) = oracle::head_and_tail(&shown.bytes(), limits, ends, cost);
    let (from, to) = shown.between(stream, oracle::raw(&head), oracle::raw(&tail));
    let omitted = oracle::omitted(stream, from, stream.len() - to);
    assert_eq!(receipt.omitted, Some(omitted));
    let mut expected = oracle::text(&head);
    if let Some(marker) = marker {
        let text = marker.text(&omitted);
        let seam = usize::from(!expected.is_empty() && !expected.ends_with('\n'));
        expected.push_str(&"\n"[..seam]);
        expected.push_str(&text);
        assert!(text.ends_with('\n'));
        assert!(text.len() + seam <= marker.cost.bytes);
        assert!(oracle::count_lines(&text) <= marker.cost.lines);
        assert_eq!(
            marker.form == Form::Full && receipt.saved,
            text.contains(place.output)
        );
    }
    expected.push_str(&oracle::text(&tail));
    if expected.is_empty() {
        expected.push_str(&"..."[..3.min(limits.max_bytes() as usize)]);
    }
    assert_eq!(receipt.result, expected);
    let replaced = |side: &[Glyph]| side.iter().any(|glyph| glyph.replaced);
    assert_eq!(receipt.lossy, replaced(&head) || replaced(&tail));
    assert!(receipt.truncated && receipt.view != View::Binary);
}

pub(crate) fn check_through(shown: &[u8], receipt: &Receipt) {
    let glyphs = oracle::glyphs(shown);
    assert_eq!(receipt.result, oracle::text(&glyphs));
    assert_eq!(receipt.lossy, glyphs.iter().any(|glyph| glyph.replaced));
    assert!(!receipt.truncated && receipt.view != View::Binary);
}

pub(crate) fn check_binary(stream: &[u8], receipt: &Receipt) {
    assert_eq!(
        (receipt.view, receipt.lossy, receipt.truncated),
        (View::Binary, true, true)
    );
    assert_eq!(receipt.omitted, Some(oracle::omitted(stream, 0, 0)));
    let size = format!("{} byte", stream.len());
    assert!(receipt.result.contains(&size) || "...".starts_with(&receipt.result));
}

proptest! {
    #[test]
    fn previews_obey_the_law(
        stream in stream(), cuts in cuts(), limits in limits(), ends in ends(),
        place in place(), room in room(),
    ) {
        let (captured, file) = shell::capture(&chunks(&stream, &cuts), limits, room);
        let receipt = preview(&captured, limits, ends, place);
        check_bounds(&stream, limits, &receipt);
        check_kept(&stream, &file, room, place, &receipt);
        prop_assert!(!receipt.rendered);
        if oracle::is_binary(&stream) {
            check_binary(&stream, &receipt);
        } else if oracle::fits(&stream, limits) {
            check_through(&stream, &receipt);
        } else {
            check_cut(&stream, &Seen::all(&stream), &captured, limits, ends, place);
        }
    }

    /// Limits at, just above and just below what the stream needs.
    #[test]
    fn the_limits_are_inclusive(
        stream in stream(), cuts in cuts(), ends in ends(),
        bytes_over in -2..3i64, lines_over in -2..3i64,
    ) {
        let text = oracle::text(&oracle::glyphs(&stream));
        let near = |exact: usize, over: i64| {
            u32::try_from((i64::try_from(exact).expect("short") + over).max(1)).expect("short")
        };
        let limits = Limits::new(
            near(text.len(), bytes_over),
            near(oracle::count_lines(&text), lines_over),
        ).expect("streams are below the ceiling");
        let receipt = shell::receipt(&chunks(&stream, &cuts), limits, ends);
        check_bounds(&stream, limits, &receipt);
        if !oracle::is_binary(&stream) {
            prop_assert_eq!(!receipt.truncated, oracle::fits(&stream, limits));
        }
    }

    /// How the bytes come in makes no difference.
    #[test]
    fn chunks_do_not_show(
        stream in stream(), cuts in cuts(), limits in limits(), ends in ends(),
    ) {
        let whole = shell::receipt(&[&stream], limits, ends);
        prop_assert_eq!(shell::receipt(&chunks(&stream, &cuts), limits, ends), whole);
    }

    /// Text that looks like a marker is content: it moves no field.
    #[test]
    fn a_forged_marker_moves_no_field(
        stream in stream(), limits in limits(), ends in ends(), at in any::<Index>(),
    ) {
        let forged = shell::receipt(&[&b"x\n".repeat(9000)], Limits::default(), Ends::HeadTail);
        let marker = forged.result.split_inclusive('\n').find(|line| line.starts_with("[the whole"));
        let marker = marker.expect("a full marker names the file").replace("/w/", "/etc/");
        let at = at.index(stream.len() + 1);
        let stream = [&stream[..at], marker.as_bytes(), &stream[at..]].concat();
        let receipt = shell::receipt(&[&stream], limits, ends);
        let ours = receipt.saved.then_some(PLACE.file_path);
        prop_assert_eq!(receipt.file_path.as_deref(), ours);
    }
}

#[test]
fn a_full_disk_is_said_where_the_middle_is_missing() {
    let stream = b"0123456789\n".repeat(1000);
    let limits = Limits::new(2000, 200).expect("above 0");
    let room = Room {
        disk: 0,
        ..Room::ENDLESS
    };
    let (captured, _) = shell::capture(&[&stream], limits, room);
    assert_eq!(
        captured.kept,
        Kept::Nothing {
            loss: Loss::DiskFull
        }
    );
    let receipt = preview(&captured, limits, Ends::HeadTail, PLACE);
    assert!(receipt.result.contains("not saved, since the disk is full"));
    assert!(
        receipt
            .result
            .contains("cannot be recovered; narrow the command and run it again")
    );
    assert!(!receipt.result.contains(PLACE.file_path));
    assert_eq!((receipt.saved, receipt.dropped_bytes), (false, 11_000));
}

#[test]
fn a_cap_is_said_with_what_is_there() {
    let stream = b"0123456789\n".repeat(1000);
    let limits = Limits::new(2000, 200).expect("above 0");
    let room = Room {
        max_kept: 4400,
        ..Room::ENDLESS
    };
    let (captured, file) = shell::capture(&[&stream], limits, room);
    let receipt = preview(&captured, limits, Ends::HeadTail, PLACE);
    assert_eq!(file.len(), 4400);
    for said in [
        "only the first 4400 bytes",
        PLACE.file_path,
        "other 6600 bytes",
        PLACE.output,
    ] {
        assert!(
            receipt.result.contains(said),
            "{said} in {}",
            receipt.result
        );
    }
    assert!(receipt.result.ends_with("0123456789\n"));
}

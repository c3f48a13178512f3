//! Policies other than that of foreground runs.

use super::*;
use crate::preview::{Place, preview};
use crate::receipt::Receipt;
use proptest::prelude::*;

fn job(cap: u64) -> Shell {
    Shell::with(100, 10, Policy::Background { cap })
}

fn receipt(captured: &Captured, max_bytes: u32, max_lines: u32) -> Receipt {
    let limits = Limits::new(max_bytes, max_lines).expect("limits of a test");
    let place = Place {
        file_path: "/w/.outputs/s/f.txt",
        output: "r/stdout",
    };
    preview(captured, limits, crate::limits::Strategy::HeadTail, place)
}

#[test]
fn a_job_writes_from_its_first_byte() {
    let mut shell = job(1000);
    assert!(!shell.capture.must_keep());
    shell.feed(b"a");
    assert_eq!(shell.file, b"a");
    shell.feed(b"b");
    let (captured, file) = shell.finish();
    assert_eq!(file, b"ab");
    let receipt = receipt(&captured, 100, 10);
    assert_eq!(
        (receipt.result.as_str(), receipt.truncated, receipt.saved),
        ("ab", false, true)
    );
    assert_eq!((receipt.complete, receipt.reason), (true, None));
}

#[test]
fn a_job_that_writes_nothing_needs_no_file() {
    assert_eq!(job(1000).finish().0.kept, Kept::NotNeeded);
}

#[test]
fn a_job_is_over_its_cap_at_the_byte_that_would_pass_it() {
    let mut shell = job(10);
    shell.feed(b"123456").feed(b"7890");
    assert!(!shell.capture.is_over_cap());
    shell.feed(b"!");
    assert!(shell.capture.is_over_cap());
    shell.feed(b"more that comes while it dies");
    let (captured, file) = shell.finish();
    assert_eq!(file, b"1234567890");
    let loss = Some(Loss::OutputCap);
    assert_eq!(
        captured.kept,
        Kept::File {
            stored: 10,
            digest: None,
            loss
        }
    );
    let receipt = receipt(&captured, 100, 10);
    assert_eq!(
        (receipt.complete, receipt.dropped_bytes, receipt.total_size),
        (false, 30, 40)
    );
}

#[test]
fn a_job_whose_disk_is_full_is_not_over_its_cap() {
    let mut shell = job(10);
    shell.room = 5;
    shell.feed(b"12345678901234567890");
    assert!(!shell.capture.is_over_cap());
    let kept = shell.finish().0.kept;
    assert!(matches!(
        kept,
        Kept::File {
            stored: 5,
            loss: Some(Loss::DiskFull),
            ..
        }
    ));
}

#[test]
fn a_foreground_run_is_never_over_a_cap() {
    let mut shell = Shell::new(4, 10, 10);
    shell.feed(b"12345678901234567890");
    assert!(!shell.capture.is_over_cap());
}

#[test]
fn what_a_host_discards_is_counted_and_said() {
    let mut shell = Shell::with(600, 10, Policy::Discard);
    let long = long_stream(5000);
    shell.feed(&long);
    let (captured, file) = shell.finish();
    assert_eq!(file, b"");
    let loss = Loss::Discarded;
    assert_eq!(captured.kept, Kept::Nothing { loss });
    let receipt = receipt(&captured, 600, 10);
    assert_eq!(
        (receipt.saved, receipt.complete, receipt.dropped_bytes),
        (false, false, 5000)
    );
    assert_eq!((receipt.file_path, receipt.reason), (None, Some(loss)));
    assert!(
        receipt
            .result
            .contains("not saved, since output is not kept here")
    );
    assert!(receipt.result.starts_with("0000000\n") && !receipt.result.contains("/w/"));
}

#[test]
fn small_output_that_fits_is_whole_without_a_file() {
    for policy in [Policy::Discard, Policy::Reject] {
        let mut shell = Shell::with(10, 2, policy);
        shell.feed(b"hi\n");
        let (captured, _) = shell.finish();
        let receipt = receipt(&captured, 10, 2);
        assert_eq!(
            (
                receipt.result.as_str(),
                receipt.saved,
                receipt.reason,
                receipt.complete
            ),
            ("hi\n", false, None, true),
            "{policy:?}"
        );
    }
}

#[test]
fn small_output_that_is_not_text_is_shown_and_said_to_be_lost() {
    for policy in [Policy::Discard, Policy::Reject] {
        let mut shell = Shell::with(100, 2, policy);
        shell.feed(b"a long enough caf\xe9\n");
        let (captured, _) = shell.finish();
        let receipt = receipt(&captured, 100, 2);
        assert_eq!(receipt.result, "a long enough caf\u{fffd}\n");
        assert_eq!(
            (receipt.lossy, receipt.saved, receipt.reason),
            (true, false, Some(Loss::Discarded)),
            "{policy:?}"
        );
        assert_eq!((receipt.truncated, receipt.dropped_bytes), (false, 19));
    }
}

#[track_caller]
fn check_rejected(bytes: &[u8], max_bytes: u32, max_lines: u32, expected: bool) {
    let mut shell = Shell::with(max_bytes, max_lines, Policy::Reject);
    shell.feed(bytes);
    let (captured, file) = shell.finish();
    assert_eq!((captured.is_rejected(), file.len()), (expected, 0));
}

#[test]
fn past_a_limit_a_message_is_refused() {
    check_rejected(b"1234567890", 10, 1, false);
    check_rejected(b"1234567890!", 10, 1, true);
    check_rejected(b"1\n2", 10, 1, true);
    // Its text is longer than its bytes.
    check_rejected(b"12345678\xe9", 10, 1, true);
    check_rejected(b"1234567\xe9", 10, 1, false);
    check_rejected(b"", 1, 1, false);
}

#[test]
fn nothing_of_a_refused_message_leaves() {
    let mut shell = Shell::with(1000, 10, Policy::Reject);
    shell.feed(&long_stream(100_000));
    assert!(shell.capture.is_rejected());
    let (captured, _) = shell.finish();
    let full = receipt(&captured, 1000, 10);
    assert!(
        full.result
            .starts_with("[refused: the output is 100000 bytes in 12500 lines")
    );
    assert!(!full.result.contains("0000000"));
    assert_eq!(
        (full.truncated, full.saved, full.reason),
        (true, false, Some(Loss::Rejected))
    );
    assert_eq!(full.omitted.map(|omitted| omitted.bytes), Some(100_000));
    let mut shell = Shell::with(10, 10, Policy::Reject);
    shell.feed(&long_stream(100));
    assert_eq!(receipt(&shell.finish().0, 10, 10).result, "...");
}

#[test]
fn every_loss_has_words_and_a_name() {
    for (loss, name) in [
        (Loss::OutputCap, "\"output_cap\""),
        (Loss::Discarded, "\"discarded\""),
        (Loss::Rejected, "\"rejected\""),
    ] {
        assert_eq!(serde_json::to_string(&loss).expect("JSON"), name);
        assert!(loss.to_string().len() <= 40, "{loss}");
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Keep,
    Background,
}

proptest! {
    /// Whatever the chunks and the cap: the file is the stream's beginning, exact to the byte.
    #[test]
    fn the_file_is_the_beginning_up_to_the_cap(
        stream in prop::collection::vec(prop::sample::select(&b"ab\n\xff\0"[..]), 0..400),
        cuts in prop::collection::vec(1usize..60, 1..20),
        cap in 0u64..300,
        kind in prop::sample::select(vec![Kind::Keep, Kind::Background]),
    ) {
        let policy = match kind {
            Kind::Keep => Policy::Keep { max_kept: cap },
            Kind::Background => Policy::Background { cap },
        };
        let mut shell = Shell::with(20, 5, policy);
        let (mut rest, mut cuts) = (&stream[..], cuts.iter().cycle());
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(rest.len().min(*cuts.next().expect("endless")));
            shell.feed(chunk);
            let fed = (stream.len() - after.len()) as u64;
            if kind == Kind::Background {
                prop_assert_eq!(shell.file.len() as u64, fed.min(cap));
            }
            prop_assert_eq!(shell.capture.is_over_cap(), kind == Kind::Background && fed > cap);
            rest = after;
        }
        let (captured, file) = shell.finish();
        let kept = &stream[..stream.len().min(usize::try_from(cap).expect("small"))];
        match captured.kept {
            Kept::NotNeeded => prop_assert!(file.is_empty() && (stream.is_empty() || kind == Kind::Keep)),
            Kept::File { stored, loss, .. } => {
                prop_assert_eq!(&file[..], kept);
                prop_assert_eq!(stored, kept.len() as u64);
                prop_assert_eq!(loss.is_some(), kept.len() < stream.len());
            }
            Kept::Nothing { .. } => prop_assert!(cap == 0 && file.is_empty()),
        }
    }
}

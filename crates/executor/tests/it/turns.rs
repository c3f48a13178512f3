//! The turn budget, from dispatches and reads to what is sent.

use crate::gateway::{Gateway, output, shell};
use crate::host::{Host, wait_for};
use crate::hung::Hung;
use std::time::{Duration, Instant};
use willcall_outputs::limits::DEFAULT_TURN_BUDGET;
use willcall_protocol::ids::{OutputId, Stream};
use willcall_protocol::message::{Dispatch, Encoding, PageReport, ReadTarget, Turn};
use willcall_protocol::outcome::{Report, StreamReport};

const DEFAULT_PREVIEW: usize = 102_400;

fn turn(id: &str) -> Turn {
    Turn {
        id: id.parse().unwrap(),
        calls: None,
    }
}

/// A command of a turn that prints so many bytes, a line each 64.
fn prints(bytes: usize, id: &str) -> Dispatch {
    let mut asked = shell(&format!("yes {} | head -c {bytes}", "x".repeat(63)));
    asked.turn = Some(turn(id));
    asked
}

fn printed(bytes: usize) -> String {
    let line = "x".repeat(63) + "\n";
    line.repeat(bytes / 64 + 1)[..bytes].to_owned()
}

fn text(report: &Report) -> usize {
    let streams = [&report.stdout, &report.stderr, &report.tty];
    streams.into_iter().flatten().map(|s| s.result.len()).sum()
}

/// Leaves so many bytes of a turn's budget.
fn spend_all_but(gateway: &mut Gateway, left: usize, id: &str) {
    let budget = usize::try_from(DEFAULT_TURN_BUDGET).unwrap();
    for bytes in [DEFAULT_PREVIEW, budget - DEFAULT_PREVIEW - left] {
        let report = gateway.run(prints(bytes, id));
        assert_eq!(text(&report), bytes);
    }
}

fn whole(gateway: &mut Gateway, stream: &StreamReport) -> String {
    let id: OutputId = stream.output.as_ref().unwrap().parse().unwrap();
    let (mut all, mut next) = (String::new(), Some(0));
    while let Some(at) = next {
        let target = ReadTarget::Output(id);
        let page = gateway.read("default", target, at, None, Encoding::Utf8);
        let page = page.expect("readable");
        all.push_str(&page.content);
        next = page.next;
    }
    all
}

#[test]
fn a_result_without_room_shows_its_beginning_and_is_held_whole() {
    let host = Host::start();
    let mut gateway = host.connect();
    spend_all_but(&mut gateway, 5000, "t");
    // Has a file already, which it points at.
    let large = gateway.run(prints(1_000_000, "t")).stdout.unwrap();
    assert!(large.result.len() <= 2304 && large.result.starts_with(&printed(2048)));
    let path = large.file_path.as_ref().unwrap();
    let mark = format!("[... 997952 bytes omitted, whole output at {path} ...]\n");
    assert_eq!(&large.result[2048..], mark);
    assert_eq!(large.omitted.unwrap().offset, 2048);
    assert_eq!(whole(&mut gateway, &large), printed(1_000_000));
    // Had none, since it would have fitted.
    let small = gateway.run(prints(4000, "t")).stdout.unwrap();
    assert!(small.truncated && small.saved && small.complete);
    assert_eq!(&small.output, &small.digest);
    let path = small.file_path.clone().unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), printed(4000));
    assert_eq!(whole(&mut gateway, &small), printed(4000));
    // The same text is the same parcel.
    let again = gateway.run(prints(4000, "t")).stdout.unwrap();
    assert_eq!((again.file_path, again.digest), (Some(path), small.digest));
    // The last bytes show what they can; then the reserve is spent, and there are only fields.
    gateway.run(prints(3000, "t"));
    let none = gateway.run(prints(3000, "t")).stdout.unwrap();
    assert_eq!(
        (none.result.as_str(), none.omitted.unwrap().bytes),
        ("", 3000)
    );
    assert_eq!(whole(&mut gateway, &none), printed(3000));
    assert_eq!(text(&gateway.run(prints(4000, "another"))), 4000);
    assert_eq!(
        text(&gateway.run(shell("yes | head -c 4000"))),
        4000,
        "no turn, no budget"
    );
}

#[test]
fn a_second_dispatch_gets_the_same_text_and_costs_nothing() {
    let mut host = Host::start();
    let mut gateway = host.connect();
    spend_all_but(&mut gateway, 3000, "t");
    let asked = prints(20_000, "t");
    let first = gateway.run(asked.clone());
    assert!(first.stdout.as_ref().unwrap().truncated);
    gateway.dispatch(asked.clone());
    assert_eq!(gateway.finished(asked.run).1, first);
    assert_eq!(
        text(&gateway.run(prints(100, "t"))),
        100,
        "what was left is still there"
    );
    host.kill_executor();
    host.start_executor();
    let mut gateway = host.connect();
    gateway.dispatch(asked.clone());
    assert_eq!(gateway.finished(asked.run).1, first);
}

#[test]
fn stderr_comes_before_stdout() {
    let host = Host::start();
    let mut gateway = host.connect();
    spend_all_but(&mut gateway, 2304, "t");
    let mut asked = shell("yes out | head -c 5000; yes err | head -c 5000 >&2");
    asked.turn = Some(turn("t"));
    let report = gateway.run(asked);
    let (out, err) = (report.stdout.unwrap(), report.stderr.unwrap());
    assert!(
        err.result.starts_with(&"err\n".repeat(512)),
        "{}",
        err.result
    );
    let left = 2304 - err.result.len();
    assert!(out.result.len() <= left, "{} of {left}", out.result.len());
    for stream in [&out, &err] {
        assert_eq!(whole(&mut gateway, stream).len(), 5000);
    }
}

#[test]
fn announced_calls_find_their_reserve() {
    let host = Host::start();
    let mut gateway = host.connect();
    let calls = std::num::NonZeroU32::new(80);
    let mut sum = 0;
    for _ in 0..80 {
        let mut asked = prints(DEFAULT_PREVIEW, "t");
        asked.turn.as_mut().unwrap().calls = calls;
        gateway.dispatch(asked);
        let (seq, report) = gateway.any_finished();
        gateway.ack(seq);
        let out = report.stdout.unwrap();
        assert!(out.result.len() >= 2048, "{}", out.result.len());
        sum += out.result.len();
    }
    assert!(sum as u64 <= DEFAULT_TURN_BUDGET, "{sum}");
}

#[test]
fn pages_count_too_and_end_earlier_where_there_is_no_room() {
    let host = Host::start();
    let mut gateway = host.connect();
    let asked = shell("yes 01234567890123456789 | head -c 300000");
    let run = asked.run;
    gateway.run(asked);
    let mut page = |at, encoding| -> PageReport {
        let target = output(run, Stream::Stdout);
        gateway.turn = Some(turn("t"));
        let page = gateway.read("default", target, at, None, encoding);
        page.expect("readable")
    };
    // 2,000 lines each.
    let mut sum = 0;
    let mut next = 0;
    while sum + 42_000 <= 204_800 {
        let whole = page(next, Encoding::Utf8);
        assert_eq!(whole.content.len(), 42_000);
        sum += whole.content.len();
        next = whole.next.unwrap();
    }
    let exact = page(7, Encoding::Base64);
    assert_eq!(
        (exact.content.len(), exact.next),
        (204_800 - sum, Some(7 + 36_800 / 4 * 3))
    );
    let nothing = page(next, Encoding::Utf8);
    assert_eq!(
        (nothing.content.as_str(), nothing.offset, nothing.next),
        ("", next, Some(next))
    );
    assert!(nothing.truncated);
    let end = page(300_000, Encoding::Utf8);
    assert_eq!(
        (end.content.as_str(), end.next, end.truncated),
        ("", None, false)
    );
}

#[test]
fn a_disk_that_hangs_holds_a_result_for_3_seconds_and_nobody_else() {
    let host = Host::start();
    let mut gateway = host.connect();
    spend_all_but(&mut gateway, 1000, "t");
    let Some(hung) = Hung::mount(&host.path("workspace/.outputs/default")) else {
        return;
    };
    let began = Instant::now();
    let (first, second) = (prints(3000, "t"), prints(3500, "t"));
    gateway.dispatch(first.clone());
    gateway.dispatch(second.clone());
    let mut elsewhere = prints(3000, "t");
    elsewhere.session = "elsewhere".parse().unwrap();
    let (_, report) = {
        gateway.accepted(second.run);
        gateway.dispatch(elsewhere.clone());
        gateway.any_finished()
    };
    assert_eq!(report.run, elsewhere.run, "it waits for no disk");
    let mut sum = 0;
    for asked in [&first, &second] {
        let (_, report) = gateway.finished(asked.run);
        let waited = began.elapsed();
        assert!(waited >= Duration::from_secs(3), "{waited:?}");
        assert!(waited < Duration::from_secs(6), "{waited:?}");
        let out = report.stdout.unwrap();
        sum += out.result.len();
        assert!(!out.saved && out.truncated && !out.complete);
        assert_eq!((out.file_path, out.output), (None, None));
        assert_eq!(out.reason.as_deref(), Some("too_slow"));
        assert_eq!(out.dropped_bytes, out.total_size);
        if out.result.len() > 100 {
            assert!(
                out.result.ends_with(" bytes omitted, not saved ...]\n"),
                "{}",
                out.result
            );
        }
    }
    assert!(sum > 900 && sum <= 1000, "{sum}");
    drop(hung);
    // The disk is back, and so are parcels.
    wait_for("a parcel", || {
        let again = gateway.run(prints(3000, "t")).stdout.unwrap();
        again.saved && again.reason.is_none()
    });
}

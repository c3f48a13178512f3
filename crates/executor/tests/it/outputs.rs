//! Held outputs: files, records, and pages.

use crate::gateway::{Gateway, command, output, shell};
use crate::host::{Host, numbers, wait_for};
use crate::hung::Hung;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use willcall_outputs::record::{Record, Stream as Stored};
use willcall_protocol::ids::{RunId, Stream};
use willcall_protocol::message::{Encoding, ReadFailure, ReadTarget};

/// Follows `next` from the beginning.
fn pages(gateway: &mut Gateway, run: RunId, limit: Option<u64>) -> String {
    let (mut all, mut offset) = (String::new(), Some(0));
    while let Some(at) = offset {
        let target = output(run, Stream::Stdout);
        let page = gateway
            .read("default", target, at, limit, Encoding::Utf8)
            .expect("readable");
        assert!(page.content.len() <= 102_400);
        all.push_str(&page.content);
        assert_eq!(page.truncated, page.next.is_some());
        offset = page.next;
    }
    all
}

#[test]
fn a_large_output_is_held_recorded_and_picked_up_by_pages() {
    let host = Host::start();
    let mut gateway = host.connect();
    let asked = command(&["seq", "5000"]);
    let report = gateway.run(asked.clone());
    let out = report.stdout.unwrap();
    assert!(out.truncated && out.saved && out.complete);
    let whole = numbers(5000);
    let path = out.file_path.unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), whole);
    let record = path.replace("stdout.txt", "json");
    let record = Record::from_json(&std::fs::read(record).unwrap()).unwrap();
    assert_eq!((record.run, record.state.as_str()), (asked.run.0, "exited"));
    let stored = &record.streams[&Stored::Stdout];
    assert_eq!(
        (stored.stored, stored.total_lines),
        (whole.len() as u64, 5000)
    );
    assert_eq!((&stored.digest, record.streams.len()), (&out.digest, 1));
    assert!(record.created_ms <= record.finished_ms);
    for limit in [None, Some(777), Some(u64::MAX)] {
        assert_eq!(pages(&mut gateway, asked.run, limit), whole);
    }
    let by_path = ReadTarget::Path(path);
    let page = gateway
        .read("default", by_path, 23_890, None, Encoding::Base64)
        .unwrap();
    assert_eq!((page.next, page.total), (None, whole.len() as u64));
}

#[test]
fn what_cannot_be_kept_says_what_stands_in_its_place() {
    let host = Host::start();
    let mut gateway = host.connect();
    let outputs = host.path("workspace/.outputs");
    std::os::unix::fs::symlink("/tmp", outputs.join("link")).unwrap();
    std::fs::write(outputs.join("file"), "").unwrap();
    let open = outputs.join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
    let planted = command(&["seq", "5000"]);
    let name = format!("{}.stdout.txt", planted.run);
    std::fs::create_dir(outputs.join("planted")).unwrap();
    std::os::unix::fs::symlink("/dev/null", outputs.join("planted").join(name)).unwrap();
    for (session, mut asked, reason) in [
        ("link", command(&["seq", "5000"]), "unsafe_directory"),
        ("file", command(&["seq", "5000"]), "unsafe_directory"),
        ("open", command(&["seq", "5000"]), "unsafe_directory"),
        ("planted", planted, "name_taken"),
    ] {
        asked.session = session.parse().unwrap();
        let out = gateway.run(asked).stdout.unwrap();
        assert_eq!(
            (out.reason.as_deref(), out.saved, out.file_path),
            (Some(reason), false, None),
            "{session}"
        );
    }
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "it is what somebody does here who should not"
)]
fn a_store_that_is_removed_is_made_again() {
    let host = Host::start();
    let mut gateway = host.connect();
    let asked = || command(&["seq", "5000"]);
    assert!(gateway.run(asked()).stdout.unwrap().saved);
    std::fs::remove_dir_all(host.path("workspace/.outputs")).unwrap();
    for _ in 0..2 {
        let out = gateway.run(asked()).stdout.unwrap();
        assert_eq!((out.saved, out.reason), (true, None));
        let held = std::fs::read_to_string(out.file_path.unwrap()).unwrap();
        assert_eq!(held, numbers(5000));
    }
    let told = host
        .executor_log()
        .matches("somebody removed the store")
        .count();
    assert_eq!(told, 1);
}

#[test]
fn reads_are_refused_each_by_its_name() {
    let host = Host::start();
    let mut gateway = host.connect();
    let asked = command(&["seq", "5000"]);
    let out = gateway.run(asked.clone()).stdout.unwrap();
    let by_id = || output(asked.run, Stream::Stdout);
    let mut failure = |session, target, limit| {
        gateway
            .read(session, target, 0, limit, Encoding::Utf8)
            .expect_err("refused")
    };
    assert_eq!(failure("other", by_id(), None), ReadFailure::AccessDenied);
    let by_path = ReadTarget::Path(out.file_path.unwrap());
    assert_eq!(failure("other", by_path, None), ReadFailure::AccessDenied);
    assert_eq!(
        failure("default", by_id(), Some(0)),
        ReadFailure::InvalidLimit
    );
    let unknown = output(RunId(uuid::Uuid::from_u128(1)), Stream::Stdout);
    assert_eq!(failure("default", unknown, None), ReadFailure::NotFound);
    let foreign = ReadTarget::Path("/etc/passwd".into());
    assert_eq!(failure("default", foreign, None), ReadFailure::NotAnOutput);
    let beyond = gateway
        .read("default", by_id(), 1 << 40, None, Encoding::Utf8)
        .unwrap();
    assert_eq!((beyond.content.as_str(), beyond.next), ("", None));
}

#[test]
fn the_largest_results_on_both_streams_come_back() {
    let host = Host::start();
    let mut gateway = host.connect();
    let mut asked = shell("yes ab | head -c 3000000; yes cd | head -c 3000000 >&2");
    asked.limits.max_bytes = Some(262_144);
    asked.limits.max_lines = Some(1_000_000);
    let report = gateway.run(asked);
    for stream in [report.stdout.unwrap(), report.stderr.unwrap()] {
        assert_eq!((stream.total_size, stream.truncated), (3_000_000, true));
        assert!(stream.result.len() > 260_000 && stream.result.len() <= 262_144);
    }
}

#[test]
fn many_runs_at_once_come_back_apart() {
    let host = Host::start();
    let mut gateway = host.connect();
    let asked: Vec<_> = (0..30).map(|n| shell(&format!("seq {n}000"))).collect();
    for asked in &asked {
        gateway.dispatch(asked.clone());
    }
    for _ in &asked {
        let (seq, report) = gateway.any_finished();
        let n = asked
            .iter()
            .position(|asked| asked.run == report.run)
            .unwrap();
        assert_eq!(report.stdout.unwrap().total_lines, n as u64 * 1000);
        gateway.ack(seq);
    }
    wait_for("the end of the spools", || {
        asked.iter().all(|asked| !host.spool(asked.run).exists())
    });
}

/// As many reads as a host may have threads for, over two connections of the link.
#[test]
fn reads_that_hang_hold_up_no_result() {
    let host = Host::start();
    let mut gateway = host.connect();
    let session = host.path("workspace/.outputs/hung");
    std::fs::create_dir(&session).unwrap();
    let Some(_hung) = Hung::mount(&session) else {
        return;
    };
    for _ in 0..2 {
        gateway = host.connect();
        for n in 0..8 {
            let target = output(RunId(uuid::Uuid::from_u128(n)), Stream::Stdout);
            gateway.ask_to_read("hung", target, 0, None, Encoding::Utf8);
        }
        // Whatever was asked before this is under way.
        gateway.run(command(&["true"]));
    }
    let report = gateway.run(command(&["seq", "5000"]));
    assert!(report.stdout.unwrap().saved);
}

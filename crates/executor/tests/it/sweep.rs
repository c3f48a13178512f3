//! What need not be held any longer goes at the start, and what was held is told from what never was.

use crate::gateway::{Gateway, command, output, shell};
use crate::host::{Host, wait_for};
use std::fs::{File, FileTimes};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use willcall_outputs::record::Record;
use willcall_protocol::ids::{RunId, Stream};
use willcall_protocol::message::{Encoding, ReadFailure, ReadTarget, Turn};

const DAY: Duration = Duration::from_hours(24);

/// Makes the outputs beside `path` so much older.
fn age(path: &Path, by: Duration) {
    let record_path = PathBuf::from(path.to_str().unwrap().replace("stdout.txt", "json"));
    let mut record = Record::from_json(&std::fs::read(&record_path).unwrap()).unwrap();
    record.finished_ms -= u64::try_from(by.as_millis()).unwrap();
    std::fs::write(&record_path, record.to_json().unwrap()).unwrap();
    let times = FileTimes::new().set_modified(SystemTime::now() - by);
    File::options()
        .write(true)
        .open(&record_path)
        .unwrap()
        .set_times(times)
        .unwrap();
}

fn failure(
    gateway: &mut Gateway,
    session: &str,
    run: RunId,
    stream: Stream,
) -> Option<ReadFailure> {
    let read = gateway.read(session, output(run, stream), 0, None, Encoding::Utf8);
    read.err()
}

#[test]
fn what_was_held_for_a_week_goes_and_reads_say_so() {
    let mut host = Host::start();
    let mut gateway = host.connect();
    let (old, kept) = (command(&["seq", "5000"]), command(&["seq", "6000"]));
    gateway.dispatch(old.clone());
    let (seq, report) = gateway.finished(old.run);
    let path = PathBuf::from(report.stdout.unwrap().file_path.unwrap());
    gateway.ack(seq);
    // Of the other one the gateway never says that it has its result.
    gateway.dispatch(kept.clone());
    let (_, report) = gateway.finished(kept.run);
    let kept_path = PathBuf::from(report.stdout.unwrap().file_path.unwrap());
    host.stop_executor();
    for held in [&path, &kept_path] {
        age(held, 8 * DAY);
    }
    host.start_executor();
    let mut gateway = host.resume(seq);
    wait_for("the old one to go", || !path.exists());
    assert!(kept_path.exists());
    assert_eq!(
        failure(&mut gateway, "default", old.run, Stream::Stdout),
        Some(ReadFailure::Expired)
    );
    let by_path = ReadTarget::Path(path.to_str().unwrap().to_owned());
    let read = gateway.read("default", by_path, 0, None, Encoding::Utf8);
    assert_eq!(read.err(), Some(ReadFailure::Expired));
    // It was never held, and never somebody else's business.
    assert_eq!(
        failure(&mut gateway, "default", old.run, Stream::Stderr),
        Some(ReadFailure::NotFound)
    );
    assert_eq!(
        failure(&mut gateway, "other", old.run, Stream::Stdout),
        Some(ReadFailure::AccessDenied)
    );
    assert_eq!(
        failure(&mut gateway, "default", kept.run, Stream::Stdout),
        None
    );
}

#[test]
fn halves_and_live_outputs_are_told_apart_at_the_start() {
    let mut host = Host::start();
    let mut gateway = host.connect();
    let long = shell("seq 100000; exec sleep 600");
    gateway.dispatch(long.clone());
    gateway.accepted(long.run);
    let session = host.path("workspace/.outputs/default");
    let of = |run: uuid::Uuid| session.join(format!("{run}.stdout.txt"));
    let (live, orphan) = (of(long.run.0), of(uuid::Uuid::from_u128(7)));
    wait_for("output", || live.exists());
    std::fs::write(&orphan, "nobody's").unwrap();
    for path in [&live, &orphan] {
        let times = FileTimes::new().set_modified(SystemTime::now() - 2 * DAY);
        File::options()
            .append(true)
            .open(path)
            .unwrap()
            .set_times(times)
            .unwrap();
    }
    host.kill_executor();
    host.start_executor();
    wait_for("the orphan to go", || !orphan.exists());
    assert!(live.exists());
    let mut gateway = host.connect();
    gateway.cancel(long.run);
    assert!(gateway.finished(long.run).1.stdout.unwrap().complete);
}

#[test]
fn a_record_that_found_no_room_is_made_up_for() {
    let mut host = Host::start();
    let mut gateway = host.connect();
    let asked = command(&["seq", "5000"]);
    gateway.dispatch(asked.clone());
    let (seq, report) = gateway.finished(asked.run);
    let path = PathBuf::from(report.stdout.unwrap().file_path.unwrap());
    let record = path.with_file_name(format!("{}.json", asked.run));
    gateway.ack(seq);
    // What was said before this has arrived.
    gateway.run(command(&["true"]));
    let before = Record::from_json(&std::fs::read(&record).unwrap()).unwrap();
    host.stop_executor();
    std::fs::remove_file(&record).unwrap();
    let times = FileTimes::new().set_modified(SystemTime::now() - 2 * DAY);
    let file = File::options().append(true).open(&path).unwrap();
    file.set_times(times).unwrap();
    host.start_executor();
    wait_for("the record", || record.exists());
    let after = Record::from_json(&std::fs::read(&record).unwrap()).unwrap();
    assert_eq!((after.streams, after.state), (before.streams, before.state));
    let mut gateway = host.resume(seq);
    assert_eq!(
        failure(&mut gateway, "default", asked.run, Stream::Stdout),
        None
    );
}

#[test]
fn the_record_of_a_lost_run_is_made_up_for_and_its_turn_has_its_budget() {
    let mut host = Host::start();
    let mut gateway = host.connect();
    let turn = Some(Turn {
        id: "t".parse().unwrap(),
        calls: None,
    });
    let mut spent = shell("yes | head -c 100000000");
    spent.limits.max_lines = Some(1_000_000);
    spent.limits.max_bytes = Some(200_000);
    let mut asked = shell("seq 100000; exec sleep 600");
    (spent.turn, asked.turn) = (turn.clone(), turn);
    assert!(gateway.run(spent).stdout.unwrap().result.len() > 199_000);
    gateway.dispatch(asked.clone());
    gateway.accepted(asked.run);
    let session = host.path("workspace/.outputs/default");
    let path = session.join(format!("{}.stdout.txt", asked.run));
    let record = session.join(format!("{}.json", asked.run));
    wait_for("output", || {
        path.metadata().is_ok_and(|file| file.len() == 588_895)
    });
    crate::host::signal(host.runner_of(asked.run), "KILL");
    let (seq, report) = gateway.finished(asked.run);
    assert!(report.stdout.unwrap().result.len() <= 4800);
    gateway.ack(seq);
    // What was said before this has arrived.
    gateway.run(command(&["true"]));
    host.stop_executor();
    let before = Record::from_json(&std::fs::read(&record).unwrap()).unwrap();
    std::fs::remove_file(&record).unwrap();
    let times = FileTimes::new().set_modified(SystemTime::now() - 2 * DAY);
    let file = File::options().append(true).open(&path).unwrap();
    file.set_times(times).unwrap();
    host.start_executor();
    wait_for("the record", || record.exists());
    let after = Record::from_json(&std::fs::read(&record).unwrap()).unwrap();
    assert_eq!((after.streams, after.state), (before.streams, before.state));
}

#[test]
fn what_a_lost_run_left_is_held_like_any_other() {
    let host = Host::start();
    let mut gateway = host.connect();
    let asked = shell("seq 100000; exec sleep 600");
    gateway.dispatch(asked.clone());
    gateway.accepted(asked.run);
    let path = host.path(&format!(
        "workspace/.outputs/default/{}.stdout.txt",
        asked.run
    ));
    wait_for("output", || {
        path.metadata().is_ok_and(|file| file.len() == 588_895)
    });
    let runner = host.runner_of(asked.run);
    crate::host::signal(runner, "KILL");
    let (_, report) = gateway.finished(asked.run);
    assert!(report.message.unwrap().contains("there may have been more"));
    let out = report.stdout.unwrap();
    assert_eq!((out.total_size, out.total_lines), (588_895, 100_000));
    assert_eq!(out.file_path.as_deref(), path.to_str());
    assert_eq!(out.output, Some(format!("{}/stdout", asked.run)));
    assert_eq!(
        (out.saved, out.complete, out.dropped_bytes),
        (true, false, 0)
    );
    assert_eq!(out.reason.as_deref(), Some("runner_lost"));
    assert!(out.result.starts_with("1\n2\n") && out.result.ends_with("\n99999\n100000\n"));
    assert!(out.truncated && out.result.len() <= 102_400);
    let record = path.with_file_name(format!("{}.json", asked.run));
    let record = Record::from_json(&std::fs::read(record).unwrap()).unwrap();
    let left = &record.streams[&willcall_outputs::record::Stream::Stdout];
    assert_eq!(
        (left.stored, left.total_lines, left.complete),
        (588_895, 100_000, false)
    );
    assert_eq!(record.state, "lost");
    let target = output(asked.run, Stream::Stdout);
    let page = gateway
        .read("default", target, 588_888, None, Encoding::Utf8)
        .unwrap();
    assert_eq!((page.content.as_str(), page.next), ("100000\n", None));
}

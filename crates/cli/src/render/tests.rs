use super::*;
use crate::args::WindowArgs;
use crate::problem::Problem;
use uuid::Uuid;
use willcall_protocol::ids::{RunId, SessionId};
use willcall_protocol::message::Encoding;
use willcall_protocol::outcome::{
    Cause, OmittedReport, ProcessNote, Report, RunState, SpawnFailure, StreamReport,
};

/// What is printed: stdout and stderr.
fn printed(print: impl FnOnce(&mut Printer<'_>)) -> (String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut printer = Printer::new(&mut out, &mut err);
    print(&mut printer);
    printer.finish().unwrap();
    drop(printer);
    (
        String::from_utf8(out).unwrap(),
        String::from_utf8(err).unwrap(),
    )
}

fn whole(text: &str) -> StreamReport {
    StreamReport {
        result: text.to_owned(),
        truncated: false,
        total_size: text.len() as u64,
        total_lines: text.lines().count() as u64,
        omitted: None,
        file_path: None,
        output: None,
        digest: None,
        complete: true,
        dropped_bytes: 0,
        lossy: false,
        rendered: false,
        view: "text".to_owned(),
        saved: false,
        reason: None,
    }
}

fn truncated() -> StreamReport {
    StreamReport {
        truncated: true,
        total_size: 104,
        total_lines: 52,
        omitted: Some(OmittedReport {
            bytes: 100,
            lines: 50,
            from_line: 2,
            to_line: 51,
            offset: 2,
        }),
        file_path: Some("/w/.outputs/default/x.stdout.txt".to_owned()),
        output: Some("00000000-0000-0000-0000-000000000001/stdout".to_owned()),
        saved: true,
        ..whole("a\n[marker]\nz\n")
    }
}

fn outcome(change: impl FnOnce(&mut Report)) -> Outcome {
    let mut report = Report::bare(
        RunId(Uuid::from_u128(1)),
        SessionId::unnamed(),
        RunState::Exited,
    );
    report.exit_code = Some(0);
    change(&mut report);
    Outcome {
        host: "h".to_owned(),
        report,
    }
}

#[track_caller]
fn check(change: impl FnOnce(&mut Report), out: &str, err: &str) {
    let outcome = outcome(change);
    let expected = (out.to_owned(), err.to_owned());
    assert_eq!(printed(|printer| printer.outcome(&outcome)), expected);
}

#[test]
fn streams_go_where_they_came_from_byte_for_byte_and_alone() {
    check(
        |report| {
            report.stdout = Some(whole("out, no newline"));
            report.stderr = Some(whole("err\n"));
        },
        "out, no newline",
        "err\n",
    );
}

#[test]
fn a_truncated_stream_says_how_to_pick_it_up() {
    check(
        |report| report.stdout = Some(truncated()),
        "a\n[marker]\nz\n",
        "willcall: stdout truncated: 104 bytes, 52 lines in all; 100 bytes left out, from line 2 to 51\n\
         willcall: pick up: willcall read --output 00000000-0000-0000-0000-000000000001/stdout --offset 2; \
         on the host: /w/.outputs/default/x.stdout.txt\n",
    );
}

#[test]
fn what_was_not_kept_and_who_is_left_is_said() {
    check(
        |report| {
            report.session = "s1".parse().unwrap();
            report.stdout = Some(StreamReport {
                complete: false,
                dropped_bytes: 4,
                reason: Some("disk_full".to_owned()),
                lossy: true,
                output: Some("o".to_owned()),
                ..whole("x")
            });
            report.ended = vec![ProcessNote {
                pid: 7,
                name: "sleep".to_owned(),
            }];
        },
        "x",
        "willcall: stdout: some bytes are not text and are shown as \u{fffd}\n\
         willcall: stdout: 4 bytes could not be kept (disk_full)\n\
         willcall: pick up: willcall read --output o --session s1\n\
         willcall: ended after the command's exit: sleep (7)\n",
    );
}

#[test]
fn an_ending_that_is_no_exit_is_said() {
    let ended = |state, change: fn(&mut Report)| {
        let outcome = outcome(|report| {
            report.state = state;
            report.exit_code = None;
            change(report);
        });
        printed(|printer| printer.outcome(&outcome)).1
    };
    assert_eq!(
        ended(RunState::Refused, |report| {
            report.cause = Some(Cause::SpawnFailed);
            report.spawn_error = Some(SpawnFailure {
                stage: "chdir".to_owned(),
                errno: 2,
                name: "ENOENT".to_owned(),
            });
        }),
        "willcall: refused, and did not run: chdir failed with ENOENT\n"
    );
    assert_eq!(
        ended(RunState::TimedOut, |report| report.timeout_ms = Some(300)),
        "willcall: timed out after 300 ms\n"
    );
    assert_eq!(
        ended(RunState::Lost, |report| report.message =
            Some("the runner was killed".into())),
        format!(
            "willcall: run {} is lost: whether it ran to its end is not known: the runner was killed\n",
            RunId(Uuid::from_u128(1))
        )
    );
}

#[test]
fn a_page_is_its_content_and_the_next_offset() {
    let page = PageReport {
        content: "\u{e4}b".to_owned(),
        encoding: Encoding::Utf8,
        offset: 1,
        next: Some(4),
        truncated: true,
        total: 9,
        lossy: false,
        line: Some(1),
        digest: None,
        verified: false,
    };
    let asked = WindowArgs::default();
    let (out, err) = printed(|printer| printer.page(&page, &asked));
    assert_eq!(out, "\u{e4}b");
    assert_eq!(
        err,
        "willcall: begins at offset 1, the next whole character\nwillcall: next: --offset 4 (of 9)\n"
    );
}

#[test]
fn a_problem_is_told_with_its_consequence_and_what_helps() {
    let failure = Failure::Problem(Box::new(Problem {
        code: "host_offline".to_owned(),
        title: "Offline".to_owned(),
        detail: "web-1 is not connected".to_owned(),
        status: 503,
        blame: "host".to_owned(),
        outcome: "not_started".to_owned(),
    }));
    let (out, err) = printed(|printer| printer.failure(&failure));
    assert_eq!(out, "");
    assert_eq!(
        err,
        "willcall: the host: web-1 is not connected (host_offline)\n\
         willcall: the command did not run\n\
         willcall: `willcall hosts` shows when it was last seen; try again once it is back\n"
    );
}

#[test]
fn json_is_one_line_as_it_came() {
    let (out, _) = printed(|printer| printer.json("{\"new\":1}\n"));
    assert_eq!(out, "{\"new\":1}\n");
}

#[test]
fn hosts_are_listed_with_their_standing() {
    let host = |name: &str, connected, last_seen_ms, running| Host {
        name: name.to_owned(),
        connected,
        last_seen_ms,
        running,
    };
    let hosts = [
        host("web-1", true, Some(1), Some(2)),
        host("x", false, None, Some(0)),
    ];
    let (out, _) = printed(|printer| printer.hosts(&hosts));
    assert_eq!(out, "web-1  connected  2 running\nx      never connected\n");
    let away = standing(
        &host("x", false, Some(1_000), None),
        Duration::from_secs(62),
    );
    assert_eq!(away, "away, last seen 1m 1s ago");
}

#[test]
fn a_preview_is_cut_into_its_parts_by_numbers_alone() {
    assert_eq!(
        demo::parts(&truncated()),
        Some(("a\n", "[marker]\n", "z\n"))
    );
    let lossy = StreamReport {
        lossy: true,
        ..truncated()
    };
    assert_eq!(demo::parts(&lossy), None);
    assert_eq!(demo::parts(&whole("a")), None);
}

#[test]
fn words_survive_a_shell() {
    assert_eq!(quoted("http://127.0.0.1:1"), "http://127.0.0.1:1");
    assert_eq!(quoted("a b"), "'a b'");
    assert_eq!(quoted("it's"), r"'it'\''s'");
    assert_eq!(quoted(""), "''");
}

/// A reader that has left.
struct Gone(io::ErrorKind);

impl Write for Gone {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(self.0.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_reader_that_leaves_is_no_error_and_a_full_disk_is_one() {
    let mut left = Printer::new(Gone(io::ErrorKind::BrokenPipe), io::sink());
    left.json("{}");
    left.json("{}");
    assert!(left.finish().is_ok());
    let mut full = Printer::new(Gone(io::ErrorKind::StorageFull), io::sink());
    full.json("{}");
    assert!(matches!(full.finish(), Err(Failure::Local { .. })));
}

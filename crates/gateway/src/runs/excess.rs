//! What a host may say at most. A message has room for far more, and what is stored and shown must not depend on a host's
//! keeping to its own limits.
//!
//! A report that breaks them keeps its end: refused, it would come again on every link. What was too long is dropped whole,
//! since half of it would be a preview that nobody made.

use crate::limits::{MAX_DIGEST, MAX_HOST_TEXT, MAX_REPORT_FACTS, REPORT_NOTE};
use willcall_protocol::limits::MAX_TEXT;
use willcall_protocol::message::{Encoding, PageReport};
use willcall_protocol::outcome::{OmittedReport, ProcessNote, Report, StreamReport};

/// The beginning of a host's text.
pub(crate) fn shortened(text: &str) -> String {
    text.chars().take(MAX_HOST_TEXT).collect()
}

/// Drops what is longer than allowed from a report, and says so in its message; gives what it says.
pub(crate) fn drop_from(report: &mut Report) -> Option<String> {
    let mut dropped = Vec::new();
    if facts(report) > MAX_REPORT_FACTS {
        *report = end_only(report);
        dropped.push(format!(
            "The host sent more than {MAX_REPORT_FACTS} bytes about the run besides its text; \
             the gateway kept only how it ended."
        ));
    }
    for (name, stream) in streams(report) {
        if stream.result.len() > MAX_TEXT {
            dropped.push(format!(
                "The host sent {} bytes of text for {name}, where {MAX_TEXT} are allowed; the gateway dropped them.",
                stream.result.len()
            ));
            drop_text(stream);
        }
    }
    let said = report.message.as_deref().map(shortened);
    if dropped.is_empty() {
        report.message = said;
        return None;
    }
    let dropped = dropped.join(" ");
    report.message = Some(said.map_or_else(|| dropped.clone(), |said| format!("{said} {dropped}")));
    Some(dropped)
}

/// Whether a page is longer than any host may be configured to send.
pub(crate) fn in_page(page: &PageReport) -> bool {
    let most = match page.encoding {
        Encoding::Utf8 => MAX_TEXT,
        Encoding::Base64 => MAX_TEXT.div_ceil(3) * 4,
    };
    page.content.len() > most || page.digest.as_ref().is_some_and(|d| d.len() > MAX_DIGEST)
}

fn streams(report: &mut Report) -> impl Iterator<Item = (&'static str, &mut StreamReport)> {
    let named = [
        ("stdout", report.stdout.as_mut()),
        ("stderr", report.stderr.as_mut()),
        ("tty", report.tty.as_mut()),
    ];
    named
        .into_iter()
        .filter_map(|(name, stream)| Some((name, stream?)))
}

/// Everything of it is left out now; where it is held does not change.
fn drop_text(stream: &mut StreamReport) {
    stream.result = String::new();
    (stream.lossy, stream.rendered) = (false, false);
    stream.truncated = true;
    stream.omitted = Some(OmittedReport {
        bytes: stream.total_size,
        lines: stream.total_lines,
        from_line: 1,
        to_line: stream.total_lines.max(1),
        offset: 0,
    });
}

/// How much a report says besides its streams' texts.
fn facts(report: &Report) -> usize {
    let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let notes = |notes: &[ProcessNote]| -> usize {
        notes.iter().map(|note| note.name.len() + REPORT_NOTE).sum()
    };
    let spawn_error = report.spawn_error.as_ref();
    let streams = [&report.stdout, &report.stderr, &report.tty];
    let of_streams: usize = streams
        .into_iter()
        .flatten()
        .map(|s| {
            text(&s.file_path) + text(&s.output) + text(&s.digest) + text(&s.reason) + s.view.len()
        })
        .sum();
    text(&report.signal)
        + text(&report.message)
        + spawn_error.map_or(0, |e| e.stage.len() + e.name.len())
        + notes(&report.ended)
        + notes(&report.detached)
        + of_streams
}

fn end_only(report: &Report) -> Report {
    Report {
        exit_code: report.exit_code,
        cause: report.cause,
        duration_ms: report.duration_ms,
        cpu_ms: report.cpu_ms,
        max_rss_kib: report.max_rss_kib,
        timeout_ms: report.timeout_ms,
        ..Report::bare(report.run, report.session.clone(), report.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;
    use willcall_protocol::ids::{RunId, SessionId};
    use willcall_protocol::outcome::RunState;

    fn report() -> Report {
        let run = RunId(Uuid::from_u128(1));
        let mut report = Report::bare(run, SessionId::unnamed(), RunState::Exited);
        report.exit_code = Some(3);
        report
    }

    fn stream(text: &str) -> StreamReport {
        serde_json::from_value(serde_json::json!({
            "result": text, "truncated": false, "total_size": 300_000, "total_lines": 5, "omitted": null,
            "file_path": "/a", "output": "x/stdout", "digest": "blake3:0", "complete": true, "dropped_bytes": 0,
            "lossy": true, "rendered": true, "saved": true, "reason": null,
        }))
        .expect("a stream")
    }

    #[test]
    fn what_keeps_to_the_bounds_is_left_as_it_is() {
        let mut report = report();
        report.stdout = Some(stream(&"x".repeat(MAX_TEXT)));
        report.message = Some("because".into());
        let note = ProcessNote {
            pid: 1,
            name: "a".repeat(15),
        };
        report.ended = vec![note.clone(); 256];
        report.detached = vec![note; 256];
        let before = report.clone();
        assert_eq!(drop_from(&mut report), None);
        assert_eq!(report, before);
    }

    #[test]
    fn one_byte_too_many_costs_the_whole_text_and_nothing_else() {
        let mut report = report();
        report.message = Some("because".into());
        report.stdout = Some(stream("short"));
        report.stderr = Some(stream(&"x".repeat(MAX_TEXT + 1)));
        let said = drop_from(&mut report).expect("too long");
        assert!(said.contains("stderr") && said.contains("262145"), "{said}");
        assert_eq!(report.message, Some(format!("because {said}")));
        assert_eq!(
            (report.state, report.exit_code),
            (RunState::Exited, Some(3))
        );
        assert_eq!(report.stdout.expect("kept").result, "short");
        let stderr = report.stderr.expect("kept");
        assert_eq!((stderr.result.as_str(), stderr.truncated), ("", true));
        let omitted = stderr.omitted.expect("all of it");
        assert_eq!(
            (omitted.bytes, omitted.lines, omitted.offset),
            (300_000, 5, 0)
        );
        assert_eq!(stderr.output.as_deref(), Some("x/stdout"));
    }

    #[test]
    fn what_comes_besides_the_text_has_a_bound_too() {
        let note = ProcessNote {
            pid: 1,
            name: String::new(),
        };
        let long: [fn(&mut Report, String); 4] = [
            |report, text| report.message = Some(text),
            |report, text| report.signal = Some(text),
            |report, text| {
                report.stdout = Some(StreamReport {
                    file_path: Some(text),
                    ..stream("kept by nobody")
                });
            },
            |report, text| report.ended[0].name = text,
        ];
        for set in long {
            let mut report = report();
            report.ended = vec![note.clone(); 2];
            set(&mut report, "x".repeat(MAX_REPORT_FACTS));
            let said = drop_from(&mut report).expect("too long");
            assert_eq!(
                (report.state, report.exit_code),
                (RunState::Exited, Some(3))
            );
            assert_eq!(report.message, Some(said));
            assert!(serde_json::to_string(&report).expect("JSON").len() < 1024);
        }
    }
}

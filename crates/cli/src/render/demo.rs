//! What `willcall demo` shows: the idea, in numbers.

use super::{Printer, quoted, receipt, terminal};
use crate::demo::{PickedUp, Shown};
use crate::limits::{DEMO_LINES, DEMO_WIDTH};
use std::path::Path;
use willcall_protocol::outcome::{Report, StreamReport};

impl Printer<'_> {
    /// What happens now.
    pub fn demo_begins(&mut self, directory: &Path) {
        let path = directory.display();
        self.note(format_args!(
            "starting gateway, link, executor and spawner on loopback, state in {path}"
        ));
    }

    /// What came of it.
    pub fn demo(&mut self, shown: &Shown) {
        let report = &shown.outcome.value.report;
        let command: Vec<String> = shown.argv.iter().map(|word| quoted(word)).collect();
        self.line(format_args!(
            "Connected over mutual TLS after {} ms. Sent through gateway, link and executor to a runner:",
            shown.start.as_millis()
        ));
        self.line(format_args!("\n  $ {}\n", command.join(" ")));
        for note in receipt::notes(report).into_iter().take(1) {
            if report.exit_code.is_none() {
                self.line(format_args!("{note}\n"));
            }
        }
        for (name, stream) in streams(report) {
            self.preview(name, stream);
            self.receipt(name, report, stream);
        }
        if let Some(picked_up) = &shown.picked_up {
            self.picked_up(picked_up);
        }
        self.sums(shown);
    }

    fn preview(&mut self, name: &str, stream: &StreamReport) {
        let part = if stream.truncated {
            "the preview of"
        } else {
            "all of"
        };
        self.line(format_args!(
            "{part} {name}, {} bytes:",
            stream.result.len()
        ));
        match parts(stream) {
            Some((head, marker, tail)) => {
                self.beginning(head);
                self.marker(marker);
                self.end(tail);
            }
            None => self.both_ends(&stream.result),
        }
        self.line("");
    }

    /// Never cut: a path that is cut is no path.
    fn marker(&mut self, marker: &str) {
        for line in marker.lines() {
            self.line(format_args!("  | {line}"));
        }
    }

    fn beginning(&mut self, text: &str) {
        let lines: Vec<&str> = text.lines().collect();
        let shown = lines.len().min(DEMO_LINES);
        self.indented(lines.iter().take(shown).copied());
        self.more(lines.len() - shown);
    }

    fn end(&mut self, text: &str) {
        let lines: Vec<&str> = text.lines().collect();
        let left_out = lines.len().saturating_sub(DEMO_LINES);
        self.more(left_out);
        self.indented(lines.iter().skip(left_out).copied());
    }

    fn both_ends(&mut self, text: &str) {
        let lines: Vec<&str> = text.lines().collect();
        let left_out = lines.len().saturating_sub(2 * DEMO_LINES);
        if left_out == 0 {
            return self.indented(lines.into_iter());
        }
        self.indented(lines.iter().take(DEMO_LINES).copied());
        self.more(left_out);
        self.indented(lines.iter().skip(DEMO_LINES + left_out).copied());
    }

    fn more(&mut self, lines: usize) {
        if lines > 0 {
            self.line(format_args!("  | ... {lines} more lines of the preview"));
        }
    }

    fn indented<'l>(&mut self, lines: impl Iterator<Item = &'l str>) {
        for line in lines {
            let cut: String = line.chars().take(DEMO_WIDTH).map(terminal::seen).collect();
            let dots = if line.chars().nth(DEMO_WIDTH).is_some() {
                "..."
            } else {
                ""
            };
            self.line(format_args!("  | {cut}{dots}"));
        }
    }

    fn receipt(&mut self, name: &str, report: &Report, stream: &StreamReport) {
        self.line(format_args!("its receipt ({name}):"));
        for (field, value) in fields(report, stream) {
            self.line(format_args!("  {field:12} {value}"));
        }
        self.line("");
    }

    fn picked_up(&mut self, picked_up: &PickedUp) {
        let PickedUp { stream, page } = picked_up;
        self.line(format_args!(
            "picked up from the host: one page of {stream} at offset {}, {} bytes:",
            page.offset,
            page.content.len()
        ));
        let lines: Vec<&str> = page.content.lines().collect();
        let shown = lines.len().min(DEMO_LINES);
        self.indented(lines.iter().take(shown).copied());
        if lines.len() > shown {
            self.line(format_args!(
                "  | ... {} more lines of the page",
                lines.len() - shown
            ));
        }
        match page.next {
            Some(next) => self.line(format_args!(
                "  next         offset {next} of {}\n",
                page.total
            )),
            None => self.line("  next         nothing, this was the end\n"),
        }
    }

    fn sums(&mut self, shown: &Shown) {
        let report = &shown.outcome.value.report;
        let produced: u64 = streams(report).map(|(_, stream)| stream.total_size).sum();
        let previews: usize = streams(report).map(|(_, stream)| stream.result.len()).sum();
        let page = shown.picked_up.as_ref();
        let page = page.map_or(0, |picked_up| picked_up.page.content.len());
        self.line(format_args!(
            "The command wrote {produced} bytes; {} left the host: {previews} as previews, {page} as a page that was asked for.",
            previews + page
        ));
        if !shown.kept {
            self.line("No process and no file of it is left; --keep keeps the files.");
        }
    }
}

/// The streams that have something to show.
fn streams(report: &Report) -> impl Iterator<Item = (&'static str, &StreamReport)> {
    let all = [
        ("stdout", &report.stdout),
        ("stderr", &report.stderr),
        ("tty", &report.tty),
    ];
    all.into_iter()
        .filter_map(|(name, stream)| Some((name, stream.as_ref()?)))
        .filter(|(_, stream)| stream.total_size > 0)
}

fn fields(report: &Report, stream: &StreamReport) -> Vec<(&'static str, String)> {
    let mut fields = vec![
        ("run", report.run.to_string()),
        ("state", state(report)),
        ("truncated", stream.truncated.to_string()),
        ("total_size", stream.total_size.to_string()),
        ("total_lines", stream.total_lines.to_string()),
    ];
    if let Some(omitted) = stream.omitted {
        let (bytes, offset) = (omitted.bytes, omitted.offset);
        let (from, to) = (omitted.from_line, omitted.to_line);
        fields.push((
            "omitted",
            format!("{bytes} bytes from offset {offset}, lines {from} to {to}"),
        ));
    }
    let texts = [
        ("file_path", &stream.file_path),
        ("output", &stream.output),
        ("digest", &stream.digest),
        ("reason", &stream.reason),
    ];
    for (field, text) in texts {
        fields.extend(text.iter().map(|text| (field, text.clone())));
    }
    fields.push(("complete", stream.complete.to_string()));
    fields
}

fn state(report: &Report) -> String {
    let name = serde_json::to_value(report.state).unwrap_or_default();
    let name = name.as_str().unwrap_or("unknown");
    let how = match (report.exit_code, &report.signal) {
        (Some(code), _) => format!(" with {code}"),
        (None, Some(signal)) => format!(" by {signal}"),
        (None, None) => String::new(),
    };
    format!("{name}{how} after {} ms", report.duration_ms)
}

/// Head, marker and tail of a preview, by the receipt's numbers alone. `None` where the text is not the raw bytes.
pub(super) fn parts(stream: &StreamReport) -> Option<(&str, &str, &str)> {
    let omitted = stream.omitted?;
    if stream.lossy || stream.rendered {
        return None;
    }
    let head = usize::try_from(omitted.offset).ok()?;
    let tail = stream
        .total_size
        .checked_sub(omitted.offset)?
        .checked_sub(omitted.bytes)?;
    let tail_at = stream
        .result
        .len()
        .checked_sub(usize::try_from(tail).ok()?)?;
    Some((
        stream.result.get(..head)?,
        stream.result.get(head..tail_at)?,
        stream.result.get(tail_at..)?,
    ))
}

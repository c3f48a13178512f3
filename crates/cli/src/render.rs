//! What is shown: data on stdout, everything else on stderr.

mod demo;
mod receipt;
mod terminal;
#[cfg(test)]
mod tests;

use crate::args::WindowArgs;
use crate::client::{Host, Settings, is_exposed};
use crate::interrupt::Said;
use crate::problem::{Failure, Ran};
use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use willcall_daemon::in_words;
use willcall_protocol::ids::RunId;
use willcall_protocol::message::PageReport;
use willcall_protocol::outcome::Outcome;

/// Prints. A reader that leaves early (`willcall exec ... | head`) is no error; after it nothing more is printed there.
pub struct Printer<'a> {
    out: Box<dyn Write + 'a>,
    err: Box<dyn Write + 'a>,
    /// Why stdout is not written any more.
    broken: Option<io::Error>,
    /// Whether stdout is a terminal, and stderr.
    terminals: (bool, bool),
    /// Whether terminals get outputs as they are.
    raw: bool,
}

impl fmt::Debug for Printer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Printer").finish_non_exhaustive()
    }
}

impl<'a> Printer<'a> {
    /// Prints to these two.
    pub fn new(out: impl Write + 'a, err: impl Write + 'a) -> Self {
        Self {
            out: Box::new(out),
            err: Box::new(err),
            broken: None,
            terminals: (false, false),
            raw: false,
        }
    }

    /// Says whether stdout and stderr are terminals: those are shown nothing that could steer them.
    #[must_use]
    pub fn on_terminals(self, out: bool, err: bool) -> Self {
        Self {
            terminals: (out, err),
            ..self
        }
    }

    /// Outputs go to terminals as they are, too. Words about them do not.
    pub fn raw(&mut self, raw: bool) {
        self.raw = raw;
    }

    /// Writes out what is buffered. Fails if something could not be printed although somebody wanted it.
    pub fn finish(&mut self) -> Result<(), Failure> {
        if self.broken.is_none() {
            self.broken = self.out.flush().err();
        }
        let _ = self.err.flush();
        match self.broken.take() {
            Some(source) if source.kind() != io::ErrorKind::BrokenPipe => Err(Failure::Local {
                what: "stdout cannot be written".to_owned(),
                source,
            }),
            _ => Ok(()),
        }
    }

    fn data(&mut self, bytes: &[u8]) {
        if self.broken.is_none() {
            self.broken = self.out.write_all(bytes).err();
        }
    }

    fn line(&mut self, line: impl fmt::Display) {
        let line = format!("{line}\n");
        self.data(words(&line, self.terminals.0).as_bytes());
    }

    /// What a command wrote to stdout, or what is held of it.
    fn output(&mut self, text: &str) {
        self.data(words(text, self.terminals.0 && !self.raw).as_bytes());
    }

    /// A line on stderr. Nobody can be told if that fails.
    fn note(&mut self, line: impl fmt::Display) {
        let line = format!("willcall: {line}\n");
        let _ = self
            .err
            .write_all(words(&line, self.terminals.1).as_bytes());
    }

    /// One JSON object and nothing else.
    pub fn json(&mut self, json: &str) {
        let json = json.trim();
        let shown = if self.terminals.0 && !self.raw {
            terminal::harmless_json(json)
        } else {
            json.into()
        };
        self.data(format!("{shown}\n").as_bytes());
    }

    /// What the command wrote, each stream to its own, and notes about what is not there.
    pub fn outcome(&mut self, outcome: &Outcome) {
        let report = &outcome.report;
        for stream in [&report.stdout, &report.tty].into_iter().flatten() {
            self.output(&stream.result);
        }
        if self.broken.is_none() {
            self.broken = self.out.flush().err();
        }
        if let Some(stream) = &report.stderr {
            let text = words(&stream.result, self.terminals.1 && !self.raw);
            let _ = self.err.write_all(text.as_bytes());
        }
        for note in receipt::notes(report) {
            self.note(note);
        }
    }

    /// The page's text, and where the next one begins.
    pub fn page(&mut self, page: &PageReport, asked: &WindowArgs) {
        self.output(&page.content);
        let moved = asked.line.is_none() && page.offset != asked.offset.unwrap_or(0);
        if moved && !page.content.is_empty() {
            self.note(format_args!(
                "begins at offset {}, the next whole character",
                page.offset
            ));
        }
        if let (Some(..0), Some(line)) = (asked.line, page.line) {
            self.note(format_args!("begins at line {line}"));
        }
        if page.lossy {
            self.note("some bytes are not text and are shown as \u{fffd}");
        }
        if asked.verify {
            self.verified(page);
        }
        if let Some(next) = page.next {
            self.note(format_args!("next: --offset {next} (of {})", page.total));
        }
    }

    fn verified(&mut self, page: &PageReport) {
        match &page.digest {
            Some(digest) if page.verified => self.note(format_args!("verified: {digest}")),
            Some(digest) => self.note(format_args!(
                "there was no digest to verify it by; it is {digest} now, and later reads are verified by that"
            )),
            None => self.note("not verified: the host does not know how"),
        }
    }

    /// The hosts, as a table.
    pub fn hosts(&mut self, hosts: &[Host]) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default();
        let width = hosts.iter().map(|host| host.name.len()).max().unwrap_or(0);
        for host in hosts {
            let (name, standing) = (&host.name, standing(host, now));
            match host.running {
                Some(running @ 1..) => {
                    self.line(format_args!("{name:width$}  {standing}  {running} running"));
                }
                _ => self.line(format_args!("{name:width$}  {standing}")),
            }
        }
        if hosts.is_empty() {
            self.note("no host is registered at this gateway");
        }
    }

    /// What `willcall dev` says when the system is up.
    pub fn ready(&mut self, settings: &Settings) {
        let token_file = settings.token_file.display().to_string();
        self.line(format_args!(
            "export WILLCALL_URL={}",
            quoted(&settings.url)
        ));
        self.line(format_args!(
            "export WILLCALL_TOKEN_FILE={}",
            quoted(&token_file)
        ));
        self.line("ready");
        if self.broken.is_none() {
            self.broken = self.out.flush().err();
        }
    }

    /// Warns of a token that others can read.
    pub fn token_exposed(&mut self, token_file: &Path) {
        if is_exposed(token_file) {
            let path = token_file.display();
            self.note(format_args!(
                "others can read the token in {path}: chmod 600 {path}"
            ));
        }
    }

    /// What becomes of a run whose exec was interrupted.
    pub(crate) fn interrupted(&mut self, run: RunId, host: &str, said: Said) {
        match said {
            Said::Canceling => self.note(format_args!(
                "canceling run {run} on {host}; interrupt again to leave without waiting for its end"
            )),
            Said::NotCanceled(failure) => {
                self.note(format_args!("run {run} could not be canceled:"));
                self.failure(&failure);
            }
            Said::Left { noted: true } => self.note(format_args!(
                "run {run} goes on on {host} until it is canceled there, which the gateway sees to"
            )),
            Said::Left { noted: false } => self.note(format_args!(
                "run {run} goes on on {host}; whether it will be canceled there is not known"
            )),
        }
    }

    /// Where the state of a demo stays.
    pub fn kept(&mut self, directory: &Path) {
        self.note(format_args!("the state is kept in {}", directory.display()));
    }

    /// Under which id to ask for a run of which nothing is known.
    pub fn unknown_run(&mut self, run: RunId) {
        self.note(format_args!(
            "its run id is {run}; once the gateway is back, GET /v1/runs/{run} tells what became of it"
        ));
    }

    /// What went wrong, whether the command ran, and what to do next.
    pub fn failure(&mut self, failure: &Failure) {
        self.note(in_words(failure));
        match failure.ran() {
            Ran::No => self.note("the command did not run"),
            Ran::Unknown => self.note("whether the command ran is not known"),
            Ran::NotAsked => {}
        }
        if let Some(advice) = failure.advice() {
            self.note(advice);
        }
    }
}

/// Text as it is, or as a terminal may have it.
fn words(text: &str, for_a_terminal: bool) -> Cow<'_, str> {
    if for_a_terminal {
        terminal::harmless(text)
    } else {
        text.into()
    }
}

fn standing(host: &Host, now: Duration) -> String {
    if host.connected {
        return "connected".to_owned();
    }
    let seen = host.last_seen_ms.and_then(|ms| u64::try_from(ms).ok());
    match seen.map(Duration::from_millis) {
        None => "never connected".to_owned(),
        Some(seen) => {
            let ago = Duration::from_secs(now.saturating_sub(seen).as_secs());
            format!("away, last seen {} ago", humantime::format_duration(ago))
        }
    }
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_./:".contains(&b);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

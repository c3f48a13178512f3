//! `willcall exec`: one command on one host, to its end.

use crate::args::{ExecArgs, LimitArgs};
use crate::client::{Client, RunRequest, Settings};
use crate::exit;
use crate::interrupt::{self, Ended};
use crate::problem::{Failure, Ran};
use crate::render::Printer;
use crate::stop::Stop;
use std::collections::BTreeMap;
use uuid::Uuid;
use willcall_protocol::ids::{RunId, SessionId};
use willcall_protocol::message::LimitsAsked;

/// Runs, prints, and gives the exit code.
pub fn command(args: ExecArgs, printer: &mut Printer<'_>) -> Result<i32, Failure> {
    args.limits.check()?;
    printer.raw(args.raw);
    let settings = Settings::from_environment()?;
    printer.token_exposed(&settings.token_file);
    let json = args.json;
    let ended = run(&Client::new(settings, Stop::never()), args, printer)?;
    if json {
        printer.json(&ended.outcome.json);
    } else {
        printer.outcome(&ended.outcome.value);
    }
    let report = &ended.outcome.value.report;
    Ok(match ended.interrupted {
        Some(signal) => exit::of_interrupted(report, signal),
        None => exit::of_run(report),
    })
}

fn run(client: &Client, args: ExecArgs, printer: &mut Printer<'_>) -> Result<Ended, Failure> {
    let host = client.host(args.host.as_deref())?;
    let mut request = request(args.session, args.command, &args.limits);
    request.cwd = args.cwd;
    request.turn = args.turn.asked();
    request.env = args.env.into_iter().collect();
    let run = request.run;
    let ended = interrupt::run(client, &host, request, printer);
    if let Err(failure) = &ended
        && matches!(failure.ran(), Ran::Unknown)
    {
        printer.unknown_run(run);
    }
    ended
}

/// A new run: its id is chosen here, before anything is sent.
pub fn request(session: SessionId, argv: Vec<String>, limits: &LimitArgs) -> RunRequest {
    RunRequest {
        run: RunId(Uuid::now_v7()),
        session,
        argv,
        cwd: None,
        env: BTreeMap::new(),
        timeout_ms: limits
            .timeout
            .map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
        limits: LimitsAsked {
            max_bytes: limits.max_bytes,
            max_lines: limits.max_lines,
        },
        strategy: limits.strategy.into(),
        view: limits.view.into(),
        turn: None,
    }
}

impl LimitArgs {
    /// Refuses limits that leave nothing, before anything is started for them.
    pub fn check(&self) -> Result<(), Failure> {
        if self.max_bytes == Some(0) {
            return Err(Failure::ZeroLimit("max_bytes"));
        }
        if self.max_lines == Some(0) {
            return Err(Failure::ZeroLimit("max_lines"));
        }
        match self.timeout {
            Some(timeout) if timeout.as_millis() == 0 => Err(Failure::ZeroLimit("timeout (in ms)")),
            _ => Ok(()),
        }
    }
}

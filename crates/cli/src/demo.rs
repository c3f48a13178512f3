//! `willcall demo`: a whole system for one command, and all gone again.

use crate::args::{DemoArgs, WindowArgs};
use crate::client::{Answer, Client, PageRequest};
use crate::limits::LOOK;
use crate::problem::Failure;
use crate::render::Printer;
use crate::stop::Stop;
use crate::system::{Directory, Host, Log, System};
use crate::{exec, exit};
use std::time::{Duration, Instant};
use willcall_protocol::ids::{OutputId, SessionId, Stream};
use willcall_protocol::message::{PageReport, ReadTarget};
use willcall_protocol::outcome::{Outcome, StreamReport};

const HOST: &str = "demo";
/// Something that any Linux host has and that overflows the limits.
const COMMAND: [&str; 3] = ["ls", "-lR", "/usr"];

/// What there is to show.
#[derive(Debug)]
pub struct Shown {
    /// The command.
    pub argv: Vec<String>,
    /// From nothing to a connected host.
    pub start: Duration,
    /// The run.
    pub outcome: Answer<Outcome>,
    /// The first page of what its preview left out.
    pub picked_up: Option<PickedUp>,
    /// Whether the state stays.
    pub kept: bool,
}

/// A page of what a preview left out.
#[derive(Debug)]
pub struct PickedUp {
    /// The stream.
    pub stream: &'static str,
    /// The page.
    pub page: PageReport,
}

/// Stands a system up, runs the command through it, tears it down, prints, and gives the exit code.
pub fn command(args: &DemoArgs, printer: &mut Printer<'_>) -> Result<i32, Failure> {
    args.limits.check()?;
    let stop = Stop::watch().map_err(|source| Failure::Local {
        what: "signals cannot be caught".to_owned(),
        source,
    })?;
    let directory = Directory::scratch(args.keep)?;
    if !args.json {
        printer.demo_begins(directory.path());
    }
    let shown = show(args, &directory, &stop);
    if args.keep {
        printer.kept(directory.path());
    }
    directory.end()?;
    let shown = shown?;
    if args.json {
        printer.json(&shown.outcome.json);
    } else {
        printer.demo(&shown);
    }
    Ok(exit::of_run(&shown.outcome.value.report))
}

fn show(args: &DemoArgs, directory: &Directory, stop: &Stop) -> Result<Shown, Failure> {
    let began = Instant::now();
    let host = Host::new(HOST, args.config.path.as_deref())?;
    let system = System::start(directory, &host, Log::File(directory.log()), stop)?;
    let start = began.elapsed();
    let client = Client::new(system.settings().clone(), stop.clone());
    let argv = match args.command.as_slice() {
        [] => COMMAND.map(str::to_owned).to_vec(),
        given => given.to_vec(),
    };
    let request = exec::request(SessionId::unnamed(), argv.clone(), &args.limits);
    let pick_up = !args.json;
    let work = move || {
        let outcome = client.run(HOST, &request)?;
        let picked_up = if pick_up {
            first_missing(&client, &outcome.value)?
        } else {
            None
        };
        Ok((outcome, picked_up))
    };
    let (outcome, picked_up) = while_watching(system, stop, work)?;
    Ok(Shown {
        argv,
        start,
        outcome,
        picked_up,
        kept: args.keep,
    })
}

/// Does `work` in another thread, and ends the system once it is done or somebody wants us to end; without a gateway
/// the work then ends too.
fn while_watching<T: Send + 'static>(
    system: System,
    stop: &Stop,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let worker = std::thread::spawn(work);
    while !worker.is_finished() && stop.pause(LOOK).is_none() {}
    let ended = system.end();
    let worked = worker
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    if let Some(signal) = stop.signal() {
        return Err(Failure::Interrupted(signal));
    }
    let worked = worked?;
    ended.map(|()| worked)
}

/// Reads the first page of what the first truncated preview left out.
fn first_missing(client: &Client, outcome: &Outcome) -> Result<Option<PickedUp>, Failure> {
    let report = &outcome.report;
    let streams = [
        (Stream::Stdout, &report.stdout),
        (Stream::Stderr, &report.stderr),
        (Stream::Tty, &report.tty),
    ];
    let missing = streams.into_iter().find_map(|(stream, report)| {
        let (id, offset) = held(report.as_ref()?)?;
        Some((stream, id, offset))
    });
    let Some((stream, id, offset)) = missing else {
        return Ok(None);
    };
    let page = client.page(&PageRequest {
        session: report.session.clone(),
        host: outcome.host.clone(),
        target: ReadTarget::Output(id),
        window: WindowArgs {
            offset: Some(offset),
            ..WindowArgs::default()
        },
        turn: None,
    })?;
    Ok(Some(PickedUp {
        stream: stream.as_str(),
        page: page.value,
    }))
}

/// Where the part of a stream that was left out is to be read.
fn held(stream: &StreamReport) -> Option<(OutputId, u64)> {
    let id = stream.output.as_ref()?.parse().ok()?;
    Some((id, stream.omitted?.offset))
}

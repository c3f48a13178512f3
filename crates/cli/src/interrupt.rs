//! Ctrl-C and TERM while a run is waited for: the run is ended on its host, and not only the waiting for it here.
//!
//! ```text
//! waiting ──first signal──► canceling ──over──► the outcome
//!    │                          └──second signal──► left: the run goes on without us
//!    └──over──► the outcome
//! ```

use crate::client::{Answer, Client, RunRequest};
use crate::limits::MAX_EVENTS;
use crate::problem::Failure;
use crate::render::Printer;
use crate::stop;
use nix::sys::signal::Signal;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use willcall_protocol::outcome::Outcome;

/// A run that is over.
#[derive(Debug)]
pub(crate) struct Ended {
    /// What it came to.
    pub(crate) outcome: Answer<Outcome>,
    /// What interrupted us, if something did.
    pub(crate) interrupted: Option<Signal>,
}

type Finished = Result<Answer<Outcome>, Failure>;

enum Event {
    /// The run is over, or the call failed, or its thread panicked.
    Over(thread::Result<Box<Finished>>),
    Signal(Signal),
    Canceled(Result<(), Failure>),
}

/// Runs a command on a host to its end, whatever interrupts us once. Call it before there is another thread.
pub(crate) fn run(
    client: &Client,
    host: &str,
    request: RunRequest,
    printer: &mut Printer<'_>,
) -> Result<Ended, Failure> {
    let run = request.run;
    let (sender, events) = sync_channel(MAX_EVENTS);
    let told = sender.clone();
    let signals = [Signal::SIGINT, Signal::SIGTERM];
    stop::on_each(&signals, move |signal| tell(&told, Event::Signal(signal))).map_err(
        |source| Failure::Local {
            what: "signals cannot be caught".to_owned(),
            source,
        },
    )?;
    let (runner, at) = (client.clone(), host.to_owned());
    aside(&sender, move || {
        Event::Over(catch_unwind(AssertUnwindSafe(|| {
            Box::new(runner.run(&at, &request))
        })))
    });
    let canceler = client.clone();
    let cancel = move || aside(&sender, move || Event::Canceled(canceler.cancel(run)));
    attend(&events, cancel, &mut |said| {
        printer.interrupted(run, host, said);
    })
}

/// What is said on the way.
#[derive(Debug)]
pub(crate) enum Said {
    /// The run is being canceled.
    Canceling,
    /// It cannot be.
    NotCanceled(Failure),
    /// We leave; whether the gateway has noted the cancel.
    Left { noted: bool },
}

fn attend(
    events: &Receiver<Event>,
    cancel: impl FnOnce(),
    say: &mut impl FnMut(Said),
) -> Result<Ended, Failure> {
    let (mut cancel, mut interrupted, mut noted) = (Some(cancel), None, false);
    // The signals' thread holds a sender for as long as the process lives.
    while let Ok(event) = events.recv() {
        match event {
            Event::Over(Ok(outcome)) => {
                return outcome.map(|outcome| Ended {
                    outcome,
                    interrupted,
                });
            }
            Event::Over(Err(panic)) => resume_unwind(panic),
            Event::Signal(signal) => {
                let Some(cancel) = cancel.take() else {
                    say(Said::Left { noted });
                    return Err(Failure::Interrupted(signal));
                };
                interrupted = Some(signal);
                say(Said::Canceling);
                cancel();
            }
            Event::Canceled(Ok(())) => noted = true,
            Event::Canceled(Err(failure)) => say(Said::NotCanceled(failure)),
        }
    }
    Err(Failure::Interrupted(interrupted.unwrap_or(Signal::SIGTERM)))
}

/// Works in a thread that nobody joins: a second signal must not wait for it.
fn aside(sender: &SyncSender<Event>, work: impl FnOnce() -> Event + Send + 'static) {
    let sender = sender.clone();
    thread::spawn(move || tell(&sender, work()));
}

fn tell(sender: &SyncSender<Event>, event: Event) {
    // Whoever does not listen any more has left.
    drop(sender.send(event));
}

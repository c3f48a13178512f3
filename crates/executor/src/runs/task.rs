//! One run's task: carries out what its machine decides.

use super::budget::keep_within;
use super::line::{Line, LineError};
use super::machine::{Action, Conclusion, Machine, SpoolState};
use super::order::Order;
use super::report::{Finished, finished};
use super::{Answer, Obstacle, Place, Runs, answer};
use crate::host::now_ms;
use crate::ledger::claim::Verdict;
use crate::ledger::{Asked, Unfinished};
use crate::limits::{GRACE, LEDGER_RETRY};
use crate::reminder::Reminder;
use crate::turns::Pass;
use std::fs::File;
use std::future::pending;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::time::{sleep, sleep_until};
use willcall_daemon::in_words;
use willcall_outputs::capture::Kept;
use willcall_outputs::record::Stream;
use willcall_outputs::store::{OutputKey, Store};
use willcall_protocol::outcome::Report;
use willcall_runner::limits::DRAIN_TIME;
use willcall_runner::wire::{FromRunner, RUNNER_PROTO, SpawnError, Stage, StreamResult, ToRunner};

/// A run's task.
pub(super) struct Task {
    place: Place,
    order: Arc<Order>,
    accepted_ms: u64,
    machine: Machine,
    /// What its turn lets out of its results.
    pass: Pass,
    line: Option<Line>,
    /// Why the ledger does not say what was asked.
    fault: Option<String>,
    /// Tells, if it does, that the spawner forked no runner.
    failure: Option<oneshot::Receiver<SpawnError>>,
}

impl Task {
    /// A run that is about to be claimed.
    pub(super) fn arming(place: Place, order: Order, accepted_ms: u64) -> Self {
        let patience = patience(order.timeout_ms, place.runs.runner_margin);
        let machine = Machine::arming(Instant::now(), patience);
        Self::new(place, order, accepted_ms, machine)
    }

    /// Has a runner armed while the claim syncs; answers, and drives the run if it is the first one.
    pub(super) async fn start(mut self, claim: Asked<Verdict>, answered: oneshot::Sender<Answer>) {
        let spooled = self.arm().await;
        let verdict = claim.await;
        // Whoever asked may be gone; the run goes on.
        if matches!(verdict, Ok(Verdict::First)) {
            let timeout_ms = self.order.timeout_ms;
            let _ = answered.send(Answer::Accepted { timeout_ms });
            self.machine.handle_claimed(Instant::now());
            self.drive().await;
        } else {
            self.disarm(spooled);
            let _ = answered.send(answer(verdict, &Obstacle::Busy));
        }
    }

    /// Takes over a run that an earlier executor claimed.
    pub(super) fn adopt(place: Place, one: Unfinished) -> Self {
        let machine = if one.boot_id == place.runs.boot_id {
            let patience = patience(one.timeout_ms, place.runs.runner_margin);
            Machine::adopted(Instant::now(), patience)
        } else {
            Machine::rebooted()
        };
        let previews = place.runs.outputs().previews;
        let order = Order::remembered(one.dispatch, one.timeout_ms, previews);
        Self {
            fault: one.fault,
            ..Self::new(place, order, one.accepted_ms, machine)
        }
    }

    /// Drives the run to its end in the ledger.
    pub(super) async fn drive(mut self) {
        loop {
            while let Some(action) = self.machine.poll_action() {
                match action {
                    Action::Go => self.say(ToRunner::Go).await,
                    Action::Cancel => self.say(ToRunner::Cancel).await,
                    Action::LookAtSpool => self.look_at_spool(),
                    Action::Conclude(conclusion) => return self.conclude(conclusion).await,
                }
            }
            self.wait().await;
        }
    }

    fn new(place: Place, order: Order, accepted_ms: u64, machine: Machine) -> Self {
        let turn = order.dispatch.turn.as_ref();
        let pass = place.runs.turns.arrive(&order.dispatch.session, turn);
        let order = Arc::new(order);
        Self {
            place,
            order,
            accepted_ms,
            machine,
            pass,
            line: None,
            fault: None,
            failure: None,
        }
    }

    /// Has a runner armed. Returns whether the run's spool file is of our making.
    async fn arm(&mut self) -> bool {
        let run = self.place.run;
        let made = Line::pair().and_then(|pair| Ok((pair, self.runs().spool.create(run)?)));
        let ((line, theirs), spool) = match made {
            Ok(made) => made,
            Err(error) => {
                self.launch_failed(&error, "the run's socket and spool file");
                return false;
            }
        };
        if let Err(error) = self.launch(&theirs, &spool).await {
            tracing::error!(%run, "{}", in_words(&error));
            self.machine.handle_lost(Instant::now());
        }
        self.line = Some(line);
        true
    }

    async fn launch(
        &mut self,
        theirs: &std::os::unix::net::UnixStream,
        spool: &File,
    ) -> Result<(), super::spawner::SpawnerError> {
        let runs = Arc::clone(&self.place.runs);
        let session = self.order.dispatch.session.as_str();
        let directory = runs.store.session_dir(session).map_err(|error| {
            let why = in_words(&error);
            tracing::error!("output of run {} cannot be kept: {why}", self.place.run);
            error.loss()
        });
        if runs.store.was_renewed() {
            let root = runs.store.root().display();
            tracing::error!(
                "somebody removed the store {root} with all that was held; it was made again"
            );
        }
        let no_directory = directory.as_ref().err().copied();
        let launch = self.order.launch(&runs.surroundings, no_directory);
        let fds = [
            Some(theirs.as_fd()),
            Some(spool.as_fd()),
            directory.as_ref().ok().map(AsFd::as_fd),
        ];
        let fds: Vec<_> = fds.into_iter().flatten().collect();
        self.failure = Some(runs.spawner.launch(&launch, &fds).await?);
        Ok(())
    }

    /// An armed runner that loses us ends without having executed anything.
    fn disarm(self, spooled: bool) {
        if spooled {
            self.runs().spool.remove(self.place.run);
        }
    }

    fn launch_failed(&mut self, error: &io::Error, on: &str) {
        tracing::error!(run = %self.place.run, %error, "cannot make {on}");
        let errno = error.raw_os_error().unwrap_or(nix::libc::EIO);
        let error = SpawnError {
            stage: Stage::Descriptors,
            errno,
            on: on.to_owned(),
        };
        self.machine.handle_launch_failed(error);
    }

    fn runs(&self) -> &Runs {
        &self.place.runs
    }

    async fn say(&mut self, word: ToRunner) {
        if let Some(line) = &mut self.line
            && let Err(error) = line.say(word).await
        {
            self.lose(&error);
        }
    }

    fn lose(&mut self, error: &LineError) {
        if !matches!(error, LineError::Closed) {
            tracing::warn!(run = %self.place.run, "{}", in_words(error));
        }
        self.line = None;
        self.machine.handle_lost(Instant::now());
    }

    /// Small files, read seldom: not worth another thread.
    fn look_at_spool(&mut self) {
        let run = self.place.run;
        let spool = self.runs().spool.look(run).unwrap_or_else(|error| {
            tracing::error!(%run, %error, "cannot read a run's spool file; trying again");
            SpoolState::Held
        });
        self.machine.handle_spool(spool, Instant::now());
    }

    /// Waits for the next event. Cancel safe.
    async fn wait(&mut self) {
        let timeout = self.machine.poll_timeout();
        tokio::select! {
            // What has come goes before what did not come in time.
            biased;
            message = next(self.line.as_mut()) => match message {
                Ok(message) => self.hear(message),
                Err(error) => self.lose(&error),
            },
            Some((line, phase)) = self.place.attached.recv() => {
                // The old connection is dead, whether or not we have noticed.
                self.machine.handle_lost(Instant::now());
                self.line = Some(line);
                self.machine.handle_hello(phase, Instant::now());
            }
            () = self.place.cancel.notified() => self.machine.handle_cancel(),
            error = failed(&mut self.failure) => self.machine.handle_launch_failed(error),
            () = sleep_until_some(timeout) => self.machine.handle_timeout(Instant::now()),
        }
    }

    fn hear(&mut self, message: FromRunner) {
        match message {
            FromRunner::Hello(hello)
                if hello.run != self.place.run.0 || hello.proto > RUNNER_PROTO =>
            {
                tracing::error!(run = %self.place.run, ?hello, "a runner that is not this run's");
                self.lose(&LineError::Closed);
            }
            FromRunner::Hello(hello) => self.machine.handle_hello(hello.phase, Instant::now()),
            FromRunner::Started { pid } => {
                tracing::debug!(run = %self.place.run, pid, "started");
                self.machine.handle_started();
            }
            FromRunner::Finished(result) if result.run == self.place.run.0 => {
                self.machine.handle_result(result);
            }
            FromRunner::Finished(_) => {
                tracing::error!(run = %self.place.run, "a runner sent another run's result");
            }
        }
    }

    /// Tells store, ledger, session and runner of the end, in this order.
    async fn conclude(mut self, conclusion: Conclusion) {
        if conclusion == Conclusion::Unresponsive {
            let run = self.place.run;
            tracing::error!(%run, "a runner has not ended its run in time and does not answer; it is given up");
        }
        let (report, stored) = self.describe(conclusion).await;
        let report = Arc::new(report);
        let seq = self.enter(&report).await;
        self.runs().outbox.publish(seq, report);
        // The session sends the result before we clean up.
        tokio::task::yield_now().await;
        self.say(ToRunner::Collected).await;
        self.runs().spool.remove(self.place.run);
        if !stored.is_empty() {
            let (store, order) = (Arc::clone(&self.runs().store), Arc::clone(&self.order));
            // Only the loss of power could tell the difference; nobody waits for it.
            drop(self.place);
            let synced = tokio::task::spawn_blocking(move || sync_files(&store, &order, &stored));
            let _ = synced.await;
        }
    }

    /// Makes the report, within what its turn has room for, and writes the record of what is stored.
    async fn describe(&mut self, conclusion: Conclusion) -> (Report, Vec<Stream>) {
        let (mut finished, streams) = self.judge(conclusion).await;
        let parcels = &self.place.runs.parcels;
        if let Some(fault) = &self.fault {
            finished.report.message = Some(with_fault(finished.report.message.take(), fault));
        }
        keep_within(
            &mut self.pass,
            &mut finished,
            &streams,
            &self.order,
            parcels,
        )
        .await;
        (finished.report, finished.stored.into_keys().collect())
    }

    /// The report without its turn, and the streams that it was made of.
    async fn judge(&self, conclusion: Conclusion) -> (Finished, Vec<StreamResult>) {
        let (store, order) = (Arc::clone(&self.runs().store), Arc::clone(&self.order));
        let accepted_ms = self.accepted_ms;
        let slow = needs_disk(&conclusion);
        let work = move || {
            let left = left(&store, &order, &conclusion);
            let finished = finished(&order, &conclusion, &left, |key| store.path_of(key));
            write_record(&store, &finished, accepted_ms);
            match conclusion {
                Conclusion::Result(result) => (finished, result.streams),
                _ => (finished, left),
            }
        };
        if !slow {
            return work();
        }
        match tokio::task::spawn_blocking(work).await {
            Ok(done) => done,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// Enters the end into the ledger, however long that takes: the runner keeps the result, or its spool.
    async fn enter(&mut self, report: &Arc<Report>) -> u64 {
        let mut reminder = Reminder::default();
        loop {
            match self
                .runs()
                .ledger
                .finish(Arc::clone(report), now_ms())
                .await
            {
                Ok(seq) => return seq,
                Err(error) => {
                    let (run, why) = (self.place.run, in_words(&error));
                    if reminder.is_due(Instant::now()) {
                        tracing::error!(%run, "the end of a run cannot be entered yet: {why}");
                    } else {
                        tracing::debug!(%run, "still not entered: {why}");
                    }
                }
            }
            sleep(LEDGER_RETRY).await;
            if let Ok((line, _)) = self.place.attached.try_recv() {
                self.line = Some(line);
            }
        }
    }
}

/// How long after its start a run is over, if its runner lives.
fn patience(timeout_ms: u64, margin: Duration) -> Duration {
    Duration::from_millis(timeout_ms) + GRACE + DRAIN_TIME + margin
}

/// Whether telling of it takes more than a moment.
fn needs_disk(conclusion: &Conclusion) -> bool {
    match conclusion {
        Conclusion::Result(result) => result
            .streams
            .iter()
            .any(|stream| stream.captured.kept != Kept::NotNeeded),
        Conclusion::OutcomeUnknown
        | Conclusion::NoTrace
        | Conclusion::Unresponsive
        | Conclusion::Reboot => true,
        _ => false,
    }
}

/// The streams of a lost run, as far as its runner brought them to their files: worth looking at, and held as long as
/// those of any other.
fn left(store: &Store, order: &Order, conclusion: &Conclusion) -> Vec<StreamResult> {
    if matches!(conclusion, Conclusion::Result(_)) || !needs_disk(conclusion) {
        return Vec::new();
    }
    let left_of = |stream| {
        let key = OutputKey {
            session: order.dispatch.session.as_str().to_owned(),
            run: order.dispatch.run.0,
            stream,
        };
        let left = store.left_of(&key, order.limits, order.view);
        let left = left.unwrap_or_else(|error| {
            tracing::warn!(output = %key, %error, "cannot read what a lost run has left");
            None
        });
        left.map(|captured| StreamResult::new(stream, captured))
    };
    let streams = [Stream::Stdout, Stream::Stderr, Stream::Tty];
    streams.into_iter().filter_map(left_of).collect()
}

/// Of a run whose row in the ledger does not say what was asked, the caller hears that, too.
fn with_fault(message: Option<String>, fault: &str) -> String {
    let before = message.map_or_else(String::new, |message| message + "; ");
    format!(
        "{before}the row of this host's ledger that says what was asked cannot be read ({fault}): the \
         default limits apply"
    )
}

fn write_record(store: &Store, finished: &Finished, created_ms: u64) {
    if let Some(record) = finished.record(created_ms, now_ms())
        && let Err(error) = store.write_record(&record)
    {
        tracing::error!("{}; its outputs read as unfinished ones", in_words(&error));
    }
}

fn sync_files(store: &Store, order: &Order, streams: &[Stream]) {
    for stream in streams {
        let session = order.dispatch.session.as_str().to_owned();
        let path = store.path_of(&OutputKey {
            session,
            run: order.dispatch.run.0,
            stream: *stream,
        });
        if let Err(error) = File::open(&path).and_then(|file| file.sync_data()) {
            tracing::warn!(path = %path.display(), %error, "cannot sync an output");
        }
    }
}

async fn next(line: Option<&mut Line>) -> Result<FromRunner, LineError> {
    match line {
        Some(line) => line.next().await,
        None => pending().await,
    }
}

/// A sender that is gone has nothing to tell: the runner itself does.
async fn failed(failure: &mut Option<oneshot::Receiver<SpawnError>>) -> SpawnError {
    if let Some(receiver) = failure {
        let told = receiver.await;
        *failure = None;
        if let Ok(error) = told {
            return error;
        }
    }
    pending().await
}

async fn sleep_until_some(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at.into()).await,
        None => pending().await,
    }
}

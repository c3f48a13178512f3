//! The runs: each is one task, which lives from its claim to its end in the ledger.
//!
//! | module | what | I/O |
//! |---|---|---|
//! | [`order`] | a dispatch, checked | none |
//! | `machine` | the life of one run | none |
//! | `report` | what the caller is told of it | none |
//! | `budget` | takes out of it what its turn has no room for | files, if need be |
//! | `task` | carries the machine's actions out | sockets, ledger |
//! | `spawner`, `line`, `spool` | the ways to the spawner, to a runner, and to what a dead one left | sockets, files |
//! | `callers` | runners that dial | sockets |

mod budget;
pub(crate) mod callers;
mod line;
mod machine;
pub mod order;
mod report;
mod spawner;
mod spool;
mod task;

pub(crate) use report::state_name;

use crate::config::Outputs;
use crate::host::now_ms;
use crate::ledger::claim::Verdict;
use crate::ledger::{Asked, Ledger, LedgerError, NewRun};
use crate::limits::{MAX_ATTACHING, MAX_READS, MAX_RUNS};
use crate::outbox::Outbox;
use crate::sync::lock;
use crate::turns::{Gate, Parcels};
use line::Line;
use order::{Order, OrderError, Surroundings};
use spawner::Spawner;
use spool::Spool;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use task::Task;
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use willcall_daemon::in_words;
use willcall_outputs::store::Store;
use willcall_protocol::ids::RunId;
use willcall_protocol::message::Dispatch;
use willcall_protocol::outcome::Cause;
use willcall_runner::wire::Phase;

/// What a dispatch is answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is claimed, now or before, and not over.
    Accepted { timeout_ms: u64 },
    /// Nothing was executed for it.
    Refused { cause: Cause, message: String },
    /// It was over before.
    Finished { seq: u64 },
}

/// Every run of this host that is not over.
#[derive(Debug)]
pub(crate) struct Runs {
    ledger: Ledger,
    store: Arc<Store>,
    spool: Spool,
    spawner: Spawner,
    surroundings: Surroundings,
    boot_id: String,
    /// How much longer than its times a runner may take.
    runner_margin: Duration,
    outbox: Outbox,
    turns: Arc<Gate>,
    parcels: Parcels,
    /// One for each read that may have a thread now.
    read_permits: Arc<Semaphore>,
    live: Mutex<HashMap<RunId, Live>>,
    tasks: Mutex<JoinSet<()>>,
    /// A task has panicked: this process must not go on.
    failed: Notify,
}

/// The way to a run's task.
#[derive(Debug)]
struct Live {
    cancel: Arc<Notify>,
    attach: mpsc::Sender<(Line, Phase)>,
}

/// A task's end of it. The run is live for as long as this is.
#[derive(Debug)]
struct Place {
    runs: Arc<Runs>,
    run: RunId,
    cancel: Arc<Notify>,
    attached: mpsc::Receiver<(Line, Phase)>,
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.runs.live).remove(&self.run);
        if std::thread::panicking() {
            self.runs.failed.notify_one();
        }
    }
}

/// What [`Runs`] is made of.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) ledger: Ledger,
    pub(crate) store: Arc<Store>,
    pub(crate) spool_dir: PathBuf,
    pub(crate) spawner: PathBuf,
    pub(crate) surroundings: Surroundings,
    pub(crate) boot_id: String,
    pub(crate) runner_margin: Duration,
}

impl Runs {
    pub(crate) fn new(parts: Parts) -> Arc<Self> {
        Arc::new(Self {
            ledger: parts.ledger,
            turns: Gate::new(parts.surroundings.outputs.turn_budget),
            parcels: Parcels::new(Arc::clone(&parts.store)),
            read_permits: Arc::new(Semaphore::new(MAX_READS)),
            store: parts.store,
            spool: Spool::open(parts.spool_dir),
            spawner: Spawner::new(parts.spawner),
            surroundings: parts.surroundings,
            boot_id: parts.boot_id,
            runner_margin: parts.runner_margin,
            outbox: Outbox::new(),
            live: Mutex::new(HashMap::new()),
            tasks: Mutex::new(JoinSet::new()),
            failed: Notify::new(),
        })
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub(crate) fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// What is kept, and what may leave.
    pub(crate) fn outputs(&self) -> &Outputs {
        &self.surroundings.outputs
    }

    pub(crate) fn turns(&self) -> &Arc<Gate> {
        &self.turns
    }

    /// Whoever reads a page holds one for as long as it takes a thread.
    pub(crate) fn read_permits(&self) -> &Arc<Semaphore> {
        &self.read_permits
    }

    /// The runs that are claimed and not over.
    pub(crate) fn running(&self) -> Vec<RunId> {
        let mut running: Vec<RunId> = lock(&self.live).keys().copied().collect();
        running.sort_unstable();
        running
    }

    /// Waits for a fault of our own that this process must not survive.
    pub(crate) async fn failed(&self) {
        self.failed.notified().await;
    }

    /// Ends every task. The runs live on with their runners.
    pub(crate) async fn shutdown(&self) {
        let mut tasks = std::mem::take(&mut *lock(&self.tasks));
        tasks.shutdown().await;
    }

    /// Takes a dispatch. Its claim is under way when this returns: what comes after it on the same
    /// session finds it here. `None` if we are ending.
    pub(crate) fn dispatch(
        self: &Arc<Self>,
        dispatch: Dispatch,
    ) -> impl Future<Output = Option<Answer>> + Send + use<> {
        let pending = self.begin(dispatch);
        async move {
            match pending {
                Pending::Starting(answer) => answer.await.ok(),
                Pending::Known(claim, obstacle) => Some(answer(claim.await, &obstacle)),
            }
        }
    }

    /// Ends a run, or sees to it that it is never started.
    pub(crate) fn cancel(&self, run: RunId) -> impl Future<Output = ()> + Send + use<> {
        let noted = (!self.tell_cancel(run)).then(|| self.ledger.cancel(run, now_ms()));
        async move {
            if let Some(noted) = noted
                && let Err(error) = noted.await
            {
                tracing::error!(%run, "a cancel was not noted: {}", in_words(&error));
            }
        }
    }

    /// Takes over what an earlier executor left: runs that are not over, and old spool files.
    pub(crate) async fn adopt(self: &Arc<Self>) -> Result<(), LedgerError> {
        let unfinished = self.ledger.unfinished().await?;
        let known: Vec<RunId> = unfinished.iter().map(|one| one.dispatch.run).collect();
        self.sweep(&known);
        if !known.is_empty() {
            tracing::info!(runs = known.len(), "taking over runs that are not over");
        }
        for one in unfinished {
            let place = self.place(one.dispatch.run);
            self.spawn(Task::adopt(place, one).drive());
        }
        Ok(())
    }

    fn begin(self: &Arc<Self>, dispatch: Dispatch) -> Pending {
        let order = match Order::new(dispatch.clone(), self.outputs().previews) {
            Ok(order) => order,
            // It may have been sound when it came first: what the ledger knows of it is the answer.
            Err(error) => {
                let claim = self.ledger.claim(unstarted(dispatch));
                return Pending::Known(claim, Obstacle::Order(error));
            }
        };
        let run = dispatch.run;
        let obstacle = self.obstacle(run);
        let new = NewRun {
            dispatch: Box::new(dispatch),
            timeout_ms: order.timeout_ms,
            may_start: obstacle.is_none(),
            now_ms: now_ms(),
        };
        let accepted_ms = new.now_ms;
        // From here it syncs, and whoever asks for the same run comes after it.
        let claim = self.ledger.claim(new);
        if let Some(obstacle) = obstacle {
            return Pending::Known(claim, obstacle);
        }
        let (answer, answered) = oneshot::channel();
        let task = Task::arming(self.place(run), order, accepted_ms);
        self.spawn(task.start(claim, answer));
        Pending::Starting(answered)
    }

    /// Why a run cannot be started now. A run that is live already is no new one, and no obstacle of its
    /// own is ever seen.
    fn obstacle(&self, run: RunId) -> Option<Obstacle> {
        let (known, count) = {
            let live = lock(&self.live);
            (live.contains_key(&run), live.len())
        };
        if known || count >= MAX_RUNS {
            return Some(Obstacle::Busy);
        }
        let error = self.spawner.reach().err()?;
        tracing::error!("{}", in_words(&error));
        Some(Obstacle::Spawner(in_words(&error)))
    }

    fn place(self: &Arc<Self>, run: RunId) -> Place {
        let (attach, attached) = mpsc::channel(MAX_ATTACHING);
        let cancel = Arc::new(Notify::new());
        lock(&self.live).insert(
            run,
            Live {
                cancel: Arc::clone(&cancel),
                attach,
            },
        );
        Place {
            runs: Arc::clone(self),
            run,
            cancel,
            attached,
        }
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = lock(&self.tasks);
        // Their ends have told all there is: a panic by `failed`.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    fn tell_cancel(&self, run: RunId) -> bool {
        let live = lock(&self.live);
        live.get(&run)
            .inspect(|live| live.cancel.notify_one())
            .is_some()
    }

    /// Hands a runner's connection to its run. Gives it back if the run is not live.
    fn attach(&self, run: RunId, line: Line, phase: Phase) -> Result<(), Line> {
        match lock(&self.live).get(&run) {
            // A run that does not take its runners has one already; this one dials again.
            Some(live) => drop(live.attach.try_send((line, phase))),
            None => return Err(line),
        }
        Ok(())
    }

    /// Removes the spool files of runs that are over; those of living runners stay.
    fn sweep(&self, unfinished: &[RunId]) {
        let runs = match self.spool.list() {
            Ok(runs) => runs,
            Err(error) => return tracing::warn!(%error, "cannot list the spool files"),
        };
        for run in runs.into_iter().filter(|run| !unfinished.contains(run)) {
            if !matches!(self.spool.look(run), Ok(machine::SpoolState::Held)) {
                self.spool.remove(run);
            }
        }
    }
}

/// The claim of a dispatch that must not be started: it finds an earlier one, or nothing.
fn unstarted(dispatch: Dispatch) -> NewRun {
    NewRun {
        dispatch: Box::new(dispatch),
        timeout_ms: 0,
        may_start: false,
        now_ms: now_ms(),
    }
}

enum Pending {
    Starting(oneshot::Receiver<Answer>),
    Known(Asked<Verdict>, Obstacle),
}

/// Why a new run cannot be started now, or ever.
enum Obstacle {
    Busy,
    Order(OrderError),
    Spawner(String),
}

/// What a claim is answered with that starts nothing.
fn answer(verdict: Result<Verdict, LedgerError>, obstacle: &Obstacle) -> Answer {
    let (cause, message) = match verdict {
        Ok(Verdict::Unfinished { timeout_ms }) => return Answer::Accepted { timeout_ms },
        Ok(Verdict::Finished { seq }) => return Answer::Finished { seq },
        Ok(Verdict::Conflict) => (Cause::Conflict, CONFLICT.to_owned()),
        Ok(Verdict::CanceledBefore) => (Cause::CanceledBefore, CANCELED_BEFORE.to_owned()),
        Ok(Verdict::Expired { late_ms }) => {
            let message = format!("this run arrived {late_ms} ms after its not_after; nothing ran");
            (Cause::Expired, message)
        }
        // A claim that is the first one never comes here: it was told that it may not start.
        Ok(Verdict::Busy | Verdict::First) => obstructed(obstacle),
        Err(error) => {
            let message = format!(
                "this host cannot note the run, and starts nothing that it could not remember; \
                 nothing ran: {}",
                in_words(&error)
            );
            (Cause::LedgerUnavailable, message)
        }
    };
    Answer::Refused { cause, message }
}

const CONFLICT: &str = "this run id was dispatched before with another body; the first one stands, \
    and nothing ran for this one: use a new id";
const CANCELED_BEFORE: &str = "this run was canceled before it arrived here; nothing ran";

fn obstructed(obstacle: &Obstacle) -> (Cause, String) {
    match obstacle {
        Obstacle::Busy => {
            let message = format!(
                "this host runs {MAX_RUNS} commands already, as many as it may; nothing ran: try again \
                 when one of them has ended"
            );
            (Cause::Busy, message)
        }
        Obstacle::Order(error) => (error.cause(), error.to_string()),
        Obstacle::Spawner(why) => {
            let message = format!("this host cannot start commands now: {why}; nothing ran");
            (Cause::SpawnerUnavailable, message)
        }
    }
}

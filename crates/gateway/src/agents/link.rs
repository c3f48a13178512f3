//! The loop of one link.
//!
//! ```text
//! hello ──► in the fleet ──► welcome, clock ──► backlog ──► commands, messages, commits, timers ──► close
//! ```
//!
//! A hello with another ledger than that of the host's live link comes from a copy of the host, and is refused: each of the two would
//! end the other's link for ever, and both would be sent runs.
//!
//! The link enters the fleet before it looks for open runs: whoever stores a run and finds no link knows that the next one
//! will see it.

use super::handshake::Guest;
use super::wire::Wire;
use super::{Closing, Reception};
use crate::clock::now_ms;
use crate::db::DbError;
use crate::db::hosts::Facts;
use crate::db::runs::{OpenRun, Stored};
use crate::fleet::{Berth, Command, HostKey, ReadAnswer, ReadError};
use crate::limits::{
    BACKLOG_PAGE, MAX_COMMITS, MAX_READS, MAX_UNANSWERED, RECONNECT_SPREAD_MS,
    RECONNECT_SPREAD_PER_LINK_MS,
};
use crate::runs::{Runs, Ticket, excess};
use rand::RngExt;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::oneshot;
use uuid::Uuid;
use willcall_daemon::in_words;
use willcall_protocol::ids::{AgentId, RunId};
use willcall_protocol::message::{Dispatch, PageReport, Read, Refusal, ToLink};
use willcall_protocol::outcome::{Cause, Report};
use willcall_protocol::session::{GatewayEvent, GatewaySession, SessionError};

/// One link, from welcome to close.
pub(super) struct LinkLoop {
    runs: Runs,
    agent: AgentId,
    ledger: Uuid,
    wire: Wire,
    session: GatewaySession,
    berth: Berth,
    unanswered: BTreeMap<RunId, Sent>,
    /// Results on their way into the database, in their order.
    commits: VecDeque<(u64, Ticket<Stored>)>,
    reads: BTreeMap<u64, oneshot::Sender<ReadAnswer>>,
    last_call: u64,
    backlog: Option<Box<Backlog>>,
    /// The ping that was sent because somebody asked whether the host is alive.
    asked: Option<u64>,
}

/// Whether the host may have had a dispatch before this link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    First,
    Again,
}

/// Open runs of the time before this link, a page at a time.
struct Backlog {
    place: i64,
    /// What the host says is running: none of it is late.
    running: Arc<HashSet<RunId>>,
    page: Option<Ticket<Vec<OpenRun>>>,
}

impl Backlog {
    fn new(running: Vec<RunId>) -> Self {
        Self {
            place: i64::MIN,
            running: Arc::new(running.into_iter().collect()),
            page: None,
        }
    }
}

impl LinkLoop {
    /// Serves a host that has said hello, until its link ends. What happens rarely is boxed: an idle link keeps no room for it.
    pub(super) async fn run(reception: Reception, guest: Box<Guest>) {
        let (agent, name) = (guest.agent, guest.name.clone());
        let (wire, why) = match Box::pin(Self::open(&reception, guest)).await {
            Ok(mut link) => {
                tracing::info!(%agent, host = name, "connected");
                let why = link.serve(&reception).await;
                (Box::pin(link.leave()).await, why)
            }
            Err(refused) => refused,
        };
        let reason = in_words(&why);
        tracing::info!(%agent, host = name, blame = why.blame(), reason, "disconnected");
        Box::pin(wire.close(&why, reception.timeouts.linger)).await;
    }

    async fn open(reception: &Reception, guest: Box<Guest>) -> Result<Box<Self>, (Wire, Closing)> {
        let Guest {
            mut wire,
            mut session,
            agent,
            name,
            hello,
        } = *guest;
        let (runs, facts, ledger) = (reception.runs.clone(), Facts::of(&hello), hello.ledger);
        if is_cloned(reception, agent, ledger).await {
            tracing::error!(%agent, host = name, "a second host has this one's identity: its connection is refused");
            return Err((wire, Closing::Cloned));
        }
        let committed = match runs.greet(agent, ledger, facts.clone()).await {
            Ok(committed) => committed,
            Err(error) => return Err((wire, error.into())),
        };
        let berth = runs.fleet.register((agent, ledger), &name, facts);
        let greeted = welcome(&mut wire, &mut session, committed).await;
        if let Err(why) = greeted {
            return Err((wire, why));
        }
        // A host that cannot read its ledger knows nothing of earlier runs: they wait for a link that does.
        if !ledger.is_nil()
            && let Err(error) = runs.lose(agent, ledger).await
        {
            return Err((wire, error.into()));
        }
        let backlog = (!ledger.is_nil()).then(|| Box::new(Backlog::new(hello.running)));
        Ok(Box::new(Self {
            runs,
            agent,
            ledger,
            wire,
            session,
            berth,
            unanswered: BTreeMap::new(),
            commits: VecDeque::new(),
            reads: BTreeMap::new(),
            last_call: 0,
            backlog,
            asked: None,
        }))
    }

    async fn serve(&mut self, reception: &Reception) -> Closing {
        let fence = self.berth.fence.clone();
        loop {
            let step = tokio::select! {
                biased;
                () = fence.cancelled() => return Closing::Fenced,
                () = reception.shutdown.cancelled() => return Box::pin(self.drain()).await,
                step = self.step() => step,
            };
            if let Err(why) = step {
                return why;
            }
        }
    }

    /// One thing that happens. What is under way when it is dropped is lost with the link, and comes again with the next.
    async fn step(&mut self) -> Result<(), Closing> {
        self.ask_backlog().await?;
        let deadline = tokio::time::Instant::from_std(self.session.poll_timeout());
        let has_room = self.unanswered.len() < MAX_UNANSWERED;
        let reading = self.commits.len() < MAX_COMMITS;
        tokio::select! {
            message = self.wire.next(&mut self.session), if reading => {
                self.berth.heard(now_ms());
                if let Some(event) = self.session.handle(message?, Instant::now())? {
                    return Box::pin(self.handle(event)).await;
                }
                self.pulse();
                Ok(())
            }
            Some(command) = self.berth.commands.recv(), if has_room => self.obey(command).await,
            (seq, stored) = committed(&mut self.commits) => self.acknowledge(seq, stored),
            page = backlog(&mut self.backlog) => self.dispatch_again(page?),
            () = self.berth.pulse.asked() => {
                self.asked = Some(self.session.ping(Instant::now())?);
                Ok(())
            }
            () = tokio::time::sleep_until(deadline) => {
                Ok(self.session.handle_timeout(Instant::now())?)
            }
        }
    }

    /// Says that the host is alive, if that was asked and this answers it.
    fn pulse(&mut self) {
        if self
            .asked
            .is_some_and(|nonce| self.session.ponged() >= nonce)
        {
            self.asked = None;
            self.berth.pulse.alive();
        }
    }

    async fn handle(&mut self, event: GatewayEvent) -> Result<(), Closing> {
        match event {
            GatewayEvent::Hello(_) => return Err(SessionError::Reopened.into()),
            GatewayEvent::Accepted { run, timeout_ms } => {
                self.unanswered.remove(&run);
                self.runs.accepted(self.agent, run, timeout_ms).await?;
            }
            GatewayEvent::Refused(refusal) => self.refused(refusal).await?,
            GatewayEvent::Finished { seq, report } => self.finished(seq, *report).await?,
            GatewayEvent::Page { call, page } => self.page(call, page),
            GatewayEvent::ReadFailed {
                call,
                reason,
                message,
            } => {
                let message = excess::shortened(&message);
                self.answer(call, Err(ReadError::Refused(reason, message)));
            }
        }
        Ok(())
    }

    /// A host that could not look into its ledger refuses what it was sent now; of what it was sent before it says nothing.
    async fn refused(&mut self, refusal: Refusal) -> Result<(), Closing> {
        let sent = self.unanswered.remove(&refusal.run);
        let says_nothing = match refusal.cause {
            Cause::LedgerUnavailable => sent != Some(Sent::First),
            Cause::OutcomeUnknown => true,
            _ => false,
        };
        if says_nothing {
            let (agent, run) = (self.agent, refusal.run);
            tracing::warn!(%agent, %run, blame = "peer", "the host cannot say what became of the run; it stays open");
            return Ok(());
        }
        Ok(self.runs.refused(self.agent, refusal).await?)
    }

    async fn finished(&mut self, seq: u64, mut report: Report) -> Result<(), Closing> {
        self.unanswered.remove(&report.run);
        let number = i64::try_from(seq).map_err(|_| Closing::NotFinal)?;
        if !report.state.is_final() {
            return Err(Closing::NotFinal);
        }
        if let Some(excess) = excess::drop_from(&mut report) {
            let (agent, run) = (self.agent, report.run);
            tracing::warn!(%agent, %run, blame = "peer", excess, "a report breaks the protocol's bounds");
        }
        let ticket = self
            .runs
            .finished(self.agent, self.ledger, number, report)
            .await?;
        self.commits.push_back((seq, ticket));
        Ok(())
    }

    /// Only what is committed is acknowledged, and nothing after a failure: the host sends it again on the next link.
    fn acknowledge(&mut self, seq: u64, stored: Result<Stored, DbError>) -> Result<(), Closing> {
        let agent = self.agent;
        match stored? {
            Stored::New | Stored::Again => {}
            Stored::TooLate => {
                tracing::warn!(%agent, seq, "the result of a run came that had been given up for lost: what callers were told stands");
            }
            Stored::Foreign => {
                tracing::warn!(%agent, seq, blame = "peer", "the result of another host's run was dropped");
            }
        }
        Ok(self.session.committed(seq)?)
    }

    async fn obey(&mut self, command: Command) -> Result<(), Closing> {
        match command {
            Command::Dispatch(dispatch, claimed) => {
                let run = dispatch.run;
                // It was stored for a link that is gone, and may have been given up for lost with its ledger.
                if claimed != self.ledger
                    && !Box::pin(self.runs.redirect(run, claimed, self.ledger)).await?
                {
                    return Ok(());
                }
                self.dispatch(*dispatch, Sent::First)
            }
            Command::Cancel(run) => Ok(self.session.cancel(run)?),
            Command::Read(read, answer) => self.read(*read, answer),
        }
    }

    /// A run that was stored while this link came up is found in both ways; of two copies the second might be
    /// started after the first was refused.
    fn dispatch(&mut self, dispatch: Dispatch, sent: Sent) -> Result<(), Closing> {
        match self.unanswered.entry(dispatch.run) {
            Entry::Occupied(_) => Ok(()),
            Entry::Vacant(free) => {
                free.insert(sent);
                Ok(self.session.dispatch(dispatch)?)
            }
        }
    }

    fn read(&mut self, read: Read, answer: oneshot::Sender<ReadAnswer>) -> Result<(), Closing> {
        // Those whose callers have given up make room.
        self.reads.retain(|_, answer| !answer.is_closed());
        if self.reads.len() >= MAX_READS {
            drop(answer.send(Err(ReadError::Busy)));
            return Ok(());
        }
        self.last_call = self.last_call.wrapping_add(1);
        self.reads.insert(self.last_call, answer);
        Ok(self.session.read(Read {
            call: self.last_call,
            ..read
        })?)
    }

    fn page(&mut self, call: u64, page: PageReport) {
        if !excess::in_page(&page) {
            return self.answer(call, Ok(page));
        }
        let (agent, bytes) = (self.agent, page.content.len());
        tracing::warn!(%agent, bytes, blame = "peer", "a page breaks the protocol's bounds");
        self.answer(call, Err(ReadError::TooLong));
    }

    fn answer(&mut self, call: u64, answer: ReadAnswer) {
        if let Some(caller) = self.reads.remove(&call) {
            // The caller may have given up meanwhile.
            drop(caller.send(answer));
        }
    }

    /// Asks for the next page of the backlog as soon as the host has answered enough of the last one.
    async fn ask_backlog(&mut self) -> Result<(), Closing> {
        let page = usize::try_from(BACKLOG_PAGE).unwrap_or(usize::MAX);
        let room = self.unanswered.len() + page <= MAX_UNANSWERED / 2;
        if let Some(backlog) = self.backlog.as_mut()
            && backlog.page.is_none()
            && room
        {
            let running = Arc::clone(&backlog.running);
            backlog.page = Some(
                self.runs
                    .backlog(self.agent, self.ledger, backlog.place, running)
                    .await?,
            );
        }
        Ok(())
    }

    fn dispatch_again(&mut self, page: Vec<OpenRun>) -> Result<(), Closing> {
        match (self.backlog.as_mut(), page.last()) {
            (Some(backlog), Some(last)) => backlog.place = last.place,
            _ => self.backlog = None,
        }
        for open in page {
            // In this order: a host that has never heard of the run will not start it.
            if open.cancel.is_some() {
                self.session.cancel(open.dispatch.run)?;
            }
            let sent = if open.sent { Sent::Again } else { Sent::First };
            self.dispatch(open.dispatch, sent)?;
        }
        Ok(())
    }

    /// Tells the link to come back, not all of them at once.
    async fn drain(&mut self) -> Closing {
        let links = u64::try_from(self.runs.fleet.len()).unwrap_or(u64::MAX);
        let spread = links.saturating_mul(RECONNECT_SPREAD_PER_LINK_MS) + RECONNECT_SPREAD_MS;
        let reconnect_after_ms = rand::rng().random_range(0..=spread);
        match self
            .wire
            .tell_link(&ToLink::Drain { reconnect_after_ms })
            .await
        {
            Ok(()) => Closing::Drain,
            Err(why) => why,
        }
    }

    /// Leaves the fleet; those who wait for reads see it.
    async fn leave(self: Box<Self>) -> Wire {
        let Self {
            runs,
            agent,
            wire,
            berth,
            ..
        } = *self;
        let last_heard = berth.last_heard();
        drop(berth);
        if let Err(error) = runs.parted(agent, last_heard).await {
            tracing::error!(%agent, error = in_words(&error), "the end of a link cannot be noted");
        }
        wire
    }
}

/// Whether the agent has a link with another ledger whose host is alive.
async fn is_cloned(reception: &Reception, agent: AgentId, ledger: Uuid) -> bool {
    let older = reception.runs.fleet.find(&HostKey::Id(agent));
    match older.filter(|older| older.ledger != ledger) {
        Some(older) => older.answers(reception.timeouts.alive).await,
        None => false,
    }
}

async fn welcome(
    wire: &mut Wire,
    session: &mut GatewaySession,
    committed: u64,
) -> Result<(), Closing> {
    session.welcome(committed, Instant::now())?;
    wire.send_now(session).await?;
    let server_time_ms = u64::try_from(now_ms()).unwrap_or(0);
    wire.tell_link(&ToLink::Clock { server_time_ms }).await
}

/// The first commit that is under way. Cancel safe.
async fn committed(
    commits: &mut VecDeque<(u64, Ticket<Stored>)>,
) -> (u64, Result<Stored, DbError>) {
    let Some((seq, ticket)) = commits.front_mut() else {
        return std::future::pending().await;
    };
    let (seq, stored) = (*seq, ticket.await.unwrap_or(Err(DbError::Closed)));
    commits.pop_front();
    (seq, stored)
}

/// The page that was asked for. Cancel safe.
async fn backlog(backlog: &mut Option<Box<Backlog>>) -> Result<Vec<OpenRun>, DbError> {
    let Some(ticket) = backlog.as_mut().and_then(|backlog| backlog.page.as_mut()) else {
        return std::future::pending().await;
    };
    let page = ticket.await.unwrap_or(Err(DbError::Closed));
    if let Some(backlog) = backlog {
        backlog.page = None;
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size<A, B, F>(_: impl FnOnce(A, B) -> F) -> usize {
        size_of::<F>()
    }

    /// Thousands of links wait in this state; what their task holds, each of them holds.
    #[test]
    fn the_task_of_a_link_is_small() {
        let size = size(LinkLoop::run);
        assert!(size <= 2048, "{size} bytes");
    }
}

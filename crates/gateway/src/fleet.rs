//! On which process the link of a host hangs. Today that is always this one; this is the only module that knows.
//!
//! Exactly one link per agent is live: a newer one fences the older. One with another ledger has to ask first whether the older is
//! alive: then both are there, and one of them is a copy.

use crate::db::hosts::Facts;
use crate::limits::MAX_COMMANDS;
use std::collections::HashMap;
use std::str::FromStr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use thiserror::Error;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use willcall_protocol::ids::{AgentId, RunId};
use willcall_protocol::message::{Dispatch, PageReport, Read, ReadFailure};

/// What a link is told to do.
#[derive(Debug)]
pub enum Command {
    /// Send a dispatch that is stored for that ledger and was never sent.
    Dispatch(Box<Dispatch>, Uuid),
    /// Send a cancel.
    Cancel(RunId),
    /// Send a read; the call number is the link's to choose.
    Read(Box<Read>, oneshot::Sender<ReadAnswer>),
}

/// What comes of a read. Nothing at all where the link ends first.
pub type ReadAnswer = Result<PageReport, ReadError>;

/// Why there is no page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadError {
    /// The host refused: by name, and for a person.
    Refused(ReadFailure, String),
    /// The host sent a page that is longer than any may be.
    TooLong,
    /// Too many reads wait for the host.
    Busy,
}

/// How a caller names a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostKey {
    /// By its agent's id.
    Id(AgentId),
    /// By its name. No name looks like an id.
    Name(String),
}

/// A command that could not be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Unreachable {
    /// The host has no link.
    #[error("the host is not connected")]
    Offline,
    /// Too much waits for the host.
    #[error("too many requests wait for the host")]
    Busy,
}

/// A live link, as the rest of the gateway sees it.
#[derive(Debug, Clone)]
pub struct Link {
    /// Its agent.
    pub agent: AgentId,
    /// Its host's name.
    pub name: Arc<str>,
    /// The ledger that it has; nil if it has none.
    pub ledger: Uuid,
    /// What the host said of itself.
    pub facts: Arc<Facts>,
    last_heard: Arc<AtomicI64>,
    commands: mpsc::Sender<Command>,
    fence: CancellationToken,
    pulse: Arc<Pulse>,
}

/// Whether a link is alive: asked from outside, answered by its loop.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    asked: Notify,
    answers: watch::Sender<()>,
}

/// The link's own end. Dropping it takes the link out of the fleet.
#[derive(Debug)]
pub struct Berth {
    fleet: Arc<Fleet>,
    link: Link,
    pub(crate) pulse: Arc<Pulse>,
    /// What the link is told to do.
    pub commands: mpsc::Receiver<Command>,
    /// Canceled when the link has to end: a newer one has taken its place, or it has fallen behind.
    pub fence: CancellationToken,
}

/// Room for one command, taken before anything is promised.
#[derive(Debug)]
pub struct Place {
    agent: AgentId,
    ledger: Uuid,
    commands: mpsc::Sender<Command>,
    permit: mpsc::OwnedPermit<Command>,
}

#[derive(Debug, Default)]
struct Links {
    by_agent: HashMap<AgentId, Link>,
    by_name: HashMap<Arc<str>, AgentId>,
}

/// Who is connected.
#[derive(Debug, Default)]
pub struct Fleet {
    links: Mutex<Links>,
    changes: watch::Sender<u64>,
}

impl Fleet {
    /// Takes a link in, and fences the agent's older one.
    pub fn register(
        self: &Arc<Self>,
        (agent, ledger): (AgentId, Uuid),
        name: &str,
        facts: Facts,
    ) -> Berth {
        let (sender, commands) = mpsc::channel(MAX_COMMANDS);
        let fence = CancellationToken::new();
        let link = Link {
            agent,
            name: name.into(),
            ledger,
            facts: Arc::new(facts),
            last_heard: Arc::new(AtomicI64::new(crate::clock::now_ms())),
            commands: sender,
            fence: fence.clone(),
            pulse: Arc::default(),
        };
        let older = self.links().insert(link.clone());
        if let Some(older) = older {
            older.fence.cancel();
        }
        self.changed();
        Berth {
            fleet: Arc::clone(self),
            pulse: Arc::clone(&link.pulse),
            link,
            commands,
            fence,
        }
    }

    /// The link of a host, if it has one.
    pub fn find(&self, host: &HostKey) -> Option<Link> {
        let links = self.links();
        let agent = match host {
            HostKey::Id(agent) => agent,
            HostKey::Name(name) => links.by_name.get(name.as_str())?,
        };
        links.by_agent.get(agent).cloned()
    }

    /// Gives a command to whatever link the agent has now, without waiting.
    pub fn tell(&self, agent: AgentId, command: Command) -> Result<(), Unreachable> {
        self.find(&HostKey::Id(agent))
            .ok_or(Unreachable::Offline)?
            .tell(command)
    }

    /// When each connected host was last heard of, in milliseconds since 1970.
    pub(crate) fn last_heard(&self) -> Vec<(AgentId, i64)> {
        let links = self.links();
        let heard = links.by_agent.iter();
        heard
            .map(|(agent, link)| (*agent, link.last_heard()))
            .collect()
    }

    /// How many links there are.
    pub fn len(&self) -> usize {
        self.links().by_agent.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A number that changes whenever a link comes or goes.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn leave(&self, link: &Link) {
        self.links().remove(link);
        self.changed();
    }

    fn changed(&self) {
        self.changes.send_modify(|n| *n = n.wrapping_add(1));
    }

    fn links(&self) -> MutexGuard<'_, Links> {
        // No code that holds the lock can leave it half changed.
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Links {
    fn insert(&mut self, link: Link) -> Option<Link> {
        self.by_name.insert(Arc::clone(&link.name), link.agent);
        self.by_agent.insert(link.agent, link)
    }

    fn remove(&mut self, link: &Link) {
        // The place may be a newer link's by now.
        let now = self.by_agent.get(&link.agent);
        if now.is_some_and(|now| now.commands.same_channel(&link.commands)) {
            self.by_agent.remove(&link.agent);
            self.by_name.remove(&link.name);
        }
    }
}

impl Link {
    /// Takes room for one command.
    pub fn reserve(&self) -> Result<Place, Unreachable> {
        let permit = self
            .commands
            .clone()
            .try_reserve_owned()
            .map_err(|e| refused(&e))?;
        Ok(Place {
            agent: self.agent,
            ledger: self.ledger,
            commands: self.commands.clone(),
            permit,
        })
    }

    /// Gives a command without waiting.
    pub fn tell(&self, command: Command) -> Result<(), Unreachable> {
        self.commands.try_send(command).map_err(|e| refused(&e))
    }

    /// Whether the host answers a ping within that time. False as soon as the link has ended.
    pub(crate) async fn answers(&self, within: Duration) -> bool {
        let mut answers = self.pulse.answers.subscribe();
        self.pulse.asked.notify_one();
        tokio::select! {
            biased;
            () = self.commands.closed() => false,
            () = self.fence.cancelled() => false,
            Ok(()) = answers.changed() => true,
            () = tokio::time::sleep(within) => false,
        }
    }

    /// When the host was last heard of, in milliseconds since 1970.
    pub fn last_heard(&self) -> i64 {
        self.last_heard.load(Ordering::Relaxed)
    }
}

impl Place {
    /// Gives a dispatch that is stored by now to the agent's link. Never waits. Where there is no link any more, the next one
    /// finds it in the database: links register before they look there.
    pub fn dispatch(self, fleet: &Fleet, dispatch: Box<Dispatch>) {
        let Some(now) = fleet.find(&HostKey::Id(self.agent)) else {
            return;
        };
        if now.commands.same_channel(&self.commands) {
            self.permit.send(Command::Dispatch(dispatch, self.ledger));
        } else if now.tell(Command::Dispatch(dispatch, self.ledger)) == Err(Unreachable::Busy) {
            // The link that comes after it finds the dispatch, too.
            now.fence.cancel();
        }
    }
}

impl Pulse {
    /// Completes when somebody asks whether the host is alive: it is to be sent a ping. Cancel safe.
    pub(crate) async fn asked(&self) {
        self.asked.notified().await;
    }

    /// The host has answered a ping that was sent because somebody asked.
    pub(crate) fn alive(&self) {
        self.answers.send_replace(());
    }
}

impl Berth {
    /// Notes that the host was heard of.
    pub fn heard(&self, now_ms: i64) {
        self.link.last_heard.store(now_ms, Ordering::Relaxed);
    }

    /// When the host was last heard of.
    pub(crate) fn last_heard(&self) -> i64 {
        self.link.last_heard()
    }
}

impl Drop for Berth {
    fn drop(&mut self) {
        self.fleet.leave(&self.link);
    }
}

impl FromStr for HostKey {
    type Err = std::convert::Infallible;

    fn from_str(key: &str) -> Result<Self, Self::Err> {
        Ok(key
            .parse()
            .map_or_else(|_| Self::Name(key.to_owned()), Self::Id))
    }
}

fn refused<T>(error: &mpsc::error::TrySendError<T>) -> Unreachable {
    match error {
        mpsc::error::TrySendError::Full(_) => Unreachable::Busy,
        mpsc::error::TrySendError::Closed(_) => Unreachable::Offline,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(n: u128) -> AgentId {
        AgentId(Uuid::from_u128(n))
    }

    fn key(name: &str) -> HostKey {
        name.parse().expect("infallible")
    }

    #[test]
    fn a_newer_link_fences_the_older_and_survives_its_leaving() {
        let fleet = Arc::new(Fleet::default());
        let mine = (agent(1), Uuid::nil());
        let older = fleet.register(mine, "web", Facts::default());
        let mut newer = fleet.register(mine, "web", Facts::default());
        assert!(older.fence.is_cancelled() && !newer.fence.is_cancelled());
        drop(older);
        fleet
            .tell(agent(1), Command::Cancel(RunId(Uuid::nil())))
            .expect("reachable");
        assert!(matches!(newer.commands.try_recv(), Ok(Command::Cancel(_))));
        assert!(fleet.find(&key("web")).is_some());
        assert!(fleet.find(&key(&agent(1).to_string())).is_some());
        drop(newer);
        assert!(fleet.is_empty() && fleet.find(&key("web")).is_none());
    }

    #[test]
    fn a_link_that_nobody_serves_is_busy_and_then_gone() {
        let fleet = Arc::new(Fleet::default());
        let berth = fleet.register((agent(1), Uuid::nil()), "web", Facts::default());
        let link = fleet.find(&key("web")).expect("there");
        let places: Vec<_> = (0..MAX_COMMANDS)
            .map(|_| link.reserve().expect("room"))
            .collect();
        assert_eq!(link.reserve().err(), Some(Unreachable::Busy));
        drop((places, berth));
        assert_eq!(link.reserve().err(), Some(Unreachable::Offline));
    }
}

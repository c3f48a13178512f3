//! Both ends joined in memory, in virtual time.

use super::*;
use crate::ids::{RunId, SessionId};
use crate::limits::{DEAD_AFTER, MAX_DISPATCHES_IN_FLIGHT, MAX_QUEUED, MAX_UNACKED_RESULTS};
use crate::message::{
    Capabilities, Dispatch, Hello, LimitsAsked, StrategyAsked, ToAgent, ToGateway, ViewAsked,
};
use crate::outcome::{Report, RunState};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use uuid::Uuid;

fn hello(min_version: u32, max_version: u32) -> Hello {
    Hello {
        min_version,
        max_version,
        boot_id: "boot".into(),
        incarnation: 1,
        ledger: Uuid::from_u128(1),
        agent_version: "0".into(),
        capabilities: Capabilities::default(),
        running: Vec::new(),
    }
}

fn run(n: u128) -> RunId {
    RunId(Uuid::from_u128(n))
}

fn dispatch(n: u128) -> Dispatch {
    Dispatch {
        run: run(n),
        session: SessionId::unnamed(),
        principal: "test".into(),
        argv: vec!["true".into()],
        cwd: None,
        env: BTreeMap::new(),
        timeout_ms: None,
        limits: LimitsAsked::default(),
        strategy: StrategyAsked::default(),
        view: ViewAsked::default(),
        reason: None,
        not_after_ms: None,
        turn: None,
    }
}

fn report(n: u128) -> Report {
    Report::bare(run(n), SessionId::unnamed(), RunState::Exited)
}

/// A host with a ledger of results and a gateway with a database of them; the link between them may lose everything in flight.
struct Pair {
    now: Instant,
    agent: AgentSession,
    gateway: GatewaySession,
    outbox: Vec<(u64, Report)>,
    forgotten: u64,
    committed: BTreeSet<u64>,
    deliveries: u64,
    dispatched: Vec<RunId>,
}

impl Pair {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            now,
            agent: AgentSession::new(hello(1, 1), now),
            gateway: GatewaySession::new(now, 0.5),
            outbox: Vec::new(),
            forgotten: 0,
            committed: BTreeSet::new(),
            deliveries: 0,
            dispatched: Vec::new(),
        }
    }

    /// The connection breaks, and a new one begins with what is durable on both sides.
    fn reconnect(&mut self) {
        self.agent = AgentSession::new(hello(1, 1), self.now);
        self.gateway = GatewaySession::new(self.now, 0.5);
    }

    fn finish(&mut self, n: u128) {
        let seq = u64::try_from(self.outbox.len().saturating_add(1)).expect("small");
        self.outbox.push((seq, report(n)));
    }

    /// One message in each direction, and what follows from it. False when both are idle.
    fn step(&mut self) -> bool {
        if let Some(after) = self.agent.wants_result_after()
            && let Some((seq, report)) = self.outbox.iter().find(|(seq, _)| *seq > after).cloned()
        {
            self.agent.send_result(seq, report).expect("room");
        }
        let up = self.agent.poll_transmit();
        let down = self.gateway.poll_transmit();
        let idle = up.is_none() && down.is_none();
        if let Some(message) = up {
            self.deliver_up(message);
        }
        if let Some(message) = down {
            self.deliver_down(message);
        }
        !idle
    }

    fn deliver_up(&mut self, message: ToGateway) {
        match self.gateway.handle(message, self.now).expect("sound") {
            Some(GatewayEvent::Hello(_)) => {
                let resume_from = self.committed.last().copied().unwrap_or(0);
                self.gateway
                    .welcome(resume_from, self.now)
                    .expect("greeted");
            }
            Some(GatewayEvent::Finished { seq, .. }) => {
                self.deliveries = self.deliveries.saturating_add(1);
                self.committed.insert(seq);
                self.gateway.committed(seq).expect("room");
            }
            _ => {}
        }
    }

    fn deliver_down(&mut self, message: ToAgent) {
        for event in self.agent.handle(message, self.now).expect("sound") {
            match event {
                AgentEvent::Acked(seq) => self.forgotten = self.forgotten.max(seq),
                AgentEvent::Dispatch(dispatch) => {
                    self.dispatched.push(dispatch.run);
                    let accepted = ToGateway::Accepted {
                        run: dispatch.run,
                        timeout_ms: None,
                    };
                    self.agent.send(accepted).expect("room");
                }
                _ => {}
            }
        }
    }

    fn settle(&mut self) {
        while self.step() {}
    }
}

#[test]
fn results_arrive_in_order_are_acknowledged_and_forgotten() {
    let mut pair = Pair::new();
    (1..=100).for_each(|n| pair.finish(n));
    pair.settle();
    assert_eq!(
        (pair.committed.len(), pair.deliveries, pair.forgotten),
        (100, 100, 100)
    );
}

#[test]
fn a_connection_cut_at_any_step_loses_no_result() {
    for cut in 0..200 {
        let mut pair = Pair::new();
        (1..=40).for_each(|n| pair.finish(n));
        (0..cut).for_each(|_| {
            pair.step();
        });
        pair.reconnect();
        pair.settle();
        assert_eq!(
            (pair.committed.len(), pair.forgotten),
            (40, 40),
            "cut after {cut} steps"
        );
    }
}

#[test]
fn at_most_a_window_of_results_is_in_flight() {
    let mut pair = Pair::new();
    pair.settle();
    for seq in 1..=64 {
        if pair.agent.wants_result_after().is_some() {
            pair.agent.send_result(seq, report(1)).expect("room");
        }
    }
    let sent = std::iter::from_fn(|| pair.agent.poll_transmit()).count();
    assert_eq!(sent, MAX_UNACKED_RESULTS);
}

#[test]
fn dispatches_beyond_the_window_wait_and_then_go_in_order() {
    let mut pair = Pair::new();
    pair.settle();
    let all: Vec<RunId> = (0..200).map(run).collect();
    (0..200).for_each(|n| pair.gateway.dispatch(dispatch(n)).expect("room"));
    let at_once = std::iter::from_fn(|| pair.gateway.poll_transmit()).collect::<Vec<_>>();
    assert_eq!(at_once.len(), MAX_DISPATCHES_IN_FLIGHT);
    for message in at_once {
        pair.deliver_down(message);
    }
    pair.settle();
    assert_eq!(pair.dispatched, all);
}

/// An answer makes room in the window, but there is none in the queue.
#[test]
fn a_dispatch_that_finds_the_queue_full_goes_out_later() {
    let mut pair = Pair::new();
    pair.settle();
    let window = u128::try_from(MAX_DISPATCHES_IN_FLIGHT).expect("small");
    (0..=window).for_each(|n| pair.gateway.dispatch(dispatch(n)).expect("room"));
    let at_once = std::iter::from_fn(|| pair.gateway.poll_transmit()).collect::<Vec<_>>();
    while pair.gateway.cancel(run(0)).is_ok() {}
    for message in at_once {
        pair.deliver_down(message);
    }
    while let Some(answer) = pair.agent.poll_transmit() {
        pair.deliver_up(answer);
    }
    pair.settle();
    assert_eq!(pair.dispatched.last(), Some(&run(window)));
}

#[test]
fn a_queue_that_nobody_empties_ends_the_session() {
    let mut pair = Pair::new();
    pair.settle();
    let queued = (0..1000)
        .take_while(|n| pair.gateway.cancel(run(*n)).is_ok())
        .count();
    assert_eq!(queued, MAX_QUEUED);
}

#[test]
fn silence_is_noticed_by_both_ends_and_pings_prevent_it() {
    let mut pair = Pair::new();
    pair.settle();
    for _ in 0..20 {
        pair.now = pair.gateway.poll_timeout().min(pair.agent.poll_timeout());
        pair.gateway.handle_timeout(pair.now).expect("alive");
        pair.agent.handle_timeout(pair.now).expect("alive");
        pair.settle();
    }
    let late = pair.now + DEAD_AFTER;
    assert_eq!(pair.gateway.handle_timeout(late), Err(SessionError::Silent));
    assert_eq!(pair.agent.handle_timeout(late), Err(SessionError::Silent));
}

#[test]
fn only_a_ping_that_was_sent_counts_as_answered() {
    let mut pair = Pair::new();
    pair.settle();
    let forged = ToGateway::Pong { nonce: u64::MAX };
    pair.gateway.handle(forged, pair.now).expect("ignored");
    let asked = pair.gateway.ping(pair.now).expect("room");
    assert!(pair.gateway.ponged() < asked);
    pair.settle();
    assert_eq!(pair.gateway.ponged(), asked);
}

#[test]
fn a_session_that_is_not_opened_in_time_ends() {
    let pair = Pair::new();
    let late = pair.now + Duration::from_secs(10);
    assert_eq!(pair.agent.handle_timeout(late), Err(SessionError::Silent));
    assert_eq!(pair.gateway.poll_timeout(), late);
}

#[test]
fn the_opening_messages_come_first_and_once() {
    let mut pair = Pair::new();
    let now = pair.now;
    let early = pair.gateway.handle(ToGateway::Pong { nonce: 1 }, now);
    assert_eq!(early, Err(SessionError::OutOfOrder));
    let early = pair.agent.handle(ToAgent::Cancel { run: run(1) }, now);
    assert_eq!(early, Err(SessionError::OutOfOrder));
    pair.settle();
    let again = pair.gateway.handle(ToGateway::Hello(hello(1, 1)), now);
    assert_eq!(again, Err(SessionError::Reopened));
    let again = pair.agent.handle(
        ToAgent::Welcome {
            version: 1,
            resume_from: 0,
        },
        now,
    );
    assert_eq!(again, Err(SessionError::Reopened));
}

#[test]
fn versions_meet_or_the_session_ends_by_name() {
    let now = Instant::now();
    let opened =
        |min, max| GatewaySession::new(now, 0.0).handle(ToGateway::Hello(hello(min, max)), now);
    assert!(opened(1, 9).is_ok());
    assert!(matches!(
        opened(2, 9),
        Err(SessionError::Version { min: 2, max: 9, .. })
    ));
    let mut agent = AgentSession::new(hello(1, 1), now);
    let welcome = agent.handle(
        ToAgent::Welcome {
            version: 2,
            resume_from: 0,
        },
        now,
    );
    assert!(matches!(welcome, Err(SessionError::Version { .. })));
}

#[test]
fn an_acknowledgement_of_the_future_ends_the_session() {
    let mut pair = Pair::new();
    pair.settle();
    let ahead = pair.agent.handle(ToAgent::Ack { seq: 5 }, pair.now);
    assert_eq!(ahead, Err(SessionError::AckAhead { acked: 5, sent: 0 }));
}

#[test]
fn unknown_messages_are_counted_and_ignored() {
    let mut pair = Pair::new();
    pair.settle();
    assert_eq!(pair.gateway.handle(ToGateway::Unknown, pair.now), Ok(None));
    assert_eq!(
        pair.agent.handle(ToAgent::Unknown, pair.now),
        Ok(Vec::new())
    );
    assert_eq!(
        (
            pair.gateway.unknown_messages(),
            pair.agent.unknown_messages()
        ),
        (1, 1)
    );
}

#[test]
fn a_result_is_repeated_only_after_its_turn() {
    let mut pair = Pair::new();
    (1..=40).for_each(|n| pair.finish(n));
    pair.step();
    pair.step();
    pair.agent.repeat_result(40, report(40)).expect("room");
    pair.settle();
    assert_eq!((pair.committed.len(), pair.deliveries), (40, 40));
    pair.agent.repeat_result(7, report(7)).expect("room");
    pair.settle();
    assert_eq!(
        (pair.committed.len(), pair.deliveries, pair.forgotten),
        (40, 41, 40)
    );
}

//! The gateway's end of a session, over link.sock as a link relays it.

use crate::host::{PATIENCE, wait_for};
use std::collections::{BTreeMap, VecDeque};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;
use uuid::Uuid;
use willcall_protocol::frame::{self, Channel};
use willcall_protocol::ids::{OutputId, RunId, SessionId, Stream};
use willcall_protocol::limits::MAX_MESSAGE;
use willcall_protocol::message::{
    Dispatch, Encoding, Hello, LimitsAsked, PageReport, Read, ReadFailure, ReadTarget, Refusal,
    StrategyAsked, Turn, ViewAsked,
};
use willcall_protocol::outcome::Report;
use willcall_protocol::session::{GatewayEvent, GatewaySession};

pub(crate) struct Gateway {
    stream: UnixStream,
    core: GatewaySession,
    pub(crate) hello: Hello,
    pub(crate) events: VecDeque<GatewayEvent>,
    calls: u64,
    /// What the next read is part of.
    pub(crate) turn: Option<Turn>,
}

impl Gateway {
    pub(crate) fn connect(socket: &Path, resume_from: u64) -> Self {
        let mut stream = None;
        wait_for("link.sock", || {
            stream = UnixStream::connect(socket).ok();
            stream.is_some()
        });
        let stream = stream.unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut core = GatewaySession::new(Instant::now(), 0.5);
        let message = receive(&stream).expect("a hello");
        let event = core
            .handle(frame::decode(&message).unwrap(), Instant::now())
            .unwrap();
        let Some(GatewayEvent::Hello(hello)) = event else {
            panic!("no hello: {event:?}")
        };
        core.welcome(resume_from, Instant::now()).unwrap();
        let mut gateway = Self {
            stream,
            core,
            hello: *hello,
            events: VecDeque::new(),
            calls: 0,
            turn: None,
        };
        gateway.flush();
        gateway
    }

    pub(crate) fn dispatch(&mut self, dispatch: Dispatch) {
        self.core.dispatch(dispatch).unwrap();
        self.flush();
    }

    pub(crate) fn cancel(&mut self, run: RunId) {
        self.core.cancel(run).unwrap();
        self.flush();
    }

    pub(crate) fn ack(&mut self, seq: u64) {
        self.core.committed(seq).unwrap();
        self.flush();
    }

    /// Waits for the first event that `wanted` takes; the others stay for later.
    #[track_caller]
    pub(crate) fn wait<T>(&mut self, what: &str, wanted: impl Fn(&GatewayEvent) -> Option<T>) -> T {
        loop {
            let found = self
                .events
                .iter()
                .enumerate()
                .find_map(|(at, e)| Some((at, wanted(e)?)));
            if let Some((at, found)) = found {
                self.events.remove(at);
                return found;
            }
            let message = receive(&self.stream);
            let message = message.unwrap_or_else(|| panic!("closed while waiting for {what}"));
            let message = frame::decode(&message).unwrap();
            let event = self.core.handle(message, Instant::now()).unwrap();
            self.events.extend(event);
            self.flush();
        }
    }

    #[track_caller]
    pub(crate) fn accepted(&mut self, run: RunId) -> u64 {
        self.wait("accepted", |event| match event {
            GatewayEvent::Accepted { run: r, timeout_ms } if *r == run => *timeout_ms,
            _ => None,
        })
    }

    #[track_caller]
    pub(crate) fn refused(&mut self, run: RunId) -> Refusal {
        self.wait("refused", |event| match event {
            GatewayEvent::Refused(refusal) if refusal.run == run => Some(refusal.clone()),
            _ => None,
        })
    }

    #[track_caller]
    pub(crate) fn finished(&mut self, run: RunId) -> (u64, Report) {
        self.wait("finished", |event| match event {
            GatewayEvent::Finished { seq, report } if report.run == run => {
                Some((*seq, (**report).clone()))
            }
            _ => None,
        })
    }

    /// The next result, whichever it is.
    #[track_caller]
    pub(crate) fn any_finished(&mut self) -> (u64, Report) {
        self.wait("a result", |event| match event {
            GatewayEvent::Finished { seq, report } => Some((*seq, (**report).clone())),
            _ => None,
        })
    }

    /// Dispatches and waits for the end.
    #[track_caller]
    pub(crate) fn run(&mut self, dispatch: Dispatch) -> Report {
        let run = dispatch.run;
        self.dispatch(dispatch);
        self.accepted(run);
        self.finished(run).1
    }

    #[track_caller]
    pub(crate) fn read(
        &mut self,
        session: &str,
        target: ReadTarget,
        offset: u64,
        limit: Option<u64>,
        encoding: Encoding,
    ) -> Result<PageReport, ReadFailure> {
        let call = self.ask_to_read(session, target, offset, limit, encoding);
        self.wait("page", |event| match event {
            GatewayEvent::Page { call: c, page } if *c == call => Some(Ok(page.clone())),
            GatewayEvent::ReadFailed {
                call: c,
                reason,
                message,
            } if *c == call => {
                assert!(!message.is_empty());
                Some(Err(*reason))
            }
            _ => None,
        })
    }

    /// Asks for a page and does not wait for it.
    pub(crate) fn ask_to_read(
        &mut self,
        session: &str,
        target: ReadTarget,
        offset: u64,
        limit: Option<u64>,
        encoding: Encoding,
    ) -> u64 {
        self.calls += 1;
        let (call, session) = (self.calls, session.parse().unwrap());
        self.core
            .read(Read {
                call,
                session,
                target,
                offset,
                limit,
                line: None,
                lines: None,
                encoding,
                verify: false,
                turn: self.turn.take(),
            })
            .unwrap();
        self.flush();
        call
    }

    /// Sends bytes as they are, with their length before them.
    pub(crate) fn send_raw(&mut self, message: &[u8]) {
        let len = u32::try_from(message.len()).unwrap();
        self.stream.write_all(&len.to_le_bytes()).unwrap();
        self.stream.write_all(message).unwrap();
    }

    /// Sends a message again and again and reads no answer. Whether that ends the connection before `times` are sent.
    pub(crate) fn flood_ends_it(&mut self, message: &[u8], times: usize) -> bool {
        let len = u32::try_from(message.len()).unwrap();
        let one = [&len.to_le_bytes(), message].concat();
        let batch = one.repeat(1000);
        (0..times / 1000).any(|_| self.stream.write_all(&batch).is_err())
    }

    /// Whether the executor closes the connection.
    pub(crate) fn is_closed(&self) -> bool {
        while let Some(message) = receive(&self.stream) {
            drop(message);
        }
        true
    }

    fn flush(&mut self) {
        while let Some(message) = self.core.poll_transmit() {
            let message = frame::encode(Channel::Session, &message).unwrap();
            self.send_raw(&message);
        }
    }
}

/// The next message; `None` at the end of the connection.
#[track_caller]
fn receive(mut stream: &UnixStream) -> Option<Vec<u8>> {
    let mut prefix = [0; 4];
    match stream.read_exact(&mut prefix) {
        Ok(()) => {}
        Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => panic!("nothing came in time"),
        Err(_) => return None,
    }
    let len = usize::try_from(u32::from_le_bytes(prefix)).unwrap();
    assert!(len <= MAX_MESSAGE);
    let mut message = vec![0; len];
    stream.read_exact(&mut message).ok()?;
    Some(message)
}

pub(crate) fn command(argv: &[&str]) -> Dispatch {
    Dispatch {
        run: RunId(Uuid::now_v7()),
        session: SessionId::unnamed(),
        principal: "test".into(),
        argv: argv.iter().map(|&arg| arg.to_owned()).collect(),
        cwd: None,
        env: BTreeMap::new(),
        timeout_ms: Some(60_000),
        limits: LimitsAsked::default(),
        strategy: StrategyAsked::default(),
        view: ViewAsked::default(),
        reason: None,
        not_after_ms: None,
        turn: None,
    }
}

pub(crate) fn shell(script: &str) -> Dispatch {
    command(&["/bin/sh", "-c", script])
}

pub(crate) fn output(run: RunId, stream: Stream) -> ReadTarget {
    ReadTarget::Output(OutputId::Stream { run, stream })
}

//! A session against a gateway's end of the protocol, with a real ledger.

use super::*;
use crate::config::Outputs;
use crate::ledger::{Ledger, NewRun};
use crate::runs::Parts;
use crate::runs::order::Surroundings;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;
use uuid::Uuid;
use willcall_outputs::store::Store;
use willcall_protocol::ids::{OutputId, SessionId, Stream};
use willcall_protocol::message::{
    Capabilities, Encoding, LimitsAsked, ReadTarget, StrategyAsked, ViewAsked,
};
use willcall_protocol::outcome::RunState;
use willcall_protocol::session::{GatewayEvent, GatewaySession};

fn run() -> RunId {
    RunId(Uuid::from_u128(1))
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime
        .enable_all()
        .build()
        .expect("runtime")
        .block_on(work)
}

/// Claims the run and enters its end.
async fn end_a_run(ledger: &Ledger) {
    let dispatch = Dispatch {
        run: run(),
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
    };
    let new = NewRun {
        dispatch: Box::new(dispatch),
        timeout_ms: 1,
        may_start: true,
        now_ms: 1,
    };
    ledger.claim(new).await.expect("written");
    let report = Report::bare(run(), SessionId::unnamed(), RunState::Exited);
    ledger.finish(Arc::new(report), 2).await.expect("written");
}

fn session(dir: &TempDir, ledger: Ledger, stream: UnixStream) -> Session {
    let workspace = dir.path().join("workspace");
    let runs = Runs::new(Parts {
        ledger,
        store: Arc::new(Store::open(&workspace).expect("a store")),
        spool_dir: dir.path().join("spool"),
        spawner: dir.path().join("spawner.sock"),
        surroundings: Surroundings {
            env: BTreeMap::new(),
            workspace: workspace.to_string_lossy().into_owned(),
            redial: String::new(),
            outputs: Outputs::default(),
        },
        boot_id: "boot".into(),
        runner_margin: crate::limits::RUNNER_MARGIN,
    });
    let hello = Hello {
        min_version: 1,
        max_version: 1,
        boot_id: "boot".into(),
        incarnation: 1,
        ledger: Uuid::nil(),
        agent_version: "test".into(),
        capabilities: Capabilities {
            run_as: "test".into(),
            outputs: String::new(),
            max_bytes_ceiling: 1,
        },
        running: Vec::new(),
    };
    Session::new(runs, stream, hello)
}

/// The gateway's end.
struct Peer {
    stream: UnixStream,
    core: GatewaySession,
}

impl Peer {
    async fn next(&mut self) -> GatewayEvent {
        loop {
            let len = self.stream.read_u32_le().await.expect("a message");
            let mut message = vec![0; usize::try_from(len).expect("short")];
            self.stream.read_exact(&mut message).await.expect("whole");
            let message = frame::decode(&message).expect("sound");
            let event = self.core.handle(message, Instant::now()).expect("in order");
            self.flush().await;
            if let Some(event) = event {
                return event;
            }
        }
    }

    async fn flush(&mut self) {
        while let Some(message) = self.core.poll_transmit() {
            let message = frame::encode(Channel::Session, &message).expect("fits");
            let len = u32::try_from(message.len()).expect("short");
            self.stream.write_u32_le(len).await.expect("sent");
            self.stream.write_all(&message).await.expect("sent");
        }
    }

    /// Welcomes the session, and waits until it has tried to deliver: it answers what came later.
    async fn welcome(&mut self) {
        assert!(matches!(self.next().await, GatewayEvent::Hello(_)));
        self.core.welcome(0, Instant::now()).expect("in order");
        let output = OutputId::Stream {
            run: run(),
            stream: Stream::Stdout,
        };
        let read = Read {
            call: 1,
            session: SessionId::unnamed(),
            target: ReadTarget::Output(output),
            offset: 0,
            limit: None,
            line: None,
            lines: None,
            encoding: Encoding::Utf8,
            verify: false,
            turn: None,
        };
        self.core.read(read).expect("open");
        self.flush().await;
        assert!(matches!(self.next().await, GatewayEvent::ReadFailed { .. }));
    }
}

fn ledger_of_one_run(path: &Path) {
    let (ledger, thread) = Ledger::open(path, "boot").expect("opens");
    block_on(end_a_run(&ledger));
    drop(ledger);
    thread.join();
}

#[test]
fn a_result_that_could_not_be_fetched_comes_without_any_other_event() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("ledger.db");
    ledger_of_one_run(&path);
    let (ledger, begin) = Ledger::behind(&path);
    let thread = block_on(async {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let session = session(&dir, ledger, ours);
        let mut peer = Peer {
            stream: theirs,
            core: GatewaySession::new(Instant::now(), 0.5),
        };
        let work = async {
            peer.welcome().await;
            let thread = begin();
            let event = timeout(Duration::from_secs(10), peer.next()).await;
            (thread, event.expect("a result"))
        };
        tokio::select! {
            () = session.run() => panic!("the session ended"),
            (thread, event) = work => {
                let GatewayEvent::Finished { seq, report } = event else {
                    panic!("{event:?}")
                };
                assert_eq!((seq, report.run), (1, run()));
                thread
            }
        }
    });
    thread.join();
}

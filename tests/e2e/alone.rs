//! An agent of its own, beside that of `willcall dev`, whose death is nobody else's business.

use crate::binary;
use crate::survive::start_on;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use willcall_testkit::processes::Process;
use willcall_testkit::{Dev, processes, wait_for};

const WITHIN: Duration = Duration::from_secs(20);

/// The host `second`, known to the gateway.
struct Host<'a> {
    dev: &'a Dev,
    state: PathBuf,
    identity: PathBuf,
}

impl<'a> Host<'a> {
    fn new(dev: &'a Dev) -> Self {
        let identity = dev.state().join("identity");
        let gateway = after(&dev.role("gateway"), "--state");
        let args = ["role", "gateway", "agent-cert", "--state", &gateway];
        let made = dev.willcall(
            &[
                &args[..],
                &["--name", "second", "--out"],
                &[text(&identity)],
            ]
            .concat(),
        );
        assert_eq!(made.code, 0, "{}", made.stderr);
        let state = dev.state().join("second");
        Self {
            dev,
            state,
            identity,
        }
    }

    fn start(&self) -> Agent {
        let link = self.dev.role("link");
        let (gateway, ca) = (after(&link, "--gateway"), after(&link, "--ca"));
        let log = self.dev.state().join("second.log");
        let log = std::fs::File::options().create(true).append(true).open(log);
        let agent = Command::new(binary())
            .args(["role", "agent", "run", "--gateway", &gateway, "--ca", &ca])
            .args(["--state", text(&self.state)])
            .args(["--identity", text(&self.identity.join("agent.pem"))])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.expect("a log"))
            .spawn();
        let agent = Agent(agent.expect("an agent"));
        wait_for("the host is connected", WITHIN, || {
            let hosts = self.dev.api("GET", "/v1/hosts", None).1;
            let hosts = hosts["hosts"].as_array().expect("hosts").clone();
            let mut hosts = hosts.into_iter();
            hosts
                .any(|host| host["name"] == "second" && host["connected"] == true)
                .then_some(())
        });
        agent
    }

    /// Its processes, but for runners and what is below them.
    fn roles(&self) -> Vec<Process> {
        let mut roles = processes::with_argument(text(&self.state));
        roles.retain(|role| !role.name.starts_with("wc-run"));
        roles
    }
}

/// Ended with the value.
struct Agent(Child);

impl Agent {
    fn signal(&mut self, signal: Signal) -> ExitStatus {
        let pid = Pid::from_raw(i32::try_from(self.0.id()).expect("a pid"));
        kill(pid, signal).expect("ours");
        self.0.wait().expect("ours")
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The argument behind another one.
fn after(process: &Process, flag: &str) -> String {
    let at = process.args.iter().position(|arg| arg == flag);
    process.args[at.expect(flag) + 1].clone()
}

fn text(path: &std::path::Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn a_killed_agent_takes_its_roles_with_it_and_the_next_one_adopts_its_runs() {
    let dev = Dev::start(binary());
    let host = Host::new(&dev);
    let mut agent = host.start();
    let run = start_on(&dev, "second", "alone");
    agent.signal(Signal::SIGKILL);
    wait_for("the roles' end", WITHIN, || {
        host.roles().is_empty().then_some(())
    });
    let mut agent = host.start();
    run.open();
    run.check(&dev);
    assert!(agent.signal(Signal::SIGTERM).success());
    assert_eq!(host.roles(), []);
    dev.stop();
}

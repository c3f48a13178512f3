//! Gateway and agent as child processes of this one, on loopback, with real certificates.
//!
//! ```text
//! gateway init ► gateway agent-cert ► gateway serve (says its ports) ► agent run ► the host is connected
//! ```
//!
//! Every process is this same program with role arguments. A system ends with its value, however that comes about:
//! first the agent, which ends its host in order, then the gateway.

mod directory;
mod process;

use crate::client::{Client, Settings};
use crate::limits::{AGENT_STOP, CONNECTED, GATEWAY_START, GATEWAY_STOP, LOOK};
use crate::problem::Failure;
use crate::stop::Stop;
pub use directory::Directory;
use process::{Process, Program};
use serde::Deserialize;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Instant;
use willcall_executor::config::Config;

/// Where the processes write what they have to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Log {
    /// To our own stderr.
    Stderr,
    /// To a file; its end is shown when something fails.
    File(PathBuf),
}

/// The host of a system.
#[derive(Debug)]
pub struct Host<'a> {
    name: &'a str,
    config: Option<PathBuf>,
}

impl<'a> Host<'a> {
    /// A host with that name and configuration, which is looked at right away: whoever starts a system learns at once what is
    /// wrong with it, and not from a log.
    pub fn new(name: &'a str, config: Option<&Path>) -> Result<Self, Failure> {
        Config::load(config).map_err(Failure::Config)?;
        let config = config.map(std::path::absolute).transpose();
        let config = config.map_err(|source| Failure::Local {
            what: "the configuration's path cannot be used".to_owned(),
            source,
        })?;
        Ok(Self { name, config })
    }
}

/// The line that a gateway prints when it listens.
#[derive(Debug, Deserialize)]
struct Listening {
    agents: String,
    api: String,
}

/// A system that runs.
#[derive(Debug)]
pub struct System {
    // In the order in which they end.
    agent: Process,
    gateway: Process,
    settings: Settings,
}

impl System {
    /// Starts everything in `directory`, and waits until the host is connected. What is there already is used.
    pub fn start(
        directory: &Directory,
        host: &Host<'_>,
        log: Log,
        stop: &Stop,
    ) -> Result<Self, Failure> {
        let program = Program::this(log)?;
        prepare(&program, directory, host.name)?;
        let (gateway, listening) = serve(&program, directory, stop)?;
        let url = format!("http://{}", listening.api);
        let settings = Settings::new(&url, &directory.token())?;
        let agent = start_agent(&program, directory, host, &listening.agents)?;
        let mut system = Self {
            agent,
            gateway,
            settings,
        };
        system.wait_connected(stop)?;
        Ok(system)
    }

    /// Where its API is.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Fails if one of its processes has ended.
    pub fn check(&mut self) -> Result<(), Failure> {
        self.gateway.check()?;
        self.agent.check()
    }

    /// Ends everything, in order.
    pub fn end(mut self) -> Result<(), Failure> {
        let agent = self.agent.end(AGENT_STOP);
        let gateway = self.gateway.end(GATEWAY_STOP);
        agent.and(gateway)
    }

    fn wait_connected(&mut self, stop: &Stop) -> Result<(), Failure> {
        let client = Client::new(self.settings.clone(), stop.clone());
        let deadline = Instant::now() + CONNECTED;
        loop {
            self.check()?;
            let hosts = client.hosts()?.value.hosts;
            if hosts.iter().any(|host| host.connected) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let what = format!("the host did not connect within {CONNECTED:?}");
                return Err(self.agent.failure(what));
            }
            pause(stop)?;
        }
    }
}

/// A short rest, unless somebody wants us to end.
fn pause(stop: &Stop) -> Result<(), Failure> {
    stop.pause(LOOK)
        .map_or(Ok(()), |signal| Err(Failure::Interrupted(signal)))
}

/// The CA, the gateway's certificate and token, and the host's certificate.
fn prepare(program: &Program, directory: &Directory, name: &str) -> Result<(), Failure> {
    let state = directory.gateway();
    program.run(
        "gateway",
        &[OsStr::new("init"), "--state".as_ref(), state.as_ref()],
    )?;
    if directory.identity().exists() {
        return Ok(());
    }
    let out = directory.agent();
    program.run(
        "gateway",
        &[
            OsStr::new("agent-cert"),
            "--state".as_ref(),
            state.as_ref(),
            "--name".as_ref(),
            name.as_ref(),
            "--out".as_ref(),
            out.as_ref(),
        ],
    )
}

fn serve(
    program: &Program,
    directory: &Directory,
    stop: &Stop,
) -> Result<(Process, Listening), Failure> {
    let state = directory.gateway();
    let args = [OsStr::new("serve"), "--state".as_ref(), state.as_ref()];
    let mut gateway = program.start("gateway", &args, GATEWAY_STOP)?;
    let line = gateway.first_line(GATEWAY_START, stop)?;
    match serde_json::from_str(&line) {
        Ok(listening) => Ok((gateway, listening)),
        Err(_) => Err(gateway.failure(format!("the gateway said {line:?} instead of its ports"))),
    }
}

fn start_agent(
    program: &Program,
    directory: &Directory,
    host: &Host<'_>,
    agents: &str,
) -> Result<Process, Failure> {
    let url = format!("wss://{agents}/v1/link");
    let mut flags: Vec<(&str, PathBuf)> = vec![
        ("--state", directory.host()),
        ("--run-dir", directory.run()),
        ("--workspace", directory.workspace()),
        ("--identity", directory.identity()),
        ("--ca", directory.ca()),
        ("--gateway", url.into()),
    ];
    flags.extend(host.config.clone().map(|path| ("--config", path)));
    let mut args = vec![OsStr::new("run")];
    for (name, value) in &flags {
        args.extend([OsStr::new(name), value.as_os_str()]);
    }
    program.start("agent", &args, AGENT_STOP)
}

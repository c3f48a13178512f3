//! `willcall dev`: gateway and agent, with their processes by role.

use crate::command::{self, Ran};
use crate::processes::{self, Process};
use crate::wait::{wait_for, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

const STARTS_WITHIN: Duration = Duration::from_secs(30);
const STOPS_WITHIN: Duration = Duration::from_secs(30);

/// A running system. Ends with the value.
#[derive(Debug)]
pub struct Dev {
    binary: PathBuf,
    child: Child,
    state: TempDir,
    url: String,
    token_file: PathBuf,
}

impl Dev {
    /// Starts a system in a fresh directory and waits until it says `ready`.
    pub fn start(binary: &Path) -> Self {
        Self::start_with(binary, &[])
    }

    /// The same, with further arguments.
    pub fn start_with(binary: &Path, args: &[&str]) -> Self {
        let state = tempfile::Builder::new()
            .prefix("wc-")
            .tempdir_in("/tmp")
            .expect("temporary directory");
        let mut child = Command::new(binary)
            .args(["dev", "--state"])
            .arg(state.path())
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(state.path().join("dev.log")).expect("log"))
            .spawn()
            .expect("willcall dev starts");
        let (url, token_file) = read_exports(&mut child, state.path());
        Self {
            binary: binary.to_path_buf(),
            child,
            state,
            url,
            token_file,
        }
    }

    /// The state directory.
    pub fn state(&self) -> &Path {
        self.state.path()
    }

    /// Everything that the system logged so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.state.path().join("dev.log")).unwrap_or_default()
    }

    /// The API's address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The API's token.
    pub fn token(&self) -> String {
        std::fs::read_to_string(&self.token_file)
            .expect("token file")
            .trim()
            .to_owned()
    }

    /// A `willcall` command that talks to this system.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command
            .args(args)
            .env("WILLCALL_URL", &self.url)
            .env("WILLCALL_TOKEN_FILE", &self.token_file);
        command
    }

    /// Runs `willcall ARGS` against this system.
    #[track_caller]
    pub fn willcall(&self, args: &[&str]) -> Ran {
        command::run(&mut self.command(args))
    }

    /// The process of a role: `gateway`, `agent`, `link`, `executor`, `spawner`.
    #[track_caller]
    pub fn role(&self, role: &str) -> Process {
        wait_for(&format!("a process for role {role}"), STARTS_WITHIN, || {
            self.find_role(role)
        })
    }

    /// The process of a role, if it is there now.
    pub fn find_role(&self, role: &str) -> Option<Process> {
        let pid = i32::try_from(self.child.id()).ok()?;
        let is = |p: &Process| {
            p.args
                .windows(2)
                .any(|pair| pair[0] == "role" && pair[1] == role)
        };
        processes::descendants(pid)
            .into_iter()
            .find(|p| is(p) && !p.name.starts_with("wc-run"))
    }

    /// `kill -9` of a role, and the process that replaces it.
    #[track_caller]
    pub fn kill_role(&self, role: &str) -> Process {
        let old = self.role(role);
        processes::kill_9(old.pid);
        wait_for(&format!("a new {role}"), STARTS_WITHIN, || {
            self.find_role(role).filter(|new| new.pid != old.pid)
        })
    }

    /// One call of the HTTP API: status and body.
    pub fn api(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        self.api_as(
            Some(&self.token()),
            method,
            path,
            body.map(Value::to_string).as_deref(),
        )
    }

    /// One call of the HTTP API with a token and a body of the test's choice.
    pub fn api_as(
        &self,
        token: Option<&str>,
        method: &str,
        path: &str,
        body: Option<&str>,
    ) -> (u16, Value) {
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url));
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request
            .header("content-type", "application/json")
            .body(body.unwrap_or_default().to_owned())
            .expect("a request");
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_mins(1)))
            .allow_non_standard_methods(true);
        let agent: ureq::Agent = config.build().into();
        let mut response = agent.run(request).expect("the gateway answers");
        let status = response.status().as_u16();
        let text = response
            .body_mut()
            .with_config()
            .limit(16 << 20)
            .read_to_string()
            .expect("a body");
        (
            status,
            serde_json::from_str(&text).unwrap_or(Value::String(text)),
        )
    }

    /// Waits until the host is connected.
    #[track_caller]
    pub fn wait_connected(&self) {
        wait_for("a connected host", STARTS_WITHIN, || {
            let (_, hosts) = self.api("GET", "/v1/hosts", None);
            (hosts["hosts"][0]["connected"] == true).then_some(())
        });
    }

    /// Ends the system as a person would, and waits for its end.
    #[track_caller]
    pub fn stop(mut self) {
        assert!(
            self.end(),
            "willcall dev did not end within {STOPS_WITHIN:?}"
        );
    }

    /// Whether it ended in time; what does not is killed.
    fn end(&mut self) -> bool {
        let Ok(pid) = i32::try_from(self.child.id()) else {
            return false;
        };
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        let ended = wait_until(STOPS_WITHIN, || {
            matches!(self.child.try_wait(), Ok(Some(_)))
        });
        if !ended {
            for process in processes::descendants(pid) {
                let _ = kill(Pid::from_raw(process.pid), Signal::SIGKILL);
            }
            let _ = self.child.kill();
        }
        ended
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The log goes with the directory; whoever reads the failure needs it now.
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            report(&lines[lines.len().saturating_sub(60)..].join("\n"));
        }
        self.end();
    }
}

#[expect(clippy::print_stderr, reason = "a failed test shows the system's log")]
fn report(log: &str) {
    eprintln!("--- log of willcall dev ---\n{log}\n---");
}

fn read_exports(child: &mut Child, state: &Path) -> (String, PathBuf) {
    let (mut url, mut token_file) = (None, None);
    let stdout = child.stdout.take().expect("piped");
    for line in BufReader::new(stdout).lines() {
        let line = line.expect("a line");
        let value = |name: &str| {
            line.strip_prefix("export ")?
                .strip_prefix(name)?
                .strip_prefix('=')
                .map(unquote)
        };
        url = value("WILLCALL_URL").or(url);
        token_file = value("WILLCALL_TOKEN_FILE").or(token_file);
        if line == "ready" {
            return (
                url.expect("a URL"),
                token_file.expect("a token file").into(),
            );
        }
    }
    let log = std::fs::read_to_string(state.join("dev.log")).unwrap_or_default();
    panic!("willcall dev ended before it was ready:\n{log}");
}

fn unquote(value: &str) -> String {
    value.trim_matches(['\'', '"']).to_owned()
}

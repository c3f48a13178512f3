//! What a dispatch asks for, checked before anything is claimed for it. No I/O.

use crate::config::Outputs;
use crate::limits::{DEFAULT_TIMEOUT, GRACE, MAX_QUOTED, MAX_TIMEOUT};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use thiserror::Error;
use willcall_outputs::capture::{Loss, Policy};
use willcall_outputs::limits::{LimitError, LimitRange, Limits, Strategy};
use willcall_outputs::view::Mode;
use willcall_protocol::limits::{MAX_COMMAND_BYTES, MAX_REASON};
use willcall_protocol::message::{Dispatch, LimitsAsked, StrategyAsked, ViewAsked};
use willcall_protocol::outcome::Cause;
use willcall_runner::wire::Launch;

/// A dispatch that can be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// What was asked.
    pub dispatch: Dispatch,
    /// Limits of each stream's preview.
    pub limits: Limits,
    /// Which end of a stream its preview shows.
    pub strategy: Strategy,
    /// How a stream is shown.
    pub view: Mode,
    /// The timeout that applies, in milliseconds.
    pub timeout_ms: u64,
}

/// Why a dispatch cannot be carried out. Nothing is remembered of it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OrderError {
    /// A limit of 0, or above the ceiling.
    #[error("{0}; nothing ran")]
    Limit(#[from] LimitError),
    /// A timeout of 0, or above the maximum.
    #[error("timeout_ms is {asked}; it must be 1 to {max}; nothing ran", max = millis(MAX_TIMEOUT))]
    Timeout {
        /// What was asked, in milliseconds.
        asked: u64,
    },
    /// No program.
    #[error("argv is empty: it needs at least a program; nothing ran")]
    NoProgram,
    /// A NUL, which no argument, variable or path can carry.
    #[error("{place} has a NUL byte in it, which no command can be given; nothing ran")]
    Nul {
        /// Where: `argv[2]`, `env`, `cwd`.
        place: String,
    },
    /// A variable whose name is empty or has `=` in it.
    #[error("{name:?} cannot be the name of an environment variable; nothing ran")]
    VariableName {
        /// The name, cut.
        name: String,
    },
    /// Arguments and environment are too long together.
    #[error(
        "argv and env are {len} bytes together; {MAX_COMMAND_BYTES} are allowed: \
         pass long input in a file; nothing ran"
    )]
    TooLong {
        /// Their length.
        len: usize,
    },
    /// A relative working directory.
    #[error("cwd {cwd:?} is not an absolute path; nothing ran")]
    RelativeCwd {
        /// The path, cut.
        cwd: String,
    },
    /// A reason or principal that is too long.
    #[error("{name} is {len} bytes long; {MAX_REASON} are allowed; nothing ran")]
    TextTooLong {
        /// `reason` or `principal`.
        name: &'static str,
        /// Its length.
        len: usize,
    },
}

impl OrderError {
    /// The cause that the caller sees.
    pub fn cause(&self) -> Cause {
        match self {
            Self::Limit(_) | Self::Timeout { .. } => Cause::InvalidLimit,
            _ => Cause::InvalidCommand,
        }
    }
}

impl Order {
    /// Checks a dispatch; `previews` are this host's limits.
    pub fn new(dispatch: Dispatch, previews: LimitRange) -> Result<Self, OrderError> {
        check_command(&dispatch)?;
        check_text("reason", dispatch.reason.as_deref().unwrap_or_default())?;
        check_text("principal", &dispatch.principal)?;
        let limits = limits(dispatch.limits, previews)?;
        let timeout_ms = timeout(dispatch.timeout_ms)?;
        let strategy = strategy(dispatch.strategy);
        let view = view(dispatch.view);
        Ok(Self {
            dispatch,
            limits,
            strategy,
            view,
            timeout_ms,
        })
    }

    /// A dispatch that was accepted before, maybe by another version or with other limits: what no
    /// longer holds is replaced by the default.
    pub(crate) fn remembered(dispatch: Dispatch, timeout_ms: u64, previews: LimitRange) -> Self {
        let limits =
            limits(dispatch.limits, previews).unwrap_or_else(|_| previews.default_limits());
        let strategy = strategy(dispatch.strategy);
        let view = view(dispatch.view);
        Self {
            dispatch,
            limits,
            strategy,
            view,
            timeout_ms,
        }
    }

    /// The launch that carries it out, in a clean environment; `no_directory` says why there is no directory for its
    /// outputs.
    pub fn launch(&self, surroundings: &Surroundings, no_directory: Option<Loss>) -> Launch {
        let asked = &self.dispatch;
        let mut env = surroundings.env.clone();
        env.extend(asked.env.clone());
        Launch {
            run: asked.run.0,
            argv: asked.argv.clone(),
            cwd: asked
                .cwd
                .clone()
                .unwrap_or_else(|| surroundings.workspace.clone()),
            env,
            timeout_ms: Some(self.timeout_ms),
            grace_ms: millis(GRACE),
            limits: self.limits,
            policy: Policy::Keep {
                max_kept: surroundings.outputs.max_run_bytes,
            },
            view: self.view,
            digest_at_seal: surroundings.outputs.digest_at_seal,
            has_directory: no_directory.is_none(),
            no_directory,
            redial: surroundings.redial.clone(),
        }
    }
}

/// What every launch of this host has in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Surroundings {
    /// The clean environment.
    pub env: BTreeMap<String, String>,
    /// The working directory of commands that name none.
    pub workspace: String,
    /// Where runners dial again.
    pub redial: String,
    /// What is kept, and what may leave.
    pub outputs: Outputs,
}

/// The clean environment of commands that run as this user: nothing of ours is inherited, nothing
/// waits for a terminal that is not there.
pub fn clean_env(user: &str, home: &Path, shell: &Path) -> BTreeMap<String, String> {
    let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let shell = if shell.as_os_str().is_empty() {
        Path::new("/bin/sh")
    } else {
        shell
    };
    [
        ("PATH", path),
        ("HOME", &home.to_string_lossy()),
        ("USER", user),
        ("LOGNAME", user),
        ("SHELL", &shell.to_string_lossy()),
        ("LANG", "C.UTF-8"),
        ("TERM", "dumb"),
        ("NO_COLOR", "1"),
        ("PAGER", "cat"),
        ("GIT_PAGER", "cat"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

/// The beginning of a caller's text, for a message.
pub(crate) fn quoted(text: &str) -> String {
    text.chars().take(MAX_QUOTED).collect()
}

/// A span as whole milliseconds.
pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn check_command(dispatch: &Dispatch) -> Result<(), OrderError> {
    // A first argument that is empty names no program.
    if dispatch.argv.first().is_none_or(String::is_empty) {
        return Err(OrderError::NoProgram);
    }
    let args = dispatch.argv.iter().map(|arg| arg.len() + 1);
    let vars = dispatch
        .env
        .iter()
        .map(|(name, value)| name.len() + value.len() + 2);
    let len = args.chain(vars).sum();
    if len > MAX_COMMAND_BYTES {
        return Err(OrderError::TooLong { len });
    }
    check_nul(dispatch)?;
    let wrong_name = |name: &&String| name.is_empty() || name.contains('=');
    if let Some(name) = dispatch.env.keys().find(wrong_name) {
        return Err(OrderError::VariableName { name: quoted(name) });
    }
    match &dispatch.cwd {
        Some(cwd) if !cwd.starts_with('/') => Err(OrderError::RelativeCwd { cwd: quoted(cwd) }),
        _ => Ok(()),
    }
}

fn check_nul(dispatch: &Dispatch) -> Result<(), OrderError> {
    let args = dispatch
        .argv
        .iter()
        .enumerate()
        .map(|(n, arg)| (format!("argv[{n}]"), arg));
    let vars = dispatch.env.iter().flat_map(|(name, value)| [name, value]);
    let others = vars.map(|text| ("env".to_owned(), text));
    let cwd = dispatch.cwd.iter().map(|cwd| ("cwd".to_owned(), cwd));
    match args
        .chain(others)
        .chain(cwd)
        .find(|(_, text)| text.contains('\0'))
    {
        Some((place, _)) => Err(OrderError::Nul { place }),
        None => Ok(()),
    }
}

fn check_text(name: &'static str, text: &str) -> Result<(), OrderError> {
    match text.len() {
        len if len > MAX_REASON => Err(OrderError::TextTooLong { name, len }),
        _ => Ok(()),
    }
}

fn limits(asked: LimitsAsked, previews: LimitRange) -> Result<Limits, OrderError> {
    Ok(previews.resolve(asked.max_bytes, asked.max_lines)?)
}

fn strategy(asked: StrategyAsked) -> Strategy {
    match asked {
        StrategyAsked::HeadTail => Strategy::HeadTail,
        StrategyAsked::Head => Strategy::Head,
        StrategyAsked::Tail => Strategy::Tail,
    }
}

fn view(asked: ViewAsked) -> Mode {
    match asked {
        ViewAsked::Auto => Mode::Auto,
        ViewAsked::Raw => Mode::Raw,
    }
}

fn timeout(asked: Option<u64>) -> Result<u64, OrderError> {
    let asked = asked.unwrap_or_else(|| millis(DEFAULT_TIMEOUT));
    if (1..=millis(MAX_TIMEOUT)).contains(&asked) {
        Ok(asked)
    } else {
        Err(OrderError::Timeout { asked })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;
    use willcall_protocol::ids::{RunId, SessionId};

    fn dispatch(argv: &[&str]) -> Dispatch {
        Dispatch {
            run: RunId(Uuid::from_u128(1)),
            session: SessionId::unnamed(),
            principal: "test".into(),
            argv: argv.iter().map(|&arg| arg.to_owned()).collect(),
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

    #[track_caller]
    fn check(change: impl FnOnce(&mut Dispatch), expected: impl Into<Option<OrderError>>) {
        let mut asked = dispatch(&["true"]);
        change(&mut asked);
        let order = Order::new(asked, LimitRange::default());
        assert_eq!(order.err(), expected.into());
    }

    #[test]
    fn the_defaults_apply_where_nothing_is_asked() {
        let order = Order::new(dispatch(&["true"]), LimitRange::default()).expect("sound");
        assert_eq!(
            (order.limits, order.timeout_ms),
            (Limits::default(), 600_000)
        );
    }

    #[test]
    fn limits_are_refused_by_name() {
        let zero = |name| OrderError::Limit(LimitError::Zero { name });
        check(|d| d.limits.max_bytes = Some(0), zero("max_bytes"));
        check(|d| d.limits.max_lines = Some(0), zero("max_lines"));
        check(|d| d.limits.max_bytes = Some(262_144), None);
        check(|d| d.limits.max_lines = Some(u64::MAX), None);
        for asked in [262_145, u64::MAX] {
            let above = LimitError::AboveCeiling {
                asked,
                ceiling: 262_144,
            };
            check(
                |d| d.limits.max_bytes = Some(asked),
                OrderError::from(above),
            );
        }
        for asked in [0, 86_400_001] {
            check(
                |d| d.timeout_ms = Some(asked),
                OrderError::Timeout { asked },
            );
        }
    }

    #[test]
    fn commands_that_cannot_be_right_are_refused_by_name() {
        check(|d| d.argv.clear(), OrderError::NoProgram);
        check(|d| d.argv[0].clear(), OrderError::NoProgram);
        let nul = |place: &str| OrderError::Nul {
            place: place.into(),
        };
        check(|d| d.argv.push("a\0b".into()), nul("argv[1]"));
        check(|d| d.cwd = Some("/a\0".into()), nul("cwd"));
        check(|d| drop(d.env.insert("A".into(), "\0".into())), nul("env"));
        for name in ["", "A=B"] {
            let refused = OrderError::VariableName { name: name.into() };
            check(|d| drop(d.env.insert(name.into(), "1".into())), refused);
        }
        check(
            |d| d.cwd = Some("tmp".into()),
            OrderError::RelativeCwd { cwd: "tmp".into() },
        );
        let len = MAX_COMMAND_BYTES - "true".len() - 2;
        check(|d| d.argv.push("x".repeat(len)), None);
        check(
            |d| d.argv.push("x".repeat(len + 1)),
            OrderError::TooLong {
                len: MAX_COMMAND_BYTES + 1,
            },
        );
        let long = OrderError::TextTooLong {
            name: "reason",
            len: 1025,
        };
        check(|d| d.reason = Some("x".repeat(1025)), long);
    }

    #[test]
    fn a_launch_has_the_clean_environment_and_what_the_caller_adds() {
        let mut asked = dispatch(&["true"]);
        asked.env = [
            ("TERM".to_owned(), "xterm".to_owned()),
            ("A".to_owned(), "1".to_owned()),
        ]
        .into();
        let surroundings = Surroundings {
            env: clean_env("me", Path::new("/home/me"), Path::new("")),
            workspace: "/w".into(),
            redial: "/run/r".into(),
            outputs: Outputs {
                max_run_bytes: 7,
                digest_at_seal: 8,
                ..Outputs::default()
            },
        };
        let launch = Order::new(asked, LimitRange::default())
            .expect("sound")
            .launch(&surroundings, None);
        let var = |name: &str| launch.env.get(name).map(String::as_str);
        assert_eq!(
            (var("TERM"), var("A"), var("SHELL")),
            (Some("xterm"), Some("1"), Some("/bin/sh"))
        );
        assert_eq!((launch.env.len(), launch.cwd.as_str()), (11, "/w"));
        assert_eq!(
            (launch.policy, launch.digest_at_seal),
            (Policy::Keep { max_kept: 7 }, 8)
        );
    }
}

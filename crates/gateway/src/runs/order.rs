//! A run as it is asked for, checked.

use sha2::{Digest, Sha256};
use thiserror::Error;
use willcall_protocol::limits::{MAX_COMMAND_BYTES, MAX_REASON};
use willcall_protocol::message::Dispatch;

/// Why a run cannot be what was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OrderError {
    /// No program.
    #[error("argv has to begin with the name of a program")]
    NoProgram,
    /// A NUL byte, which the kernel cannot pass on.
    #[error("{0} has a NUL in it")]
    Nul(&'static str),
    /// More than travels.
    #[error("argv, env and cwd together have {0} bytes; at most {MAX_COMMAND_BYTES} are allowed")]
    TooLong(usize),
    /// A name that no environment can have.
    #[error("{0:?} is not the name of an environment variable")]
    EnvName(String),
    /// An empty working directory.
    #[error("cwd is empty; leave it out for the host's default")]
    EmptyCwd,
    /// Nothing can be done in no time.
    #[error("timeout_ms has to be at least 1")]
    NoTime,
    /// A limit that leaves nothing.
    #[error("limits.{0} has to be at least 1")]
    ZeroLimit(&'static str),
    /// A limit above the host's ceiling.
    #[error("limits.max_bytes is {asked}; this host's ceiling is {ceiling}")]
    AboveCeiling {
        /// What was asked for.
        asked: u64,
        /// What there is.
        ceiling: u64,
    },
    /// A reason that is a novel.
    #[error("reason has {0} bytes; at most {MAX_REASON} are allowed")]
    LongReason(usize),
    /// The nil UUID, which every careless program would choose.
    #[error("the nil UUID is nobody's run id")]
    NilRun,
}

/// A run as it is asked for: what is sent, and what tells it from another with the same id.
#[derive(Debug)]
pub struct Order {
    /// What is sent.
    pub dispatch: Box<Dispatch>,
    /// SHA-256 of it.
    pub hash: [u8; 32],
}

impl Order {
    /// Checks what a caller asks for.
    pub fn new(dispatch: Dispatch) -> Result<Self, OrderError> {
        check_command(&dispatch)?;
        check_env(&dispatch)?;
        check_bounds(&dispatch)?;
        // Fields have one order, and so have the names of the environment.
        let json = serde_json::to_vec(&dispatch).unwrap_or_default();
        let hash = Sha256::digest(&json).into();
        Ok(Self {
            dispatch: Box::new(dispatch),
            hash,
        })
    }

    /// Checks what only the host's own ceiling decides. 0 stands for a ceiling that is not known.
    pub fn check_ceiling(&self, ceiling: u32) -> Result<(), OrderError> {
        let ceiling = u64::from(ceiling);
        match self.dispatch.limits.max_bytes {
            Some(asked) if ceiling > 0 && asked > ceiling => {
                Err(OrderError::AboveCeiling { asked, ceiling })
            }
            _ => Ok(()),
        }
    }
}

fn check_command(dispatch: &Dispatch) -> Result<(), OrderError> {
    if dispatch.argv.first().is_none_or(String::is_empty) {
        return Err(OrderError::NoProgram);
    }
    if dispatch.argv.iter().any(|a| a.contains('\0')) {
        return Err(OrderError::Nul("argv"));
    }
    match dispatch.cwd.as_deref() {
        Some("") => return Err(OrderError::EmptyCwd),
        Some(cwd) if cwd.contains('\0') => return Err(OrderError::Nul("cwd")),
        _ => {}
    }
    let argv = dispatch.argv.iter().map(|a| a.len() + 1).sum::<usize>();
    let env = dispatch
        .env
        .iter()
        .map(|(k, v)| k.len() + v.len() + 2)
        .sum::<usize>();
    let all = argv + env + dispatch.cwd.as_ref().map_or(0, String::len);
    if all > MAX_COMMAND_BYTES {
        Err(OrderError::TooLong(all))
    } else {
        Ok(())
    }
}

fn check_env(dispatch: &Dispatch) -> Result<(), OrderError> {
    for (name, value) in &dispatch.env {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(OrderError::EnvName(name.chars().take(64).collect()));
        }
        if value.contains('\0') {
            return Err(OrderError::Nul("env"));
        }
    }
    Ok(())
}

fn check_bounds(dispatch: &Dispatch) -> Result<(), OrderError> {
    if dispatch.run.0.is_nil() {
        return Err(OrderError::NilRun);
    }
    if dispatch.timeout_ms == Some(0) {
        return Err(OrderError::NoTime);
    }
    if dispatch.limits.max_bytes == Some(0) {
        return Err(OrderError::ZeroLimit("max_bytes"));
    }
    if dispatch.limits.max_lines == Some(0) {
        return Err(OrderError::ZeroLimit("max_lines"));
    }
    match dispatch.reason.as_ref().map(String::len) {
        Some(len) if len > MAX_REASON => Err(OrderError::LongReason(len)),
        _ => Ok(()),
    }
}

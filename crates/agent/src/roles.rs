//! How a role is started: from sibling programs, or from one program that contains every role.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A process of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Forks runners.
    Spawner,
    /// Decides and remembers.
    Executor,
    /// Speaks to the gateway.
    Link,
}

impl Role {
    /// In the order in which they are started.
    pub const ALL: [Self; 3] = [Self::Spawner, Self::Executor, Self::Link];

    /// The name in arguments and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Spawner => "spawner",
            Self::Executor => "executor",
            Self::Link => "link",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A program, and the arguments that make a role of it. The role's own arguments follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleCommand {
    /// The program.
    pub program: PathBuf,
    /// Its first arguments.
    pub leading: Vec<OsString>,
}

/// Where the roles are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Roles {
    /// One program for each, beside each other.
    Siblings {
        /// The directory that holds them.
        directory: PathBuf,
    },
    /// One program that contains all of them, as `PROGRAM role ROLE ARGS...`.
    Combined {
        /// The program.
        program: PathBuf,
    },
}

impl Roles {
    /// The programs beside this one.
    pub fn siblings() -> io::Result<Self> {
        let program = std::env::current_exe()?;
        let directory = program.parent().unwrap_or_else(|| Path::new("/"));
        let directory = directory.to_owned();
        Ok(Self::Siblings { directory })
    }

    /// How to start `role`.
    pub fn command(&self, role: Role) -> RoleCommand {
        match self {
            Self::Siblings { directory } => {
                let (name, word) = match role {
                    Role::Spawner => ("willcall-runner", "spawner"),
                    Role::Executor => ("willcall-executor", "run"),
                    Role::Link => ("willcall-link", "run"),
                };
                RoleCommand {
                    program: directory.join(name),
                    leading: vec![word.into()],
                }
            }
            Self::Combined { program } => {
                let words: &[&str] = match role {
                    Role::Spawner => &["role", "spawner"],
                    Role::Executor => &["role", "executor", "run"],
                    Role::Link => &["role", "link", "run"],
                };
                RoleCommand {
                    program: program.clone(),
                    leading: words.iter().map(OsString::from).collect(),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(roles: &Roles, role: Role, expected: &str) {
        let command = roles.command(role);
        let words: Vec<_> = std::iter::once(command.program.display().to_string())
            .chain(command.leading.iter().map(|w| w.display().to_string()))
            .collect();
        assert_eq!(words.join(" "), expected);
    }

    #[test]
    fn a_role_is_a_program_or_a_part_of_one() {
        let siblings = Roles::Siblings {
            directory: "/usr/bin".into(),
        };
        check(&siblings, Role::Spawner, "/usr/bin/willcall-runner spawner");
        check(&siblings, Role::Executor, "/usr/bin/willcall-executor run");
        let combined = Roles::Combined {
            program: "/x/willcall".into(),
        };
        check(&combined, Role::Spawner, "/x/willcall role spawner");
        check(&combined, Role::Link, "/x/willcall role link run");
    }
}

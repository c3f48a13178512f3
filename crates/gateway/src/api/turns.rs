//! The turn that a call says it is part of.

use super::problem::{Code, Problem};
use serde::Deserialize;
use std::num::NonZeroU32;
use willcall_protocol::ids::TurnId;
use willcall_protocol::message::Turn;

/// A turn as a body names it. In a query: `turn` and `turn_calls`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    id: String,
    #[serde(default)]
    calls: Option<u64>,
}

impl Asked {
    /// The turn that a query names, if it names one.
    pub(super) fn in_query(
        id: Option<String>,
        calls: Option<u64>,
    ) -> Result<Option<Self>, Problem> {
        match (id, calls) {
            (Some(id), calls) => Ok(Some(Self { id, calls })),
            (None, None) => Ok(None),
            (None, Some(_)) => Err(wrong("turn_calls needs turn=ID")),
        }
    }

    pub(super) fn parse(self) -> Result<Turn, Problem> {
        let id = TurnId::try_from(self.id).map_err(|e| wrong(&e.to_string()))?;
        let calls = self.calls.map(|calls| {
            let calls = u32::try_from(calls).ok().and_then(NonZeroU32::new);
            calls.ok_or_else(|| wrong(&format!("a turn has 1 to {} calls", u32::MAX)))
        });
        let calls = calls.transpose()?;
        Ok(Turn { id, calls })
    }
}

fn wrong(detail: &str) -> Problem {
    Problem::new(Code::InvalidTurn, detail)
}

//! What of an output a query asks for.

use super::problem::{Code, Problem};
use willcall_protocol::ids::SessionId;
use willcall_protocol::message::{Encoding, Read, ReadTarget, Turn};

/// Where a page begins, how much of it, and how it travels; as the query has it.
#[derive(Debug, Default)]
pub(super) struct Window {
    pub(super) offset: Option<u64>,
    pub(super) limit: Option<u64>,
    pub(super) line: Option<i64>,
    pub(super) lines: Option<u64>,
    pub(super) encoding: Option<String>,
    pub(super) verify: Option<bool>,
}

impl Window {
    /// The read of a page, if what is asked can be meant.
    pub(super) fn read(
        self,
        session: SessionId,
        target: ReadTarget,
        turn: Option<Turn>,
    ) -> Result<Read, Problem> {
        self.check()?;
        let encoding = match self.encoding.as_deref() {
            None | Some("utf-8") => Encoding::Utf8,
            Some("base64") => Encoding::Base64,
            Some(_) => {
                let detail = "encoding is utf-8 or base64";
                return Err(Problem::new(Code::InvalidQuery, detail));
            }
        };
        Ok(Read {
            call: 0,
            session,
            target,
            offset: self.offset.unwrap_or(0),
            limit: self.limit,
            line: self.line,
            lines: self.lines,
            encoding,
            verify: self.verify.unwrap_or(false),
            turn,
        })
    }

    fn check(&self) -> Result<(), Problem> {
        for (name, asked) in [("limit", self.limit), ("lines", self.lines)] {
            if asked == Some(0) {
                let detail = format!("{name} has to be at least 1");
                return Err(Problem::new(Code::InvalidLimits, detail));
            }
        }
        if self.line == Some(0) {
            let detail = "line counts from 1, or from -1 for the last one";
            return Err(Problem::new(Code::InvalidLimits, detail));
        }
        if self.line.is_some() && self.offset.is_some() {
            let detail = "a page begins at an offset or at a line: name one of them";
            return Err(Problem::new(Code::InvalidQuery, detail));
        }
        Ok(())
    }
}

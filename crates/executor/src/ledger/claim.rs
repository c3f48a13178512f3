//! What a dispatch comes to, given what the ledger knows. No I/O.

/// What the ledger knows of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// The hash of the body that was claimed, if it can be read: without it every body passes for the first one.
    pub body_hash: Option<[u8; 32]>,
    /// The timeout that was promised, in milliseconds.
    pub timeout_ms: u64,
    /// The number of its result, once it is over.
    pub finished: Option<u64>,
}

/// What a dispatch says, as far as its claim is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The hash of its body.
    pub body_hash: [u8; 32],
    /// Milliseconds since 1970, after which it must not be started.
    pub not_after_ms: Option<u64>,
    /// Whether there is room for another run.
    pub may_start: bool,
}

/// What a dispatch comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The run is new: it is claimed and may be started.
    First,
    /// The run was claimed before and is not over.
    Unfinished {
        /// The timeout that was promised, in milliseconds.
        timeout_ms: u64,
    },
    /// The run is over.
    Finished {
        /// The number of its result.
        seq: u64,
    },
    /// The id was claimed with another body.
    Conflict,
    /// The run was canceled before it arrived.
    CanceledBefore,
    /// It arrived too late.
    Expired {
        /// By how much, in milliseconds.
        late_ms: u64,
    },
    /// There is no room for another run.
    Busy,
}

/// Decides a claim.
pub fn decide(claim: &Claim, known: Option<&Known>, canceled: bool, now_ms: u64) -> Verdict {
    match (known, claim.not_after_ms) {
        // An id stands for its first body, whatever became of that.
        (Some(known), _) if known.body_hash.is_some_and(|hash| hash != claim.body_hash) => {
            Verdict::Conflict
        }
        // A duplicate gets the first one's answer, however late and however busy we are.
        (
            Some(Known {
                finished: Some(seq),
                ..
            }),
            _,
        ) => Verdict::Finished { seq: *seq },
        (Some(known), _) => Verdict::Unfinished {
            timeout_ms: known.timeout_ms,
        },
        // A cancel that overtook its dispatch stands.
        (None, _) if canceled => Verdict::CanceledBefore,
        // Nobody expects it any more.
        (None, Some(by)) if now_ms > by => Verdict::Expired {
            late_ms: now_ms - by,
        },
        // Nothing is remembered of it: the same dispatch may come again when there is room.
        (None, _) if !claim.may_start => Verdict::Busy,
        (None, _) => Verdict::First,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAIM: Claim = Claim {
        body_hash: [1; 32],
        not_after_ms: Some(100),
        may_start: true,
    };

    const KNOWN: Known = Known {
        body_hash: Some([1; 32]),
        timeout_ms: 9,
        finished: None,
    };

    #[track_caller]
    fn check(claim: Claim, known: Option<Known>, canceled: bool, now: u64, expected: Verdict) {
        assert_eq!(decide(&claim, known.as_ref(), canceled, now), expected);
    }

    #[test]
    fn a_new_run_is_claimed_unless_something_forbids_it() {
        check(CLAIM, None, false, 100, Verdict::First);
        check(CLAIM, None, false, 101, Verdict::Expired { late_ms: 1 });
        check(CLAIM, None, true, 101, Verdict::CanceledBefore);
        check(
            Claim {
                may_start: false,
                ..CLAIM
            },
            None,
            false,
            100,
            Verdict::Busy,
        );
        check(
            Claim {
                may_start: false,
                ..CLAIM
            },
            None,
            false,
            101,
            Verdict::Expired { late_ms: 1 },
        );
        check(
            Claim {
                not_after_ms: None,
                ..CLAIM
            },
            None,
            false,
            u64::MAX,
            Verdict::First,
        );
    }

    #[test]
    fn a_duplicate_gets_the_first_answer_whatever_the_time_and_load() {
        let late = Claim {
            may_start: false,
            ..CLAIM
        };
        check(
            late,
            Some(KNOWN),
            true,
            500,
            Verdict::Unfinished { timeout_ms: 9 },
        );
        check(
            late,
            Some(Known {
                finished: Some(3),
                ..KNOWN
            }),
            true,
            500,
            Verdict::Finished { seq: 3 },
        );
    }

    #[test]
    fn a_row_without_its_hash_is_known_all_the_same() {
        let known = Known {
            body_hash: None,
            ..KNOWN
        };
        let expected = Verdict::Unfinished { timeout_ms: 9 };
        check(CLAIM, Some(known), false, 0, expected);
    }

    #[test]
    fn another_body_is_a_conflict_before_and_after_the_end() {
        let other = Claim {
            body_hash: [2; 32],
            ..CLAIM
        };
        check(other, Some(KNOWN), false, 0, Verdict::Conflict);
        check(
            other,
            Some(Known {
                finished: Some(1),
                ..KNOWN
            }),
            false,
            0,
            Verdict::Conflict,
        );
    }
}

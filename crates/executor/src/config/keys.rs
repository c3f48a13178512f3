//! Every key: name, bounds, default.

use willcall_outputs::limits::{
    BACKGROUND_CAP, CEILING_MAX_BYTES, DEFAULT_MAX_BYTES, DEFAULT_MAX_LINES, DEFAULT_TURN_BUDGET,
    DIGEST_AT_SEAL, MAX_PAGE_BYTES, MAX_PAGE_LINES, MAX_RUN_BYTES, TURN_RESERVE,
};

/// The largest integer that TOML has.
pub(super) const UNBOUNDED: u64 = i64::MAX as u64;
/// The longest retention: ten years.
const MAX_DAYS: u64 = 3_650;

/// A key of `[outputs]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    DefaultMaxBytes,
    DefaultMaxLines,
    CeilingMaxBytes,
    PageMaxBytes,
    PageMaxLines,
    MaxRunBytes,
    BackgroundMaxBytes,
    DigestAtSealBytes,
    RetentionDays,
    QuotaBytes,
    QuotaCount,
    TurnBudgetBytes,
}

/// What is known of a key. All values are whole numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) least: u64,
    pub(super) most: u64,
    pub(super) default: u64,
}

impl Key {
    pub(super) const ALL: [Self; 12] = [
        Self::DefaultMaxBytes,
        Self::DefaultMaxLines,
        Self::CeilingMaxBytes,
        Self::PageMaxBytes,
        Self::PageMaxLines,
        Self::MaxRunBytes,
        Self::BackgroundMaxBytes,
        Self::DigestAtSealBytes,
        Self::RetentionDays,
        Self::QuotaBytes,
        Self::QuotaCount,
        Self::TurnBudgetBytes,
    ];

    pub(super) fn row(self) -> Row {
        let row = |name, least, most, default| Row {
            name,
            least,
            most,
            default,
        };
        // Two previews at the ceiling, escaped as JSON, have to fit a message.
        let wire = u64::from(CEILING_MAX_BYTES);
        let lines = u64::from(u32::MAX);
        match self {
            Self::DefaultMaxBytes => row("default_max_bytes", 1, wire, DEFAULT_MAX_BYTES.into()),
            Self::DefaultMaxLines => row("default_max_lines", 1, lines, DEFAULT_MAX_LINES.into()),
            Self::CeilingMaxBytes => row("ceiling_max_bytes", 1, wire, wire),
            Self::PageMaxBytes => row("page_max_bytes", 1, wire, MAX_PAGE_BYTES.into()),
            Self::PageMaxLines => row("page_max_lines", 1, lines, MAX_PAGE_LINES.into()),
            Self::MaxRunBytes => row("max_run_bytes", 1, UNBOUNDED, MAX_RUN_BYTES),
            Self::BackgroundMaxBytes => row("background_max_bytes", 1, UNBOUNDED, BACKGROUND_CAP),
            Self::DigestAtSealBytes => row("digest_at_seal_bytes", 0, UNBOUNDED, DIGEST_AT_SEAL),
            Self::RetentionDays => row("retention_days", 1, MAX_DAYS, 7),
            Self::QuotaBytes => row("quota_bytes", 1, UNBOUNDED, 10 * 1024 * 1024 * 1024),
            Self::QuotaCount => row("quota_count", 1, UNBOUNDED, 100_000),
            Self::TurnBudgetBytes => row(
                "turn_budget_bytes",
                TURN_RESERVE,
                UNBOUNDED,
                DEFAULT_TURN_BUDGET,
            ),
        }
    }
}

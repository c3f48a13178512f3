//! Text in; values, or the place at which something is wrong.

use super::keys::{Key, Row, UNBOUNDED};
use super::{Config, Outputs};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use willcall_outputs::limits::{LimitError, LimitRange, Limits};
use willcall_outputs::page::PageCaps;
use willcall_outputs::retention::Retention;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// Something that is wrong.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// Where, in bytes from the beginning.
    pub(super) at: usize,
    /// What, and what would be right.
    pub(super) what: String,
}

/// The numbers of a file, each with its place.
#[derive(Default)]
struct Numbers([Option<(u64, usize)>; Key::ALL.len()]);

pub(super) fn parse(text: &str) -> Result<Config, Fault> {
    let file = DeTable::parse(text).map_err(|error| Fault {
        at: error.span().map_or(0, |span| span.start),
        what: one_line(error.message()),
    })?;
    let mut numbers = Numbers::default();
    for (name, value) in file.get_ref() {
        match (name.get_ref().as_ref(), value.get_ref()) {
            ("outputs", DeValue::Table(section)) => numbers.read(section)?,
            ("outputs", other) => {
                let found = kind(other);
                let what = format!("outputs is {found}; it has to be a section, [outputs]");
                return fault(&value.span(), what);
            }
            (unknown, _) => {
                let what = format!("unknown section or key {unknown:?}; there is [outputs]");
                return fault(&name.span(), what);
            }
        }
    }
    let outputs = numbers.outputs()?;
    Ok(Config { outputs })
}

fn fault<T>(span: &Range<usize>, what: String) -> Result<T, Fault> {
    Err(Fault {
        at: span.start,
        what,
    })
}

/// What a parser says, for one line of a log.
fn one_line(message: &str) -> String {
    message.split('\n').collect::<Vec<_>>().join("; ")
}

impl Numbers {
    fn read(&mut self, section: &DeTable<'_>) -> Result<(), Fault> {
        for (name, value) in section {
            let known = Key::ALL
                .into_iter()
                .find(|key| key.row().name == name.get_ref().as_ref());
            let Some(key) = known else {
                let names: Vec<_> = Key::ALL.iter().map(|key| key.row().name).collect();
                let what = format!(
                    "unknown key {:?} in [outputs]; the keys are {}",
                    name.get_ref(),
                    names.join(", ")
                );
                return fault(&name.span(), what);
            };
            self.0[key as usize] = Some((number(key.row(), value)?, value.span().start));
        }
        Ok(())
    }

    fn of(&self, key: Key) -> u64 {
        self.0[key as usize].map_or_else(|| key.row().default, |(value, _)| value)
    }

    /// For keys whose bound is one of 32 bits.
    fn small(&self, key: Key) -> u32 {
        u32::try_from(self.of(key)).unwrap_or(u32::MAX)
    }

    fn outputs(&self) -> Result<Outputs, Fault> {
        self.at_most(Key::DefaultMaxBytes, Key::CeilingMaxBytes)?;
        // What is swept as soon as it is there need not be written.
        self.at_most(Key::MaxRunBytes, Key::QuotaBytes)?;
        self.at_most(Key::BackgroundMaxBytes, Key::QuotaBytes)?;
        let (bytes, lines) = (
            self.small(Key::DefaultMaxBytes),
            self.small(Key::DefaultMaxLines),
        );
        let previews = Limits::new(bytes, lines)
            .and_then(|default| LimitRange::new(default, self.small(Key::CeilingMaxBytes)))
            .map_err(|error| self.limit(Key::DefaultMaxBytes, &error))?;
        let (bytes, lines) = (self.small(Key::PageMaxBytes), self.small(Key::PageMaxLines));
        let pages =
            PageCaps::new(bytes, lines).map_err(|error| self.limit(Key::PageMaxBytes, &error))?;
        Ok(Outputs {
            previews,
            pages,
            max_run_bytes: self.of(Key::MaxRunBytes),
            background_cap: self.of(Key::BackgroundMaxBytes),
            digest_at_seal: self.of(Key::DigestAtSealBytes),
            retention: Retention {
                keep_ms: self.of(Key::RetentionDays).saturating_mul(DAY_MS),
                max_bytes: self.of(Key::QuotaBytes),
                max_count: self.of(Key::QuotaCount),
                ..Retention::default()
            },
            turn_budget: self.of(Key::TurnBudgetBytes),
        })
    }

    /// Two keys that have to fit each other; one of them may be at its default.
    fn at_most(&self, lower: Key, upper: Key) -> Result<(), Fault> {
        let (low, high) = (self.of(lower), self.of(upper));
        if low <= high {
            return Ok(());
        }
        let default = |key: Key| match self.0[key as usize] {
            Some(_) => "",
            None => " (its default)",
        };
        let what = format!(
            "{} is {low}{}, which is more than {}, {high}{}",
            lower.row().name,
            default(lower),
            upper.row().name,
            default(upper)
        );
        let at = self.place(lower).or_else(|| self.place(upper));
        Err(Fault {
            at: at.unwrap_or(0),
            what,
        })
    }

    fn place(&self, key: Key) -> Option<usize> {
        self.0[key as usize].map(|(_, at)| at)
    }

    fn limit(&self, key: Key, error: &LimitError) -> Fault {
        Fault {
            at: self.place(key).unwrap_or(0),
            what: error.to_string(),
        }
    }
}

/// Of which kind a value is, with its article.
fn kind(value: &DeValue<'_>) -> String {
    let kind = value.type_str();
    let article = if kind.starts_with(['a', 'i']) {
        "an"
    } else {
        "a"
    };
    format!("{article} {kind}")
}

fn number(row: Row, value: &Spanned<DeValue<'_>>) -> Result<u64, Fault> {
    let allowed = match row.most {
        UNBOUNDED => format!("of at least {}", row.least),
        most => format!("from {} to {most}", row.least),
    };
    let wrong = |found: &str| {
        let what = format!(
            "{} is {found}; it has to be a whole number {allowed}",
            row.name
        );
        fault(&value.span(), what)
    };
    let DeValue::Integer(integer) = value.get_ref() else {
        return wrong(&kind(value.get_ref()));
    };
    match u64::from_str_radix(integer.as_str(), integer.radix()) {
        Ok(number) if (row.least..=row.most).contains(&number) => Ok(number),
        _ => wrong(&integer.to_string()),
    }
}

//! Hosts: who may connect, what they said last, and how far their results are committed.

use super::{blob, json, json_at, uuid_at};
use crate::runs::excess::shortened;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use willcall_protocol::ids::AgentId;
use willcall_protocol::message::{Capabilities, Hello};

/// What a host said of itself in its last hello.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The program's version.
    pub agent_version: String,
    /// The kernel's boot id.
    pub boot_id: String,
    /// What it can and cannot do.
    pub capabilities: Capabilities,
}

impl Facts {
    /// Those of a hello, with the beginnings of its texts.
    pub fn of(hello: &Hello) -> Self {
        let Capabilities {
            run_as,
            outputs,
            max_bytes_ceiling,
        } = &hello.capabilities;
        Self {
            agent_version: shortened(&hello.agent_version),
            boot_id: shortened(&hello.boot_id),
            capabilities: Capabilities {
                run_as: shortened(run_as),
                outputs: shortened(outputs),
                max_bytes_ceiling: *max_bytes_ceiling,
            },
        }
    }
}

/// A host.
#[derive(Debug, Clone)]
pub struct HostRow {
    /// Its agent.
    pub agent: AgentId,
    /// Its name.
    pub name: String,
    /// Whether it may not connect any more.
    pub revoked: bool,
    /// When it was last heard of, in milliseconds since 1970.
    pub last_seen: Option<i64>,
    /// What it said last.
    pub facts: Option<Facts>,
    /// Its runs that are not over.
    pub running: i64,
}

/// Whether an agent may connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It may; this is its name.
    Known(String),
    /// It may not any more.
    Revoked,
    /// Nobody registered it.
    Unknown,
}

/// Registers a host. Fails where the name or the id is taken.
pub fn insert(c: &Connection, agent: AgentId, name: &str, now: i64) -> rusqlite::Result<()> {
    let sql = "INSERT INTO hosts (agent, name, created) VALUES (?1, ?2, ?3)";
    c.execute(sql, params![blob(agent.0), name, now]).map(drop)
}

/// Whether an agent may connect.
pub fn standing(c: &Connection, agent: AgentId) -> rusqlite::Result<Standing> {
    let sql = "SELECT name, revoked IS NOT NULL FROM hosts WHERE agent = ?1";
    let found: Option<(String, bool)> = c
        .prepare_cached(sql)?
        .query_row([blob(agent.0)], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(match found {
        None => Standing::Unknown,
        Some((_, true)) => Standing::Revoked,
        Some((name, false)) => Standing::Known(name),
    })
}

/// Forbids an agent to connect.
pub fn revoke(c: &Connection, agent: AgentId, now: i64) -> rusqlite::Result<()> {
    let sql = "UPDATE hosts SET revoked = ?2 WHERE agent = ?1 AND revoked IS NULL";
    c.execute(sql, params![blob(agent.0), now]).map(drop)
}

/// Notes a hello; says up to which result of that ledger everything is committed. A ledger that was not there before
/// begins at 0. The nil ledger stands for none: what is known of the host's own stays.
pub fn greet(
    c: &Connection,
    agent: AgentId,
    ledger: Uuid,
    facts: &Facts,
    now: i64,
) -> rusqlite::Result<u64> {
    let sql = "UPDATE hosts SET last_seen = ?2, facts = ?3, ledger = coalesce(?4, ledger),
                   acked = CASE WHEN ?4 IS NULL OR ledger IS ?4 THEN acked ELSE 0 END
               WHERE agent = ?1 RETURNING iif(?4 IS NULL, 0, acked)";
    let known = (!ledger.is_nil()).then(|| blob(ledger));
    let acked: i64 = c
        .prepare_cached(sql)?
        .query_row(params![blob(agent.0), now, json(facts)?, known], |row| {
            row.get(0)
        })?;
    Ok(u64::try_from(acked).unwrap_or(0))
}

/// Notes that every result of that ledger is committed up to `seq`.
pub fn acknowledge(c: &Connection, agent: AgentId, ledger: Uuid, seq: i64) -> rusqlite::Result<()> {
    let sql = "UPDATE hosts SET acked = max(acked, ?3) WHERE agent = ?1 AND ledger IS ?2";
    c.prepare_cached(sql)?
        .execute(params![blob(agent.0), blob(ledger), seq])
        .map(drop)
}

/// Notes when a host was last heard of.
pub fn seen(c: &Connection, agent: AgentId, now: i64) -> rusqlite::Result<()> {
    let sql = "UPDATE hosts SET last_seen = max(coalesce(last_seen, 0), ?2) WHERE agent = ?1";
    c.prepare_cached(sql)?
        .execute(params![blob(agent.0), now])
        .map(drop)
}

/// Finds a host by its name.
pub fn by_name(c: &Connection, name: &str) -> rusqlite::Result<Option<AgentId>> {
    c.prepare_cached("SELECT agent FROM hosts WHERE name = ?1")?
        .query_row([name], |row| uuid_at(row, 0).map(AgentId))
        .optional()
}

/// Every host that is not revoked, by name.
pub fn all(c: &Connection) -> rusqlite::Result<Vec<HostRow>> {
    let sql = "SELECT agent, name, revoked IS NOT NULL, last_seen, facts,
                   (SELECT count(*) FROM runs WHERE host = agent AND finished IS NULL)
               FROM hosts WHERE revoked IS NULL ORDER BY name";
    let mut statement = c.prepare_cached(sql)?;
    let rows = statement.query_map([], read)?;
    rows.collect()
}

fn read(row: &Row<'_>) -> rusqlite::Result<HostRow> {
    Ok(HostRow {
        agent: AgentId(uuid_at(row, 0)?),
        name: row.get(1)?,
        revoked: row.get(2)?,
        last_seen: row.get(3)?,
        facts: json_at(row, 4)?,
        running: row.get(5)?,
    })
}

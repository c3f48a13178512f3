//! `/v1/hosts`

use super::{Api, Problem};
use crate::db::Access;
use crate::db::hosts::{self, Facts, HostRow};
use crate::fleet::{HostKey, Link};
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use willcall_protocol::ids::AgentId;
use willcall_protocol::message::Capabilities;

/// All hosts.
#[derive(Debug, Serialize)]
pub(super) struct Hosts {
    hosts: Vec<Host>,
}

/// One host. What it says of itself is null until it has been there.
#[derive(Debug, Serialize)]
struct Host {
    id: AgentId,
    name: String,
    connected: bool,
    agent_version: Option<String>,
    boot_id: Option<String>,
    capabilities: Option<Capabilities>,
    last_seen_ms: Option<i64>,
    running: i64,
}

/// `GET /v1/hosts`
pub(super) async fn list(State(api): State<Api>) -> Result<Json<Hosts>, Problem> {
    let rows = api.runs.db.call(Access::Read, hosts::all).await?;
    let hosts = rows.into_iter().map(|row| {
        let link = api.runs.fleet.find(&HostKey::Id(row.agent));
        host(row, link.as_ref())
    });
    Ok(Json(Hosts {
        hosts: hosts.collect(),
    }))
}

fn host(row: HostRow, link: Option<&Link>) -> Host {
    let facts = link.map(|link| Facts::clone(&link.facts)).or(row.facts);
    Host {
        id: row.agent,
        name: row.name,
        connected: link.is_some(),
        agent_version: facts.as_ref().map(|facts| facts.agent_version.clone()),
        boot_id: facts.as_ref().map(|facts| facts.boot_id.clone()),
        capabilities: facts.map(|facts| facts.capabilities),
        last_seen_ms: link.map(Link::last_heard).or(row.last_seen),
        running: row.running,
    }
}

//! What compilers do not see. Every check names the file and says why the rule is there.

use anyhow::{Context, bail};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Which crate may know which: arrows point down only. `dev` counts what only tests use.
const EDGES: &[(&str, &[&str])] = &[
    ("willcall-protocol", &[]),
    ("willcall-outputs", &[]),
    ("willcall-daemon", &[]),
    ("willcall-runner", &["willcall-daemon", "willcall-outputs"]),
    (
        "willcall-executor",
        &[
            "willcall-daemon",
            "willcall-protocol",
            "willcall-outputs",
            "willcall-runner",
        ],
    ),
    ("willcall-link", &["willcall-daemon", "willcall-protocol"]),
    ("willcall-agent", &["willcall-daemon"]),
    (
        "willcall-gateway",
        &["willcall-daemon", "willcall-protocol"],
    ),
    (
        "willcall",
        &[
            "willcall-daemon",
            "willcall-agent",
            "willcall-gateway",
            "willcall-protocol",
            "willcall-executor",
            "willcall-link",
            "willcall-runner",
        ],
    ),
    ("willcall-testkit", &["willcall-protocol"]),
    (
        "willcall-benches",
        &[
            "willcall-protocol",
            "willcall-outputs",
            "willcall-runner",
            "willcall-testkit",
        ],
    ),
    ("xtask", &[]),
];

/// The executor runs commands' results past no network code, and the runner even less.
const OFFLINE: &[&str] = &[
    "willcall-executor",
    "willcall-runner",
    "willcall-outputs",
    "willcall-protocol",
];
const NETWORK_CRATES: &[&str] = &[
    "rustls",
    "tokio-rustls",
    "tungstenite",
    "tokio-tungstenite",
    "hyper",
    "axum",
    "ureq",
    "reqwest",
    "native-tls",
    "openssl",
];

/// Two crypto providers in one process would make rustls pick none; unmaintained or replaced crates stay out.
const BANNED: &[(&str, &str)] = &[
    ("aws-lc-rs", "ring is the one crypto provider"),
    ("openssl", "rustls is the one TLS library"),
    ("native-tls", "rustls is the one TLS library"),
    ("rustls-pemfile", "unmaintained; rustls-pki-types reads PEM"),
];

const MAX_FILE_LINES: usize = 700;

/// Runs every check and reports all that is wrong, not only the first.
pub(crate) fn check(root: &Path) -> anyhow::Result<()> {
    let metadata = metadata(root)?;
    let mut wrong = Vec::new();
    edges(&metadata, &mut wrong)?;
    offline(&metadata, &mut wrong)?;
    lock_file(&metadata, &mut wrong);
    for file in tracked(root)? {
        source_file(root, &file, &mut wrong)?;
    }
    module_maps(root, &mut wrong)?;
    changelog(root, &mut wrong)?;
    if !wrong.is_empty() {
        bail!("{} finding(s):\n  {}", wrong.len(), wrong.join("\n  "));
    }
    Ok(())
}

fn metadata(root: &Path) -> anyhow::Result<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let out = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(root)
        .output()
        .context("cannot start cargo metadata")?;
    if !out.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&out.stderr));
    }
    serde_json::from_slice(&out.stdout).context("cargo metadata did not print JSON")
}

fn packages(metadata: &Value) -> impl Iterator<Item = &Value> {
    metadata["packages"].as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Every member stands in the table, and knows only whom the table allows (dev-dependencies aside).
fn edges(metadata: &Value, wrong: &mut Vec<String>) -> anyhow::Result<()> {
    let members: BTreeSet<&str> = metadata["workspace_members"]
        .as_array()
        .context("no members")?
        .iter()
        .map(text)
        .collect();
    let table: BTreeMap<&str, &[&str]> = EDGES.iter().copied().collect();
    for package in packages(metadata).filter(|p| members.contains(text(&p["id"]))) {
        let name = text(&package["name"]);
        let Some(allowed) = table.get(name) else {
            wrong.push(format!(
                "{name} is not in the table of crates (xtask/src/tidy.rs)"
            ));
            continue;
        };
        let known = package["dependencies"].as_array().into_iter().flatten();
        for dependency in known.filter(|d| d["kind"].as_str() != Some("dev")) {
            let on = text(&dependency["name"]);
            if table.contains_key(on) && !allowed.contains(&on) {
                wrong.push(format!(
                    "{name} may not depend on {on}: arrows point down only"
                ));
            }
        }
    }
    Ok(())
}

/// Walks the resolved graph without dev-dependencies.
fn offline(metadata: &Value, wrong: &mut Vec<String>) -> anyhow::Result<()> {
    let names: BTreeMap<&str, &str> = packages(metadata)
        .map(|p| (text(&p["id"]), text(&p["name"])))
        .collect();
    let nodes = metadata["resolve"]["nodes"]
        .as_array()
        .context("no resolved graph")?;
    let deps: BTreeMap<&str, Vec<&str>> = nodes
        .iter()
        .map(|n| (text(&n["id"]), runtime_deps(n)))
        .collect();
    for root in names
        .iter()
        .filter(|(_, name)| OFFLINE.contains(name))
        .map(|(id, _)| *id)
    {
        let mut seen = BTreeSet::from([root]);
        let mut stack = vec![root];
        while let Some(id) = stack.pop() {
            let next = deps.get(id).into_iter().flatten();
            stack.extend(next.copied().filter(|id| seen.insert(id)));
        }
        for bad in seen
            .iter()
            .filter_map(|id| names.get(id))
            .filter(|name| NETWORK_CRATES.contains(name))
        {
            wrong.push(format!(
                "{} reaches {bad}: it must have no network code",
                names[root]
            ));
        }
    }
    Ok(())
}

fn runtime_deps(node: &Value) -> Vec<&str> {
    let deps = node["deps"].as_array().into_iter().flatten();
    deps.filter(|dep| {
        dep["dep_kinds"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|kind| kind["kind"].as_str() != Some("dev"))
    })
    .map(|dep| text(&dep["pkg"]))
    .collect()
}

/// Stable releases only, none of the banned ones.
fn lock_file(metadata: &Value, wrong: &mut Vec<String>) {
    for package in packages(metadata) {
        let (name, version) = (text(&package["name"]), text(&package["version"]));
        if version.split('+').next().is_some_and(|v| v.contains('-')) {
            wrong.push(format!("{name} {version} is a pre-release"));
        }
        if let Some((_, why)) = BANNED.iter().find(|(banned, _)| *banned == name) {
            wrong.push(format!("{name} is banned: {why}"));
        }
    }
}

fn tracked(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let out = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(root)
        .output()
        .context("cannot start git")?;
    let names = String::from_utf8(out.stdout).context("a file name is not UTF-8")?;
    Ok(names
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(PathBuf::from)
        .collect())
}

fn source_file(root: &Path, file: &Path, wrong: &mut Vec<String>) -> anyhow::Result<()> {
    let is = |extension: &str| file.extension().is_some_and(|e| e == extension);
    let this = Path::new("xtask/src/tidy.rs");
    if !(is("rs") || is("md") || is("toml") || is("sh"))
        || file == this
        || !root.join(file).exists()
    {
        return Ok(());
    }
    let content = std::fs::read_to_string(root.join(file))
        .with_context(|| format!("cannot read {}", file.display()))?;
    let at = file.display();
    // What stands in the repository stands on its own.
    for (needle, why) in [
        ("FIXME", "means: before merge"),
        ("/work/", "names a place outside the repository"),
        ("TODO", "belongs in docs/ROADMAP.md"),
    ] {
        if content.contains(needle) {
            wrong.push(format!("{at}: {needle} {why}"));
        }
    }
    if is("rs") && content.lines().count() > MAX_FILE_LINES {
        wrong.push(format!(
            "{at}: more than {MAX_FILE_LINES} lines: cut it by concern"
        ));
    }
    // An attribute may stand on several lines. The runner's lib.rs says it of its `sys`.
    let dense: String = content.split_whitespace().collect();
    let opts_out = dense.contains("allow(unsafe_code") || dense.contains("expect(unsafe_code");
    if is("rs") && opts_out && file != Path::new("crates/runner/src/lib.rs") {
        wrong.push(format!(
            "{at}: unsafe stands in crates/runner/src/sys.rs only"
        ));
    }
    Ok(())
}

/// Whoever opens a crate finds every file of it in the map at the top of its lib.rs.
fn module_maps(root: &Path, wrong: &mut Vec<String>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(root.join("crates")).context("cannot list crates")? {
        let src = entry?.path().join("src");
        let lib = src.join("lib.rs");
        let Ok(map) = std::fs::read_to_string(&lib) else {
            continue;
        };
        for module in std::fs::read_dir(&src)? {
            let name = module?.file_name().to_string_lossy().into_owned();
            let stem = name.strip_suffix(".rs").unwrap_or(&name);
            if !matches!(stem, "lib" | "main" | "tests") && !map.contains(&format!("`{stem}`")) {
                wrong.push(format!(
                    "{}: its map does not mention `{stem}`",
                    lib.display()
                ));
            }
        }
    }
    Ok(())
}

fn changelog(root: &Path, wrong: &mut Vec<String>) -> anyhow::Result<()> {
    let changes =
        std::fs::read_to_string(root.join("CHANGELOG.md")).context("cannot read CHANGELOG.md")?;
    if !changes.contains("## Unreleased") {
        wrong.push("CHANGELOG.md: there is no section Unreleased".into());
    }
    Ok(())
}

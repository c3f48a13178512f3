//! The command line.

use crate::support::{Gateway, command, succeeds};
use std::os::unix::fs::PermissionsExt;
use std::process::ExitCode;

fn fails(args: &[&str]) {
    assert_ne!(
        format!("{:?}", command(args)),
        format!("{:?}", ExitCode::SUCCESS),
        "{args:?}"
    );
}

#[test]
fn init_makes_what_is_missing_and_replaces_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = dir.path().join("state");
    let arg = state.to_str().expect("UTF-8");
    let read = |name: &str| std::fs::read_to_string(state.join(name)).expect("readable");
    succeeds(&[
        "init",
        "--state",
        arg,
        "--name",
        "gateway.example",
        "--name",
        "10.0.0.1",
    ]);
    let names = ["ca.pem", "ca.key", "server.pem", "api.token"];
    let first = names.map(read);
    succeeds(&["init", "--state", arg]);
    assert_eq!(names.map(read), first);
    for name in ["ca.key", "server.pem", "api.token"] {
        let mode = std::fs::metadata(state.join(name))
            .expect("there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    assert_eq!(
        std::fs::metadata(&state)
            .expect("there")
            .permissions()
            .mode()
            & 0o777,
        0o700
    );
    let database = std::fs::read(state.join("gateway.db")).expect("readable");
    let token = first[3].trim().as_bytes();
    assert!(
        !database.windows(token.len()).any(|w| w == token),
        "the token is in the database"
    );
    std::fs::remove_file(state.join("ca.key")).expect("removed");
    fails(&["init", "--state", arg]);
    assert_eq!(read("ca.pem"), first[0]);
}

#[tokio::test]
async fn a_host_is_registered_once_under_a_sound_name() {
    let gateway = Gateway::start().await;
    gateway.register("web-1.example");
    let state = gateway.dir.path().join("state");
    let (state, out) = (
        state.to_str().expect("UTF-8"),
        gateway.dir.path().join("out"),
    );
    let out = out.to_str().expect("UTF-8");
    let id = uuid::Uuid::from_u128(3).to_string();
    for name in [
        "web-1.example",
        "",
        "-x",
        "a b",
        "a/b",
        &id,
        &"x".repeat(65),
    ] {
        fails(&["agent-cert", "--state", state, "--name", name, "--out", out]);
    }
    // A failure registers nobody.
    succeeds(&[
        "agent-cert",
        "--state",
        state,
        "--name",
        "second",
        "--out",
        out,
    ]);
    fails(&[
        "agent-cert",
        "--state",
        state,
        "--name",
        "third",
        "--out",
        out,
    ]);
    let json = gateway.caller().get("/v1/hosts").await.json();
    assert_eq!(json["hosts"].as_array().map(Vec::len), Some(2));
    fails(&[
        "agent-cert",
        "--state",
        out,
        "--name",
        "fourth",
        "--out",
        out,
    ]);
    fails(&["serve"]);
}

//! The turn budget: what all calls of a turn may send together.

use crate::{binary, law};
use serde_json::{Value, json};
use willcall_testkit::Dev;

const BUDGET: usize = 204_800;
const RESERVE: usize = 2_304;
const TEXT: usize = 102_400;

/// A command that prints 100 KiB that no other `n` prints.
fn prints(n: u32) -> (Value, Vec<u8>) {
    let line = format!("{n:02}{}", "x".repeat(61));
    let script = format!("yes {line} | head -c {TEXT}");
    let bytes = format!("{line}\n").repeat(TEXT / 64).into_bytes();
    (json!(["sh", "-c", script]), bytes)
}

fn exec(dev: &Dev, host: &str, argv: &Value, turn: &Value) -> Value {
    let body = json!({"argv": argv, "turn": turn, "session": "s"});
    let path = format!("/v1/hosts/{host}/runs?wait=60");
    let (status, outcome) = dev.api("POST", &path, Some(&body));
    assert_eq!(
        (status, &outcome["state"]),
        (201, &json!("exited")),
        "{outcome}"
    );
    outcome["stdout"].clone()
}

fn host(dev: &Dev) -> String {
    let (_, hosts) = dev.api("GET", "/v1/hosts", None);
    hosts["hosts"][0]["name"]
        .as_str()
        .expect("a name")
        .to_owned()
}

/// All of a held output, page by page, by its id.
fn whole(dev: &Dev, host: &str, output: &str) -> Vec<u8> {
    let (mut bytes, mut next) = (Vec::new(), Some(0));
    while let Some(at) = next {
        let path = format!("/v1/hosts/{host}/output?output={output}&session=s&offset={at}");
        let (status, page) = dev.api("GET", &path, None);
        assert_eq!(status, 200, "{page}");
        bytes.extend(page["content"].as_str().expect("content").bytes());
        next = page["next"].as_u64();
    }
    bytes
}

fn text(stream: &Value) -> &str {
    stream["result"].as_str().expect("a result")
}

/// What a degraded result has to be, given what the command printed.
#[track_caller]
fn check_degraded(dev: &Dev, host: &str, stream: &Value, bytes: &[u8]) {
    let shown = text(stream);
    assert!(shown.len() <= RESERVE, "{}", shown.len());
    let omitted = &stream["omitted"];
    let offset = omitted["offset"].as_u64().expect("an offset");
    let head = usize::try_from(offset).expect("small");
    assert!(shown.as_bytes().starts_with(&bytes[..head]));
    assert_eq!(omitted["bytes"], bytes.len() - head);
    law::check_stream(stream, bytes, RESERVE, 2_000);
    let output = stream["output"].as_str().expect("an id");
    assert!(
        whole(dev, host, output) == bytes,
        "{output} is not what was printed"
    );
}

#[test]
fn sixteen_calls_at_once_stay_within_one_budget() {
    let dev = Dev::start(binary());
    let host = host(&dev);
    for turn in [
        json!({"id": "unknown"}),
        json!({"id": "known", "calls": 16}),
    ] {
        let results: Vec<(Value, Vec<u8>)> = std::thread::scope(|scope| {
            let calls: Vec<_> = (0..16)
                .map(|n| {
                    let (dev, host, turn) = (&dev, &host, &turn);
                    scope.spawn(move || {
                        let (argv, bytes) = prints(n);
                        (exec(dev, host, &argv, turn), bytes)
                    })
                })
                .collect();
            calls
                .into_iter()
                .map(|call| call.join().expect("joined"))
                .collect()
        });
        let sum: usize = results.iter().map(|(stream, _)| text(stream).len()).sum();
        assert!(sum <= BUDGET, "{sum} bytes in {turn}");
        let (through, degraded): (Vec<_>, Vec<_>) = results
            .iter()
            .partition(|(stream, _)| stream["truncated"] == false);
        assert!(
            !through.is_empty() && through.len() <= 2,
            "{}",
            through.len()
        );
        for (stream, bytes) in through {
            law::check_stream(stream, bytes, TEXT, 2_000);
            assert_eq!(
                stream["saved"], false,
                "it fitted, and nothing had to be kept"
            );
        }
        for (stream, bytes) in degraded {
            // Each was announced, and has its reserve; otherwise the first two may have taken all.
            assert!(
                turn["calls"].is_null() || text(stream).len() > 2_048,
                "{turn}"
            );
            check_degraded(&dev, &host, stream, bytes);
        }
    }
    let (argv, bytes) = prints(99);
    let another = exec(&dev, &host, &argv, &json!({"id": "another"}));
    assert_eq!(
        text(&another).as_bytes(),
        bytes,
        "another turn has its own budget"
    );
    dev.stop();
}

#[test]
fn a_small_output_without_room_becomes_a_parcel() {
    let dev = Dev::start(binary());
    let host = host(&dev);
    let turn = [
        "exec",
        "--session",
        "s",
        "--turn",
        "t-1",
        "--turn-calls",
        "3",
        "--json",
        "--",
    ];
    let call = |argv: &[&str]| dev.willcall(&[&turn, argv].concat()).json()["stdout"].clone();
    let fill = format!("yes {} | head -c {TEXT}", "x".repeat(63));
    assert_eq!(text(&call(&["sh", "-c", &fill])).len(), TEXT);
    let large = format!("yes {} | head -c 640000", "y".repeat(63));
    let large = call(&["sh", "-c", &large]);
    let bytes = format!("{}\n", "y".repeat(63)).into_bytes().repeat(10_000);
    check_degraded(&dev, &host, &large, &bytes);
    let filled = text(&large).len() + TEXT + RESERVE;
    let fill = format!("yes {} | head -c {}", "x".repeat(63), BUDGET - filled);
    assert_eq!(text(&call(&["sh", "-c", &fill])).len(), BUDGET - filled);
    let small = call(&["seq", "1000"]);
    check_degraded(&dev, &host, &small, &law::seq(1, 1000));
    assert_eq!(
        small["output"], small["digest"],
        "a parcel is named by what it holds"
    );
    let path = small["file_path"].as_str().expect("a path");
    let output = small["output"].as_str().expect("an id");
    for target in [["--output", output], ["--path", path]] {
        let read = [
            "read",
            "--session",
            "s",
            target[0],
            target[1],
            "--offset",
            "2",
            "--limit",
            "4",
        ];
        assert_eq!(dev.willcall(&read).text(), "2\n3\n");
        let other = dev.willcall(&["read", target[0], target[1]]);
        assert_eq!(
            (other.code, other.text().as_str()),
            (125, ""),
            "another session"
        );
    }
    dev.stop();
}

#[test]
fn pages_of_a_turn_share_its_budget() {
    let dev = Dev::start(binary());
    let outcome = dev.willcall(&[
        "exec",
        "--json",
        "--",
        "sh",
        "-c",
        "yes 0123456789 | head -c 500000",
    ]);
    let outcome = outcome.json();
    let output = outcome["stdout"]["output"].as_str().expect("held");
    let (mut sum, mut at, mut last) = (0, 0, usize::MAX);
    while last > 0 {
        let page = dev.willcall(&[
            "read",
            "--json",
            "--turn",
            "t",
            "--output",
            output,
            "--offset",
            &at.to_string(),
        ]);
        let page = page.json();
        last = page["content"].as_str().expect("content").len();
        assert_eq!(page["truncated"], true);
        sum += last;
        at = page["next"].as_u64().expect("more");
    }
    assert_eq!(
        (sum, at),
        (BUDGET, BUDGET as u64),
        "up to the last byte, and no further"
    );
    let page = dev.willcall(&["read", "--output", output, "--offset", "0", "--limit", "11"]);
    assert_eq!(page.text(), "0123456789\n");
    dev.stop();
}

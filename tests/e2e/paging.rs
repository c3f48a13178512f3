//! Picking up what is held.

use crate::binary;
use serde_json::{Value, json};
use willcall_testkit::Dev;

fn exec(dev: &Dev, args: &[&str]) -> Value {
    dev.willcall(&[&["exec", "--json", "--"], args].concat())
        .json()
}

fn page(dev: &Dev, output: &str, offset: u64, more: &[&str]) -> Value {
    let offset = offset.to_string();
    let ran = dev.willcall(
        &[
            &["read", "--json", "--output", output, "--offset", &offset],
            more,
        ]
        .concat(),
    );
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    ran.json()
}

#[test]
fn following_next_from_any_start_gives_the_file_back() {
    let dev = Dev::start(binary());
    let script = "i=0; while [ $i -lt 400 ]; do printf '%s\\n' \"$i äöü € 😀 $(printf '%7000s' x)\"; i=$((i+1)); done; printf '\\377\\376end'";
    let outcome = exec(&dev, &["bash", "-c", script]);
    let stdout = &outcome["stdout"];
    let output = stdout["output"].as_str().expect("an output");
    let file = std::fs::read(stdout["file_path"].as_str().expect("a path")).expect("the file");
    assert!(file.len() > 2_800_000, "{}", file.len());
    for start in [0, 1, 7, 3_869, 1_000_000, 2_700_001] {
        let mut at = start;
        let mut text = String::new();
        let mut first = None;
        loop {
            let page = page(&dev, output, at, &[]);
            let content = page["content"].as_str().expect("content");
            assert!(content.len() <= 102_400 && content.lines().count() <= 2000);
            first = first.or_else(|| page["offset"].as_u64());
            text.push_str(content);
            let Some(next) = page["next"].as_u64() else {
                break;
            };
            assert!(next > at, "no progress at {at}");
            at = next;
        }
        let from = usize::try_from(first.expect("a first page")).expect("small");
        assert_eq!(text, String::from_utf8_lossy(&file[from..]), "from {start}");
    }
    dev.stop();
}

#[test]
fn exact_bytes_come_as_base64() {
    let dev = Dev::start(binary());
    let outcome = exec(&dev, &["sh", "-c", "head -c 3145728 /dev/urandom"]);
    let stdout = &outcome["stdout"];
    let run = outcome["run"].as_str().expect("a run");
    let file = std::fs::read(stdout["file_path"].as_str().expect("a path")).expect("the file");
    let mut bytes = Vec::new();
    let mut next = Some(0);
    while let Some(offset) = next {
        let (status, page) = dev.api(
            "GET",
            &format!("/v1/runs/{run}/output?stream=stdout&encoding=base64&offset={offset}"),
            None,
        );
        assert_eq!((status, &page["encoding"]), (200, &json!("base64")));
        let content = page["content"].as_str().expect("content");
        assert!(content.len() <= 102_400);
        bytes.extend(
            base64::Engine::decode(&base64::engine::general_purpose::STANDARD, content)
                .expect("base64"),
        );
        next = page["next"].as_u64();
    }
    assert!(bytes == file, "the pages are not the file");
    dev.stop();
}

#[test]
fn the_end_is_an_empty_page_and_beyond_it_too() {
    let dev = Dev::start(binary());
    let outcome = exec(&dev, &["seq", "5000"]);
    let output = outcome["stdout"]["output"].as_str().expect("an output");
    for offset in [23_893, 23_894, 9_999_999] {
        let page = page(&dev, output, offset, &[]);
        assert_eq!(
            (&page["content"], &page["next"], &page["truncated"]),
            (&json!(""), &Value::Null, &json!(false))
        );
        assert_eq!(
            (page["total"].as_u64(), page["offset"].as_u64()),
            (Some(23_893), Some(offset))
        );
    }
    dev.stop();
}

#[test]
fn a_read_by_path_gives_the_same_page_and_only_of_held_outputs() {
    let dev = Dev::start(binary());
    let outcome = exec(&dev, &["seq", "5000"]);
    let path = outcome["stdout"]["file_path"].as_str().expect("a path");
    let output = outcome["stdout"]["output"].as_str().expect("an output");
    let by_path = dev.willcall(&[
        "read", "--json", "--path", path, "--offset", "100", "--limit", "50",
    ]);
    assert_eq!(by_path.json(), page(&dev, output, 100, &["--limit", "50"]));
    let plain = dev.willcall(&["read", "--output", output, "--limit", "8"]);
    assert_eq!(plain.text(), "1\n2\n3\n4\n");
    let record = path.replace(".stdout.txt", ".json");
    for other in [
        "/etc/passwd",
        "relative",
        &record,
        &format!("{path}/../../../../ledger.db"),
    ] {
        let ran = dev.willcall(&["read", "--path", other]);
        assert_eq!((ran.code, ran.text().as_str()), (125, ""), "{other}");
    }
    dev.stop();
}

#[test]
fn another_session_cannot_read_it() {
    let dev = Dev::start(binary());
    let outcome = dev
        .willcall(&["exec", "--json", "--session", "one", "--", "seq", "5000"])
        .json();
    let output = outcome["stdout"]["output"].as_str().expect("an output");
    let path = outcome["stdout"]["file_path"].as_str().expect("a path");
    for target in [["--output", output], ["--path", path]] {
        let own = dev.willcall(&[
            "read",
            "--session",
            "one",
            target[0],
            target[1],
            "--limit",
            "4",
        ]);
        assert_eq!(own.text(), "1\n2\n");
        let other = dev.willcall(&[
            "read",
            "--session",
            "two",
            target[0],
            target[1],
            "--limit",
            "4",
        ]);
        assert_eq!((other.code, other.text().as_str()), (125, ""));
        assert!(other.stderr.contains("session"), "{}", other.stderr);
    }
    dev.stop();
}

#[test]
fn a_file_that_is_not_what_its_record_says_is_named_damaged() {
    let dev = Dev::start(binary());
    let outcome = exec(&dev, &["seq", "5000"]);
    let path = outcome["stdout"]["file_path"].as_str().expect("a path");
    let output = outcome["stdout"]["output"].as_str().expect("an output");
    std::fs::OpenOptions::new()
        .append(true)
        .open(path)
        .and_then(|mut file| std::io::Write::write_all(&mut file, b"x"))
        .expect("appended");
    let ran = dev.willcall(&["read", "--output", output]);
    assert_eq!(ran.code, 125);
    assert!(ran.stderr.contains("damaged"), "{}", ran.stderr);
    std::fs::remove_file(path).expect("removed");
    let ran = dev.willcall(&["read", "--output", output]);
    assert_eq!((ran.code, ran.text().as_str()), (125, ""), "{}", ran.stderr);
    dev.stop();
}

//! What every stream's receipt has to say, whatever the command.

use serde_json::Value;
use std::path::Path;

/// The stream's fields are those of the contract, and agree with each other and with `bytes`.
#[track_caller]
pub(crate) fn check_stream(stream: &Value, bytes: &[u8], max_bytes: usize, max_lines: usize) {
    let text = stream["result"].as_str().expect("result");
    let number =
        |field: &str| usize::try_from(stream[field].as_u64().expect(field)).expect("small");
    assert!(text.len() <= max_bytes, "{} bytes of result", text.len());
    assert!(
        lines(text.as_bytes()) <= max_lines,
        "{} lines of result",
        lines(text.as_bytes())
    );
    assert_eq!(number("total_size"), bytes.len());
    assert_eq!(number("total_lines"), lines(bytes));
    assert_eq!(stream["complete"], true);
    assert_eq!(stream["dropped_bytes"], 0);
    assert_eq!(stream["reason"], Value::Null);
    assert_eq!(stream["truncated"], !stream["omitted"].is_null());
    if stream["saved"] == true {
        check_file(stream, bytes);
    } else {
        assert_eq!(
            (&stream["file_path"], &stream["output"], &stream["digest"]),
            (&Value::Null, &Value::Null, &Value::Null)
        );
        assert_eq!(
            (text.as_bytes(), &stream["truncated"]),
            (bytes, &Value::Bool(false))
        );
    }
    if stream["truncated"] == true && stream["view"] == "text" {
        check_ends(stream, text.as_bytes(), bytes);
    }
}

/// Head is a prefix, tail a suffix, and with what is omitted they are the whole.
#[track_caller]
fn check_ends(stream: &Value, text: &[u8], bytes: &[u8]) {
    let omitted = &stream["omitted"];
    let number =
        |field: &str| usize::try_from(omitted[field].as_u64().expect(field)).expect("small");
    let (head, gone) = (number("offset"), number("bytes"));
    let tail = bytes.len() - head - gone;
    let lossy = stream["lossy"] == true;
    assert!(
        lossy || text.starts_with(&bytes[..head]),
        "the head is not a prefix"
    );
    assert!(
        lossy || text.ends_with(&bytes[bytes.len() - tail..]),
        "the tail is not a suffix"
    );
    let line_of = |offset: usize| bytes[..offset].split(|b| *b == b'\n').count();
    assert_eq!(number("from_line"), line_of(head));
    assert_eq!(number("to_line"), line_of(head + gone - 1));
}

#[track_caller]
fn check_file(stream: &Value, bytes: &[u8]) {
    let path = Path::new(stream["file_path"].as_str().expect("file_path"));
    assert!(path.is_absolute(), "{}", path.display());
    assert!(
        std::fs::read(path).expect("the file is there") == bytes,
        "the file is not byte-exact"
    );
    let digest = format!("blake3:{}", blake3::hash(bytes).to_hex());
    assert_eq!(stream["digest"], digest);
}

pub(crate) fn lines(bytes: &[u8]) -> usize {
    bytes.split_inclusive(|b| *b == b'\n').count()
}

pub(crate) fn seq(from: u32, to: u32) -> Vec<u8> {
    (from..=to)
        .flat_map(|n| format!("{n}\n").into_bytes())
        .collect()
}

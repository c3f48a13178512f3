//! The cases of `tests/cases/outputs.jsonl`: one JSON object a line, each an input, an operation and
//! what is expected of it. An expectation that is not a field of the answer is a predicate.

use crate::pages::{index, read};
use crate::shell;
use serde_json::{Map, Value};
use willcall_outputs::limits::{Limits, Strategy};
use willcall_outputs::page::Page;

const CASES: &str = include_str!("../cases/outputs.jsonl");

struct Case {
    name: String,
    chunks: Vec<Vec<u8>>,
    fields: Map<String, Value>,
    expect: Map<String, Value>,
}

impl Case {
    fn parse(line: &str) -> Self {
        let Value::Object(mut fields) = serde_json::from_str(line).expect("a case is JSON") else {
            panic!("a case is an object: {line}")
        };
        let Some(Value::Object(expect)) = fields.remove("expect") else {
            panic!("{line}")
        };
        let input = fields.remove("input").expect("a case has an input");
        let chunks = match &input["chunks"] {
            Value::Array(chunks) => chunks.iter().map(bytes).collect(),
            _ => vec![bytes(&input)],
        };
        Self {
            name: fields["name"].as_str().expect("a name").to_owned(),
            chunks,
            fields,
            expect,
        }
    }

    fn stream(&self) -> Vec<u8> {
        self.chunks.concat()
    }

    fn number(&self, field: &str) -> u64 {
        self.fields[field]
            .as_u64()
            .unwrap_or_else(|| panic!("{}: {field}", self.name))
    }

    fn run(&self) {
        match self.fields["op"].as_str() {
            Some("preview") => self.preview(),
            Some("page") => {
                let page = read(
                    &self.stream(),
                    self.number("offset"),
                    self.number("limit"),
                    true,
                );
                self.check(&to_object(&page), |name, expected| {
                    (name == "content_len").then(|| page.content.len() as u64 == *expected)
                });
            }
            Some("walk") => self.walk(),
            op => panic!("{}: unknown operation {op:?}", self.name),
        }
    }

    /// Every expectation is a field of the answer or a predicate that holds.
    fn check(&self, answer: &Map<String, Value>, predicate: impl Fn(&str, &Value) -> Option<bool>) {
        for (name, expected) in &self.expect {
            let held = match (answer.get(name), predicate(name, expected)) {
                (Some(value), None) => value == expected,
                (None, Some(held)) => held,
                _ => panic!("{}: unknown expectation {name}", self.name),
            };
            assert!(
                held,
                "{}: {name} is not {expected} in {answer:?}",
                self.name
            );
        }
    }

    fn preview(&self) {
        let number = |field| u32::try_from(self.number(field)).expect("a limit");
        let limits = Limits::new(number("max_bytes"), number("max_lines")).expect("limits");
        let strategy = self.fields.get("strategy").cloned();
        let strategy = strategy.map_or(Strategy::HeadTail, |name| {
            serde_json::from_value(name).expect("a strategy")
        });
        let chunks: Vec<&[u8]> = self.chunks.iter().map(Vec::as_slice).collect();
        let receipt = shell::receipt(&chunks, limits, strategy);
        let stream = self.stream();
        let (head, tail) = receipt.omitted.map_or((stream.len(), 0), |omitted| {
            (index(omitted.offset), index(omitted.offset + omitted.bytes))
        });
        let shown = |part: &[u8]| String::from_utf8_lossy(part).into_owned();
        let cuts_crlf = |at: usize| at > 0 && stream.get(at - 1..=at) == Some(b"\r\n");
        self.check(&to_object(&receipt), |name, expected| {
            let text = expected.as_str().unwrap_or_default();
            let number = expected.as_u64().map_or(0, index);
            Some(match name {
                "head_starts" => receipt.result.starts_with(text),
                "tail_ends" => receipt.result.ends_with(text),
                "head_is_prefix" => receipt.result.starts_with(&shown(&stream[..head])),
                "tail_is_suffix" => receipt.result.ends_with(&shown(&stream[tail..])),
                "result_max_bytes" => receipt.result.len() <= number,
                "result_max_lines" => receipt.result.split_inclusive('\n').count() <= number,
                "result_nonempty" => !receipt.result.is_empty(),
                "no_nul" => !receipt.result.contains('\0'),
                "no_lone_cr_at_cut" => !cuts_crlf(head) && !cuts_crlf(tail),
                _ => return None,
            })
        });
    }

    fn walk(&self) {
        let (stream, limit) = (self.stream(), self.number("limit"));
        let (mut pages, mut next): (Vec<Page>, _) = (Vec::new(), Some(0));
        while let Some(offset) = next {
            let page = read(&stream, offset, limit, true);
            assert!(
                page.next.is_none_or(|next| next > offset),
                "{}: no progress",
                self.name
            );
            next = page.next;
            pages.push(page);
        }
        let offsets: Vec<u64> = pages.iter().map(|page| page.offset).collect();
        let ends = pages.iter().map(|page| page.next.unwrap_or(page.total));
        let joined = offsets
            .iter()
            .skip(1)
            .copied()
            .chain([stream.len() as u64])
            .eq(ends);
        let text: String = pages.iter().map(|page| page.content.as_str()).collect();
        self.check(&Map::new(), |name, expected| match name {
            "offsets" => Some(*expected == Value::from(offsets.clone())),
            "reassembles" => Some(text == String::from_utf8_lossy(&stream)),
            "covers_every_byte" | "progress" => Some(joined && offsets.first() == Some(&0)),
            _ => None,
        });
    }
}

fn to_object(answer: &impl serde::Serialize) -> Map<String, Value> {
    match serde_json::to_value(answer) {
        Ok(Value::Object(fields)) => fields,
        other => panic!("an answer is an object: {other:?}"),
    }
}

fn bytes(input: &Value) -> Vec<u8> {
    let Some((kind, value)) = input.as_object().and_then(|fields| {
        fields
            .iter()
            .find(|(kind, _)| kind.as_str() != "final_newline")
    }) else {
        panic!("no input: {input}")
    };
    let text = |value: &Value| value.as_str().expect("a string").to_owned();
    let number = |value: &Value| index(value.as_u64().expect("a number"));
    match kind.as_str() {
        "text" => text(value).into_bytes(),
        "hex" => hex(&text(value)),
        "repeat" => text(&value[0]).repeat(number(&value[1])).into_bytes(),
        "repeat_hex" => hex(&text(&value[0])).repeat(number(&value[1])),
        "seq" => {
            let numbers = number(&value[0])..=number(&value[1]);
            let lines = numbers
                .map(|n| n.to_string())
                .collect::<Vec<_>>()
                .join("\n");
            let end = if input["final_newline"] == true {
                "\n"
            } else {
                ""
            };
            (lines + end).into_bytes()
        }
        "lines" => {
            let line = |n| formatted(&text(&value[0]), n) + "\n";
            (number(&value[1])..=number(&value[2]))
                .map(line)
                .collect::<String>()
                .into_bytes()
        }
        "concat" => value
            .as_array()
            .expect("an array")
            .iter()
            .flat_map(bytes)
            .collect(),
        kind => panic!("unknown input {kind}"),
    }
}

/// `%0Nd` in `format`, as printf has it.
fn formatted(format: &str, n: usize) -> String {
    let (before, rest) = format.split_once("%0").expect("a format with one number");
    let (width, after) = rest.split_once('d').expect("a format with one number");
    let width = width.parse().expect("a width");
    format!("{before}{n:0width$}{after}")
}

fn hex(text: &str) -> Vec<u8> {
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).expect("hex");
        u8::from_str_radix(pair, 16).expect("hex")
    };
    text.as_bytes().chunks(2).map(byte).collect()
}

#[test]
fn every_case_holds() {
    let cases: Vec<Case> = CASES.lines().map(Case::parse).collect();
    assert!(cases.len() > 40, "the file has cases");
    cases.iter().for_each(Case::run);
}

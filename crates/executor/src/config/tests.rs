use super::keys::Key;
use super::*;
use std::fmt::Write as _;
use willcall_outputs::limits::{CEILING_MAX_BYTES, Limits};

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(Path::new("/etc/x.toml"), text)
}

#[track_caller]
fn check(text: &str, expected: &str) {
    let refused = parse(text).expect_err(text);
    assert_eq!(refused.to_string(), format!("/etc/x.toml, {expected}"));
}

#[test]
fn a_file_that_says_nothing_is_the_default() {
    for text in ["", "# nothing\n", "[outputs]\n"] {
        assert_eq!(parse(text).expect("sound"), Config::default(), "{text:?}");
    }
    let mut all = String::from("[outputs]\n");
    for key in Key::ALL {
        let row = key.row();
        assert!(
            (row.least..=row.most).contains(&row.default),
            "{}",
            row.name
        );
        writeln!(all, "{} = {}", row.name, row.default).expect("a string");
    }
    assert_eq!(parse(&all).expect("sound"), Config::default());
}

#[test]
fn every_key_reaches_its_value() {
    let config = parse(
        "[outputs]\ndefault_max_bytes = 1_000\ndefault_max_lines = 20\nceiling_max_bytes = 0x1000\n\
         page_max_bytes = 2000\npage_max_lines = 30\nmax_run_bytes = 5_000\nbackground_max_bytes = 6_000\n\
         digest_at_seal_bytes = 0\nretention_days = 2\nquota_bytes = 7_000\nquota_count = 8\n\
         turn_budget_bytes = 9_000\n",
    );
    let default = Limits::new(1000, 20).expect("sound");
    let expected = Outputs {
        previews: LimitRange::new(default, 4096).expect("sound"),
        pages: PageCaps::new(2000, 30).expect("sound"),
        max_run_bytes: 5000,
        background_cap: 6000,
        digest_at_seal: 0,
        retention: Retention {
            keep_ms: 2 * 86_400_000,
            max_bytes: 7000,
            max_count: 8,
            ..Retention::default()
        },
        turn_budget: 9000,
    };
    assert_eq!(config.expect("sound").outputs, expected);
}

#[test]
fn what_nobody_knows_is_refused_with_its_line_and_what_there_is() {
    check(
        "\n[output]\n",
        "line 2: unknown section or key \"output\"; there is [outputs]",
    );
    check(
        "retention_days = 3\n",
        "line 1: unknown section or key \"retention_days\"; there is [outputs]",
    );
    check(
        "outputs = 3\n",
        "line 1: outputs is an integer; it has to be a section, [outputs]",
    );
    let names: Vec<_> = Key::ALL.iter().map(|key| key.row().name).collect();
    check(
        "[outputs]\nquota_count = 1\n\n  retention_day = 3\n",
        &format!(
            "line 4: unknown key \"retention_day\" in [outputs]; the keys are {}",
            names.join(", ")
        ),
    );
}

#[test]
fn what_is_no_such_number_is_refused_with_its_line_and_what_is_allowed() {
    check(
        "[outputs]\n# days\nretention_days = \"7\"\n",
        "line 3: retention_days is a string; it has to be a whole number from 1 to 3650",
    );
    check(
        "[outputs]\nretention_days = 7.5\n",
        "line 2: retention_days is a float; it has to be a whole number from 1 to 3650",
    );
    check(
        "[outputs]\nretention_days = 0\n",
        "line 2: retention_days is 0; it has to be a whole number from 1 to 3650",
    );
    check(
        "[outputs]\nquota_bytes = -1\n",
        "line 2: quota_bytes is -1; it has to be a whole number of at least 1",
    );
    check(
        "[outputs]\npage_max_bytes = 262145\n",
        "line 2: page_max_bytes is 262145; it has to be a whole number from 1 to 262144",
    );
    check(
        "[outputs]\nquota_bytes = 99999999999999999999\n",
        "line 2: quota_bytes is 99999999999999999999; it has to be a whole number of at least 1",
    );
}

#[test]
fn values_that_contradict_each_other_are_refused_by_name() {
    check(
        "[outputs]\nceiling_max_bytes = 500\n\ndefault_max_bytes = 501\n",
        "line 4: default_max_bytes is 501, which is more than ceiling_max_bytes, 500",
    );
    check(
        "[outputs]\n\nceiling_max_bytes = 500\n",
        "line 3: default_max_bytes is 102400 (its default), which is more than ceiling_max_bytes, 500",
    );
    check(
        "[outputs]\nmax_run_bytes = 20_000_000_000\n",
        "line 2: max_run_bytes is 20000000000, which is more than quota_bytes, 10737418240 (its default)",
    );
    check(
        "[outputs]\nmax_run_bytes = 10\nquota_bytes = 1000\n",
        "line 3: background_max_bytes is 52428800 (its default), which is more than quota_bytes, 1000",
    );
}

#[test]
fn what_is_no_toml_is_refused_with_its_line() {
    for (text, line) in [
        ("[outputs]\nquota_count = \n", 2),
        ("[outputs]\nquota_count = 1\nquota_count = 2\n", 3),
        ("[outputs\n", 1),
        ("[outputs]\n[outputs]\n", 2),
    ] {
        let refused = parse(text).expect_err(text);
        assert!(
            matches!(&refused, ConfigError::Wrong { line: found, what, .. } if *found == line && !what.contains('\n')),
            "{text:?}: {refused}"
        );
    }
}

#[test]
fn a_file_that_is_named_has_to_be_there() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("config.toml");
    let missing = Config::load(Some(&path)).expect_err("missing");
    assert!(matches!(missing, ConfigError::Read { .. }));
    std::fs::write(&path, "[outputs]\nceiling_max_bytes = 200000\n").expect("written");
    let config = Config::load(Some(&path)).expect("sound");
    assert_eq!(config.outputs.previews.ceiling(), 200_000);
    std::fs::write(&path, b"\xff").expect("written");
    assert!(matches!(
        Config::load(Some(&path)),
        Err(ConfigError::Read { .. })
    ));
    let long = "#".repeat(usize::try_from(MAX_FILE).expect("small") + 1);
    std::fs::write(&path, long).expect("written");
    assert!(matches!(
        Config::load(Some(&path)),
        Err(ConfigError::TooLong { .. })
    ));
}

#[test]
fn limits_are_resolved_within_their_range() {
    let default = Limits::new(100, 5).expect("sound");
    let range = LimitRange::new(default, 1000).expect("sound");
    assert_eq!(range.resolve(None, None), Ok(default));
    assert_eq!(
        range.resolve(Some(1000), Some(u64::MAX)),
        Limits::new(1000, u32::MAX)
    );
    assert!(range.resolve(Some(1001), None).is_err());
    assert!(range.resolve(Some(u64::MAX), None).is_err());
    assert!(range.resolve(Some(0), None).is_err() && range.resolve(None, Some(0)).is_err());
    assert!(LimitRange::new(default, 99).is_err());
    assert!(LimitRange::new(default, CEILING_MAX_BYTES + 1).is_err());
}

/// The page about the configuration says of every key what it is, and its default.
#[test]
fn every_key_is_documented_with_its_default() {
    let page = include_str!("../../../../docs/CONFIG.md");
    for key in Key::ALL {
        let row = key.row();
        let line = page
            .lines()
            .find(|line| line.starts_with(&format!("| `{}` |", row.name)))
            .unwrap_or_else(|| panic!("{} is not documented", row.name));
        let digits = line.replace(',', "");
        assert!(digits.contains(&format!("| {} |", row.default)), "{line}");
    }
}

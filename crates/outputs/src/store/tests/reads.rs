//! Reads: what comes back, and why something does not.

use super::*;
use crate::limits::LimitError;
use crate::record::RecordError;

#[test]
fn an_output_without_a_record_is_running() {
    let fixture = Fixture::new();
    let key = fixture.hold("s", 1, b"so far", false);
    let page = fixture
        .store
        .read(&key, 3, 100, Encoding::Utf8)
        .expect("a page");
    assert_eq!(
        (page.content.as_str(), page.next, page.truncated),
        ("far", Some(6), false)
    );
}

#[test]
fn a_read_that_fails_names_its_cause() {
    let fixture = Fixture::new();
    let key = fixture.hold("mine", 1, b"held", true);
    let unknown = |session| super::key(session, 9);
    assert!(matches!(
        fixture.read(&unknown("mine")),
        Err(ReadError::NotFound(_))
    ));
    assert!(matches!(
        fixture.read(&unknown("new")),
        Err(ReadError::NotFound(_))
    ));
    let stderr = OutputKey {
        stream: Stream::Stderr,
        ..key.clone()
    };
    assert!(matches!(fixture.read(&stderr), Err(ReadError::NotFound(_))));
    let zero = fixture.store.read(&key, 0, 0, Encoding::Utf8);
    assert!(matches!(
        zero,
        Err(ReadError::Limit(LimitError::Zero { name: "limit" }))
    ));

    File::options()
        .append(true)
        .open(fixture.path(&key))
        .expect("ours")
        .write_all(b"!")
        .expect("ok");
    let damaged = fixture.read(&key);
    assert!(matches!(
        damaged,
        Err(ReadError::Damaged {
            recorded: 4,
            found: 5,
            ..
        })
    ));
    fs::remove_file(fixture.path(&key)).expect("ours");
    assert!(matches!(fixture.read(&key), Err(ReadError::Missing(_))));
}

#[test]
fn another_sessions_output_is_denied_even_to_who_guesses_its_id() {
    let fixture = Fixture::new();
    let theirs = fixture.hold("theirs", 1, b"secret", true);
    let running = fixture.hold("theirs", 2, b"secret", false);
    fixture.hold("mine", 3, b"mine", true);
    for theirs in [theirs, running] {
        for session in ["mine", "new"] {
            let guessed = OutputKey {
                session: session.into(),
                ..theirs.clone()
            };
            assert!(matches!(
                fixture.read(&guessed),
                Err(ReadError::AccessDenied(_))
            ));
        }
        assert_eq!(fixture.read(&theirs).expect("its own"), "secret");
    }
}

#[test]
fn what_is_no_regular_file_is_no_output() {
    let fixture = Fixture::new();
    let held = fixture.hold("s", 1, b"held", true);
    let secret = fixture.workspace.path().join("secret");
    fs::write(&secret, b"secret").expect("a file");
    let (link, directory, fifo) = (key("s", 2), key("s", 3), key("s", 4));
    symlink(&secret, fixture.path(&link)).expect("a link");
    fs::create_dir(fixture.path(&directory)).expect("a directory");
    nix::unistd::mkfifo(&fixture.path(&fifo), Mode::S_IRUSR).expect("a fifo");
    for key in [link, directory, fifo] {
        assert!(
            matches!(fixture.read(&key), Err(ReadError::NotAnOutput(_))),
            "{key}"
        );
    }
    assert_eq!(fixture.read(&held).expect("held"), "held");
}

#[test]
fn a_record_that_cannot_be_used_is_named() {
    let fixture = Fixture::new();
    let key = fixture.hold("s", 1, b"held", true);
    let path = fixture
        .store
        .root()
        .join("s")
        .join(Record::file_name(key.run));
    fs::write(&path, br#"{"version": 7}"#).expect("ours");
    let refused = fixture.read(&key);
    assert!(matches!(
        refused,
        Err(ReadError::Record {
            source: RecordError::Version { found: 7 },
            ..
        })
    ));
    let misplaced = record(&super::key("other", 1), 4, None)
        .to_json()
        .expect("JSON");
    fs::write(&path, misplaced).expect("ours");
    let refused = fixture.read(&key);
    assert!(matches!(
        refused,
        Err(ReadError::Record {
            source: RecordError::Misplaced { .. },
            ..
        })
    ));
}

#[test]
fn paths_are_resolved_to_outputs_of_the_session_only() {
    let fixture = Fixture::new();
    let mine = fixture.hold("mine", 1, b"mine", true);
    let theirs = fixture.hold("theirs", 2, b"theirs", true);
    let resolve = |path: &Path| fixture.store.resolve("mine", path);
    assert_eq!(resolve(&fixture.path(&mine)).expect("mine"), mine);
    assert!(matches!(
        resolve(&fixture.path(&theirs)),
        Err(ReadError::AccessDenied(_))
    ));
    assert!(matches!(
        resolve(&fixture.path(&key("mine", 9))),
        Err(ReadError::NotFound(_))
    ));

    let root = fixture.store.root();
    let name = mine.stream.file_name(mine.run);
    let record = root.join("mine").join(Record::file_name(mine.run));
    let dotted = root.join("theirs/../mine").join(&name);
    let not_outputs = [
        record,
        dotted,
        root.join(LOCK),
        root.to_owned(),
        PathBuf::from("/etc/shadow"),
        PathBuf::from("mine").join(&name),
        root.join("mine").join(name.to_uppercase()),
        fixture.workspace.path().join("mine").join(&name),
    ];
    for path in not_outputs {
        assert!(
            matches!(resolve(&path), Err(ReadError::NotAnOutput(_))),
            "{}",
            path.display()
        );
    }
}

#[test]
fn links_lead_to_nothing_that_is_not_ours() {
    let fixture = Fixture::new();
    let theirs = fixture.hold("theirs", 2, b"theirs", true);
    let mine = fixture.hold("mine", 1, b"mine", true);
    let planted = fixture.path(&key("mine", 7));
    symlink(fixture.path(&theirs), &planted).expect("a link");
    let refused = fixture.store.resolve("mine", &planted);
    assert!(matches!(refused, Err(ReadError::NotAnOutput(_))));
    // The workspace under another name is the same directory, and its sessions are the same.
    let alias = tempfile::tempdir().expect("a temporary directory");
    let alias = alias.path().join("alias");
    symlink(fixture.store.root(), &alias).expect("a link");
    let aliased = |key: &OutputKey| alias.join(&key.session).join(key.stream.file_name(key.run));
    assert_eq!(
        fixture
            .store
            .resolve("mine", &aliased(&mine))
            .expect("mine"),
        mine
    );
    let refused = fixture.store.resolve("mine", &aliased(&theirs));
    assert!(matches!(refused, Err(ReadError::AccessDenied(_))));
}

/// Sparse, so that it costs no disk; read from its far end, so that it costs no memory.
#[test]
fn a_page_of_a_huge_output_is_as_cheap_as_any() {
    const SIZE: u64 = 5 << 30;
    let fixture = Fixture::new();
    let key = fixture.hold("s", 1, b"", false);
    let file = File::options()
        .write(true)
        .open(fixture.path(&key))
        .expect("ours");
    file.set_len(SIZE).expect("sparse files");
    std::os::unix::fs::FileExt::write_all_at(&file, b"end\n", SIZE - 4).expect("written");
    fixture
        .store
        .write_record(&record(&key, SIZE, None))
        .expect("a record");
    let page = fixture
        .store
        .read(&key, SIZE - 4, 100, Encoding::Utf8)
        .expect("a page");
    assert_eq!(
        (page.content.as_str(), page.next, page.total),
        ("end\n", None, SIZE)
    );
    let base64 = fixture
        .store
        .read(&key, SIZE / 2, u64::MAX, Encoding::Base64)
        .expect("a page");
    assert_eq!(base64.next, Some(SIZE / 2 + 76_800));
}

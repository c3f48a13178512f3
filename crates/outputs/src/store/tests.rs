use super::*;
use crate::capture::Loss;
use crate::limits::DIGEST_AT_SEAL;
use crate::page::Encoding;
use crate::record::{RECORD_VERSION, StoredStream};
use nix::sys::stat::{fstat, umask};
use nix::unistd::{Gid, Uid, chown, geteuid};
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use tempfile::TempDir;

mod lines;
mod model;
mod parcel_reads;
mod parcels;
mod reads;
mod sweeps;
mod verify;

/// A workspace that goes when the test ends, and a store in it.
struct Fixture {
    workspace: TempDir,
    store: Store,
}

impl Fixture {
    fn new() -> Self {
        let workspace = tempfile::tempdir().expect("a temporary directory");
        let store = Store::open(workspace.path()).expect("a new store");
        Self { workspace, store }
    }

    /// Writes an output as a runner does, and its record if it is `finished`.
    fn hold(&self, session: &str, run: u128, bytes: &[u8], finished: bool) -> OutputKey {
        let key = key(session, run);
        let dir = self
            .store
            .session_dir(session)
            .expect("a session's directory");
        let mut file = OutputFile::create(dir.as_fd(), key.run, key.stream).expect("a new file");
        let (first, second) = bytes.split_at(bytes.len() / 2);
        assert_eq!(file.append([first, second]), Ok(bytes.len()));
        let digest = file.seal(DIGEST_AT_SEAL).expect("a readable file");
        if finished {
            self.store
                .write_record(&record(&key, bytes.len() as u64, digest))
                .expect("a record");
        }
        key
    }

    fn read(&self, key: &OutputKey) -> Result<String, ReadError> {
        self.store
            .read(key, 0, 100, Encoding::Utf8)
            .map(|page| page.content)
    }

    fn path(&self, key: &OutputKey) -> PathBuf {
        self.store.path_of(key)
    }
}

fn key(session: &str, run: u128) -> OutputKey {
    OutputKey {
        session: session.into(),
        run: Uuid::from_u128(run),
        stream: Stream::Stdout,
    }
}

fn record(key: &OutputKey, stored: u64, digest: Option<String>) -> Record {
    let stream = StoredStream {
        stored,
        total_size: stored,
        total_lines: 1,
        digest,
        complete: true,
        dropped_bytes: 0,
        mime: crate::media::TEXT.into(),
    };
    Record {
        version: RECORD_VERSION,
        run: key.run,
        session: key.session.clone(),
        state: "exited".into(),
        created_ms: 1,
        finished_ms: 2,
        streams: BTreeMap::from([(key.stream, stream)]),
    }
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("it is there").mode() & 0o7777
}

/// Needs to be root, or a member of several groups, to have a group to give.
#[test]
fn everything_is_of_the_group_that_may_read_it() {
    let ours = nix::unistd::getegid();
    let groups = nix::unistd::getgroups().expect("our groups");
    let other = groups.into_iter().find(|gid| *gid != ours);
    let Some(gid) = other.or_else(|| geteuid().is_root().then(|| Gid::from_raw(4))) else {
        eprintln!("SKIPPED: this user has no second group to give");
        return;
    };
    let workspace = tempfile::tempdir().expect("a temporary directory");
    // Made before there was such a group.
    drop(Store::open_for(workspace.path(), None).expect("a new store"));
    let store = Store::open_for(workspace.path(), Some(gid)).expect("the store");
    let fixture = Fixture { workspace, store };
    let key = fixture.hold("s", 1, b"x", true);
    let parcel = fixture.store.store_parcel("s", b"y", 1).expect("stored");
    let root = fixture.store.root();
    let record = root.join("s").join(Record::file_name(key.run));
    for (path, expected) in [
        (root, 0o2750),
        (&root.join("s"), 0o2750),
        (&fixture.path(&key), 0o640),
        (&record, 0o640),
        (&parcel.path, 0o640),
    ] {
        let group = fs::symlink_metadata(path).expect("it is there").gid();
        assert_eq!(
            (group, mode(path)),
            (gid.as_raw(), expected),
            "{}",
            path.display()
        );
    }
}

#[test]
fn what_was_held_is_read_back() {
    let fixture = Fixture::new();
    let key = fixture.hold("s", 1, b"held\n", true);
    let page = fixture
        .store
        .read(&key, 1, 2, Encoding::Utf8)
        .expect("a page");
    assert_eq!(
        (page.content.as_str(), page.next, page.total),
        ("el", Some(3), 5)
    );
    let record = fixture
        .store
        .record("s", key.run)
        .expect("readable")
        .expect("written");
    let digest = record.streams[&Stream::Stdout]
        .digest
        .clone()
        .expect("small enough");
    assert_eq!(digest, crate::digest::of(&b"held\n"[..]).expect("a slice"));
}

#[test]
fn modes_do_not_depend_on_the_umask() {
    let before = umask(Mode::from_bits_truncate(0o077));
    let fixture = Fixture::new();
    let key = fixture.hold("s", 1, b"x", true);
    umask(before);
    let root = fixture.store.root();
    let file = fixture.path(&key);
    assert_eq!((mode(root), mode(&root.join("s"))), (0o2750, 0o2750));
    assert_eq!(
        (
            mode(&file),
            mode(&root.join("s").join(Record::file_name(key.run)))
        ),
        (0o640, 0o640)
    );
}

#[test]
fn two_stores_never_share_a_directory() {
    let fixture = Fixture::new();
    let again = Store::open(fixture.workspace.path());
    assert!(matches!(again, Err(StoreError::InUse(path)) if path == fixture.store.root()));
    let Fixture { workspace, store } = fixture;
    drop(store);
    Store::open(workspace.path()).expect("the lock went with the store");
}

#[test]
fn a_missing_workspace_is_made_passable() {
    let parent = tempfile::tempdir().expect("a temporary directory");
    let workspace = parent.path().join("a/b");
    let store = Store::open(&workspace).expect("made");
    assert!(store.root().is_absolute() && store.root().ends_with("a/b/.outputs"));
    assert_eq!(
        mode(&workspace) & 0o011,
        mode(&parent.path().join("a")) & 0o011
    );
}

#[track_caller]
fn check_unsafe(prepare: impl FnOnce(&Path), expected: impl FnOnce(&Distrust) -> bool) {
    let workspace = tempfile::tempdir().expect("a temporary directory");
    prepare(&workspace.path().join(DIRECTORY));
    match Store::open(workspace.path()) {
        Err(StoreError::Unsafe { path, why }) => {
            assert!(path.ends_with(DIRECTORY) && expected(&why), "{why}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_directory_that_others_control_is_refused_by_name() {
    let elsewhere = tempfile::tempdir().expect("a temporary directory");
    check_unsafe(
        |path| symlink(elsewhere.path(), path).expect("a link"),
        |why| *why == Distrust::Link,
    );
    check_unsafe(
        |path| fs::write(path, b"").expect("a file"),
        |why| *why == Distrust::NotADirectory,
    );
    for bits in [0o770, 0o707] {
        check_unsafe(
            |path| {
                fs::create_dir(path).expect("a directory");
                fs::set_permissions(path, Permissions::from_mode(bits)).expect("ours");
            },
            |why| *why == Distrust::Writable { mode: bits },
        );
    }
    if geteuid().is_root() {
        check_unsafe(
            |path| {
                fs::create_dir(path).expect("a directory");
                chown(path, Some(Uid::from_raw(4321)), None).expect("we are root");
            },
            |why| *why == Distrust::Owner { owner: 4321, us: 0 },
        );
    }
}

#[test]
fn a_directory_that_others_may_read_is_closed() {
    let workspace = tempfile::tempdir().expect("a temporary directory");
    let path = workspace.path().join(DIRECTORY);
    fs::create_dir(&path).expect("a directory");
    fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("ours");
    let _store = Store::open(workspace.path()).expect("ours alone to write");
    assert_eq!(mode(&path), 0o2750);
}

#[test]
fn a_session_that_is_a_link_is_refused() {
    let fixture = Fixture::new();
    let elsewhere = tempfile::tempdir().expect("a temporary directory");
    symlink(elsewhere.path(), fixture.store.root().join("s")).expect("a link");
    let refused = fixture.store.session_dir("s").expect_err("a link");
    assert!(matches!(
        refused,
        StoreError::Unsafe {
            why: Distrust::Link,
            ..
        }
    ));
    assert_eq!(refused.loss(), Loss::UnsafeDirectory);
    assert!(matches!(
        fixture.read(&key("s", 1)),
        Err(ReadError::NotAnOutput(_))
    ));
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "it is what somebody does here who should not"
)]
fn a_store_that_somebody_removed_is_made_again_and_locked() {
    let fixture = Fixture::new();
    let lost = fixture.hold("s", 1, b"lost", true);
    let root = fixture.store.root().to_owned();
    fs::remove_dir_all(&root).expect("removed");
    assert!(matches!(fixture.read(&lost), Err(ReadError::NotFound(_))));
    assert!(!fixture.store.was_renewed());
    let key = fixture.hold("s", 2, b"held", true);
    assert_eq!(fixture.read(&key).expect("held"), "held");
    assert!(fixture.store.was_renewed() && !fixture.store.was_renewed());
    assert_eq!(mode(&root), 0o2750);
    let second = Store::open(fixture.workspace.path());
    assert!(matches!(second, Err(StoreError::InUse(_))));
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "it is what somebody does here who should not"
)]
fn a_removed_store_is_not_made_again_where_another_store_has_taken_its_place() {
    let fixture = Fixture::new();
    fs::remove_dir_all(fixture.store.root()).expect("removed");
    let _other = Store::open(fixture.workspace.path()).expect("nobody's");
    let refused = fixture.store.session_dir("s");
    assert!(matches!(refused, Err(StoreError::InUse(_))));
    assert!(!fixture.store.was_renewed());
}

#[test]
fn session_names_are_directory_names_and_no_more() {
    let fixture = Fixture::new();
    let long = "x".repeat(65);
    for name in [
        "",
        ".",
        "..",
        "a/b",
        "a b",
        ".lock",
        "é",
        "a\n",
        long.as_str(),
    ] {
        assert!(
            matches!(fixture.store.session_dir(name), Err(StoreError::Session(_))),
            "{name}"
        );
        assert!(
            matches!(fixture.read(&key(name, 1)), Err(ReadError::Session(_))),
            "{name}"
        );
    }
    assert!(check_session(&long[1..]).is_ok() && check_session("A-z_0").is_ok());
}

#[test]
fn a_file_is_created_once_and_never_through_a_link() {
    let fixture = Fixture::new();
    let key = fixture.hold("s", 1, b"first", true);
    let dir = fixture
        .store
        .session_dir("s")
        .expect("a session's directory");
    let create = |run| OutputFile::create(dir.as_fd(), Uuid::from_u128(run), Stream::Stdout);
    assert!(matches!(create(1), Err(Loss::NameTaken)));
    let target = fixture.workspace.path().join("target");
    symlink(
        &target,
        fixture.path(&OutputKey {
            run: Uuid::from_u128(2),
            ..key.clone()
        }),
    )
    .expect("a link");
    assert!(matches!(create(2), Err(Loss::NameTaken)));
    assert!(!target.exists());
    assert_eq!(fixture.read(&key).expect("untouched"), "first");
}

#[test]
fn a_file_is_locked_while_it_is_written() {
    let fixture = Fixture::new();
    let dir = fixture
        .store
        .session_dir("s")
        .expect("a session's directory");
    let key = key("s", 1);
    let file = OutputFile::create(dir.as_fd(), key.run, key.stream).expect("a new file");
    let sweeper = File::open(fixture.path(&key)).expect("there");
    assert!(matches!(sweeper.try_lock(), Err(TryLockError::WouldBlock)));
    file.seal(DIGEST_AT_SEAL).expect("readable");
    sweeper.try_lock().expect("nobody writes it any more");
}

#[test]
fn a_file_belongs_to_the_owner_of_its_directory() {
    if !geteuid().is_root() {
        return;
    }
    let parent = tempfile::tempdir().expect("a temporary directory");
    chown(
        parent.path(),
        Some(Uid::from_raw(4321)),
        Some(Gid::from_raw(4322)),
    )
    .expect("root");
    let dir = File::open(parent.path()).expect("there");
    let file = OutputFile::create(dir.as_fd(), Uuid::nil(), Stream::Stderr).expect("a new file");
    let stat = fs::metadata(parent.path().join(Stream::Stderr.file_name(Uuid::nil())));
    let stat = stat.expect("there");
    assert_eq!(
        (stat.uid(), stat.gid(), stat.mode() & 0o7777),
        (4321, 4322, 0o640)
    );
    file.remove().expect("removed");
    assert_eq!(fs::read_dir(parent.path()).expect("there").count(), 0);
}

#[test]
fn a_directory_that_is_gone_takes_no_file() {
    let parent = tempfile::tempdir().expect("a temporary directory");
    let path = parent.path().join("gone");
    fs::create_dir(&path).expect("a directory");
    let dir = File::open(&path).expect("there");
    fs::remove_dir(&path).expect("empty");
    let refused = OutputFile::create(dir.as_fd(), Uuid::nil(), Stream::Stdout);
    assert!(matches!(refused, Err(Loss::NoDirectory)));
}

#[test]
fn a_record_is_written_again_without_harm() {
    let fixture = Fixture::new();
    let key = fixture.hold("s", 1, b"held", true);
    let leftover = format!(".{}.tmp", Record::file_name(key.run));
    fs::write(fixture.store.root().join("s").join(leftover), b"half").expect("a crash's rest");
    fixture
        .store
        .write_record(&record(&key, 4, None))
        .expect("the same again");
    let names = fs::read_dir(fixture.store.root().join("s"))
        .expect("there")
        .count();
    assert_eq!(
        (names, fixture.read(&key).expect("held").as_str()),
        (2, "held")
    );
}

#[test]
fn ids_come_back_as_they_were() {
    let key = key("s", 0x0198_c0de_0000_7000_8000_0000_0000_0001);
    assert_eq!(OutputKey::parse("s", &key.to_string()), Some(key.clone()));
    let upper = key.to_string().to_uppercase();
    for id in [
        "",
        "x",
        "a/b",
        "../stdout",
        upper.as_str(),
        &format!("{{{}}}/stdout", key.run),
    ] {
        assert_eq!(OutputKey::parse("s", id), None, "{id}");
    }
}

#[test]
fn errors_carry_what_the_system_said() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let refused = Store::open(file.path());
    let Err(StoreError::Io { source, .. }) = refused else {
        panic!("{refused:?}")
    };
    assert_ne!(source.kind(), io::ErrorKind::Other);
    assert_eq!(fstat(file.as_file()).expect("there").st_size, 0);
}

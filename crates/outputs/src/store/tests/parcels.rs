//! Content-addressed parcels.

use super::*;
use std::sync::Barrier;

fn files(fixture: &Fixture, session: &str) -> usize {
    let dir = fixture.store.root().join(session);
    fs::read_dir(dir).expect("the session").count()
}

#[test]
fn the_same_bytes_are_one_file_however_often_they_are_stored() {
    let fixture = Fixture::new();
    let first = fixture.store.store_parcel("s", b"text", 1).expect("stored");
    let again = fixture.store.store_parcel("s", b"text", 2).expect("stored");
    let other = fixture
        .store
        .store_parcel("s", b"other", 3)
        .expect("stored");
    assert_eq!(first, again);
    assert_ne!(first, other);
    assert_eq!(
        first.digest,
        crate::digest::of(&b"text"[..]).expect("a slice")
    );
    let hex = first.digest.strip_prefix("blake3:").expect("its algorithm");
    assert!(first.path.ends_with(format!("s/{hex}.txt")));
    assert_eq!(fs::read(&first.path).expect("held"), b"text");
    assert_eq!((files(&fixture, "s"), mode(&first.path)), (4, 0o640));
}

#[test]
fn sessions_share_no_parcel() {
    let fixture = Fixture::new();
    let one = fixture
        .store
        .store_parcel("one", b"text", 1)
        .expect("stored");
    let two = fixture
        .store
        .store_parcel("two", b"text", 1)
        .expect("stored");
    assert_ne!(one.path, two.path);
}

#[test]
fn many_that_store_the_same_at_once_get_the_same() {
    let fixture = Fixture::new();
    let (bytes, barrier) = (vec![b'x'; 200_000], Barrier::new(8));
    let paths: Vec<_> = std::thread::scope(|scope| {
        let store = || {
            barrier.wait();
            fixture
                .store
                .store_parcel("s", &bytes, 1)
                .expect("stored")
                .path
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(store)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect()
    });
    assert!(paths.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(
        (fs::read(&paths[0]).expect("held"), files(&fixture, "s")),
        (bytes, 2)
    );
}

#[test]
fn a_parcel_that_was_spoilt_is_made_anew() {
    let fixture = Fixture::new();
    let path = fixture
        .store
        .store_parcel("s", b"text", 1)
        .expect("stored")
        .path;
    for spoilt in ["", "tex", "t.xt", "text and more"] {
        fs::write(&path, spoilt).expect("written");
        fixture.store.store_parcel("s", b"text", 1).expect("stored");
        assert_eq!(fs::read(&path).expect("held"), b"text", "{spoilt:?}");
    }
}

#[test]
fn a_link_in_its_place_is_replaced_and_not_followed() {
    let fixture = Fixture::new();
    let path = fixture
        .store
        .store_parcel("s", b"text", 1)
        .expect("stored")
        .path;
    let outside = fixture.workspace.path().join("outside");
    fs::write(&outside, "precious").expect("written");
    fs::remove_file(&path).expect("removed");
    symlink(&outside, &path).expect("linked");
    let temporary = path.with_file_name(format!(
        ".{}.tmp",
        path.file_name().expect("a name").to_str().expect("text")
    ));
    symlink(&outside, &temporary).expect("linked");
    fixture.store.store_parcel("s", b"text", 1).expect("stored");
    assert!(!path.is_symlink() && !temporary.is_symlink());
    assert_eq!(fs::read(&path).expect("held"), b"text");
    assert_eq!(fs::read(&outside).expect("there"), b"precious");
}

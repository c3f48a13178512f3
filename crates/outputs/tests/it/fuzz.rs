//! The properties of the fuzz targets, over their seeds and some thousand variations of them.

use std::path::Path;

#[path = "../../../../fuzz/properties/index.rs"]
mod index;
#[path = "../../../../fuzz/properties/page.rs"]
mod page;
#[path = "../../../../fuzz/properties/preview.rs"]
mod preview;
#[path = "../../../../fuzz/properties/record.rs"]
mod record;

#[path = "../../../../fuzz/properties/seeds.rs"]
mod seeds;

#[track_caller]
fn run(target: &str, check: fn(&[u8])) {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    assert!(seeds::run(&seeds.join(target), check) > 1000);
}

#[test]
fn preview_holds_over_its_seeds() {
    run("preview", preview::check);
}

#[test]
fn page_holds_over_its_seeds() {
    run("page", page::check);
}

#[test]
fn record_holds_over_its_seeds() {
    run("record", record::check);
}

#[test]
fn index_holds_over_its_seeds() {
    run("index", index::check);
}

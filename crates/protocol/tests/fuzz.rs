//! The property of the frame's fuzz target, over its seeds and some thousand variations of them.

use std::path::Path;

#[path = "../../../fuzz/properties/frame.rs"]
mod frame;
#[path = "../../../fuzz/properties/seeds.rs"]
mod seeds;

#[test]
fn frame_holds_over_its_seeds() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/frame");
    assert!(seeds::run(&seeds, frame::check) > 1000);
}

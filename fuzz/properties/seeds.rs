//! What a fuzzer does, as far as an ordinary test can: each seed, and variations of it that are the same every time.

use std::path::Path;

/// Variations of each seed.
const VARIATIONS: usize = 250;

/// Checks all seeds of a directory and their variations; returns how many inputs that were.
pub(crate) fn run(seeds: &Path, check: fn(&[u8])) -> usize {
    let listed = std::fs::read_dir(seeds).expect("seeds are in the repository");
    let mut paths: Vec<_> = listed.map(|entry| entry.expect("listed").path()).collect();
    paths.sort();
    let mut inputs = 0;
    for path in paths {
        let seed = std::fs::read(&path).expect("a seed");
        check(&seed);
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        for _ in 0..VARIATIONS {
            check(&varied(&seed, &mut random));
        }
        inputs += 1 + VARIATIONS;
    }
    inputs
}

/// The seed with up to four changes: a byte set, a bit turned, a piece left out, repeated, or the end cut off.
fn varied(seed: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=random.below(4) {
        if bytes.is_empty() {
            break;
        }
        let at = random.below(bytes.len());
        let end = at + random.below(bytes.len() - at + 1);
        match random.below(5) {
            0 => bytes[at] = [0, 1, b'\n', b'\r', 0x1b, 0x80, 0xff][random.below(7)],
            1 => bytes[at] ^= 1 << random.below(8),
            2 => drop(bytes.drain(at..end)),
            3 => {
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => bytes.truncate(at),
        }
    }
    bytes
}

/// xorshift64: the same everywhere, and enough here.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).expect("31 bits") % bound
    }
}

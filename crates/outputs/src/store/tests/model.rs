//! The store against its naive model: random operations, processes that end at any step, losses of power.
//!
//! Whatever happened: a record never claims more than its file holds, what was promised is there to the byte until
//! its time is over, and what is not ours is never touched.

use super::sweeps::{HOUR_MS, WEEK_MS, wall_ms};
use super::*;
use crate::limits::DIGEST_AT_SEAL;
use crate::retention::{Now, Retention};
use crate::store::fault;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

#[derive(Debug, Clone)]
enum Op {
    /// A run whose runner and executor do all they have to.
    Run { session: u8, len: usize },
    /// A run whose record is not written.
    Unrecorded { session: u8, len: usize },
    /// A text that is stored as a parcel.
    Parcel { session: u8, text: u8 },
    /// A sweep, so much later than now, with these of the runs not settled.
    Sweep { after: u64, unsettled: u8 },
    /// The store is closed and opened again.
    Reopen,
    /// What was not synced is gone in part.
    PowerLoss { keeps: u8 },
}

fn op() -> impl Strategy<Value = Op> {
    let session = 0..3_u8;
    prop_oneof![
        4 => (session.clone(), 1..2000_usize).prop_map(|(session, len)| Op::Run { session, len }),
        2 => (session.clone(), 1..2000_usize)
            .prop_map(|(session, len)| Op::Unrecorded { session, len }),
        3 => (session, 0..3_u8).prop_map(|(session, text)| Op::Parcel { session, text }),
        3 => (prop::sample::select(vec![0, 2 * HOUR_MS, WEEK_MS + HOUR_MS]), any::<u8>())
            .prop_map(|(after, unsettled)| Op::Sweep { after, unsettled }),
        1 => Just(Op::Reopen),
        1 => any::<u8>().prop_map(|keeps| Op::PowerLoss { keeps }),
    ]
}

/// What the model knows of a run's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It can be read to the byte.
    Held,
    /// A process ended while it was made or removed: it may be there or not, but nothing else.
    Unsure,
    /// It was never given a record: what of it can be read is its beginning.
    Unrecorded,
    /// The power took a part of it. It is never taken for whole.
    Torn,
    Gone,
}

struct World {
    workspace: TempDir,
    store: Option<Store>,
    runs: Vec<(OutputKey, Vec<u8>, Fate)>,
    /// Parcels that are held for sure, by path.
    parcels: BTreeMap<PathBuf, Vec<u8>>,
    foreign: BTreeMap<PathBuf, Vec<u8>>,
}

fn session(n: u8) -> String {
    format!("s{n}")
}

impl World {
    fn new() -> Self {
        let workspace = tempfile::tempdir().expect("a temporary directory");
        let store = Some(Store::open(workspace.path()).expect("a new store"));
        let mut world = Self {
            workspace,
            store,
            runs: Vec::new(),
            parcels: BTreeMap::new(),
            foreign: BTreeMap::new(),
        };
        let dir = world.store().root().join("s0");
        drop(world.store().session_dir("s0").expect("made"));
        let outside = world.workspace.path().join("outside");
        for path in [
            outside.clone(),
            dir.join("notes.txt"),
            dir.join(".hidden.tmp"),
        ] {
            fs::write(&path, "precious").expect("written");
            world.foreign.insert(path, b"precious".to_vec());
        }
        let link = dir.join(Stream::Stdout.file_name(Uuid::from_u128(9999)));
        symlink(&outside, &link).expect("linked");
        world.foreign.insert(link, b"precious".to_vec());
        world
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("open")
    }

    fn reopen(&mut self) {
        self.store = None;
        self.store =
            Some(Store::open(self.workspace.path()).expect("it opens after whatever happened"));
    }

    /// Does one operation, which ends after so many steps on the disk.
    fn perform(&mut self, op: &Op, steps: Option<u32>) {
        fault::end_after(steps);
        match op {
            Op::Run { session, len } => self.run(*session, *len, true),
            Op::Unrecorded { session, len } => self.run(*session, *len, false),
            Op::Parcel { session, text } => self.parcel(*session, *text),
            Op::Sweep { after, unsettled } => self.sweep(*after, *unsettled, steps.is_none()),
            Op::Reopen => {
                fault::end_after(None);
                self.reopen();
            }
            Op::PowerLoss { keeps } => {
                fault::end_after(None);
                self.lose_power(*keeps);
            }
        }
        fault::end_after(None);
        if steps.is_some() {
            self.reopen();
        }
    }

    fn run(&mut self, number: u8, len: usize, recorded: bool) {
        let key = key(&session(number), self.runs.len() as u128 + 1);
        let bytes: Vec<u8> = (0..len).map(|n| b"0123456789\n"[n % 11]).collect();
        let fate = match self.hold(&key, &bytes, recorded) {
            Some(()) if recorded => Fate::Held,
            Some(()) => Fate::Unrecorded,
            None => Fate::Unsure,
        };
        self.runs.push((key, bytes, fate));
    }

    fn hold(&self, key: &OutputKey, bytes: &[u8], recorded: bool) -> Option<()> {
        let dir = self.store().session_dir(&key.session).ok()?;
        let mut file = OutputFile::create(dir.as_fd(), key.run, key.stream).ok()?;
        let (first, second) = bytes.split_at(bytes.len() / 3);
        for part in [first, second] {
            file.append([part, b""]).ok()?;
        }
        let digest = file.seal(DIGEST_AT_SEAL).ok()?;
        if recorded {
            let mut record = record(key, bytes.len() as u64, digest);
            record.finished_ms = wall_ms();
            self.store().write_record(&record).ok()?;
        }
        Some(())
    }

    fn parcel(&mut self, number: u8, text: u8) {
        let bytes = vec![text; 300 + usize::from(text)];
        if let Ok(parcel) = self
            .store()
            .store_parcel(&session(number), &bytes, wall_ms())
        {
            self.parcels.insert(parcel.path, bytes);
        }
    }

    fn sweep(&mut self, after: u64, mask: u8, to_its_end: bool) {
        let is_unsettled = |n: usize| mask & (1 << (n % 8)) != 0;
        let runs = self.runs.iter().enumerate();
        let unsettled: BTreeSet<Uuid> = runs
            .filter(|(n, _)| is_unsettled(*n))
            .map(|(_, (key, ..))| key.run)
            .collect();
        let go_on = AtomicBool::new(false);
        let survey = self.store().survey(&go_on).expect("listed");
        let now = Now {
            wall_ms: wall_ms() + after,
            jump_ms: 0,
        };
        self.store()
            .sweep(survey, &unsettled, now, &Retention::default(), &go_on);
        for (n, (.., fate)) in self.runs.iter_mut().enumerate() {
            let old = match fate {
                Fate::Held | Fate::Torn => after > WEEK_MS,
                Fate::Unsure | Fate::Unrecorded => after > HOUR_MS,
                Fate::Gone => false,
            };
            if old && !is_unsettled(n) {
                *fate = match fate {
                    // Its record may have been written before the end.
                    Fate::Unsure if after < WEEK_MS => Fate::Unsure,
                    _ if to_its_end => Fate::Gone,
                    _ => Fate::Unsure,
                };
            }
        }
        if after > WEEK_MS {
            self.parcels.clear();
        }
    }

    /// Records and parcels are synced before anybody is told of them; the bytes of an output are not.
    fn lose_power(&mut self, keeps: u8) {
        for (key, bytes, fate) in &mut self.runs {
            let path = self.store.as_ref().expect("open").path_of(key);
            let kept = bytes.len() as u64 * u64::from(keeps) / 256;
            if *fate == Fate::Held && kept < bytes.len() as u64 {
                let file = File::options().write(true).open(path).expect("held");
                file.set_len(kept).expect("cut");
                *fate = Fate::Torn;
            }
        }
        self.reopen();
    }

    #[track_caller]
    fn check(&self) {
        for (key, bytes, fate) in &self.runs {
            let read = self.store().read(key, 0, 102_400, Encoding::Utf8);
            let read = read.map(|page| page.content.into_bytes());
            match fate {
                Fate::Held => assert!(matches!(&read, Ok(held) if held == bytes), "{read:?}"),
                Fate::Torn => assert!(matches!(read, Err(ReadError::Damaged { .. })), "{read:?}"),
                Fate::Gone => assert!(matches!(read, Err(ReadError::NotFound(_))), "{read:?}"),
                Fate::Unsure | Fate::Unrecorded => match read {
                    Ok(held) => assert!(bytes.starts_with(&held), "{held:?}"),
                    Err(ReadError::NotFound(_) | ReadError::Damaged { .. }) => {}
                    Err(error) => panic!("{error:?}"),
                },
            }
        }
        for (path, bytes) in &self.parcels {
            assert_eq!(&fs::read(path).expect("a parcel that was promised"), bytes);
        }
        for (path, bytes) in &self.foreign {
            assert_eq!(&fs::read(path).expect("somebody else's"), bytes);
        }
        self.check_records();
    }

    /// Every record on the disk is whole, and its file is there.
    fn check_records(&self) {
        let torn = |run: Uuid| {
            let mut runs = self.runs.iter();
            runs.any(|(key, _, fate)| key.run == run && *fate != Fate::Held)
        };
        for entry in fs::read_dir(self.store().root()).expect("listed").flatten() {
            let Ok(files) = fs::read_dir(entry.path()) else {
                continue;
            };
            for file in files.flatten() {
                let name = file.file_name().into_string().expect("text");
                let Some(run) = name.strip_suffix(".json") else {
                    continue;
                };
                let Ok(run) = Uuid::try_parse(run) else {
                    continue;
                };
                let session = entry.file_name().into_string().expect("text");
                let record = self.store().record(&session, run).expect("a whole record");
                let stored = record.expect("there").streams[&Stream::Stdout].stored;
                let path = entry.path().join(Stream::Stdout.file_name(run));
                let len = fs::metadata(&path).expect("the file of a record").len();
                assert!(len == stored || torn(run), "{name}: {len} of {stored}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_ends_the_process_nothing_promised_is_lost_and_nothing_false_is_said(
        ops in prop::collection::vec((op(), prop::option::weighted(0.4, 0..16_u32)), 1..24),
    ) {
        let mut world = World::new();
        for (op, steps) in &ops {
            world.perform(op, *steps);
            world.check();
        }
        // In the end everything of ours goes, and nothing else.
        world.sweep(2 * WEEK_MS, 0, true);
        let mut left = BTreeSet::from([world.workspace.path().join("outside")]);
        for entry in fs::read_dir(world.store().root()).expect("listed").flatten() {
            let files = fs::read_dir(entry.path()).into_iter().flatten();
            left.extend(files.flatten().map(|file| file.path()));
        }
        let foreign: BTreeSet<PathBuf> = world.foreign.keys().cloned().collect();
        prop_assert_eq!(left, foreign);
    }
}

//! Files that are sent while they are written.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use pagewell_base::mix::Random;
use pagewell_base::sync::Mutex;
use pagewell_fs::{Attributes, SetTime, Timestamp};
use pagewell_object_client::Error as RemoteError;

use super::super::metadata::Marks;
use super::super::testing::Fault;
use super::*;

const PART: u64 = 64 << 10;
const BLOCK: u64 = 16 << 10;
/// Blocks that are written, and the slots of which these make an end: one part is kept back.
const BLOCKS: u64 = 20;
const SLOTS: usize = 4;

const FOLLOWED: How = How {
    part_bytes: PART,
    ..MOUNT
};

struct Case {
    store: Arc<Store>,
    gateway: Gateway,
    id: FileId,
    model: Vec<u8>,
    _folder: TempDir,
}

impl Case {
    fn new(how: How) -> Self {
        Self::over(Arc::new(Store::new(100, 1000)), how)
    }

    fn over(store: Arc<Store>, how: How) -> Self {
        let folder = TempDir::new().unwrap();
        let gateway = Gateway::open(&store, &folder, how);
        let id = gateway.find("a").or_else(|_| gateway.create("a")).unwrap();
        store.asked();
        Self {
            store,
            gateway,
            id,
            model: Vec::new(),
            _folder: folder,
        }
    }

    /// The same with parts of a whole file in the store.
    fn written(how: How) -> Self {
        let mut case = Self::new(how);
        case.write_all();
        case
    }

    fn write_all(&mut self) {
        for number in 0..BLOCKS {
            self.write(number * BLOCK, &block(number));
        }
        self.wait_for_parts(SLOTS);
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        self.gateway.write(&self.id, offset, data).unwrap();
        let (start, end) = (offset as usize, offset as usize + data.len());
        self.model.resize(self.model.len().max(end), 0);
        self.model[start..end].copy_from_slice(data);
    }

    fn cut(&mut self, size: u64) {
        self.gateway.cut(&self.id, size).unwrap();
        self.model.resize(size as usize, 0);
    }

    fn wait_for_parts(&self, count: usize) {
        while self.store.parts_there() < count {
            thread::yield_now();
        }
    }

    fn set(&self, attributes: SetAttributes) {
        let files = &self.gateway.files;
        let set = files.set_attributes(&self.gateway.call(), &self.id, &attributes, None);
        set.unwrap();
    }

    fn attributes(&self) -> Attributes {
        let files = &self.gateway.files;
        files.attributes(&self.gateway.call(), &self.id).unwrap()
    }

    fn marks(&self) -> Marks {
        Marks::of(&self.store.metadata("a").unwrap())
    }

    /// Commits, checks the object, and returns the requests for changes since the file was made.
    fn commit(&self) -> Vec<Asked> {
        self.gateway.commit(&self.id).unwrap();
        self.check();
        changes(&self.store)
    }

    fn check(&self) {
        assert!(self.store.bytes("a").as_ref() == Some(&self.model));
        assert!(self.gateway.read(&self.id).as_ref() == Ok(&self.model));
        assert_eq!(self.store.uploads_left(), 0);
    }
}

fn block(number: u64) -> Vec<u8> {
    let byte = |at: u64| (at * 7 + at / 251 + number * 31) as u8;
    (0..BLOCK).map(byte).collect()
}

fn numbers(asked: &[Asked]) -> Vec<u32> {
    let number = |asked: &Asked| match asked {
        Asked::Part(number, _) => Some(*number),
        _ => None,
    };
    let mut numbers: Vec<u32> = asked.iter().filter_map(number).collect();
    numbers.sort_unstable();
    numbers
}

fn is_aborted(asked: &[Asked]) -> bool {
    asked.contains(&Asked::Abort("a".to_owned()))
}

#[test]
fn parts_go_while_a_file_is_written_and_cost_no_request_more() {
    let case = Case::written(FOLLOWED);
    assert_eq!(case.store.bytes("a"), None);
    let asked = case.commit();
    // Begun, five parts, completed: as all at the commit.
    assert_eq!((asked.len(), numbers(&asked)), (7, vec![1, 2, 3, 4, 5]));
    assert_eq!(case.marks().modified, Some(case.attributes().modified));
    assert_eq!(case.commit(), []);
}

#[test]
fn a_file_that_ends_soon_is_one_request() {
    let mut case = Case::new(FOLLOWED);
    for number in 0..4 {
        case.write(number * BLOCK, &block(number));
    }
    assert_eq!(case.commit(), [Asked::Put("a".to_owned(), PART)]);
}

#[test]
fn what_is_written_again_is_sent_again() {
    let mut case = Case::written(FOLLOWED);
    case.write(PART + 5, b"new");
    case.write(3 * PART - 1, b"ends");
    assert_eq!(numbers(&case.commit()), [1, 2, 2, 3, 3, 4, 4, 5]);
}

#[test]
fn what_is_written_while_it_is_sent_is_sent_again() {
    let mut case = Case::new(FOLLOWED);
    let (arrived, arrives) = mpsc::channel();
    let (goes, go) = mpsc::channel::<()>();
    let go = Mutex::new(go);
    case.store.hook(move |_, asked| {
        if matches!(asked, Asked::Part(1, _)) {
            let _ = arrived.send(());
            // The second time nothing is said any more.
            let _ = go.lock().recv();
        }
        Fault::None
    });
    for number in 0..BLOCKS {
        case.write(number * BLOCK, &block(number));
    }
    arrives.recv().unwrap();
    case.write(10, b"meanwhile");
    drop(goes);
    case.wait_for_parts(1);
    let asked = case.commit();
    assert_eq!(
        numbers(&asked)
            .iter()
            .filter(|number| **number == 1)
            .count(),
        2
    );
}

#[test]
fn bytes_that_were_cut_off_do_not_come_back() {
    let mut case = Case::written(FOLLOWED);
    case.cut(PART + 100);
    case.cut(BLOCKS * BLOCK);
    assert_eq!(numbers(&case.commit()), [1, 2, 2, 3, 3, 4, 4, 5]);
}

#[test]
fn a_file_that_became_small_is_one_body() {
    let mut case = Case::written(FOLLOWED);
    case.cut(100);
    let asked = case.commit();
    assert!(is_aborted(&asked) && asked.contains(&Asked::Put("a".to_owned(), 100)));
}

#[test]
fn a_file_with_a_hole_is_sent_up_to_it() {
    let mut case = Case::written(FOLLOWED);
    case.write(20 * PART, b"far away");
    let asked = case.commit();
    assert_eq!(numbers(&asked).len(), 21);
}

#[test]
fn the_time_stays_while_parts_go_and_the_change_moves() {
    let mut case = Case::written(FOLLOWED);
    let before = case.attributes();
    for number in 0..3 {
        let last = case.attributes();
        case.write(number * BLOCK, b"again");
        let now = case.attributes();
        assert!(now.modified == before.modified && now.changed > last.changed);
    }
    case.commit();
    assert_eq!(case.attributes().modified, before.modified);
    case.write(0, b"later");
    assert!(case.attributes().modified > before.modified);
}

#[test]
fn what_is_written_during_the_end_has_its_own_time() {
    let case = Case::written(FOLLOWED);
    let before = case.attributes();
    let (arrived, arrives) = mpsc::channel();
    let (goes, go) = mpsc::channel::<()>();
    let go = Mutex::new(go);
    case.store.hook(move |_, asked| {
        if matches!(asked, Asked::Complete(..)) {
            let _ = arrived.send(());
            let _ = go.lock().recv();
        }
        Fault::None
    });
    thread::scope(|scope| {
        let committed = scope.spawn(|| case.gateway.commit(&case.id).unwrap());
        arrives.recv().unwrap();
        case.gateway.write(&case.id, 5, b"meanwhile").unwrap();
        drop(goes);
        committed.join().unwrap();
    });
    let shown = case.attributes();
    assert!(shown.modified > before.modified);
    case.store.unhook();
    case.gateway.commit(&case.id).unwrap();
    assert_eq!(case.marks().modified, Some(shown.modified));
}

#[test]
fn a_time_that_was_set_before_is_not_that_of_later_writes() {
    let mut case = Case::new(FOLLOWED);
    case.write(0, &block(0));
    let time = Timestamp {
        seconds: 1_000_000,
        nanoseconds: 5,
    };
    case.set(SetAttributes {
        modified: Some(SetTime::To(time)),
        ..SetAttributes::default()
    });
    for number in 1..BLOCKS {
        case.write(number * BLOCK, &block(number));
    }
    case.wait_for_parts(SLOTS);
    case.commit();
    assert!(case.attributes().modified > time);
}

#[test]
fn a_file_that_was_cut_to_nothing_leaves_nothing() {
    let mut case = Case::new(FOLLOWED);
    case.commit();
    case.write_all();
    let before = case.attributes();
    case.cut(0);
    case.gateway.commit(&case.id).unwrap();
    // The last thread may be about to leave.
    while case.store.uploads_left() > 0 {
        thread::yield_now();
    }
    case.write(0, b"later");
    assert!(case.attributes().modified > before.modified);
    case.commit();
}

#[test]
fn a_file_that_is_again_as_its_base_was_is_sent_after_a_lost_answer() {
    let mut case = Case::new(FOLLOWED);
    case.commit();
    for bytes in [100, BLOCKS * BLOCK] {
        case.write(0, &vec![7; bytes as usize]);
        case.store.hook(|_, asked| match asked {
            Asked::Put(..) | Asked::Complete(..) => {
                Fault::After(RemoteError::Unreachable("lost".to_owned()))
            }
            _ => Fault::None,
        });
        assert!(case.gateway.commit(&case.id).is_err());
        case.store.unhook();
        case.cut(0);
        case.commit();
        assert_eq!(case.store.bytes("a").unwrap().len(), 0);
    }
}

#[test]
fn a_store_that_may_put_an_old_part_back_gets_all_again() {
    let store = Arc::new(Store::new(100, 1000).of_whole_copies());
    let mut case = Case::over(store, FOLLOWED);
    case.write_all();
    case.write(PART + 5, b"new");
    let asked = case.commit();
    let begun = asked
        .iter()
        .filter(|asked| matches!(asked, Asked::Create(_)));
    assert!(is_aborted(&asked) && begun.count() == 2);
}

#[test]
fn other_metadata_costs_a_copy_in_the_store() {
    for has_metadata in [false, true] {
        let case = Case::written(How {
            has_metadata,
            ..FOLLOWED
        });
        let time = Timestamp {
            seconds: 1_000_000,
            nanoseconds: 5,
        };
        case.set(SetAttributes {
            mode: Some(0o600),
            modified: Some(SetTime::To(time)),
            ..SetAttributes::default()
        });
        let asked = case.commit();
        assert_eq!((asked.len(), numbers(&asked)), (10, vec![1, 2, 3, 4, 5]));
        assert!(asked.contains(&Asked::Copy(1, 0..BLOCKS * BLOCK)));
        let marks = case.marks();
        assert_eq!((marks.mode, marks.modified), (Some(0o600), Some(time)));
        let shown = case.attributes();
        assert_eq!((shown.mode & 0o777, shown.modified), (0o600, time));
        assert_eq!(case.commit(), []);
    }
}

#[test]
fn metadata_that_was_not_changed_is_tried_again() {
    let case = Case::written(FOLLOWED);
    case.set(SetAttributes {
        mode: Some(0o600),
        ..SetAttributes::default()
    });
    case.store.hook(|_, asked| match asked {
        Asked::Copy(..) => Fault::Before(RemoteError::Unreachable("meant".to_owned())),
        _ => Fault::None,
    });
    assert!(case.gateway.commit(&case.id).is_err());
    case.check();
    case.store.unhook();
    case.commit();
    assert_eq!(case.marks().mode, Some(0o600));
}

#[test]
fn a_store_that_copies_nothing_gets_all_with_other_metadata() {
    let case = Case::written(How {
        copies_parts: false,
        ..FOLLOWED
    });
    case.set(SetAttributes {
        mode: Some(0o600),
        ..SetAttributes::default()
    });
    let asked = case.commit();
    assert_eq!(numbers(&asked).len(), SLOTS + 5);
    assert!(is_aborted(&asked) && case.marks().mode == Some(0o600));
}

#[test]
fn a_removed_file_leaves_no_upload() {
    for is_open in [false, true] {
        let case = Case::written(FOLLOWED);
        let opened = is_open.then(|| case.gateway.files.open(&case.gateway.call(), &case.id));
        case.gateway.remove("a").unwrap();
        // The last thread may be about to leave.
        while case.store.uploads_left() > 0 {
            thread::yield_now();
        }
        let asked = changes(&case.store);
        assert!(is_aborted(&asked) && !asked.contains(&Asked::Delete("a".to_owned())));
        drop(opened);
    }
}

#[test]
fn a_renamed_file_is_sent_with_what_went() {
    let mut case = Case::written(FOLLOWED);
    case.gateway.rename("a", "b").unwrap();
    assert_eq!(numbers(&changes(&case.store)), [1, 2, 3, 4, 5]);
    assert!(case.store.bytes("b").as_ref() == Some(&case.model));
    case.id = case.gateway.find("b").unwrap();
    assert!(case.gateway.read(&case.id).as_ref() == Ok(&case.model));
}

#[test]
fn an_upload_that_the_store_has_ended_fails_no_commit() {
    let case = Case::written(FOLLOWED);
    case.store.end_uploads();
    let asked = case.commit();
    assert!(numbers(&asked).len() > 5);
}

#[test]
fn a_store_that_takes_no_part_again_gets_all() {
    let mut case = Case::written(FOLLOWED);
    case.write(PART + 5, b"new");
    let refuses = AtomicBool::new(true);
    case.store.hook(move |_, asked| match asked {
        Asked::Part(2, _) if refuses.swap(false, Ordering::Relaxed) => {
            Fault::Before(RemoteError::Unsupported("meant".to_owned()))
        }
        _ => Fault::None,
    });
    let asked = case.commit();
    assert!(is_aborted(&asked) && numbers(&asked).ends_with(&[5]));
}

#[test]
fn failures_are_silent_and_all_is_sent_at_the_commit() {
    for is_done in [false, true] {
        for what in 0..3 {
            let mut case = Case::new(FOLLOWED);
            let (failed, fails) = mpsc::channel();
            case.store.hook(move |_, asked| {
                let is_it = match asked {
                    Asked::Create(_) => what == 0,
                    Asked::Part(number, _) => what == *number,
                    _ => false,
                };
                if !is_it {
                    return Fault::None;
                }
                let _ = failed.send(());
                let error = RemoteError::Unreachable("meant".to_owned());
                match is_done {
                    true => Fault::After(error),
                    false => Fault::Before(error),
                }
            });
            for number in 0..BLOCKS {
                case.write(number * BLOCK, &block(number));
            }
            fails.recv().unwrap();
            case.store.unhook();
            case.gateway.commit(&case.id).unwrap();
            assert!(case.store.bytes("a").as_ref() == Some(&case.model));
            // An upload whose name was lost is swept by its age.
            let lost = usize::from(what == 0 && is_done);
            while case.store.uploads_left() > lost {
                thread::yield_now();
            }
        }
    }
}

#[test]
fn a_conflict_leaves_no_upload_and_keeps_the_bytes() {
    let case = Case::written(FOLLOWED);
    case.store.place("a", b"theirs", &Vec::new());
    let Err(Error::Io(text)) = case.gateway.commit(&case.id) else {
        panic!("no error");
    };
    let path = text.rsplit("kept in ").next().unwrap();
    assert!(std::fs::read(path).unwrap() == case.model);
    assert_eq!(case.store.bytes("a").unwrap(), b"theirs");
    assert_eq!(case.store.uploads_left(), 0);
}

#[test]
fn a_lost_answer_of_the_end_is_settled() {
    let case = Case::written(FOLLOWED);
    case.store.hook(|_, asked| match asked {
        Asked::Complete(_) => Fault::After(RemoteError::Unreachable("meant".to_owned())),
        _ => Fault::None,
    });
    assert!(case.gateway.commit(&case.id).is_err());
    case.store.unhook();
    case.commit();
}

#[test]
fn a_file_of_a_server_and_one_cut_to_nothing_are_sent_so_too() {
    let of_server = How {
        is_at_once: true,
        ..FOLLOWED
    };
    for how in [of_server, FOLLOWED] {
        let store = Arc::new(Store::new(100, 1000));
        if !how.is_at_once {
            let others = vec![("kept".to_owned(), b"yes".to_vec())];
            store.place("a", &[7; 100_000], &others);
        }
        let mut case = Case::over(store, how);
        if !how.is_at_once {
            case.cut(0);
        }
        case.write_all();
        let asked = case.commit();
        assert_eq!((asked.len(), numbers(&asked)), (7, vec![1, 2, 3, 4, 5]));
        let metadata = case.store.metadata("a").unwrap();
        let is_kept = metadata.iter().any(|(name, _)| name == "kept");
        assert_eq!(is_kept, !how.is_at_once);
        // The next object has a base.
        case.write(BLOCKS * BLOCK, &block(0));
        assert_eq!(numbers(&case.commit()).len(), 1);
    }
}

#[test]
fn a_journal_is_sent_later_and_as_a_whole() {
    let mut case = Case::new(How {
        acknowledge: Acknowledge::Journal,
        ..FOLLOWED
    });
    for number in 0..BLOCKS {
        case.write(number * BLOCK, &block(number));
    }
    case.gateway.commit(&case.id).unwrap();
    assert_eq!(changes(&case.store), []);
    case.gateway.files.finish(Finish::Sync).unwrap();
    case.check();
}

#[test]
fn two_writers_and_a_third_that_goes_back_mix_nothing() {
    for seed in 0..20 {
        let mut case = Case::new(FOLLOWED);
        let (gateway, id) = (&case.gateway, case.id);
        let writer = |first: u64| {
            let mut random = Random(seed * 3 + first);
            let mut model = vec![0; (BLOCKS * BLOCK) as usize];
            for number in (first..BLOCKS).step_by(3) {
                let again = first + random.below(number / 3 + 1) * 3;
                for number in [number, again.min(number)] {
                    let data = vec![random.below(255) as u8 + 1; BLOCK as usize];
                    gateway.write(&id, number * BLOCK, &data).unwrap();
                    let start = (number * BLOCK) as usize;
                    model[start..start + data.len()].copy_from_slice(&data);
                }
            }
            model
        };
        let models: Vec<Vec<u8>> = thread::scope(|scope| {
            let threads = [0, 1, 2].map(|first| scope.spawn(move || writer(first)));
            threads.map(|thread| thread.join().unwrap()).into()
        });
        let byte = |at: usize| models.iter().fold(0, |byte, model| byte | model[at]);
        case.model = (0..(BLOCKS * BLOCK) as usize).map(byte).collect();
        case.commit();
    }
}

//! Random operations, described so that they make sense in any state of the tree and shrink.

use pagewell_fs::{Access, Credentials, NodeKind, SetAttributes, SetTime, Stability, Timestamp};
use proptest::prelude::*;

/// Which object an operation is about, chosen from those there are when it runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pick {
    /// One of the directories.
    Directory(u16),
    /// One of the regular files, or the root when there is none.
    File(u16),
    /// Any object that lives.
    Live(u16),
    /// One of those that lived once, or the root when there is none.
    Gone(u16),
    /// An identifier that was never one.
    Malformed,
}

/// How to guard a change of attributes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Guard {
    None,
    Matching,
    Wrong,
}

/// How to create a file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Creation {
    Unchecked(SetAttributes),
    Guarded(SetAttributes),
    Exclusive(u8),
}

/// Where a size or an offset lies.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    At(u64),
    /// So many bytes past the largest size of a file.
    PastLimit(u64),
}

#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Lookup(Pick, Name),
    Attributes(Pick),
    SetAttributes(Pick, SetAttributes, Option<Place>, Guard),
    Access(Pick, Access),
    ReadLink(Pick),
    Read(Pick, Place, u32),
    Write(Pick, Place, usize, u8, Stability),
    Commit(Pick, u64, u32),
    Create(Pick, Name, Creation),
    MakeDirectory(Pick, Name, SetAttributes),
    MakeSymlink(Pick, Name, Target, SetAttributes),
    MakeNode(Pick, Name, NodeKind, SetAttributes),
    Link(Pick, Pick, Name),
    Remove(Pick, Name),
    RemoveDirectory(Pick, Name),
    Rename(Pick, Name, Pick, Name),
    ReadDirectory(Pick, usize, bool),
    Statistics,
    Restart,
    VerifyAll,
}

/// One operation and who does it.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) who: Who,
    pub(crate) operation: Operation,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Who {
    Root,
    Alice,
    Bob,
    Nobody,
}

impl Who {
    pub(crate) fn credentials(self) -> Credentials {
        match self {
            Self::Root => Credentials::root(),
            Self::Alice => Credentials::new(1000, 1000, &[2000]),
            Self::Bob => Credentials::new(1001, 1001, &[2000, 2001]),
            Self::Nobody => Credentials::new(65534, 65534, &[]),
        }
    }
}

/// A name, by its number in a small pool, so that names meet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name(usize);

impl Name {
    pub(crate) fn bytes(self) -> Vec<u8> {
        match self.0 {
            0 => b"a".to_vec(),
            1 => b"b".to_vec(),
            2 => b"c".to_vec(),
            3 => vec![0xff, 0xfe, b'\n'],
            4 => vec![b'L'; 255],
            5 => "\u{fc}mlaut \u{1f4a1}".into(),
            6 => b"...".to_vec(),
            7 => b".".to_vec(),
            8 => b"..".to_vec(),
            9 => Vec::new(),
            10 => b"a/b".to_vec(),
            11 => b"a\0b".to_vec(),
            _ => vec![b'T'; 256],
        }
    }
}

/// Target of a symbolic link, by its number in a small pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target(usize);

impl Target {
    pub(crate) fn bytes(self) -> Vec<u8> {
        match self.0 {
            0 => b"a".to_vec(),
            1 => b"../../etc/passwd".to_vec(),
            2 => vec![0xfe; 4095],
            3 => b"/".to_vec(),
            4 => vec![b't'; 59],
            5 => vec![b't'; 60],
            6 => vec![b'x'; 4096],
            7 => Vec::new(),
            _ => b"nul\0inside".to_vec(),
        }
    }
}

fn name() -> BoxedStrategy<Name> {
    prop_oneof![30 => 0..4_usize, 4 => 4..7_usize, 2 => 7..13_usize]
        .prop_map(Name)
        .boxed()
}

fn target() -> BoxedStrategy<Target> {
    prop_oneof![8 => 0..6_usize, 1 => 6..9_usize]
        .prop_map(Target)
        .boxed()
}

fn directory() -> BoxedStrategy<Pick> {
    prop_oneof![
        40 => any::<u16>().prop_map(Pick::Directory),
        2 => any::<u16>().prop_map(Pick::Live),
        2 => any::<u16>().prop_map(Pick::Gone),
        1 => Just(Pick::Malformed),
    ]
    .boxed()
}

fn file() -> BoxedStrategy<Pick> {
    prop_oneof![
        20 => any::<u16>().prop_map(Pick::File),
        4 => any::<u16>().prop_map(Pick::Live),
        2 => any::<u16>().prop_map(Pick::Gone),
        1 => Just(Pick::Malformed),
    ]
    .boxed()
}

fn object() -> BoxedStrategy<Pick> {
    prop_oneof![
        20 => any::<u16>().prop_map(Pick::Live),
        2 => any::<u16>().prop_map(Pick::Gone),
        1 => Just(Pick::Malformed),
    ]
    .boxed()
}

fn who() -> BoxedStrategy<Who> {
    prop_oneof![
        6 => Just(Who::Root),
        5 => Just(Who::Alice),
        5 => Just(Who::Bob),
        1 => Just(Who::Nobody),
    ]
    .boxed()
}

fn mode() -> BoxedStrategy<u32> {
    prop_oneof![
        3 => Just(0o777),
        2 => Just(0o755),
        2 => Just(0o644),
        1 => Just(0o1777),
        1 => Just(0o2775),
        1 => Just(0o6755),
        1 => Just(0o4711),
        1 => Just(0o2664),
        1 => Just(0),
        2 => 0..0o10000_u32,
    ]
    .boxed()
}

fn uid() -> BoxedStrategy<u32> {
    prop_oneof![4 => Just(1000), 4 => Just(1001), 2 => Just(0), 1 => Just(u32::MAX)].boxed()
}

fn gid() -> BoxedStrategy<u32> {
    prop_oneof![
        3 => Just(1000),
        3 => Just(1001),
        5 => Just(2000),
        2 => Just(2001),
        1 => Just(0),
        1 => Just(u32::MAX)
    ]
    .boxed()
}

fn time() -> BoxedStrategy<SetTime> {
    let at = |seconds, nanoseconds| {
        SetTime::To(Timestamp {
            seconds,
            nanoseconds,
        })
    };
    prop_oneof![
        4 => Just(SetTime::ToServerTime),
        1 => Just(at(0, 0)),
        1 => Just(at(-1, 999_999_999)),
        1 => Just(at(1 - (1 << 31), 1)),
        1 => Just(at((1 << 32) + 5, 123_456_789)),
        1 => Just(at(1 << 33, 0)),
        1 => Just(at(5, 1_000_000_000)),
    ]
    .boxed()
}

fn size() -> BoxedStrategy<u64> {
    prop_oneof![
        3 => 0..5000_u64,
        2 => 60_000..70_000_u64,
        1 => 0..400_000_u64,
        1 => Just(0),
        1 => Just((1 << 33) + 17),
    ]
    .boxed()
}

fn place() -> BoxedStrategy<Place> {
    prop_oneof![
        30 => size().prop_map(Place::At),
        1 => prop_oneof![Just(0), Just(1), Just(u64::MAX)].prop_map(Place::PastLimit),
    ]
    .boxed()
}

fn attributes() -> BoxedStrategy<SetAttributes> {
    use proptest::option::weighted;
    (
        weighted(0.4, mode()),
        weighted(0.15, uid()),
        weighted(0.15, gid()),
        weighted(0.25, size()),
        weighted(0.15, time()),
        weighted(0.15, time()),
    )
        .prop_map(|(mode, uid, gid, size, accessed, modified)| SetAttributes {
            mode,
            uid,
            gid,
            size,
            accessed,
            modified,
        })
        .boxed()
}

/// Attributes of new objects: mostly a mode that lets others work with them.
fn new_attributes() -> BoxedStrategy<SetAttributes> {
    let open = mode().prop_map(|mode| SetAttributes {
        mode: Some(mode),
        ..SetAttributes::default()
    });
    prop_oneof![
        4 => open,
        1 => Just(SetAttributes::default()),
        2 => attributes(),
    ]
    .boxed()
}

fn creation() -> BoxedStrategy<Creation> {
    prop_oneof![
        3 => new_attributes().prop_map(Creation::Unchecked),
        3 => new_attributes().prop_map(Creation::Guarded),
        2 => (0..3_u8).prop_map(Creation::Exclusive),
    ]
    .boxed()
}

fn node() -> BoxedStrategy<NodeKind> {
    prop_oneof![
        Just(NodeKind::Fifo),
        Just(NodeKind::Socket),
        Just(NodeKind::CharacterDevice(1, 3)),
        Just(NodeKind::BlockDevice(259, 70_000)),
    ]
    .boxed()
}

fn guard() -> BoxedStrategy<Guard> {
    prop_oneof![8 => Just(Guard::None), 1 => Just(Guard::Matching), 1 => Just(Guard::Wrong)].boxed()
}

fn stability() -> BoxedStrategy<Stability> {
    prop_oneof![
        20 => Just(Stability::Unstable),
        1 => Just(Stability::DataSync),
        1 => Just(Stability::FileSync),
    ]
    .boxed()
}

fn count() -> BoxedStrategy<usize> {
    prop_oneof![6 => 0..3000_usize, 1 => 60_000..140_000_usize].boxed()
}

fn on_objects() -> BoxedStrategy<Operation> {
    let no_size = |attributes| SetAttributes {
        size: None,
        ..attributes
    };
    prop_oneof![
        2 => object().prop_map(Operation::Attributes),
        10 => (
            object(),
            attributes().prop_map(no_size),
            proptest::option::weighted(0.25, place()),
            guard()
        )
            .prop_map(|(pick, attributes, size, guard)| {
                Operation::SetAttributes(pick, attributes, size, guard)
            }),
        3 => (object(), 0..0x80_u32)
            .prop_map(|(pick, wanted)| Operation::Access(pick, Access(wanted))),
        2 => object().prop_map(Operation::ReadLink),
        6 => (file(), place(), count())
            .prop_map(|(pick, place, count)| Operation::Read(pick, place, count as u32)),
        10 => (file(), place(), count(), 1..=255_u8, stability())
            .prop_map(|(pick, place, count, byte, stability)| {
                Operation::Write(pick, place, count, byte, stability)
            }),
        1 => (file(), prop_oneof![Just(0), Just(u64::MAX), 0..100_000_u64], any::<u32>())
            .prop_map(|(pick, offset, count)| Operation::Commit(pick, offset, count)),
    ]
    .boxed()
}

fn on_names() -> BoxedStrategy<Operation> {
    prop_oneof![
        4 => (directory(), name())
            .prop_map(|(directory, name)| Operation::Lookup(directory, name)),
        8 => (directory(), name(), creation())
            .prop_map(|(directory, name, how)| Operation::Create(directory, name, how)),
        6 => (directory(), name(), new_attributes())
            .prop_map(|(directory, name, how)| Operation::MakeDirectory(directory, name, how)),
        3 => (directory(), name(), target(), new_attributes())
            .prop_map(|(directory, name, target, how)| {
                Operation::MakeSymlink(directory, name, target, how)
            }),
        2 => (directory(), name(), node(), new_attributes())
            .prop_map(|(directory, name, node, how)| {
                Operation::MakeNode(directory, name, node, how)
            }),
        4 => (prop_oneof![3 => file(), 1 => object()], directory(), name())
            .prop_map(|(object, directory, name)| Operation::Link(object, directory, name)),
        5 => (directory(), name())
            .prop_map(|(directory, name)| Operation::Remove(directory, name)),
        4 => (directory(), name())
            .prop_map(|(directory, name)| Operation::RemoveDirectory(directory, name)),
        10 => (directory(), name(), directory(), name())
            .prop_map(|(from, old, to, new)| Operation::Rename(from, old, to, new)),
        3 => (directory(), 1..6_usize, any::<bool>())
            .prop_map(|(directory, page, plus)| Operation::ReadDirectory(directory, page, plus)),
    ]
    .boxed()
}

/// Operations that several threads can do at once without knowing of each other.
pub(crate) fn shared_steps(count: usize) -> BoxedStrategy<Vec<Step>> {
    let operation = prop_oneof![1 => on_objects(), 2 => on_names()];
    let step = (who(), operation).prop_map(|(who, operation)| Step { who, operation });
    proptest::collection::vec(step, count).boxed()
}

/// Operations for one thread, with restarts and full comparisons in between.
pub(crate) fn steps(count: usize) -> BoxedStrategy<Vec<Step>> {
    let operation = prop_oneof![
        40 => on_objects(),
        60 => on_names(),
        1 => Just(Operation::Statistics),
        2 => Just(Operation::Restart),
        2 => Just(Operation::VerifyAll),
    ];
    let step = (who(), operation).prop_map(|(who, operation)| Step { who, operation });
    proptest::collection::vec(step, 1..count).boxed()
}

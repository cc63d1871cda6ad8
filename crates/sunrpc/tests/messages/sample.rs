//! Values of any type of message, drawn from bytes.
//!
//! The messages borrow, so they cannot be drawn by a generator that owns what it makes. Here a
//! value is a function of a byte string that outlives it: property tests and fuzzers make
//! the string, and shrink it.

use pagewell_sunrpc::mount3::{self, ExportEntry, Group, MountEntry, MountOk, PathArguments};
use pagewell_sunrpc::portmap::Mapping;
use pagewell_sunrpc::rpc::{AuthenticationStatus, Call, Credential, Refusal, SystemCredential};
use pagewell_sunrpc::xdr::{Decode, Encode, Encoder, List, Words, encode_item};
use std::cell::{Cell, OnceCell};

/// Keeps the wire form of lists alive as long as the values that borrow it.
#[derive(Default)]
pub(crate) struct Storage {
    slots: [OnceCell<Vec<u8>>; 32],
    used: Cell<usize>,
}

/// Bytes to draw values from; zeros when they are used up.
pub(crate) struct Source<'a> {
    rest: &'a [u8],
    storage: &'a Storage,
}

impl<'a> Source<'a> {
    pub(crate) fn new(bytes: &'a [u8], storage: &'a Storage) -> Self {
        Self {
            rest: bytes,
            storage,
        }
    }

    /// At most `length` bytes: fewer near the end.
    pub(crate) fn bytes(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(length.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    pub(crate) fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let taken = self.bytes(N);
        array[..taken.len()].copy_from_slice(taken);
        array
    }

    /// A number below `bound`, which is at most 256.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::from(self.array::<1>()[0]) % bound
    }

    pub(crate) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Keeps `bytes`; an empty string when the storage is full.
    fn keep(&self, bytes: Vec<u8>) -> &'a [u8] {
        let slot = self.storage.used.get();
        self.storage.used.set(slot + 1);
        let slot = self.storage.slots.get(slot);
        slot.map_or(&[], |slot| slot.get_or_init(|| bytes))
    }
}

/// A type whose values can be drawn.
pub(crate) trait Sample<'a>: Sized {
    fn sample(source: &mut Source<'a>) -> Self;
}

/// [`Sample`] for structures: every field is drawn.
macro_rules! sample_structure {
    ($($name:ident $(<$life:lifetime>)? { $($field:ident),* })*) => {
        $(
            impl<'a> $crate::sample::Sample<'a> for $name $(<$life>)? {
                fn sample(source: &mut $crate::sample::Source<'a>) -> Self {
                    Self { $($field: $crate::sample::Sample::sample(source)),* }
                }
            }
        )*
    };
}

pub(crate) use sample_structure;

impl<'a> Sample<'a> for () {
    fn sample(_source: &mut Source<'a>) -> Self {}
}

impl<'a> Sample<'a> for bool {
    fn sample(source: &mut Source<'a>) -> Self {
        source.below(2) == 1
    }
}

impl<'a> Sample<'a> for u32 {
    fn sample(source: &mut Source<'a>) -> Self {
        Self::from_be_bytes(source.array())
    }
}

impl<'a> Sample<'a> for u64 {
    fn sample(source: &mut Source<'a>) -> Self {
        Self::from_be_bytes(source.array())
    }
}

impl<'a, const N: usize> Sample<'a> for [u8; N] {
    fn sample(source: &mut Source<'a>) -> Self {
        source.array()
    }
}

/// Names and data: short, of every length modulo four.
impl<'a> Sample<'a> for &'a [u8] {
    fn sample(source: &mut Source<'a>) -> Self {
        let length = source.below(24);
        source.bytes(length)
    }
}

impl<'a, T: Sample<'a>> Sample<'a> for Option<T> {
    fn sample(source: &mut Source<'a>) -> Self {
        bool::sample(source).then(|| T::sample(source))
    }
}

impl<'a, const N: usize> Sample<'a> for Words<N> {
    fn sample(source: &mut Source<'a>) -> Self {
        let values: Vec<u32> = (0..source.below(N + 1))
            .map(|_| u32::sample(source))
            .collect();
        Self::new(&values).unwrap()
    }
}

impl<'a, T: Sample<'a> + Encode + Decode<'a>> Sample<'a> for List<'a, T> {
    fn sample(source: &mut Source<'a>) -> Self {
        let mut items = Vec::new();
        for _ in 0..source.below(5) {
            encode_item(&mut Encoder::new(&mut items), &T::sample(source));
        }
        Self::from_items(source.keep(items)).unwrap()
    }
}

sample_structure! {
    SystemCredential<'a> { stamp, machine_name, uid, gid, gids }
    Call<'a> { xid, program, version, procedure, credential }
    PathArguments<'a> { path }
    MountOk<'a> { handle, flavors }
    MountEntry<'a> { host, path }
    Group<'a> { name }
    ExportEntry<'a> { path, groups }
    Mapping { program, version, protocol, port }
}

impl<'a> Sample<'a> for Credential<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        match source.below(2) {
            0 => Self::None,
            _ => Self::System(Sample::sample(source)),
        }
    }
}

impl<'a> Sample<'a> for Refusal {
    fn sample(source: &mut Source<'a>) -> Self {
        let (low, high) = (u32::sample(source), u32::sample(source));
        let status = source.one_of(AuthenticationStatus::ALL);
        source.one_of(&[
            Self::ProgramUnavailable,
            Self::ProgramMismatch { low, high },
            Self::ProcedureUnavailable,
            Self::GarbageArguments,
            Self::SystemError,
            Self::RpcMismatch { low, high },
            Self::Authentication(status),
        ])
    }
}

impl<'a> Sample<'a> for mount3::MountReply<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        match source.one_of(mount3::Status::ALL) {
            mount3::Status::Ok => Ok(Sample::sample(source)),
            status => Err(status),
        }
    }
}

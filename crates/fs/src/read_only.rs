//! What sources answer to changes that they do not make.

use crate::Error;

/// The methods of [`crate::FileSystem`] that make, move or remove names, without `create`. Each
/// answers what the path leads to, which is a function of the file system.
macro_rules! refuse_names {
    ($refusal:path) => {
        fn make_directory(
            &self,
            _call: &$crate::Call<'_>,
            _directory: &$crate::FileId,
            _name: &[u8],
            _attributes: &$crate::SetAttributes,
        ) -> $crate::Result<$crate::Created> {
            Err($refusal(self))
        }

        fn make_symlink(
            &self,
            _call: &$crate::Call<'_>,
            _directory: &$crate::FileId,
            _name: &[u8],
            _target: &[u8],
            _attributes: &$crate::SetAttributes,
        ) -> $crate::Result<$crate::Created> {
            Err($refusal(self))
        }

        fn make_node(
            &self,
            _call: &$crate::Call<'_>,
            _directory: &$crate::FileId,
            _name: &[u8],
            _kind: $crate::NodeKind,
            _attributes: &$crate::SetAttributes,
        ) -> $crate::Result<$crate::Created> {
            Err($refusal(self))
        }

        fn link(
            &self,
            _call: &$crate::Call<'_>,
            _id: &$crate::FileId,
            _directory: &$crate::FileId,
            _name: &[u8],
        ) -> $crate::Result<($crate::Attributes, $crate::Change)> {
            Err($refusal(self))
        }

        fn remove(
            &self,
            _call: &$crate::Call<'_>,
            _directory: &$crate::FileId,
            _name: &[u8],
        ) -> $crate::Result<$crate::Change> {
            Err($refusal(self))
        }

        fn remove_directory(
            &self,
            _call: &$crate::Call<'_>,
            _directory: &$crate::FileId,
            _name: &[u8],
        ) -> $crate::Result<$crate::Change> {
            Err($refusal(self))
        }

        fn rename(
            &self,
            _call: &$crate::Call<'_>,
            _from_directory: &$crate::FileId,
            _from_name: &[u8],
            _to_directory: &$crate::FileId,
            _to_name: &[u8],
        ) -> $crate::Result<($crate::Change, $crate::Change)> {
            Err($refusal(self))
        }
    };
}

/// All methods of [`crate::FileSystem`] that change something, each answering
/// [`crate::Error::ReadOnly`]; and `sync`, which has nothing to do.
macro_rules! refuse_changes {
    () => {
        fn sync(&self) -> $crate::Result<()> {
            Ok(())
        }

        fn set_attributes(
            &self,
            _call: &$crate::Call<'_>,
            _id: &$crate::FileId,
            _attributes: &$crate::SetAttributes,
            _guard: Option<$crate::Timestamp>,
        ) -> $crate::Result<$crate::Change> {
            Err($crate::Error::ReadOnly)
        }

        fn write(
            &self,
            _call: &$crate::Call<'_>,
            _id: &$crate::FileId,
            _offset: u64,
            _data: &[u8],
            _stability: $crate::Stability,
        ) -> $crate::Result<$crate::Written> {
            Err($crate::Error::ReadOnly)
        }

        fn commit(
            &self,
            _call: &$crate::Call<'_>,
            _id: &$crate::FileId,
            _offset: u64,
            _count: u32,
        ) -> $crate::Result<$crate::Committed> {
            Err($crate::Error::ReadOnly)
        }

        fn create(
            &self,
            _call: &$crate::Call<'_>,
            _directory: &$crate::FileId,
            _name: &[u8],
            _mode: &$crate::CreateMode,
        ) -> $crate::Result<$crate::Created> {
            Err($crate::Error::ReadOnly)
        }

        $crate::read_only::refuse_names!($crate::read_only::refusal);
    };
}

/// What a file system that cannot be changed at all answers.
pub(crate) fn refusal<T>(_: &T) -> Error {
    Error::ReadOnly
}

pub(crate) use refuse_changes;
pub(crate) use refuse_names;

//! Methods of a file system that another object implements.

/// Makes methods, within an `impl FileSystem`, that call the same of another object, such as that
/// below a layer.
///
/// ```
/// use pagewell_fs::{Attributes, Call, FileId, Limits, Result, forward};
/// # use pagewell_fs::*;
/// struct Layer<F>(F);
///
/// impl<F: FileSystem> FileSystem for Layer<F> {
///     forward! { self => self.0;
///         describe, root, limits, lookup, access, read_link, read, read_directory, statistics,
///     }
///
///     fn attributes(&self, call: &Call<'_>, id: &FileId) -> Result<Attributes> {
///         println!("attributes of {id:?}");
///         self.0.attributes(call, id)
///     }
/// }
/// ```
#[macro_export]
macro_rules! forward {
    ($this:ident => $to:expr; $($method:ident),+ $(,)?) => {
        $($crate::forward_one! { $method $this ($to) })+
    };
}

/// One method of [`forward!`].
#[doc(hidden)]
#[macro_export]
macro_rules! forward_method {
    ($this:ident ($to:expr) $name:ident($($argument:ident: $type:ty),*) -> $result:ty) => {
        fn $name(&$this, $($argument: $type),*) -> $result {
            $to.$name($($argument),*)
        }
    };
}

/// The signature of a method for [`forward_method!`].
#[doc(hidden)]
#[macro_export]
#[rustfmt::skip] // a line for each method, or two
macro_rules! forward_one {
    (describe $($to:tt)*) => { $crate::forward_method! { $($to)* describe() -> String } };
    (root $($to:tt)*) => { $crate::forward_method! { $($to)* root() -> $crate::FileId } };
    (path_of $($to:tt)*) => { $crate::forward_method! { $($to)*
        path_of(id: &$crate::FileId) -> Option<String> } };
    (limits $($to:tt)*) => { $crate::forward_method! { $($to)* limits() -> $crate::Limits } };
    (lookup $($to:tt)*) => { $crate::forward_method! { $($to)*
        lookup(call: &$crate::Call<'_>, directory: &$crate::FileId, name: &[u8])
            -> $crate::Result<$crate::Entry> } };
    (attributes $($to:tt)*) => { $crate::forward_method! { $($to)*
        attributes(call: &$crate::Call<'_>, id: &$crate::FileId)
            -> $crate::Result<$crate::Attributes> } };
    (set_attributes $($to:tt)*) => { $crate::forward_method! { $($to)*
        set_attributes(call: &$crate::Call<'_>, id: &$crate::FileId,
            attributes: &$crate::SetAttributes, guard: Option<$crate::Timestamp>)
            -> $crate::Result<$crate::Change> } };
    (access $($to:tt)*) => { $crate::forward_method! { $($to)*
        access(call: &$crate::Call<'_>, id: &$crate::FileId, wanted: $crate::Access)
            -> $crate::Result<($crate::Access, $crate::Attributes)> } };
    (read_link $($to:tt)*) => { $crate::forward_method! { $($to)*
        read_link(call: &$crate::Call<'_>, id: &$crate::FileId)
            -> $crate::Result<(Vec<u8>, $crate::Attributes)> } };
    (read $($to:tt)*) => { $crate::forward_method! { $($to)*
        read(call: &$crate::Call<'_>, id: &$crate::FileId, offset: u64, count: u32)
            -> $crate::Result<$crate::ReadReply> } };
    (seek $($to:tt)*) => { $crate::forward_method! { $($to)*
        seek(call: &$crate::Call<'_>, id: &$crate::FileId, offset: u64, wanted: $crate::Seek)
            -> $crate::Result<u64> } };
    (allocate $($to:tt)*) => { $crate::forward_method! { $($to)*
        allocate(call: &$crate::Call<'_>, id: &$crate::FileId, range: (u64, u64),
            space: $crate::Space) -> $crate::Result<()> } };
    (copy $($to:tt)*) => { $crate::forward_method! { $($to)*
        copy(call: &$crate::Call<'_>, from: (&$crate::FileId, u64), to: (&$crate::FileId, u64),
            length: u64) -> $crate::Result<u64> } };
    (write $($to:tt)*) => { $crate::forward_method! { $($to)*
        write(call: &$crate::Call<'_>, id: &$crate::FileId, offset: u64, data: &[u8],
            stability: $crate::Stability) -> $crate::Result<$crate::Written> } };
    (commit $($to:tt)*) => { $crate::forward_method! { $($to)*
        commit(call: &$crate::Call<'_>, id: &$crate::FileId, offset: u64, count: u32)
            -> $crate::Result<$crate::Committed> } };
    (write_verifier $($to:tt)*) => { $crate::forward_method! { $($to)*
        write_verifier(id: Option<&$crate::FileId>) -> [u8; 8] } };
    (create $($to:tt)*) => { $crate::forward_method! { $($to)*
        create(call: &$crate::Call<'_>, directory: &$crate::FileId, name: &[u8],
            mode: &$crate::CreateMode) -> $crate::Result<$crate::Created> } };
    (make_directory $($to:tt)*) => { $crate::forward_method! { $($to)*
        make_directory(call: &$crate::Call<'_>, directory: &$crate::FileId, name: &[u8],
            attributes: &$crate::SetAttributes) -> $crate::Result<$crate::Created> } };
    (make_symlink $($to:tt)*) => { $crate::forward_method! { $($to)*
        make_symlink(call: &$crate::Call<'_>, directory: &$crate::FileId, name: &[u8],
            target: &[u8], attributes: &$crate::SetAttributes)
            -> $crate::Result<$crate::Created> } };
    (make_node $($to:tt)*) => { $crate::forward_method! { $($to)*
        make_node(call: &$crate::Call<'_>, directory: &$crate::FileId, name: &[u8],
            kind: $crate::NodeKind, attributes: &$crate::SetAttributes)
            -> $crate::Result<$crate::Created> } };
    (link $($to:tt)*) => { $crate::forward_method! { $($to)*
        link(call: &$crate::Call<'_>, id: &$crate::FileId, directory: &$crate::FileId,
            name: &[u8]) -> $crate::Result<($crate::Attributes, $crate::Change)> } };
    (remove $($to:tt)*) => { $crate::forward_method! { $($to)*
        remove(call: &$crate::Call<'_>, directory: &$crate::FileId, name: &[u8])
            -> $crate::Result<$crate::Change> } };
    (remove_directory $($to:tt)*) => { $crate::forward_method! { $($to)*
        remove_directory(call: &$crate::Call<'_>, directory: &$crate::FileId, name: &[u8])
            -> $crate::Result<$crate::Change> } };
    (rename $($to:tt)*) => { $crate::forward_method! { $($to)*
        rename(call: &$crate::Call<'_>, from: (&$crate::FileId, &[u8]),
            to: (&$crate::FileId, &[u8]), mode: $crate::RenameMode)
            -> $crate::Result<($crate::Change, $crate::Change)> } };
    (read_directory $($to:tt)*) => { $crate::forward_method! { $($to)*
        read_directory(call: &$crate::Call<'_>, directory: &$crate::FileId, cookie: u64,
            with_attributes: bool, visit: &mut dyn FnMut(&$crate::DirectoryEntry<'_>) -> bool)
            -> $crate::Result<$crate::DirectoryPage> } };
    (statistics $($to:tt)*) => { $crate::forward_method! { $($to)*
        statistics(call: &$crate::Call<'_>) -> $crate::Result<$crate::Statistics> } };
    (finish $($to:tt)*) => { $crate::forward_method! { $($to)*
        finish(how: $crate::Finish) -> $crate::Result<u64> } };
    (open $($to:tt)*) => { $crate::forward_method! { $($to)*
        open(call: &$crate::Call<'_>, id: &$crate::FileId) -> $crate::Result<$crate::Opened> } };
    (hold $($to:tt)*) => { $crate::forward_method! { $($to)*
        hold(call: &$crate::Call<'_>, id: &$crate::FileId)
            -> $crate::Result<Option<$crate::Hold>> } };
    (object_of $($to:tt)*) => { $crate::forward_method! { $($to)*
        object_of(id: &$crate::FileId) -> $crate::FileId } };
    (commit_metadata $($to:tt)*) => { $crate::forward_method! { $($to)*
        commit_metadata(call: &$crate::Call<'_>, id: &$crate::FileId) -> $crate::Result<()> } };
    (close $($to:tt)*) => { $crate::forward_method! { $($to)*
        close(call: &$crate::Call<'_>, id: &$crate::FileId) -> $crate::Result<()> } };
}

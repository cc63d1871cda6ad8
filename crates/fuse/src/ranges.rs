//! Room and holes in files, and copies of a range to another file.

use std::sync::Arc;

use fuser::{Errno, INodeNo, ReplyEmpty, ReplyWrite, Request};
use pagewell_fs::{Call, Error, FileId, Result, Space};

use crate::attributes::errno;
use crate::front::Front;
use crate::handles::OpenFile;

/// A place in a file that a program has open.
pub(crate) struct Spot {
    pub(crate) node: INodeNo,
    pub(crate) file: Option<Arc<OpenFile>>,
    pub(crate) offset: u64,
}

impl Front {
    /// Answers fallocate(2). The kernel forgets the pages of what is not there any more.
    pub(crate) fn answer_allocate(
        self: &Arc<Self>,
        request: &Request,
        spot: Spot,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        const ZERO_ONLY: i32 = libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE;
        let space = match mode {
            0 => Space::Reserve,
            libc::FALLOC_FL_KEEP_SIZE => Space::ReserveOnly,
            PUNCH => Space::Punch,
            libc::FALLOC_FL_ZERO_RANGE => Space::Zero,
            ZERO_ONLY => Space::ZeroOnly,
            _ => return reply.error(Errno::EOPNOTSUPP),
        };
        self.answer_done(request, reply, move |front, caller, may_block| {
            let id = front.id(spot.node.0)?;
            let range = (spot.offset, length);
            front.change_data(&spot, (&id, !caller.is_root()), may_block, |call| {
                front.filesystem.allocate(call, &id, range, space)
            })
        });
    }

    /// Answers copy_file_range(2). From the first ENOSYS on the kernel copies by itself.
    pub(crate) fn answer_copy(
        self: &Arc<Self>,
        request: &Request,
        from: Spot,
        to: Spot,
        length: u64,
        reply: ReplyWrite,
    ) {
        self.answer(
            request,
            reply,
            move |front, caller, may_block| {
                let (from_id, to_id) = (front.id(from.node.0)?, front.id(to.node.0)?);
                let (source, target) = ((&from_id, from.offset), (&to_id, to.offset));
                let may_read = from.file.as_ref().is_none_or(|file| file.reads);
                if !may_read {
                    return Err(Error::AccessDenied);
                }
                front.change_data(&to, (&to_id, !caller.is_root()), may_block, |call| {
                    front.filesystem.copy(call, source, target, length)
                })
            },
            |_, reply, copied| match copied.map(u32::try_from) {
                Ok(Ok(copied)) => reply.written(copied),
                Ok(Err(_)) => reply.error(Errno::EOVERFLOW),
                Err(Error::NotSupported) => reply.error(Errno::ENOSYS),
                Err(error) => reply.error(errno(&error)),
            },
        );
    }

    /// Changes data through an open file. What is lost of it before it is on the device is told by
    /// the next commit.
    fn change_data<T>(
        &self,
        spot: &Spot,
        (id, takes_privileges): (&FileId, bool),
        may_block: bool,
        change: impl Fn(&Call<'_>) -> Result<T>,
    ) -> Result<T> {
        let node = spot.node.0;
        let verifier = self.filesystem.write_verifier();
        let file = spot.file.as_deref();
        let done = Self::ask_open(
            file,
            may_block,
            |file| file.writes,
            |call| {
                self.before_change(call, (node, id), takes_privileges)?;
                change(call)
            },
        )?;
        self.note_written(node, verifier);
        Ok(done)
    }
}

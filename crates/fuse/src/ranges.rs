//! Room and holes in files, their data and holes, and copies of a range to another file.

use std::sync::Arc;

use fuser::{Errno, INodeNo, ReplyEmpty, ReplyLseek, ReplyWrite, Request};
use pagewell_fs::{Access, Call, Error, FileId, Result, Seek, Space};

use crate::caller::Caller;
use crate::front::Front;
use crate::handles::{OpenFile, READING, Target};

/// What the source cannot do the kernel does by itself, from the first ENOSYS on.
fn if_supported<T>(answer: Result<T>) -> Result<Option<T>> {
    match answer {
        Err(Error::NotSupported) => Ok(None),
        answer => answer.map(Some),
    }
}

impl Front {
    /// Answers fallocate(2). The kernel forgets the pages of what is not there any more.
    pub(crate) fn answer_allocate(
        self: &Arc<Self>,
        request: &Request,
        target: Target,
        range: (u64, u64),
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
        let node = INodeNo(target.node);
        self.answer_done(request, node, reply, move |front, caller, id| {
            front.change_data(caller, &target, id, |call| {
                front.filesystem.allocate(call, id, range, space)
            })
        });
    }

    /// Answers copy_file_range(2).
    pub(crate) fn answer_copy(
        self: &Arc<Self>,
        request: &Request,
        (from, from_offset): (Target, u64),
        (to, to_offset): (Target, u64),
        length: u64,
        reply: ReplyWrite,
    ) {
        self.answer(
            request,
            INodeNo(from.node),
            reply,
            move |front, caller, from_id| {
                let to_id = front.id(to.node)?;
                let is_refused = |file: &Arc<OpenFile>| !file.allowed.intersects(READING);
                if from.file.as_ref().is_some_and(is_refused) {
                    return Err(Error::AccessDenied);
                }
                let (source, target) = ((from_id, from_offset), (&to_id, to_offset));
                if_supported(front.change_data(caller, &to, &to_id, |call| {
                    front.filesystem.copy(call, source, target, length)
                }))
            },
            |_, reply, copied| match copied.map(u32::try_from) {
                Some(Ok(copied)) => reply.written(copied),
                Some(Err(_)) => reply.error(Errno::EOVERFLOW),
                None => reply.error(Errno::ENOSYS),
            },
        );
    }

    /// Changes data through an open file. What is lost of it before it is on the device is told by
    /// the next commit.
    fn change_data<T>(
        &self,
        caller: &Caller,
        target: &Target,
        id: &FileId,
        change: impl Fn(&Call<'_>) -> Result<T>,
    ) -> Result<T> {
        let verifier = self.verifier_since(target.node, id);
        let done = target.ask(caller.may_block.get(), Access::MODIFY, |call| {
            self.before_change(call, (target.node, id), !caller.is_root())?;
            change(call)
        })?;
        self.note_written(target.node, verifier);
        if self.is_synchronous {
            self.commit(target, caller.may_block.get(), id, true)?;
        }
        Ok(done)
    }

    /// Answers a request for the next data or hole of a file. The kernel moves to other places by
    /// itself; what it searches by itself is all data.
    pub(crate) fn answer_seek(
        self: &Arc<Self>,
        request: &Request,
        target: Target,
        (offset, whence): (i64, i32),
        reply: ReplyLseek,
    ) {
        let wanted = match whence {
            libc::SEEK_DATA => Seek::Data,
            libc::SEEK_HOLE => Seek::Hole,
            _ => return reply.error(Errno::EINVAL),
        };
        let Ok(offset) = u64::try_from(offset) else {
            return reply.error(Errno::ENXIO); // before the beginning
        };
        self.answer(
            request,
            INodeNo(target.node),
            reply,
            move |front, caller, id| {
                if_supported(target.ask(caller.may_block.get(), READING, |call| {
                    front.filesystem.seek(call, id, offset, wanted)
                }))
            },
            |_, reply, found| match found.map(i64::try_from) {
                Some(Ok(found)) => reply.offset(found),
                Some(Err(_)) => reply.error(Errno::EOVERFLOW),
                None => reply.error(Errno::ENOSYS),
            },
        );
    }
}

//! Finding data and holes in files.

use std::sync::Arc;

use fuser::{Errno, INodeNo, ReplyLseek, Request};
use pagewell_fs::{Error, Seek};

use crate::attributes::errno;
use crate::front::Front;
use crate::handles::OpenFile;

impl Front {
    /// Answers a request for the next data or hole of a file. The kernel moves to other places by
    /// itself, and searches by itself from the first ENOSYS on: then a file is all data.
    pub(crate) fn answer_seek(
        self: &Arc<Self>,
        request: &Request,
        node: INodeNo,
        file: Option<Arc<OpenFile>>,
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
            reply,
            move |front, _, may_block| {
                let id = front.id(node.0)?;
                let file = file.as_deref();
                Self::ask_open(
                    file,
                    may_block,
                    |file| file.reads,
                    |call| front.filesystem.seek(call, &id, offset, wanted),
                )
            },
            |_, reply, found| match found.map(i64::try_from) {
                Ok(Ok(found)) => reply.offset(found),
                Ok(Err(_)) => reply.error(Errno::EOVERFLOW),
                Err(Error::NotSupported) => reply.error(Errno::ENOSYS),
                Err(error) => reply.error(errno(&error)),
            },
        );
    }
}

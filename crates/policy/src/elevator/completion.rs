//! Which members of a dispatch are done after a short transfer?
//!
//! A device may transfer less than was asked: at its end, or before a block it cannot read. Bytes
//! come in ascending order, so a transfer of k bytes is the first k bytes of the dispatch. A
//! member is complete when all of it is inside; one that is only begun has failed, because nobody
//! may see half a page. Members ascend and do not overlap, so the complete ones are the first.

use super::{Dispatch, Member};

/// The members that lie wholly in the first `transferred_bytes` of the dispatch, and the others.
#[must_use]
pub fn split_completion(dispatch: &Dispatch, transferred_bytes: u64) -> (&[Member], &[Member]) {
    let transferred_end = dispatch.extent.offset.saturating_add(transferred_bytes);
    let complete = dispatch
        .members
        .partition_point(|member| member.extent.end() <= transferred_end);
    dispatch.members.split_at(complete)
}

#[cfg(test)]
mod tests {
    use super::super::{Class, DispatchId, Extent, Reason, RequestId};
    use super::*;

    fn dispatch() -> Dispatch {
        let extents = [(1000, 10), (1010, 10), (1025, 5)];
        let members = extents
            .iter()
            .zip(1..)
            .map(|((offset, length), id)| Member {
                id: RequestId(id),
                extent: Extent {
                    offset: *offset,
                    length: *length,
                },
            })
            .collect();
        Dispatch {
            id: DispatchId(1),
            extent: Extent {
                offset: 1000,
                length: 30,
            },
            class: Class::SynchronousRead,
            members,
            reason: Reason::Order,
        }
    }

    #[test]
    fn a_short_transfer_completes_exactly_what_lies_inside() {
        let dispatch = dispatch();
        let complete_after = [
            (0, 0),
            (9, 0),
            (10, 1),
            (19, 1),
            (20, 2),
            (25, 2),
            (29, 2),
            (30, 3),
            (u64::MAX, 3),
        ];
        for (transferred_bytes, expected) in complete_after {
            let (complete, failed) = split_completion(&dispatch, transferred_bytes);
            assert_eq!(complete.len(), expected, "after {transferred_bytes} bytes");
            assert_eq!([complete, failed].concat(), dispatch.members);
        }
    }
}

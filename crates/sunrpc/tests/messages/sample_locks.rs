//! Values of the messages of NLM version 4 and NSM.

use crate::sample::{Sample, Source, sample_structure};
use pagewell_sunrpc::nlm4::*;
use pagewell_sunrpc::nsm::NotifyArguments;

impl<'a> Sample<'a> for i32 {
    fn sample(source: &mut Source<'a>) -> Self {
        Self::from_be_bytes(source.array())
    }
}

impl<'a> Sample<'a> for Status {
    fn sample(source: &mut Source<'a>) -> Self {
        source.one_of(Self::ALL)
    }
}

impl<'a> Sample<'a> for ShareMode {
    fn sample(source: &mut Source<'a>) -> Self {
        source.one_of(Self::ALL)
    }
}

impl<'a> Sample<'a> for ShareAccess {
    fn sample(source: &mut Source<'a>) -> Self {
        source.one_of(Self::ALL)
    }
}

impl<'a> Sample<'a> for TestReply<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        let cookie = Sample::sample(source);
        let answer = match Status::sample(source) {
            Status::Denied => Err(Sample::sample(source)),
            status => Ok(status),
        };
        Self { cookie, answer }
    }
}

sample_structure! {
    Lock<'a> { caller_name, handle, owner, process, offset, length }
    Holder<'a> { exclusive, process, owner, offset, length }
    TestArguments<'a> { cookie, exclusive, lock }
    LockArguments<'a> { cookie, block, exclusive, lock, reclaim, state }
    CancelArguments<'a> { cookie, block, exclusive, lock }
    UnlockArguments<'a> { cookie, lock }
    Reply<'a> { cookie, status }
    Share<'a> { caller_name, handle, owner, mode, access }
    ShareArguments<'a> { cookie, share, reclaim }
    ShareReply<'a> { cookie, status, sequence }
    NotifyArguments<'a> { name, state }
}

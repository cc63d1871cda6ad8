//! REMOVE, RMDIR, RENAME, LINK (RFC 1813 sections 3.3.12 to 3.3.15).

use pagewell_fs as fs;
use pagewell_sunrpc::nfs3::{
    LinkArguments, LinkFailure, LinkOk, LinkReply, RemoveArguments, RemoveFailure, RemoveOk,
    RemoveReply, RenameArguments, RenameFailure, RenameOk, RenameReply, RmdirArguments,
};

use crate::service::exports::{Caller, Served, Stop, Target};

impl Served {
    pub(super) fn remove(
        &self,
        caller: &Caller,
        arguments: RemoveArguments<'_>,
    ) -> Result<RemoveReply, Stop> {
        let target = self.target_to_change(caller, arguments.object.directory)?;
        let name = arguments.object.name;
        removed(
            &target,
            target.filesystem().remove(&target.call(), &target.id, name),
        )
    }

    pub(super) fn rmdir(
        &self,
        caller: &Caller,
        arguments: RmdirArguments<'_>,
    ) -> Result<RemoveReply, Stop> {
        let target = self.target_to_change(caller, arguments.object.directory)?;
        let name = arguments.object.name;
        removed(
            &target,
            target
                .filesystem()
                .remove_directory(&target.call(), &target.id, name),
        )
    }

    pub(super) fn rename(
        &self,
        caller: &Caller,
        arguments: RenameArguments<'_>,
    ) -> Result<RenameReply, Stop> {
        let from = self.target_to_change(caller, arguments.from.directory)?;
        let to = self.target_to_change(caller, arguments.to.directory)?;
        let failed = |error: fs::Error| {
            from.failed(&error, || RenameFailure {
                from_directory_wcc: from.wcc_after_failure(&error),
                to_directory_wcc: to.wcc_after_failure(&error),
            })
        };
        if from.export.number() != to.export.number() {
            return failed(fs::Error::CrossDevice);
        }
        let result = from.filesystem().rename(
            &from.call(),
            &from.id,
            arguments.from.name,
            &to.id,
            arguments.to.name,
        );
        match result {
            Ok((from_change, to_change)) => Ok(Ok(RenameOk {
                from_directory_wcc: from.export.identity.change(&from_change),
                to_directory_wcc: to.export.identity.change(&to_change),
            })),
            Err(error) => failed(error),
        }
    }

    pub(super) fn link(
        &self,
        caller: &Caller,
        arguments: LinkArguments<'_>,
    ) -> Result<LinkReply, Stop> {
        let file = self.target_to_change(caller, arguments.file)?;
        let directory = self.target_to_change(caller, arguments.link.directory)?;
        let failed = |error: fs::Error| {
            file.failed(&error, || LinkFailure {
                file_attributes: file.attributes_now(),
                directory_wcc: directory.wcc_after_failure(&error),
            })
        };
        if file.export.number() != directory.export.number() {
            return failed(fs::Error::CrossDevice);
        }
        let filesystem = file.filesystem();
        let name = arguments.link.name;
        match filesystem.link(&directory.call(), &file.id, &directory.id, name) {
            Ok((attributes, change)) => Ok(Ok(LinkOk {
                file_attributes: Some(file.export.identity.attributes(&attributes)),
                directory_wcc: directory.export.identity.change(&change),
            })),
            Err(error) => failed(error),
        }
    }
}

fn removed(target: &Target<'_>, result: fs::Result<fs::Change>) -> Result<RemoveReply, Stop> {
    match result {
        Ok(change) => Ok(Ok(RemoveOk {
            directory_wcc: target.export.identity.change(&change),
        })),
        Err(error) => target.failed(&error, || RemoveFailure {
            directory_wcc: target.wcc_after_failure(&error),
        }),
    }
}

//! REMOVE, RMDIR, RENAME, LINK (RFC 1813 sections 3.3.12 to 3.3.15).

use pagewell_fs as fs;
use pagewell_sunrpc::nfs3::{
    DirectoryOperation, LinkArguments, LinkBody, LinkReply, RemoveReply, RenameArguments,
    RenameBody, RenameReply,
};

use crate::service::exports::{Caller, Served, Stop};

impl Served {
    /// REMOVE, or RMDIR of a directory.
    pub(super) fn remove(
        &self,
        caller: &Caller,
        object: DirectoryOperation<'_>,
        is_directory: bool,
    ) -> Result<RemoveReply, Stop> {
        let target = self.target_to_change(caller, object.directory)?;
        let (filesystem, call) = (target.filesystem(), target.call());
        let removed = if is_directory {
            filesystem.remove_directory(&call, &target.id, object.name)
        } else {
            filesystem.remove(&call, &target.id, object.name)
        };
        match removed {
            Ok(change) => Ok(Ok(target.export.identity.change(&change))),
            Err(error) => target.failed(&error, || target.wcc_after_failure(&error)),
        }
    }

    pub(super) fn rename(
        &self,
        caller: &Caller,
        arguments: RenameArguments<'_>,
    ) -> Result<RenameReply, Stop> {
        let from = self.target_to_change(caller, arguments.from.directory)?;
        let to = self.target_to_change(caller, arguments.to.directory)?;
        let failed = |error: fs::Error| {
            from.failed(&error, || RenameBody {
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
            Ok((from_change, to_change)) => Ok(Ok(RenameBody {
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
            file.failed(&error, || LinkBody {
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
            Ok((attributes, change)) => Ok(Ok(LinkBody {
                file_attributes: Some(file.export.identity.attributes(&attributes)),
                directory_wcc: directory.export.identity.change(&change),
            })),
            Err(error) => failed(error),
        }
    }
}

//! REMOVE, RMDIR, RENAME, LINK (RFC 1813 sections 3.3.12 to 3.3.15).

use pagewell_fs as fs;
use pagewell_sunrpc::nfs3::{
    DirectoryOperation, LinkArguments, LinkBody, RenameArguments, RenameBody,
};

use crate::convert::{WireIdentity, WireTarget};
use crate::handler::{Abort, Nfs3Handler};
use pagewell_export::exports::Target;
use pagewell_rpcd::call::Done;

/// REMOVE or RMDIR.
pub(super) fn remove(
    handler: &mut Nfs3Handler<'_>,
    object: DirectoryOperation<'_>,
    is_directory: bool,
) -> Result<Done, Abort> {
    let target = handler.target_to_change(object.directory)?;
    let (filesystem, call) = (target.filesystem(), target.call());
    let removed = if is_directory {
        filesystem.remove_directory(&call, &target.id, object.name)
    } else {
        filesystem.remove(&call, &target.id, object.name)
    };
    let result = removed.map(|change| target.export.identity.change(&change));
    handler.answer(&target, result, |error| target.wcc_after_failure(error))
}

pub(super) fn rename(
    handler: &mut Nfs3Handler<'_>,
    arguments: RenameArguments<'_>,
) -> Result<Done, Abort> {
    let from = handler.target_to_change(arguments.from.directory)?;
    let to = handler.target_to_change(arguments.to.directory)?;
    let (old, new) = (arguments.from.name, arguments.to.name);
    let rename = || {
        let filesystem = common_filesystem(&from, &to)?;
        let places = ((&from.id, old), (&to.id, new));
        let changes =
            filesystem.rename(&from.call(), places.0, places.1, fs::RenameMode::Replace)?;
        Ok(RenameBody {
            from_directory_wcc: from.export.identity.change(&changes.0),
            to_directory_wcc: to.export.identity.change(&changes.1),
        })
    };
    handler.answer(&from, rename(), |error| RenameBody {
        from_directory_wcc: from.wcc_after_failure(error),
        to_directory_wcc: to.wcc_after_failure(error),
    })
}

pub(super) fn link(
    handler: &mut Nfs3Handler<'_>,
    arguments: LinkArguments<'_>,
) -> Result<Done, Abort> {
    let file = handler.target_to_change(arguments.file)?;
    let directory = handler.target_to_change(arguments.link.directory)?;
    let name = arguments.link.name;
    let link = || {
        let filesystem = common_filesystem(&file, &directory)?;
        let linked = filesystem.link(&directory.call(), &file.id, &directory.id, name)?;
        Ok(LinkBody {
            file_attributes: Some(file.export.identity.attributes(&linked.0)),
            directory_wcc: directory.export.identity.change(&linked.1),
        })
    };
    handler.answer(&file, link(), |error| LinkBody {
        file_attributes: file.attributes_now(),
        directory_wcc: directory.wcc_after_failure(error),
    })
}

/// The file system of both objects.
fn common_filesystem<'t>(one: &'t Target<'_>, other: &Target<'_>) -> fs::Result<fs::Batched<'t>> {
    if one.export.number() == other.export.number() {
        Ok(one.filesystem())
    } else {
        Err(fs::Error::CrossDevice)
    }
}

//! Writes a directory into an image with hadris-iso and hadris-udf.
//!
//! usage: images-rust rock|joliet|both|iso1999|plain|udf102|udf201|bridge DIRECTORY IMAGE

use std::error::Error;
use std::fs::File;

use hadris_fs::host::{TreeOptions, read_tree};
use hadris_iso::IsoOptions;
use hadris_storage::host::FileDevice;
use hadris_udf::{UdfOptions, UdfRevision};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, kind, directory, image] = &arguments[..] else {
        return Err("usage: images-rust KIND DIRECTORY IMAGE".into());
    };
    let (tree, skipped) = read_tree(directory, &TreeOptions::new())?;
    for path in skipped {
        eprintln!("left out: {path:?}");
    }
    let file = File::options().read(true).write(true).create(true).truncate(true).open(image)?;
    let device = FileDevice::new(file)?;
    let iso = IsoOptions::default();
    let udf = UdfOptions::default();
    let report = match kind.as_str() {
        "rock" => hadris_iso::sync::write(device, &tree, &iso.with_rock_ridge())?,
        "joliet" => hadris_iso::sync::write(device, &tree, &iso.with_joliet())?,
        "both" => hadris_iso::sync::write(device, &tree, &iso.with_rock_ridge().with_joliet())?,
        "iso1999" => hadris_iso::sync::write(device, &tree, &iso.with_iso1999())?,
        "plain" => hadris_iso::sync::write(device, &tree, &iso)?,
        "udf102" => {
            hadris_udf::sync::write(device, &tree, &udf.with_revision(UdfRevision::V1_02))?
        }
        "udf201" => {
            hadris_udf::sync::write(device, &tree, &udf.with_revision(UdfRevision::V2_01))?
        }
        "bridge" => {
            hadris_udf::sync::write_bridge(device, &tree, &iso.with_rock_ridge(), &udf)?
        }
        _ => return Err("unknown kind".into()),
    };
    for warning in report.warnings() {
        eprintln!("{warning}");
    }
    Ok(())
}

//! What objects have that no tree shows is counted.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, unreachable_pub)]
#[path = "../../source-udf/tests/support/builder.rs"]
mod builder;

use std::sync::Arc;

use builder::{Entry, Kind, Udf, device, folder, named};
use pagewell_cache::{BYTES_MIN, Cache, CacheOptions};
use pagewell_device::RamDevice;
use pagewell_disc::{Depth, Disc, DiscOptions, TreeName, Unshown};
use pagewell_source_bytes::Bytes;

#[test]
fn streams_and_attributes_of_udf_are_counted() {
    let mut udf = Udf::new(Kind::Plain, 2048);
    let (root, sub) = (udf.icb(), udf.icb());
    let plain = udf.file(b"nothing besides");
    let movie = udf.add(&Entry {
        has_streams: true,
        ..Entry::embedded(b"movie")
    });
    let terminal = udf.add(&Entry {
        attributes: device(5, 1),
        ..Entry::embedded(b"").of_type(7)
    });
    udf.directory(sub, root, &[named("again", movie), named("tty", terminal)]);
    let names = [
        named("plain", plain),
        named("movie", movie),
        folder("sub", sub),
    ];
    udf.directory(root, root, &names);
    let image = udf.finish(root);
    let cache = Cache::new(CacheOptions::new(BYTES_MIN)).unwrap();
    let device = Arc::new(RamDevice::holding("image", &image));
    let bytes = Bytes::new(cache.open(device));
    let disc = Disc::open(&bytes, &cache, &DiscOptions::default()).unwrap();
    let checked = disc.check(Depth::Data, &mut |_| {});
    let [udf] = checked.as_slice() else {
        panic!("{checked:?}")
    };
    assert_eq!(udf.name, TreeName::Udf);
    assert_eq!(udf.walked.counts.files, 3);
    let expected = Unshown {
        with_streams: 2,
        with_attributes: 1,
    };
    assert_eq!(udf.walked.unshown, expected);
}

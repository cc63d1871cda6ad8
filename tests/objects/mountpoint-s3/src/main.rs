//! `mount-s3 ENDPOINT BUCKET FOLDER [CACHE]`: what the command of mountpoint-s3 does in the
//! foreground with `--force-path-style --allow-delete --allow-overwrite`, and `--cache` if a
//! folder is named, by calls of its library. All else is as that command has it where no EC2 is:
//! parts of 8 MiB, 10 Gbps, 16 threads, 95 percent of the memory. The keys are those of the
//! environment.
use mountpoint_s3_client::{config::AddressingStyle, user_agent::UserAgent};
use mountpoint_s3_fs::data_cache::{CacheLimit, DataCacheConfig, DiskDataCacheConfig};
use mountpoint_s3_fs::fs::{CacheConfig, TimeToLive};
use mountpoint_s3_fs::fuse::config::{FuseOptions, FuseSessionConfig, MountPoint};
use mountpoint_s3_fs::memory::{
    CandidateSize, MINIMUM_MEM_LIMIT, PagedPool, effective_total_memory,
};
use mountpoint_s3_fs::s3::config::{ClientConfig, PartConfig, Region, TargetThroughputSetting};
use mountpoint_s3_fs::s3::{Bucket, Prefix, S3Path, S3Personality};
use mountpoint_s3_fs::{
    MountpointConfig, Runtime, S3FilesystemConfig, Superblock, SuperblockConfig,
};

const PART: usize = 8 << 20;
const BLOCK: usize = 1 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [endpoint, bucket, folder, cache @ ..] = arguments.as_slice() else {
        return Err("usage: mount-s3 ENDPOINT BUCKET FOLDER [CACHE]".into());
    };
    let lasts = match cache {
        [] => TimeToLive::Minimal,
        _ => TimeToLive::Duration(std::time::Duration::from_secs(60)),
    };
    let path = S3Path::new(Bucket::new(bucket)?, Prefix::empty());
    let memory = MINIMUM_MEM_LIMIT.max((effective_total_memory() as f64 * 0.95) as usize);
    let pool = PagedPool::config()
        .with_candidate_sizes([
            CandidateSize::prunable(BLOCK),
            CandidateSize::prunable(PART),
        ])
        .with_memory_limit(memory)
        .build();
    let client = ClientConfig {
        region: Region::new_user_specified("us-east-1".into()),
        endpoint_url: Some(endpoint.clone()),
        addressing_style: AddressingStyle::Path,
        dual_stack: false,
        transfer_acceleration: false,
        auth_config: Default::default(),
        requester_pays: false,
        expected_bucket_owner: None,
        throughput_target: TargetThroughputSetting::Default,
        bind: None,
        part_config: PartConfig::with_part_size(PART),
        user_agent: UserAgent::new(None),
        tls_config: None,
    }
    .create_client(pool.clone(), Some(&path))?;
    let files = S3FilesystemConfig {
        cache_config: CacheConfig::new(lasts),
        allow_delete: true,
        allow_overwrite: true,
        ..Default::default()
    };
    let objects = Superblock::new(
        client.clone(),
        path,
        SuperblockConfig {
            cache_config: files.cache_config.clone(),
            s3_personality: S3Personality::Standard,
        },
    );
    let session = FuseSessionConfig::new(MountPoint::new(folder)?, FuseOptions::default(), 16)?;
    let blocks = DataCacheConfig {
        disk_cache_config: cache.first().map(|folder| DiskDataCacheConfig {
            cache_directory: folder.into(),
            block_size: BLOCK as u64,
            limit: CacheLimit::default(),
        }),
        express_cache_config: None,
    };
    let runtime = Runtime::new(client.event_loop_group());
    let mount = MountpointConfig::new(session, files, blocks)?;
    Ok(mount
        .create_fuse_session(objects, client, runtime, pool)?
        .join()?)
}

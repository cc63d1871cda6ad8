//! Calls about an object that is known.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use nfs_mamont::Buffer;
use nfs_mamont::auth::Credential;
use nfs_mamont::vfs::write::{StableHow, Verifier};
use nfs_mamont::vfs::{self, Error, file};

use crate::{Mirror, TRANSFER_BYTES_MAX, error, object, time, told};

impl vfs::get_attr::GetAttr for Mirror {
    async fn get_attr(
        &self,
        args: vfs::get_attr::Args,
        _: &Credential,
    ) -> Result<vfs::get_attr::Success, vfs::get_attr::Fail> {
        self.path(&args.file)
            .and_then(|path| path.symlink_metadata())
            .map(|found| vfs::get_attr::Success {
                object: told(&found),
            })
            .map_err(|failed| vfs::get_attr::Fail {
                error: error(failed),
            })
    }
}

impl vfs::set_attr::SetAttr for Mirror {
    async fn set_attr(
        &self,
        args: vfs::set_attr::Args,
        _: &Credential,
    ) -> Result<vfs::set_attr::Success, vfs::set_attr::Fail> {
        let before = self.before(&args.file);
        let guarded = args.guard.zip(before.1).is_some_and(|(guard, now)| {
            (guard.ctime.seconds, guard.ctime.nanos) != (now.ctime.seconds, now.ctime.nanos)
        });
        if guarded {
            let wcc_data = self.change(before);
            return Err(vfs::set_attr::Fail {
                error: Error::NotSync,
                wcc_data,
            });
        }
        let result = self
            .path(&args.file)
            .and_then(|path| Self::set(&path, &args.new_attr));
        let wcc_data = self.change(before);
        match result {
            Ok(()) => Ok(vfs::set_attr::Success { wcc_data }),
            Err(failed) => Err(vfs::set_attr::Fail {
                error: error(failed),
                wcc_data,
            }),
        }
    }
}

impl vfs::access::Access for Mirror {
    async fn access(
        &self,
        args: vfs::access::Args,
        _: &Credential,
    ) -> Result<vfs::access::Success, vfs::access::Fail> {
        match self.path(&args.file) {
            Ok(_) => Ok(vfs::access::Success {
                object_attr: self.attributes(object(&args.file)),
                access: args.mask,
            }),
            Err(failed) => Err(vfs::access::Fail {
                error: error(failed),
                object_attr: None,
            }),
        }
    }
}

impl vfs::read_link::ReadLink for Mirror {
    async fn read_link(
        &self,
        args: vfs::read_link::Args,
        _: &Credential,
    ) -> Result<vfs::read_link::Success, vfs::read_link::Fail> {
        let symlink_attr = self.attributes(object(&args.file));
        let target = self
            .path(&args.file)
            .and_then(|path| path.read_link())
            .and_then(|target| {
                let target = target.into_os_string().into_string();
                file::Path::new(target.map_err(|_| io::ErrorKind::InvalidData)?)
            });
        match target {
            Ok(data) => Ok(vfs::read_link::Success { symlink_attr, data }),
            Err(failed) => Err(vfs::read_link::Fail {
                symlink_attr,
                error: error(failed),
            }),
        }
    }
}

impl<B: Buffer + 'static> vfs::read::Read<B> for Mirror {
    async fn read(
        &self,
        args: vfs::read::Args,
        mut data: B,
        _: &Credential,
    ) -> Result<vfs::read::Success<B>, vfs::read::Fail> {
        let result = self.path(&args.file).and_then(|path| {
            let file = File::open(path)?;
            let length = file.metadata()?.len();
            let mut wanted = length
                .saturating_sub(args.offset)
                .min(u64::from(args.count)) as usize;
            let mut offset = args.offset;
            for chunk in data.chunks_mut() {
                let part = chunk.len().min(wanted);
                file.read_exact_at(&mut chunk[..part], offset)?;
                offset += part as u64;
                wanted -= part;
            }
            Ok(((offset - args.offset) as u32, offset >= length))
        });
        let file_attr = self.attributes(object(&args.file));
        match result {
            Ok((count, eof)) => Ok(vfs::read::Success {
                head: vfs::read::SuccessHeader {
                    file_attr,
                    count,
                    eof,
                },
                data,
            }),
            Err(failed) => Err(vfs::read::Fail {
                error: error(failed),
                file_attr,
            }),
        }
    }
}

impl<B: Buffer + 'static> vfs::write::Write<B> for Mirror {
    async fn write(
        &self,
        args: vfs::write::Args<B>,
        _: &Credential,
    ) -> Result<vfs::write::Success, vfs::write::Fail> {
        let before = self.before(&args.file);
        let result = self.path(&args.file).and_then(|path| {
            let file = File::options().write(true).open(path)?;
            let (mut offset, mut left) = (args.offset, args.size as usize);
            for chunk in args.data.chunks() {
                let part = chunk.len().min(left);
                file.write_all_at(&chunk[..part], offset)?;
                offset += part as u64;
                left -= part;
            }
            if args.stable != StableHow::Unstable {
                file.sync_all()?;
            }
            Ok((offset - args.offset) as u32)
        });
        let change = self.change(before);
        match result {
            Ok(count) => Ok(vfs::write::Success {
                file_wcc: change,
                count,
                committed: args.stable,
                verifier: Verifier(self.verifier),
            }),
            Err(failed) => Err(vfs::write::Fail {
                error: error(failed),
                wcc_data: change,
            }),
        }
    }
}

impl vfs::commit::Commit for Mirror {
    async fn commit(
        &self,
        args: vfs::commit::Args,
        _: &Credential,
    ) -> Result<vfs::commit::Success, vfs::commit::Fail> {
        let before = self.before(&args.file);
        let result = self
            .path(&args.file)
            .and_then(|path| File::open(path)?.sync_all());
        let file_wcc = self.change(before);
        match result {
            Ok(()) => Ok(vfs::commit::Success {
                file_wcc,
                verifier: Verifier(self.verifier),
            }),
            Err(failed) => Err(vfs::commit::Fail {
                error: error(failed),
                file_wcc,
            }),
        }
    }
}

impl vfs::fs_stat::FsStat for Mirror {
    async fn fs_stat(
        &self,
        args: vfs::fs_stat::Args,
        _: &Credential,
    ) -> Result<vfs::fs_stat::Success, vfs::fs_stat::Fail> {
        let root_attr = self.attributes(object(&args.root));
        let space = self
            .path(&args.root)
            .and_then(|path| Ok(rustix::fs::statvfs(&path)?));
        match space {
            Ok(space) => Ok(vfs::fs_stat::Success {
                root_attr,
                total_bytes: space.f_blocks * space.f_frsize,
                free_bytes: space.f_bfree * space.f_frsize,
                available_bytes: space.f_bavail * space.f_frsize,
                total_files: space.f_files,
                free_files: space.f_ffree,
                available_files: space.f_favail,
                invarsec: 0,
            }),
            Err(failed) => Err(vfs::fs_stat::Fail {
                error: error(failed),
                root_attr,
            }),
        }
    }
}

impl vfs::fs_info::FsInfo for Mirror {
    async fn fs_info(
        &self,
        args: vfs::fs_info::Args,
        _: &Credential,
    ) -> Result<vfs::fs_info::Success, vfs::fs_info::Fail> {
        use vfs::fs_info::Properties;
        Ok(vfs::fs_info::Success {
            root_attr: self.attributes(object(&args.root)),
            read_max: TRANSFER_BYTES_MAX,
            read_pref: TRANSFER_BYTES_MAX,
            read_mult: 4096,
            write_max: TRANSFER_BYTES_MAX,
            write_pref: TRANSFER_BYTES_MAX,
            write_mult: 4096,
            read_dir_pref: 8192,
            max_file_size: i64::MAX as u64,
            time_delta: time(0, 1),
            properties: Properties::from_wire(Properties::ALL),
        })
    }
}

impl vfs::path_conf::PathConf for Mirror {
    async fn path_conf(
        &self,
        args: vfs::path_conf::Args,
        _: &Credential,
    ) -> Result<vfs::path_conf::Success, vfs::path_conf::Fail> {
        Ok(vfs::path_conf::Success {
            file_attr: self.attributes(object(&args.file)),
            link_max: 32000,
            name_max: vfs::MAX_NAME_LEN as u32,
            no_trunc: true,
            chown_restricted: true,
            case_insensitive: false,
            case_preserving: true,
        })
    }
}

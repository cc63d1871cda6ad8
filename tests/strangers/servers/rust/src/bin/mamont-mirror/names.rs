//! Calls about the names of a directory.

use std::fs::File;
use std::os::unix::fs::MetadataExt;

use nfs_mamont::auth::Credential;
use nfs_mamont::vfs::{self, DirOpArgs, file};
use rustix::fs::{CWD, FileType, Mode};

use crate::{Mirror, error, handle, object, told};

impl vfs::lookup::Lookup for Mirror {
    async fn lookup(
        &self,
        args: vfs::lookup::Args,
        _: &Credential,
    ) -> Result<vfs::lookup::Success, vfs::lookup::Fail> {
        let dir_attr = self.attributes(object(&args.parent));
        match self.look_up(&DirOpArgs {
            dir: args.parent,
            name: args.name,
        }) {
            Ok(found) => Ok(vfs::lookup::Success {
                file: handle(found.ino()),
                file_attr: Some(told(&found)),
                dir_attr,
            }),
            Err(failed) => Err(vfs::lookup::Fail {
                error: error(failed),
                dir_attr,
            }),
        }
    }
}

impl vfs::create::Create for Mirror {
    async fn create(
        &self,
        args: vfs::create::Args,
        _: &Credential,
    ) -> Result<vfs::create::Success, vfs::create::Fail> {
        use vfs::create::How;
        let before = self.before(&args.object.dir);
        let (wanted, alone) = match &args.how {
            How::Unchecked(wanted) => (Some(wanted), false),
            How::Guarded(wanted) => (Some(wanted), true),
            How::Exclusive(_) => (None, true),
        };
        let result = self.made(&args.object, wanted, |path| {
            let mut options = File::options();
            options
                .write(true)
                .create(true)
                .create_new(alone)
                .truncate(false);
            options.open(path).map(drop)
        });
        let wcc_data = self.change(before);
        match result {
            Ok(made) => Ok(vfs::create::Success {
                file: Some(handle(made.ino())),
                attr: Some(told(&made)),
                wcc_data,
            }),
            Err(failed) => Err(vfs::create::Fail {
                error: error(failed),
                wcc_data,
            }),
        }
    }
}

impl vfs::mk_dir::MkDir for Mirror {
    async fn mk_dir(
        &self,
        args: vfs::mk_dir::Args,
        _: &Credential,
    ) -> Result<vfs::mk_dir::Success, vfs::mk_dir::Fail> {
        let before = self.before(&args.object.dir);
        let result = self.made(&args.object, Some(&args.attr), |path| {
            std::fs::create_dir(path)
        });
        let change = self.change(before);
        match result {
            Ok(made) => Ok(vfs::mk_dir::Success {
                file: Some(handle(made.ino())),
                attr: Some(told(&made)),
                wcc_data: change,
            }),
            Err(failed) => Err(vfs::mk_dir::Fail {
                error: error(failed),
                dir_wcc: change,
            }),
        }
    }
}

impl vfs::symlink::Symlink for Mirror {
    async fn symlink(
        &self,
        args: vfs::symlink::Args,
        _: &Credential,
    ) -> Result<vfs::symlink::Success, vfs::symlink::Fail> {
        let before = self.before(&args.object.dir);
        let target = args.path.as_path().to_owned();
        let result = self.made(&args.object, Some(&args.attr), |path| {
            std::os::unix::fs::symlink(target, path)
        });
        let change = self.change(before);
        match result {
            Ok(made) => Ok(vfs::symlink::Success {
                file: Some(handle(made.ino())),
                attr: Some(told(&made)),
                wcc_data: change,
            }),
            Err(failed) => Err(vfs::symlink::Fail {
                error: error(failed),
                dir_wcc: change,
            }),
        }
    }
}

impl vfs::mk_node::MkNode for Mirror {
    async fn mk_node(
        &self,
        args: vfs::mk_node::Args,
        _: &Credential,
    ) -> Result<vfs::mk_node::Success, vfs::mk_node::Fail> {
        use vfs::mk_node::What;
        let before = self.before(&args.object.dir);
        let device = |device: &file::Device| rustix::fs::makedev(device.major, device.minor);
        let (kind, wanted, device) = match &args.what {
            What::Char(wanted, at) => (FileType::CharacterDevice, wanted, device(at)),
            What::Block(wanted, at) => (FileType::BlockDevice, wanted, device(at)),
            What::Socket(wanted) => (FileType::Socket, wanted, 0),
            What::Fifo(wanted) => (FileType::Fifo, wanted, 0),
        };
        let result = self.made(&args.object, Some(wanted), |path| {
            Ok(rustix::fs::mknodat(
                CWD,
                path,
                kind,
                Mode::from_raw_mode(0o600),
                device,
            )?)
        });
        let change = self.change(before);
        match result {
            Ok(made) => Ok(vfs::mk_node::Success {
                file: Some(handle(made.ino())),
                attr: Some(told(&made)),
                wcc_data: change,
            }),
            Err(failed) => Err(vfs::mk_node::Fail {
                error: error(failed),
                dir_wcc: change,
            }),
        }
    }
}

impl vfs::remove::Remove for Mirror {
    async fn remove(
        &self,
        args: vfs::remove::Args,
        _: &Credential,
    ) -> Result<vfs::remove::Success, vfs::remove::Fail> {
        let before = self.before(&args.object.dir);
        let result = self.place(&args.object).and_then(std::fs::remove_file);
        let change = self.change(before);
        match result {
            Ok(()) => Ok(vfs::remove::Success { wcc_data: change }),
            Err(failed) => Err(vfs::remove::Fail {
                error: error(failed),
                dir_wcc: change,
            }),
        }
    }
}

impl vfs::rm_dir::RmDir for Mirror {
    async fn rm_dir(
        &self,
        args: vfs::rm_dir::Args,
        _: &Credential,
    ) -> Result<vfs::rm_dir::Success, vfs::rm_dir::Fail> {
        let before = self.before(&args.object.dir);
        let result = self.place(&args.object).and_then(std::fs::remove_dir);
        let change = self.change(before);
        match result {
            Ok(()) => Ok(vfs::rm_dir::Success { wcc_data: change }),
            Err(failed) => Err(vfs::rm_dir::Fail {
                error: error(failed),
                dir_wcc: change,
            }),
        }
    }
}

impl vfs::rename::Rename for Mirror {
    async fn rename(
        &self,
        args: vfs::rename::Args,
        _: &Credential,
    ) -> Result<vfs::rename::Success, vfs::rename::Fail> {
        let (from, to) = (self.before(&args.from.dir), self.before(&args.to.dir));
        let result = self
            .place(&args.from)
            .and_then(|old| std::fs::rename(old, self.place(&args.to)?))
            .and_then(|()| self.look_up(&args.to));
        let (from_dir_wcc, to_dir_wcc) = (self.change(from), self.change(to));
        match result {
            Ok(_) => Ok(vfs::rename::Success {
                from_dir_wcc,
                to_dir_wcc,
            }),
            Err(failed) => Err(vfs::rename::Fail {
                error: error(failed),
                from_dir_wcc,
                to_dir_wcc,
            }),
        }
    }
}

impl vfs::link::Link for Mirror {
    async fn link(
        &self,
        args: vfs::link::Args,
        _: &Credential,
    ) -> Result<vfs::link::Success, vfs::link::Fail> {
        let before = self.before(&args.link.dir);
        let result = self
            .path(&args.file)
            .and_then(|old| std::fs::hard_link(old, self.place(&args.link)?))
            .and_then(|()| self.look_up(&args.link));
        let (file_attr, dir_wcc) = (self.attributes(object(&args.file)), self.change(before));
        match result {
            Ok(_) => Ok(vfs::link::Success { file_attr, dir_wcc }),
            Err(failed) => Err(vfs::link::Fail {
                error: error(failed),
                file_attr,
                dir_wcc,
            }),
        }
    }
}

impl vfs::read_dir::ReadDir for Mirror {
    async fn read_dir(
        &self,
        args: vfs::read_dir::Args,
        _: &Credential,
    ) -> Result<vfs::read_dir::Success, vfs::read_dir::Fail> {
        let directory = object(&args.dir);
        let dir_attr = self.attributes(directory);
        match self.page(directory, args.cookie.raw(), args.count as usize) {
            Ok((entries, eof)) => Ok(vfs::read_dir::Success {
                dir_attr,
                cookie_verifier: args.cookie_verifier,
                entries: entries
                    .into_iter()
                    .map(|listed| vfs::read_dir::Entry {
                        file_id: listed.attributes.ino(),
                        file_name: listed.name,
                        cookie: vfs::read_dir::Cookie::new(listed.cookie),
                    })
                    .collect(),
                eof,
            }),
            Err(failed) => Err(vfs::read_dir::Fail {
                error: error(failed),
                dir_attr,
            }),
        }
    }
}

impl vfs::read_dir_plus::ReadDirPlus for Mirror {
    async fn read_dir_plus(
        &self,
        args: vfs::read_dir_plus::Args,
        _: &Credential,
    ) -> Result<vfs::read_dir_plus::Success, vfs::read_dir_plus::Fail> {
        let directory = object(&args.dir);
        let dir_attr = self.attributes(directory);
        match self.page(directory, args.cookie.raw(), args.max_count as usize) {
            Ok((entries, eof)) => Ok(vfs::read_dir_plus::Success {
                dir_attr,
                cookie_verifier: args.cookie_verifier,
                entries: entries
                    .into_iter()
                    .map(|listed| vfs::read_dir_plus::Entry {
                        file_id: listed.attributes.ino(),
                        file_name: listed.name,
                        cookie: vfs::read_dir::Cookie::new(listed.cookie),
                        file_attr: Some(told(&listed.attributes)),
                        file_handle: Some(handle(listed.attributes.ino())),
                    })
                    .collect(),
                eof,
            }),
            Err(failed) => Err(vfs::read_dir_plus::Fail {
                error: error(failed),
                dir_attr,
            }),
        }
    }
}

//! Crate `nfs3_client`: calls one by one, on one connection after a mount by the port mapper.

use std::collections::BTreeSet;
use std::error::Error;

use nfs3_client::Nfs3ConnectionBuilder;
use nfs3_client::smol::{SmolConnector, SmolIo};
use nfs3_types::nfs3::{
    COMMIT3args, CREATE3args, GETATTR3args, LINK3args, LOOKUP3args, MKDIR3args, Nfs3Option,
    Nfs3Result, READ3args, READDIRPLUS3args, READLINK3args, REMOVE3args, RENAME3args, RMDIR3args,
    SETATTR3args, SYMLINK3args, WRITE3args, cookieverf3, createhow3, diropargs3, fattr3, ftype3,
    nfs_fh3, nfsstat3, sattr3, stable_how, symlinkdata3,
};
use nfs3_types::rpc::{auth_unix, opaque_auth};
use nfs3_types::xdr_codec::Opaque;
use smol::net::TcpStream;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;
type Connection = nfs3_client::Nfs3Connection<SmolIo<TcpStream>>;

const LENGTH: usize = (3 << 20) + 5;
const PIECE: usize = 1 << 20;

#[derive(Debug, thiserror::Error)]
#[error("{0:?}")]
struct Status(nfsstat3);

fn done<T, E>(reply: Nfs3Result<T, E>) -> Outcome<T> {
    match reply {
        Nfs3Result::Ok(result) => Ok(result),
        Nfs3Result::Err((status, _)) => Err(Status(status).into()),
    }
}

fn check(is_right: bool, what: impl std::fmt::Debug) -> Outcome {
    is_right
        .then_some(())
        .ok_or_else(|| format!("another result: {what:?}").into())
}

fn put(operation: &str, outcome: Outcome) {
    let cell = match outcome {
        Ok(()) => "ok".to_owned(),
        Err(error) => match error.downcast::<Status>() {
            Ok(status) => status.to_string().replace("NFS3ERR_", ""),
            Err(error) => {
                eprintln!("{operation}: {error}");
                "wrong".to_owned()
            }
        },
    };
    println!("{operation}\t{cell}");
}

fn content() -> Vec<u8> {
    let lines = (0..200_000).map(|line| format!("{line:015}\n"));
    let mut text = lines.collect::<String>().into_bytes();
    text.truncate(LENGTH);
    text
}

fn mode(mode: u32) -> sattr3 {
    sattr3 {
        mode: Nfs3Option::Some(mode),
        ..sattr3::default()
    }
}

fn at<'a>(directory: &nfs_fh3, name: &'a str) -> diropargs3<'a> {
    diropargs3 {
        dir: directory.clone(),
        name: name.as_bytes().into(),
    }
}

struct Driver {
    nfs: Connection,
    root: nfs_fh3,
    work: nfs_fh3,
}

impl Driver {
    async fn look(&mut self, directory: &nfs_fh3, name: &str) -> Outcome<nfs_fh3> {
        let what = at(directory, name);
        Ok(done(self.nfs.lookup(&LOOKUP3args { what }).await?)?.object)
    }

    async fn is_there(&mut self, directory: &nfs_fh3, name: &str) -> Outcome<bool> {
        let what = at(directory, name);
        match self.nfs.lookup(&LOOKUP3args { what }).await? {
            Nfs3Result::Ok(_) => Ok(true),
            Nfs3Result::Err((nfsstat3::NFS3ERR_NOENT, _)) => Ok(false),
            Nfs3Result::Err((status, _)) => Err(Status(status).into()),
        }
    }

    async fn attributes(&mut self, directory: &nfs_fh3, name: &str) -> Outcome<fattr3> {
        let object = self.look(directory, name).await?;
        Ok(done(self.nfs.getattr(&GETATTR3args { object }).await?)?.obj_attributes)
    }

    async fn read_whole(&mut self, file: &nfs_fh3) -> Outcome<Vec<u8>> {
        let mut all = Vec::new();
        loop {
            let arguments = READ3args {
                file: file.clone(),
                offset: all.len() as u64,
                count: PIECE as u32,
            };
            let page = done(self.nfs.read(&arguments).await?)?;
            all.extend_from_slice(&page.data);
            if page.eof {
                return Ok(all);
            }
        }
    }

    /// One call for all that is left, also when that is more than the server takes at once.
    async fn write_whole(&mut self, file: &nfs_fh3, all: &[u8], stable: stable_how) -> Outcome {
        let mut written = 0;
        while written < all.len() {
            let arguments = WRITE3args {
                file: file.clone(),
                offset: written as u64,
                count: (all.len() - written) as u32,
                stable,
                data: Opaque::borrowed(&all[written..]),
            };
            written += done(self.nfs.write(&arguments).await?)?.count as usize;
        }
        Ok(())
    }

    async fn getattr(&mut self) -> Outcome {
        let root = self.root.clone();
        let found = self.attributes(&root, "content").await?;
        let is_file = found.type_ == ftype3::NF3REG;
        check(is_file && found.size == LENGTH as u64, found)
    }

    async fn list(&mut self) -> Outcome {
        let root = self.root.clone();
        let directory = self.look(&root, "many").await?;
        let (mut cookie, mut verifier) = (0, cookieverf3::default());
        let mut names = Vec::new();
        loop {
            let arguments = READDIRPLUS3args {
                dir: directory.clone(),
                cookie,
                cookieverf: verifier,
                dircount: 16 << 10,
                maxcount: 64 << 10,
            };
            let page = done(self.nfs.readdirplus(&arguments).await?)?;
            for entry in page.reply.entries.into_inner() {
                names.push(String::from_utf8(entry.name.0.to_vec())?);
                cookie = entry.cookie;
            }
            if page.reply.eof {
                break;
            }
            verifier = page.cookieverf;
        }
        names.retain(|name| name != "." && name != "..");
        let expected: BTreeSet<String> = (1..=2000).map(|at| format!("name-{at:04}")).collect();
        check(names.len() == 2000, names.len())?;
        check(
            names.into_iter().collect::<BTreeSet<_>>() == expected,
            "names",
        )
    }

    async fn read(&mut self) -> Outcome {
        let root = self.root.clone();
        let file = self.look(&root, "content").await?;
        check(self.read_whole(&file).await? == content(), "bytes")
    }

    async fn mkdir(&mut self) -> Outcome {
        let work = self.work.clone();
        let arguments = MKDIR3args {
            where_: at(&work, "folder"),
            attributes: mode(0o750),
        };
        done(self.nfs.mkdir(&arguments).await?)?;
        let found = self.attributes(&work, "folder").await?;
        check(found.type_ == ftype3::NF3DIR, found)
    }

    async fn create(&mut self) -> Outcome {
        let work = self.work.clone();
        let arguments = CREATE3args {
            where_: at(&work, "created"),
            how: createhow3::GUARDED(mode(0o640)),
        };
        done(self.nfs.create(&arguments).await?)?;
        let found = self.attributes(&work, "created").await?;
        check(found.mode & 0o777 == 0o640, found)
    }

    async fn write(&mut self) -> Outcome {
        let work = self.work.clone();
        let (file, all) = (self.look(&work, "old").await?, content());
        self.write_whole(&file, &all, stable_how::FILE_SYNC).await?;
        check(self.read_whole(&file).await? == all, "bytes")
    }

    async fn commit(&mut self) -> Outcome {
        let work = self.work.clone();
        let file = self.look(&work, "unstable").await?;
        let some = &content()[..100_000];
        self.write_whole(&file, some, stable_how::UNSTABLE).await?;
        let arguments = COMMIT3args {
            file: file.clone(),
            offset: 0,
            count: 0,
        };
        done(self.nfs.commit(&arguments).await?)?;
        check(self.read_whole(&file).await? == some, "bytes")
    }

    async fn truncate(&mut self) -> Outcome {
        let work = self.work.clone();
        let arguments = SETATTR3args {
            object: self.look(&work, "long").await?,
            new_attributes: sattr3 {
                size: Nfs3Option::Some(1000),
                ..sattr3::default()
            },
            guard: Nfs3Option::None,
        };
        done(self.nfs.setattr(&arguments).await?)?;
        let found = self.attributes(&work, "long").await?;
        check(found.size == 1000, found)
    }

    async fn rename(&mut self) -> Outcome {
        let work = self.work.clone();
        let place = self.look(&work, "place").await?;
        let arguments = RENAME3args {
            from: at(&work, "before"),
            to: at(&place, "after"),
        };
        done(self.nfs.rename(&arguments).await?)?;
        let is_new = self.is_there(&place, "after").await?;
        check(is_new && !self.is_there(&work, "before").await?, is_new)
    }

    async fn target(&mut self, directory: &nfs_fh3, name: &str) -> Outcome<Vec<u8>> {
        let symlink = self.look(directory, name).await?;
        let found = done(self.nfs.readlink(&READLINK3args { symlink }).await?)?;
        Ok(found.data.0.to_vec())
    }

    async fn symlink(&mut self) -> Outcome {
        let (root, work) = (self.root.clone(), self.work.clone());
        let found = self.target(&root, "link").await?;
        check(found == b"content", found)?;
        let arguments = SYMLINK3args {
            where_: at(&work, "symlink"),
            symlink: symlinkdata3 {
                symlink_attributes: sattr3::default(),
                symlink_data: b"../content".to_vec().into(),
            },
        };
        done(self.nfs.symlink(&arguments).await?)?;
        let found = self.target(&work, "symlink").await?;
        check(found == b"../content", found)
    }

    async fn link(&mut self) -> Outcome {
        let work = self.work.clone();
        let arguments = LINK3args {
            file: self.look(&work, "long").await?,
            link: at(&work, "second"),
        };
        done(self.nfs.link(&arguments).await?)?;
        let found = self.attributes(&work, "second").await?;
        check(found.nlink == 2, found)
    }

    async fn remove(&mut self) -> Outcome {
        let work = self.work.clone();
        let object = at(&work, "victim");
        done(self.nfs.remove(&REMOVE3args { object }).await?)?;
        let object = at(&work, "empty");
        done(self.nfs.rmdir(&RMDIR3args { object }).await?)?;
        for gone in ["victim", "empty"] {
            check(!self.is_there(&work, gone).await?, gone)?;
        }
        Ok(())
    }
}

async fn run(host: &str, export: &str, work: &str) -> Outcome {
    let user = auth_unix {
        machinename: Opaque::borrowed(b"client"),
        ..auth_unix::default()
    };
    let nfs = Nfs3ConnectionBuilder::new(SmolConnector, host, export)
        .credential(opaque_auth::auth_unix(&user))
        .mount()
        .await?;
    let root = nfs.root_nfs_fh3();
    let mut driver = Driver {
        nfs,
        work: root.clone(),
        root,
    };
    driver.work = driver.look(&driver.root.clone(), work).await?;
    put("getattr", driver.getattr().await);
    put("list", driver.list().await);
    put("read", driver.read().await);
    put("mkdir", driver.mkdir().await);
    put("create", driver.create().await);
    put("write", driver.write().await);
    put("commit", driver.commit().await);
    put("truncate", driver.truncate().await);
    put("rename", driver.rename().await);
    put("symlink", driver.symlink().await);
    put("link", driver.link().await);
    put("remove", driver.remove().await);
    put("mount", driver.nfs.unmount().await.map_err(Into::into));
    Ok(())
}

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [host, export, work] = arguments.as_slice() else {
        return Err("usage: driver HOST EXPORT WORK".into());
    };
    smol::block_on(run(host, export, work))
}

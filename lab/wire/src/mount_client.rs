//! MOUNT calls.

use pagewell_sunrpc::mount3::{
    self, DumpReply, ExportReply, MountReply, PathArguments, Procedure, Status,
};

use crate::client::{Answer, Client, encoded};
use crate::operations::FileHandle;

impl Client {
    /// Any procedure with these arguments.
    pub fn mount_call(&mut self, procedure: Procedure, arguments: &[u8]) -> Answer {
        let target = (mount3::PROGRAM, mount3::VERSION, procedure.number());
        self.call(target, arguments)
    }

    /// Sends a call for the root of an export, and does not wait for the reply.
    pub fn start_mount(&mut self, path: &[u8]) {
        let target = (mount3::PROGRAM, mount3::VERSION, Procedure::Mnt.number());
        self.start_call(target, &encoded(&PathArguments { path }));
    }

    pub fn mount(&mut self, path: &[u8]) -> Result<FileHandle, Status> {
        let answer = self.mount_call(Procedure::Mnt, &encoded(&PathArguments { path }));
        let reply: MountReply<'_> = answer.decode();
        let ok = reply?;
        assert!(ok.flavors.as_slice().contains(&1), "AUTH_SYS is accepted");
        Ok(ok.handle.as_bytes().to_vec())
    }

    pub fn unmount(&mut self, path: &[u8]) {
        let answer = self.mount_call(Procedure::Umnt, &encoded(&PathArguments { path }));
        answer.decode::<()>();
    }

    pub fn unmount_all(&mut self) {
        self.mount_call(Procedure::UmntAll, &[]).decode::<()>();
    }

    /// The mounts that the server remembers: host and path of each.
    pub fn mounted(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let answer = self.mount_call(Procedure::Dump, &[]);
        let list: DumpReply<'_> = answer.decode();
        list.iter()
            .map(|entry| (entry.host.to_vec(), entry.path.to_vec()))
            .collect()
    }

    /// Paths and the groups that may mount them.
    pub fn exports(&mut self) -> Vec<(Vec<u8>, Vec<Vec<u8>>)> {
        let answer = self.mount_call(Procedure::Export, &[]);
        let list: ExportReply<'_> = answer.decode();
        let groups = |entry: &mount3::ExportEntry<'_>| {
            entry
                .groups
                .iter()
                .map(|group| group.name.to_vec())
                .collect()
        };
        list.iter()
            .map(|entry| (entry.path.to_vec(), groups(&entry)))
            .collect()
    }
}

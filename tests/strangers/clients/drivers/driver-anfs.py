"""PyPI anfs: MOUNT version 1 beside 3, call numbers from 10 on each connection."""

import asyncio
import sys

from anfs.protocol.mount import Mount
from anfs.protocol.nfs3.client import NFSAccessError, NFSv3Client
from anfs.protocol.nfs3.messages import DONT_CHANGE, FILE_SYNC, GUARDED
from anfs.protocol.rpc.common.target import RPCTarget
from anfs.protocol.rpc.messages import AUTH_SYS

from cells import CONTENT, NAMES, SHORT, Unknown, check, failure, put, status

HOST, EXPORT, WORK = sys.argv[1:]
KEEP = {"atime_flag": DONT_CHANGE, "mtime_flag": DONT_CHANGE}
PIECE = 1 << 20


def result(answer):
    """What a call gives: most answer with a pair of result and error, some with the reply."""
    value, error = answer
    if isinstance(error, NFSAccessError):
        status(error.args[0])
    if isinstance(error, AttributeError):
        # Where a status is looked for it is a key, and no attribute.
        raise Unknown
    if error is not None:
        raise error
    if isinstance(value, dict):
        status(value["status"])
    return value


async def attempt(operation, run):
    try:
        await run()
        put(operation, "ok")
    except Exception as error:
        put(operation, failure(error))


class Driver:
    def __init__(self, nfs, mount):
        self.nfs, self.mount = nfs, mount

    async def look(self, directory, name):
        entry = result(await self.nfs.lookup(directory, name))
        check(entry is not False, name)
        return entry

    async def is_there(self, directory, name):
        return result(await self.nfs.lookup(directory, name)) is not False

    async def read_whole(self, file):
        content = b""
        while data := result(await self.nfs.read(file.handle, len(content))):
            content += data
        return content.decode()

    async def write_whole(self, file, content):
        content, written = content.encode(), 0
        while written < len(content):
            piece = content[written:written + PIECE]
            reply = result(await self.nfs.write(
                file.handle, written, len(piece), piece, FILE_SYNC))
            written += reply["resok"]["count"]

    async def getattr(self):
        file = await self.look(0, "content")
        entry = result(await self.nfs.getattr(file.handle))
        check((entry.size, entry.type) == (len(CONTENT), 1), entry.size)

    async def list(self):
        directory, names = await self.look(0, "many"), []
        async for entry, error in self.nfs.readdirplus(directory.handle):
            result((entry, error))
            names.append(entry.name)
        check(sorted(set(names) - {".", ".."}) == NAMES, len(names))
        check(len(names) <= len(NAMES) + 2, len(names))

    async def read(self):
        check(await self.read_whole(await self.look(0, "content")) == CONTENT)

    async def mkdir(self):
        result(await self.nfs.mkdir(self.work, "folder", mode=0o750, **KEEP))
        check((await self.look(self.work, "folder")).type == 2)

    async def create(self):
        result(await self.nfs.create(self.work, "created", GUARDED, mode=0o640, **KEEP))
        check((await self.look(self.work, "created")).mode & 0o777 == 0o640)

    async def write(self):
        file = await self.look(self.work, "old")
        await self.write_whole(file, CONTENT)
        check(await self.read_whole(file) == CONTENT)

    async def truncate(self):
        file = await self.look(self.work, "long")
        result(await self.nfs.setattr(file.handle, size=1000, **KEEP))
        check((await self.look(self.work, "long")).size == 1000)

    async def rename(self):
        place = await self.look(self.work, "place")
        result(await self.nfs.rename(self.work, "before", place.handle, "after"))
        check(await self.is_there(place.handle, "after"))
        check(not await self.is_there(self.work, "before"))

    async def symlink(self):
        link = await self.look(0, "link")
        check(result(await self.nfs.readlink(link.handle)) == "content")
        result(await self.nfs.symlink(self.work, "symlink", "../content"))
        link = await self.look(self.work, "symlink")
        check(result(await self.nfs.readlink(link.handle)) == "../content")

    async def link(self):
        file = await self.look(self.work, "long")
        result(await self.nfs.link(file.handle, self.work, "second"))
        check((await self.look(self.work, "second")).nlink == 2)

    async def remove(self):
        result(await self.nfs.remove(self.work, "victim"))
        result(await self.nfs.rmdir(self.work, "empty"))
        check(not await self.is_there(self.work, "victim"))
        check(not await self.is_there(self.work, "empty"))

    async def unmount(self):
        exports = result(await self.mount.export())
        check(EXPORT in [export.filesys for export in exports], exports)
        await self.mount.umount(EXPORT)
        # It unmounts all, with version 1.
        await self.mount.disconnect()


async def main():
    mount = Mount(RPCTarget(HOST), AUTH_SYS(machinename="client", uid=0, gid=0))
    result(await mount.connect())
    root = result(await mount.mount(EXPORT))
    nfs = NFSv3Client(root, RPCTarget(HOST), AUTH_SYS(machinename="client", uid=0, gid=0))
    result(await nfs.connect())
    driver = Driver(nfs, mount)
    driver.work = (await driver.look(0, WORK)).handle
    for operation in ("getattr list read mkdir create write truncate rename symlink link "
                      "remove").split():
        await attempt(operation, getattr(driver, operation))
    # Its commit() does not wait for the answer, and fails whatever that is.
    put("commit", "none")
    await attempt("mount", driver.unmount)
    await nfs.disconnect()


asyncio.run(main())

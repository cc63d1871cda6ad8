"""PyPI pynfsclient: calls one by one, with ports from the port mapper."""

import sys

from pyNfsClient import (DONT_CHANGE, FILE_SYNC, GUARDED, MOUNT_PROGRAM, MOUNT_V3, NFS_PROGRAM,
                         NFS_V3, UNSTABLE, Mount, NFSv3, Portmap)

from cells import CONTENT, NAMES, SHORT, attempt, check, status

HOST, EXPORT, WORK = sys.argv[1:]
AUTH = {"flavor": 1, "machine_name": "client", "uid": 0, "gid": 0, "aux_gid": []}
# Its readers lose bytes of replies that come in many pieces.
PIECE = 32 << 10
KEEP = {"atime_flag": DONT_CHANGE, "mtime_flag": DONT_CHANGE}

mapper = Portmap(HOST, timeout=60)
mapper.connect()
mount = Mount(HOST, mapper.getport(MOUNT_PROGRAM, MOUNT_V3), 60, AUTH)
mount.connect()
nfs = NFSv3(HOST, mapper.getport(NFS_PROGRAM, NFS_V3), 60, AUTH)
nfs.connect()
mapper.disconnect()


def result(reply):
    status(reply["status"])
    return reply.get("resok")


def look(directory, name):
    found = result(nfs.lookup(directory, name))
    return found["object"]["data"], found["obj_attributes"]["attributes"]


def is_there(directory, name):
    found = nfs.lookup(directory, name)["status"]
    check(found in (0, 2), found)
    return found == 0


def read(file, length):
    content = b""
    while len(content) < length:
        page = result(nfs.read(file, len(content), PIECE))
        content += page["data"]
        if page["eof"]:
            break
    return content.decode()


def write(file, content, stable):
    written = 0
    while written < len(content):
        piece = content[written:written + PIECE]
        reply = result(nfs.write(file, written, len(piece), piece, stable))
        written += reply["count"]


def mounted():
    reply = mount.mnt(EXPORT)
    status(reply["status"])
    return reply["mountinfo"]["fhandle"]


def unmount():
    status(mount.umnt()["status"])


root = mounted()
work = look(root, WORK)[0]


def getattr_of():
    attributes = result_of_getattr(look(root, "content")[0])
    check((attributes["size"], attributes["type"]) == (len(CONTENT), 1), attributes)


def result_of_getattr(file):
    reply = nfs.getattr(file)
    status(reply["status"])
    return reply["attributes"]


def listing():
    directory, cookie, names = look(root, "many")[0], 0, []
    while True:
        reply = result(nfs.readdirplus(directory, cookie=cookie))["reply"]
        entries = reply["entries"]
        while entries:
            names.append(entries[0]["name"].decode())
            cookie = entries[0]["cookie"]
            entries = entries[0]["nextentry"]
        if reply["eof"]:
            break
    check(sorted(set(names) - {".", ".."}) == NAMES and len(names) <= len(NAMES) + 2, len(names))


def mkdir():
    result(nfs.mkdir(work, "folder", mode=0o750, **KEEP))
    check(look(work, "folder")[1]["type"] == 2)


def create():
    result(nfs.create(work, "created", GUARDED, mode=0o640, **KEEP))
    check(look(work, "created")[1]["mode"] & 0o777 == 0o640)


def write_stable():
    file = look(work, "old")[0]
    write(file, CONTENT, FILE_SYNC)
    check(read(file, len(CONTENT)) == CONTENT)


def commit():
    file = look(work, "unstable")[0]
    write(file, SHORT, UNSTABLE)
    result(nfs.commit(file))
    check(read(file, len(SHORT)) == SHORT)


def truncate():
    result(nfs.setattr(look(work, "long")[0], size=1000, **KEEP))
    check(look(work, "long")[1]["size"] == 1000)


def rename():
    status(nfs.rename(work, "before", look(work, "place")[0], "after")["status"])
    check(is_there(look(work, "place")[0], "after") and not is_there(work, "before"))


def symlink():
    target = result(nfs.readlink(look(root, "link")[0]))["data"]
    check(target == b"content", target)
    result(nfs.symlink(work, "symlink", "../content"))
    check(result(nfs.readlink(look(work, "symlink")[0]))["data"] == b"../content")


def link():
    file = look(work, "long")[0]
    status(nfs.link(file, work, "second")["status"])
    check(look(work, "second")[1]["nlink"] == 2)


def remove():
    status(nfs.remove(work, "victim")["status"])
    status(nfs.rmdir(work, "empty")["status"])
    check(not is_there(work, "victim") and not is_there(work, "empty"))


attempt("getattr", getattr_of)
attempt("list", listing)
attempt("read", lambda: check(read(look(root, "content")[0], len(CONTENT)) == CONTENT))
attempt("mkdir", mkdir)
attempt("create", create)
attempt("write", write_stable)
attempt("commit", commit)
attempt("truncate", truncate)
attempt("rename", rename)
attempt("symlink", symlink)
attempt("link", link)
attempt("remove", remove)
attempt("mount", unmount)

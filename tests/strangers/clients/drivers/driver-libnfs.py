"""Debian's libnfs and the programs of libnfs-utils: nfs-ls, nfs-cat and nfs-cp where they do it."""

import ctypes
import errno
import os
import stat
import subprocess
import sys
import tempfile

from cells import CONTENT, NAMES, SHORT, Status, Unknown, attempt, check

HOST, EXPORT, WORK = sys.argv[1:]
libnfs = ctypes.CDLL("libnfs.so.13")
libnfs.nfs_init_context.restype = ctypes.c_void_p
U64 = ctypes.c_uint64


class Stat(ctypes.Structure):
    """struct nfs_stat_64"""
    _fields_ = [(name, U64) for name in (
        "dev ino mode nlink uid gid rdev size blksize blocks used "
        "atime mtime ctime atime_nsec mtime_nsec ctime_nsec").split()]


context = ctypes.c_void_p(libnfs.nfs_init_context())


def text(value):
    return value.encode()


def call(name, *arguments):
    answer = getattr(libnfs, name)(context, *arguments)
    if answer < 0:
        raise Status(errno.errorcode.get(-answer, str(answer))[1:])
    return answer


def at(name):
    return "/%s/%s" % (WORK, name)


def program(name, path, *more):
    url = "nfs://%s%s%s" % (HOST, EXPORT, path)
    done = subprocess.run([name, *[url if one is None else one for one in more]],
                          capture_output=True)
    if done.returncode != 0:
        said = (done.stderr + done.stdout).decode(errors="replace")
        print(said, file=sys.stderr)
        raise Status("ROFS") if "ROFS" in said else Unknown()
    return done.stdout


def stat_of(path):
    found = Stat()
    call("nfs_lstat64", text(path), ctypes.byref(found))
    return found


def is_there(path):
    return libnfs.nfs_lstat64(context, text(path), ctypes.byref(Stat())) != -errno.ENOENT


def mount():
    call("nfs_mount", text(HOST), text(EXPORT))


def readlink(path):
    target = ctypes.create_string_buffer(1024)
    call("nfs_readlink", text(path), target, len(target))
    return target.value


def getattr_of():
    found = stat_of("/content")
    check(stat.S_ISREG(found.mode) and found.size == len(CONTENT))


def listing():
    names = [line.split(maxsplit=5)[-1] for line in
             program("nfs-ls", "/many", None).decode().splitlines()]
    check(sorted(set(names) - {".", ".."}) == NAMES and len(names) <= len(NAMES) + 2, len(names))


def mkdir():
    call("nfs_mkdir2", text(at("folder")), 0o750)
    check(stat.S_ISDIR(stat_of(at("folder")).mode))


def write():
    # The program writes no file that is there.
    call("nfs_unlink", text(at("old")))
    with tempfile.NamedTemporaryFile() as local:
        local.write(text(CONTENT))
        local.flush()
        program("nfs-cp", at("old"), local.name, None)
    check(program("nfs-cat", at("old"), None) == text(CONTENT))


def open_file(path, flags, mode=0o640):
    file = ctypes.c_void_p()
    call("nfs_open2", text(path), flags, mode, ctypes.byref(file))
    return file


def create():
    call("nfs_close", open_file(at("created"), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    check(stat_of(at("created")).mode & 0o777 == 0o640)


def commit():
    file = open_file(at("unstable"), os.O_WRONLY)
    written = call("nfs_pwrite", file, U64(0), U64(len(SHORT)), text(SHORT))
    check(written == len(SHORT), written)
    call("nfs_fsync", file)
    call("nfs_close", file)
    check(program("nfs-cat", at("unstable"), None) == text(SHORT))


def truncate():
    call("nfs_truncate", text(at("long")), U64(1000))
    check(stat_of(at("long")).size == 1000)


def rename():
    call("nfs_rename", text(at("before")), text(at("place/after")))
    check(is_there(at("place/after")) and not is_there(at("before")))


def symlink():
    check(readlink("/link") == b"content")
    call("nfs_symlink", b"../content", text(at("symlink")))
    check(readlink(at("symlink")) == b"../content")


def link():
    call("nfs_link", text(at("long")), text(at("second")))
    check(stat_of(at("second")).nlink == 2)


def remove():
    call("nfs_unlink", text(at("victim")))
    call("nfs_rmdir", text(at("empty")))
    check(not is_there(at("victim")) and not is_there(at("empty")))


mount()
attempt("getattr", getattr_of)
attempt("list", listing)
attempt("read", lambda: check(program("nfs-cat", "/content", None) == text(CONTENT)))
attempt("mkdir", mkdir)
attempt("create", create)
attempt("write", write)
attempt("commit", commit)
attempt("truncate", truncate)
attempt("rename", rename)
attempt("symlink", symlink)
attempt("link", link)
attempt("remove", remove)
attempt("mount", lambda: call("nfs_umount"))

"""A bare NFSv3 client: one call at a time on one connection, and what the server says to it.

Its answers are the yardstick of the matrix: no cell may be worse than what they allow.
"""

import errno
import os
import random
import socket
import struct

MOUNT, NFS = 100005, 100003
NULL, GETATTR, SETATTR, LOOKUP = 0, 1, 2, 3
READLINK, READ, WRITE, CREATE, MKDIR = 5, 6, 7, 8, 9
SYMLINK, MKNOD, REMOVE, RMDIR, RENAME, LINK, READDIR, READDIRPLUS = range(10, 18)
FIFO = 7
SECONDS_MAX = 120

STATUS = {
    1: "EPERM", 2: "ENOENT", 5: "EIO", 6: "ENXIO", 13: "EACCES", 17: "EEXIST", 18: "EXDEV",
    20: "ENOTDIR", 21: "EISDIR", 22: "EINVAL", 27: "EFBIG", 28: "ENOSPC", 30: "EROFS", 31: "EMLINK",
    63: "ENAMETOOLONG", 66: "ENOTEMPTY", 69: "EDQUOT", 70: "ESTALE", 10001: "BADHANDLE",
    10002: "NOT_SYNC", 10003: "BAD_COOKIE", 10004: "EOPNOTSUPP", 10005: "TOOSMALL",
    10006: "SERVERFAULT", 10007: "BADTYPE", 10008: "JUKEBOX",
}  # fmt: skip
ACCEPTED = {
    1: "PROG_UNAVAIL", 2: "PROG_MISMATCH", 3: "PROC_UNAVAIL", 4: "GARBAGE_ARGS", 5: "SYSTEM_ERR",
}  # fmt: skip


class Refused(Exception):
    """What a server says instead of yes."""


def opaque(data):
    return struct.pack(">I", len(data)) + data + bytes(-len(data) % 4)


def attributes(mode=None, uid=None, gid=None, size=None, times=None):
    """A `sattr3` (RFC 1813 section 2.5.3); `times` are (seconds, nanoseconds) pairs."""
    words = b""
    for value, form in ((mode, ">II"), (uid, ">II"), (gid, ">II"), (size, ">IQ")):
        words += struct.pack(">I", 0) if value is None else struct.pack(form, 1, value)
    if times is None:
        return words + struct.pack(">II", 0, 0)
    return words + b"".join(struct.pack(">III", 2, *time) for time in times)


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def words(self, form):
        size = struct.calcsize(">" + form)
        if self.at + size > len(self.data):
            raise Refused("short answer")
        values = struct.unpack_from(">" + form, self.data, self.at)
        self.at += size
        return values

    def word(self):
        return self.words("I")[0]

    def opaque(self):
        length = self.word()
        data = self.data[self.at : self.at + length]
        self.at += length + -length % 4
        return data

    def attributes(self):
        """`fattr3`."""
        names = "type mode nlink uid gid size used major minor fsid fileid".split()
        found = dict(zip(names, self.words("IIIIIQQIIQQ")))
        found["mode"] &= 0o7777  # some servers tell the type in it, too
        found["atime"], found["mtime"], found["ctime"] = (self.words("II") for _ in range(3))
        return found

    def optional_attributes(self):
        return self.attributes() if self.word() else None


def connect(port):
    """From a reserved port, where this user may have one: many servers serve no others."""
    for source in random.sample(range(600, 1000), 100):
        found = socket.socket()
        found.settimeout(SECONDS_MAX)
        try:
            found.bind(("127.0.0.1", source if os.getuid() == 0 else 0))
            found.connect(("127.0.0.1", port))
            return found
        except OSError as error:
            found.close()
            if error.errno not in (errno.EADDRINUSE, errno.EADDRNOTAVAIL):
                raise
    raise Refused("no port to call from")


class Connection:
    def __init__(self, port):
        self.socket = connect(port)
        self.number = int.from_bytes(os.urandom(3), "big") << 8

    def exactly(self, count):
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            if not more:
                raise Refused("closed")
            data += more
        return data

    def call(self, program, procedure, arguments):
        self.number += 1
        user = struct.pack(">I", 0) + opaque(b"bare") + struct.pack(">IIII", 0, 0, 1, 0)
        head = struct.pack(">IIIIII", self.number, 0, 2, program, 3, procedure)
        call = head + struct.pack(">I", 1) + opaque(user) + struct.pack(">II", 0, 0) + arguments
        self.socket.sendall(struct.pack(">I", 1 << 31 | len(call)) + call)
        record = b""
        while True:
            (mark,) = struct.unpack(">I", self.exactly(4))
            record += self.exactly(mark & 0x7FFFFFFF)
            if mark >> 31:
                break
        reply = Reader(record)
        number, kind, denied = reply.words("III")
        if (number, kind) != (self.number, 1):
            raise Refused("not an answer to this call")
        if denied:
            raise Refused("denied")
        reply.word()
        reply.opaque()
        accepted = reply.word()
        if accepted:
            raise Refused(ACCEPTED.get(accepted, f"accept status {accepted}"))
        return reply


class Client:
    """A mounted export; paths are tuples of names from its root."""

    def __init__(self, port, mount_port, export):
        self.connection = Connection(port)
        answer = Connection(mount_port).call(MOUNT, 1, opaque(export.encode()))
        status = answer.word()
        if status:
            raise Refused(STATUS.get(status, f"mount status {status}"))
        self.root = answer.opaque()

    def ask(self, procedure, arguments):
        answer = self.connection.call(NFS, procedure, arguments)
        status = answer.word()
        if status:
            raise Refused(STATUS.get(status, f"status {status}"))
        return answer

    def look_up(self, *names):
        handle = self.root
        for name in names:
            answer = self.ask(LOOKUP, opaque(handle) + opaque(name))
            handle = answer.opaque()
        return handle

    def attributes(self, handle):
        return self.ask(GETATTR, opaque(handle)).attributes()

    def set(self, handle, **wanted):
        self.ask(SETATTR, opaque(handle) + attributes(**wanted) + struct.pack(">I", 0))

    def create(self, name, directory=None, how=0, **wanted):
        place = opaque(directory or self.root) + opaque(name)
        self.ask(CREATE, place + struct.pack(">I", how) + attributes(**wanted))
        return self.ask(LOOKUP, place).opaque()

    def make_directory(self, name):
        self.ask(MKDIR, opaque(self.root) + opaque(name) + attributes(mode=0o755))
        return self.look_up(name)

    def make_symlink(self, name, target):
        place = opaque(self.root) + opaque(name)
        self.ask(SYMLINK, place + attributes() + opaque(target))
        return self.look_up(name)

    def read_link(self, handle):
        answer = self.ask(READLINK, opaque(handle))
        answer.optional_attributes()
        return answer.opaque()

    def make_fifo(self, name):
        place = opaque(self.root) + opaque(name)
        self.ask(MKNOD, place + struct.pack(">I", FIFO) + attributes(mode=0o644))
        return self.look_up(name)

    def link(self, handle, name):
        self.ask(LINK, opaque(handle) + opaque(self.root) + opaque(name))

    def rename(self, old, new):
        self.ask(RENAME, opaque(self.root) + opaque(old) + opaque(self.root) + opaque(new))

    def remove(self, name):
        self.ask(REMOVE, opaque(self.root) + opaque(name))

    def write(self, handle, data, offset=0, stable=2):
        head = struct.pack(">QII", offset, len(data), stable)
        answer = self.ask(WRITE, opaque(handle) + head + opaque(data))
        if answer.word():
            answer.words("QIIII")
        answer.optional_attributes()
        return answer.word()

    def read(self, handle, count, offset=0):
        answer = self.ask(READ, opaque(handle) + struct.pack(">QI", offset, count))
        answer.optional_attributes()
        answer.words("II")
        return answer.opaque()

    def list(self, directory, plus=True, page_bytes=65536):
        """All entries: (name, attributes or None, whether there is a handle)."""
        entries, cookie, verifier, pages = [], 0, bytes(8), 0
        while True:
            arguments = opaque(directory) + struct.pack(">Q", cookie) + verifier
            arguments += struct.pack(">I", page_bytes) * (2 if plus else 1)
            answer = self.ask(READDIRPLUS if plus else READDIR, arguments)
            answer.optional_attributes()
            verifier = answer.words("8s")[0]
            before = len(entries)
            while answer.word():
                answer.words("Q")
                name, cookie = answer.opaque(), answer.words("Q")[0]
                found = answer.optional_attributes() if plus else None
                handle = answer.opaque() if plus and answer.word() else None
                entries.append((name, found, handle is not None))
            pages += 1
            if answer.word():
                return entries
            if len(entries) == before or pages > 5000:
                raise Refused("the listing does not go on")

"""What changes of a file take of set-user-id and set-group-id, in a directory of the kernel's and
in a mount of it: users of four kinds and root change files of each mode, in each way. One line for
each case that ends otherwise, and exit status 1.

usage: setid.py PLAIN MOUNTED [WAY...]     two empty directories; without these ways
"""

import ctypes
import os
import sys

OWNER, GROUP, OTHER = 1000, 1000, 1001
# User, group, further groups.
USERS = {
    "owner": (OWNER, GROUP, []),
    "owner outside": (OWNER, OTHER, []),
    "member": (OTHER, OTHER, [GROUP]),
    "other": (OTHER, OTHER, []),
    "root": (0, 0, []),
}
MODES = (0o2666, 0o2676, 0o4666, 0o6666, 0o6777)
PUNCH = 0x03  # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE

libc = ctypes.CDLL(None, use_errno=True)


def opened(path, change, flags=0):
    file = os.open(path, os.O_WRONLY | flags)
    try:
        change(file)
    finally:
        os.close(file)


def punch(file):
    if libc.fallocate(file, PUNCH, ctypes.c_long(0), ctypes.c_long(2)) != 0:
        raise OSError(ctypes.get_errno(), "fallocate")


def copy(path):
    source = os.open(path + ".source", os.O_RDONLY)
    opened(path, lambda file: os.copy_file_range(source, file, 4, 0, 0))
    os.close(source)


WAYS = {
    "write": lambda path: opened(path, lambda file: os.write(file, b"x")),
    "truncate": lambda path: os.truncate(path, 3),
    "ftruncate": lambda path: opened(path, lambda file: os.ftruncate(file, 2)),
    "open": lambda path: opened(path, lambda file: None, os.O_TRUNC),
    "allocate": lambda path: opened(path, lambda file: os.posix_fallocate(file, 0, 8192)),
    "punch": lambda path: opened(path, punch),
    "copy": copy,
    "chgrp": lambda path: os.chown(path, -1, os.getgid()),
}


def as_user(user, change):
    """The errno that it ends with, or 0."""
    process = os.fork()
    if process == 0:
        uid, gid, groups = user
        try:
            os.setgroups(groups)
            os.setgid(gid)
            os.setuid(uid)
            change()
            os._exit(0)
        except OSError as error:
            os._exit(error.errno)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def tried(directory, user, mode, way):
    path = os.path.join(directory, "file")
    with open(path, "w") as file:
        file.write("some data")
    os.chown(path, OWNER, GROUP)
    os.chmod(path, mode)
    ended = as_user(user, lambda: way(path))
    left = os.stat(path).st_mode & 0o7777
    os.unlink(path)
    return ended, oct(left)


def main():
    plain, mounted, *without = sys.argv[1:]
    for directory in plain, mounted:
        os.chmod(directory, 0o777)
        with open(os.path.join(directory, "file.source"), "w") as file:
            file.write("source")
    differ = 0
    for name, user in USERS.items():
        for mode in MODES:
            for way in sorted(set(WAYS) - set(without)):
                expected, found = (
                    tried(directory, user, mode, WAYS[way]) for directory in (plain, mounted)
                )
                if expected != found:
                    differ += 1
                    print(f"{name}, {oct(mode)}, {way}: {found} instead of {expected}")
    sys.exit(differ > 0)


main()

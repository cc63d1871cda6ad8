"""Makes system calls in the directory given and checks what they answer."""

import ctypes
import errno
import os
import sys


def refused(number, call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        assert error.errno == number, (call, arguments, error)
    else:
        raise AssertionError((call, arguments, "was not refused"))


def open_directories():
    """A directory that is open and has lost its name can be used until it is closed."""
    for way in ("rmdir", "rename"):
        os.mkdir("d")
        descriptor = os.open("d", os.O_RDONLY | os.O_DIRECTORY)
        before = os.fstat(descriptor)
        if way == "rmdir":
            os.rmdir("d")
        else:
            os.mkdir("other")
            os.rename("other", "d")
        after = os.fstat(descriptor)
        assert (after.st_ino, after.st_nlink) == (before.st_ino, 0), after
        os.fchmod(descriptor, 0o711)
        assert os.fstat(descriptor).st_mode & 0o7777 == 0o711
        os.fsync(descriptor)
        os.close(descriptor)
        if way == "rename":
            os.rmdir("d")


def renameat2(old, new, flags):
    """rename(2) with flags, which the library of Python lacks."""
    library = ctypes.CDLL(None, use_errno=True)
    here = -100  # AT_FDCWD
    if library.renameat2(here, old.encode(), here, new.encode(), flags) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


def moves():
    """A name moves to a place that must be free, or changes places with another."""
    noreplace, exchange = 1, 2
    for name in ("f", "g"):
        with open(name, "w", encoding="ascii") as file:
            file.write(name)
    os.mkdir("d")
    refused(errno.EEXIST, renameat2, "f", "g", noreplace)
    refused(errno.ENOENT, renameat2, "f", "h", exchange)
    refused(errno.EINVAL, renameat2, "f", "g", noreplace | exchange)
    renameat2("f", "h", noreplace)
    renameat2("h", "f", noreplace)
    renameat2("f", "g", exchange)
    assert (open("f").read(), open("g").read()) == ("g", "f")
    renameat2("f", "d", exchange)
    assert os.path.isdir("f") and open("d").read() == "g"
    refused(errno.EINVAL, renameat2, "f", "f/inside", noreplace)
    os.rmdir("f")
    os.remove("d")
    os.remove("g")


def holes():
    """What was never written is a hole, and copies leave it out."""
    mebibyte = 1 << 20
    with open("sparse", "wb+", buffering=0) as file:
        file.truncate(8 * mebibyte)
        refused(errno.ENXIO, os.lseek, file.fileno(), 0, os.SEEK_DATA)
        os.pwrite(file.fileno(), b"x" * mebibyte, 4 * mebibyte)
        seek = lambda offset, what: os.lseek(file.fileno(), offset, what)
        assert seek(0, os.SEEK_HOLE) == 0
        assert seek(0, os.SEEK_DATA) == 4 * mebibyte
        assert seek(4 * mebibyte + 7, os.SEEK_DATA) == 4 * mebibyte + 7
        assert seek(4 * mebibyte, os.SEEK_HOLE) == 5 * mebibyte
        refused(errno.ENXIO, os.lseek, file.fileno(), 5 * mebibyte, os.SEEK_DATA)
        refused(errno.ENXIO, os.lseek, file.fileno(), 8 * mebibyte, os.SEEK_HOLE)
        assert seek(-1, os.SEEK_END) == 8 * mebibyte - 1
    os.remove("sparse")


def handles():
    """A file handle is good after the kernel has forgotten the file, where the source can tell."""
    library = ctypes.CDLL(None, use_errno=True)
    with open("handled", "w", encoding="ascii") as file:
        file.write("found again")
    handle = ctypes.create_string_buffer(8 + 128)
    ctypes.c_uint.from_buffer(handle).value = 128
    mount = ctypes.c_int()
    here = os.open(".", os.O_RDONLY)
    name = b"handled"
    assert library.name_to_handle_at(here, name, handle, ctypes.byref(mount), 0) == 0
    os.chdir("/")
    # A new mount with the old flags (nosuid, nodev) forgets all names that are not in use.
    remount, flags = 32, 2 | 4
    assert library.mount(None, sys.argv[1].encode(), None, remount | flags, None) == 0
    found = library.open_by_handle_at(here, handle, os.O_RDONLY)
    if found < 0:
        assert ctypes.get_errno() == errno.ESTALE and sys.argv[2] != "ram", ctypes.get_errno()
    else:
        assert os.read(found, 100) == b"found again"
        os.close(found)
    os.chdir(here)
    os.close(here)
    os.remove("handled")


os.chdir(sys.argv[1])
open_directories()
moves()
holes()
if os.getuid() == 0:
    handles()
os.chdir("/")

"""Makes system calls in the directory given and checks what they answer."""

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


os.chdir(sys.argv[1])
open_directories()
os.chdir("/")

"""What programs do in a mounted directory, one operation a function.

Each takes the directory (or two, which are mounts of one export) and returns a word: `ok` when it
was done and can be seen to be done, `ignored` or `in part` when the server said yes and did not do
it, else what it raises: the name of an errno.
"""

import errno
import hashlib
import multiprocessing
import os
import stat
import time

MEBIBYTE = 1 << 20
ODD_NAMES = [
    b"with space", b" leading", b"quote'\"double", b"back\\slash", b"-dash", b"new\nline", b"*?[x]",
    b"tab\there", "na\u00efve-\u65e5\u672c".encode(), b"n" * 255,
]  # fmt: skip
NOT_UTF8 = [b"latin-\xe9", b"\xff\xfe"]
SOME_TIME = 981_173_106_123_456_789  # nanoseconds: in February 2001


def put(path, data, mode="wb"):
    with open(path, mode, buffering=0) as file:
        file.write(data)


def get(path):
    with open(path, "rb") as file:
        return file.read()


def kept(wanted, found, before):
    """How much of an attribute came through."""
    if found == wanted:
        return "ok"
    return "ignored" if found == before else "in part"


def list_names(root):
    names = os.listdir(root + "/many")
    with os.scandir(root + "/many") as entries:
        files = sum(entry.is_file(follow_symlinks=False) for entry in entries)
    wanted = [f"name-{number}" for number in range(10_000)]
    return "ok" if sorted(names) == sorted(wanted) and files == 10_000 else f"{len(names)} names"


def create(root):
    path = root + "/created"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
    os.write(descriptor, b"first")
    assert os.pread(descriptor, 10, 0) == b"first"
    os.close(descriptor)
    try:
        os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        return "made twice"
    except FileExistsError:
        pass
    put(path, b"second")
    assert get(path) == b"second"
    return "ok"


def directories(root):
    os.makedirs(root + "/a/b/c")
    put(root + "/a/b/c/file", b"x")
    assert os.listdir(root + "/a/b/c") == ["file"]
    os.remove(root + "/a/b/c/file")
    os.rmdir(root + "/a/b/c")
    os.rmdir(root + "/a/b")
    os.rmdir(root + "/a")
    assert not os.path.exists(root + "/a")
    return "ok"


def not_empty(root):
    os.mkdir(root + "/not-empty")
    put(root + "/not-empty/file", b"x")
    os.rmdir(root + "/not-empty")
    return "removed"


def append(root):
    path = root + "/appended"
    for number in range(100):
        put(path, b"line %d\n" % number, "ab")
    assert get(path) == b"".join(b"line %d\n" % number for number in range(100))
    return "ok"


def truncate(root):
    path = root + "/truncated"
    put(path, b"x" * 100_000)
    os.truncate(path, 70_001)
    assert get(path) == b"x" * 70_001
    os.truncate(path, 80_000)
    assert get(path) == b"x" * 70_001 + bytes(9_999)
    with open(path, "wb"):
        pass
    assert os.stat(path).st_size == 0
    return "ok"


def modes(root):
    path = root + "/modes"
    put(path, b"")
    before = stat.S_IMODE(os.stat(path).st_mode)
    os.chmod(path, 0o440)
    return kept(0o440, stat.S_IMODE(os.stat(path).st_mode), before)


def times(root):
    path = root + "/times"
    put(path, b"")
    before = os.stat(path).st_mtime_ns
    os.utime(path, ns=(SOME_TIME, SOME_TIME))
    return kept(SOME_TIME, os.stat(path).st_mtime_ns, before)


def owners(root):
    path = root + "/owners"
    put(path, b"")
    found = os.stat(path)
    before = found.st_uid, found.st_gid
    os.chown(path, 1234, 1235)
    found = os.stat(path)
    return kept((1234, 1235), (found.st_uid, found.st_gid), before)


def symlinks(root, target="many"):
    path = root + "/symlink"
    os.symlink(target, path)
    assert os.readlink(path) == target and os.path.islink(path)
    os.remove(path)
    return "ok"


def dangling_symlinks(root):
    return symlinks(root, "nowhere")


def hard_links(root):
    path = root + "/linked"
    put(path, b"one file")
    os.link(path, path + "-too")
    assert os.stat(path).st_ino == os.stat(path + "-too").st_ino
    put(path + "-too", b" two names", "ab")
    assert get(path) == b"one file two names"
    return "ok"


def fifos(root):
    path = root + "/fifo"
    os.mkfifo(path)
    assert stat.S_ISFIFO(os.lstat(path).st_mode)
    os.remove(path)
    return "ok"


def rename_over(root):
    put(root + "/old", b"old")
    put(root + "/new", b"new")
    os.rename(root + "/new", root + "/old")
    assert get(root + "/old") == b"old"[:0] + b"new" and not os.path.exists(root + "/new")
    os.mkdir(root + "/directory")
    put(root + "/directory/file", b"inside")
    os.rename(root + "/directory", root + "/moved")
    assert get(root + "/moved/file") == b"inside" and "directory" not in os.listdir(root)
    return "ok"


def open_removed(root):
    path = root + "/open-removed"
    before = set(os.listdir(root))
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    os.write(descriptor, b"still")
    os.remove(path)
    assert not os.path.exists(path)
    os.write(descriptor, b" here")
    os.fsync(descriptor)
    assert os.pread(descriptor, 20, 0) == b"still here"
    os.close(descriptor)
    # The kernel tells a mount of the last close when it has time.
    end = time.monotonic() + 60
    while set(os.listdir(root)) - before:
        if time.monotonic() > end:
            return "leaves a name"
        time.sleep(0.05)
    return "ok"


def open_renamed(root):
    path = root + "/open-renamed"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    os.write(descriptor, b"before")
    os.rename(path, path + "-now")
    os.write(descriptor, b" after")
    os.fsync(descriptor)
    os.close(descriptor)
    assert get(path + "-now") == b"before after"
    return "ok"


def open_replaced(root):
    path = root + "/open-replaced"
    put(path, b"the old one")
    put(path + "-new", b"the new one")
    with open(path, "rb") as file:
        os.rename(path + "-new", path)
        found = file.read()
    if found == b"the new one":
        return "the new bytes"  # the server gives the old handle to the new file
    assert found == b"the old one", found
    assert get(path) == b"the new one"
    return "ok"


def holes(root):
    path = root + "/holes"
    with open(path, "wb", buffering=0) as file:
        os.pwrite(file.fileno(), b"end", 8 * MEBIBYTE)
    data = get(path)
    assert data == bytes(8 * MEBIBYTE) + b"end"
    return "ok"


def names_of(root, names):
    directory = os.fsencode(root) + b"/odd"
    os.mkdir(directory)
    for name in names:
        put(directory + b"/" + name, name)
    assert sorted(os.listdir(directory)) == sorted(names), os.listdir(directory)
    for name in names:
        assert get(directory + b"/" + name) == name
        os.remove(directory + b"/" + name)
    os.rmdir(directory)
    return "ok"


def odd_names(root):
    return names_of(root, ODD_NAMES)


def bytes_as_names(root):
    try:
        return names_of(root, NOT_UTF8)
    finally:
        for name in NOT_UTF8:
            try:
                os.remove(os.fsencode(root) + b"/odd/" + name)
            except OSError:
                pass
        try:
            os.rmdir(root + "/odd")
        except OSError:
            pass


def too_long(root):
    put(root + "/" + "n" * 256, b"")
    return "taken"


def append_all(path, word, count):
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    for number in range(count):
        os.write(descriptor, b"%s %05d\n" % (word, number))
    os.close(descriptor)


def two_appenders(root):
    """Two programs of one mount append at the same time."""
    path = root + "/two"
    put(path, b"")
    words = [b"one", b"two"]
    appends = [(path, word, 500) for word in words]
    programs = [multiprocessing.Process(target=append_all, args=append) for append in appends]
    for program in programs:
        program.start()
    for program in programs:
        program.join()
        assert program.exitcode == 0
    wanted = sorted(b"%s %05d" % (word, number) for word in words for number in range(500))
    return "ok" if sorted(get(path).splitlines()) == wanted else "lines lost"


def two_mounts(root, other):
    """Programs of two mounts append in turn, each opening the file when the other has closed it."""
    put(root + "/turns", b"")
    for number in range(50):
        put((root, other)[number % 2] + "/turns", b"line %d\n" % number, "ab")
    wanted = b"".join(b"line %d\n" % number for number in range(50))
    return "ok" if get(root + "/turns") == get(other + "/turns") == wanted else "lines lost"


def large(root):
    """200 MB, written in odd pieces and read back."""
    path = root + "/large"
    piece = os.urandom(999_983)
    wanted = hashlib.sha256()
    with open(path, "wb", buffering=0) as file:
        left = 200_000_000
        while left:
            part = memoryview(piece)[: min(left, len(piece))]
            wanted.update(part)
            left -= file.write(part)
        os.fsync(file.fileno())
    found = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:
        while data := file.read(MEBIBYTE):
            found.update(data)
    return "ok" if found.digest() == wanted.digest() else "other bytes"


# The row of the table, and what fills it.
OPERATIONS = {
    "list 10,000 names": list_names,
    "create": create,
    "directories": directories,
    "rmdir of one that is not empty": not_empty,
    "append": append,
    "truncate": truncate,
    "chmod": modes,
    "times": times,
    "chown": owners,
    "symbolic links": symlinks,
    "dangling symbolic links": dangling_symlinks,
    "hard links": hard_links,
    "fifos": fifos,
    "rename over": rename_over,
    "open file removed": open_removed,
    "open file renamed": open_renamed,
    "open file replaced": open_replaced,
    "holes": holes,
    "odd names, 255 bytes": odd_names,
    "names not in UTF-8": bytes_as_names,
    "a name of 256 bytes": too_long,
    "two appenders, one mount": two_appenders,
    "two appenders, two mounts": two_mounts,
    "200 MB": large,
}


def word_of(work):
    """The word for what `work` does."""
    try:
        return work()
    except OSError as error:
        if error.errno == errno.EOPNOTSUPP:
            return "EOPNOTSUPP"  # which has two names
        return errno.errorcode.get(error.errno, str(error.errno))
    except AssertionError as error:
        return f"wrong: {error}" if str(error) else "wrong"


def in_a_process(work, seconds_max):
    """[`word_of`] in a process of its own, since it may hang; ends with it then."""
    ours, theirs = multiprocessing.Pipe(False)

    def run():
        theirs.send(word_of(work))

    process = multiprocessing.Process(target=run)
    process.start()
    theirs.close()
    try:
        return ours.recv() if ours.poll(seconds_max) else "hangs"
    except EOFError:
        return "died"
    finally:
        process.kill()
        process.join()

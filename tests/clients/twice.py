"""Makes the same system calls in two directories and compares what they answer.

The first directory is a mount of Pagewell, the second one of a local file system.
"""

import ctypes
import errno
import json
import os
import stat
import struct
import sys

USER = 1000
LIBRARY = ctypes.CDLL(None, use_errno=True)
KEEP, PUNCH, COLLAPSE, ZERO, INSERT = 1, 2, 8, 16, 32
CAPABILITY = struct.pack("<5I", 0x02000001, 0x400, 0, 0, 0)


def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result


def fallocate(descriptor, mode, offset, length):
    range_ = ctypes.c_longlong(offset), ctypes.c_longlong(length)
    checked(LIBRARY.fallocate(descriptor, mode, *range_))


def getxattr_into(path, name, size):
    """getxattr(2) with a buffer of a size of its own, which Python does not have."""
    buffer = ctypes.create_string_buffer(max(size, 1))
    return checked(LIBRARY.lgetxattr(path.encode(), name.encode(), buffer, size))


def listxattr_into(path, size):
    buffer = ctypes.create_string_buffer(max(size, 1))
    return checked(LIBRARY.llistxattr(path.encode(), buffer, size))


def told(call, *arguments, **more):
    """What a call answers, as something that can be compared."""
    try:
        answer = call(*arguments, **more)
    except OSError as error:
        return errno.errorcode[error.errno]
    if isinstance(answer, bytes):
        return answer.decode("latin-1")
    return sorted(answer) if isinstance(answer, list) else answer


def as_user(work, user=USER, groups=()):
    """What `work` returns, done by an ordinary user."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups(groups)
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            os.write(theirs, json.dumps(work()).encode())
            os._exit(0)
        finally:
            os._exit(1)
    os.close(theirs)
    with os.fdopen(ours, "rb") as pipe:
        answer = json.loads(pipe.read())
    assert os.waitpid(child, 0)[1] == 0
    return answer


def attributes_of(objects, names):
    calls = []
    do = lambda call, *arguments, **more: calls.append(
        [call.__name__, repr(arguments), told(call, *arguments, **more)]
    )
    plain = {"follow_symlinks": False}
    for path in objects:
        for name in names:
            do(os.getxattr, path, name, **plain)
            do(os.setxattr, path, name, b"one", os.XATTR_REPLACE, **plain)
            do(os.setxattr, path, name, b"one", os.XATTR_CREATE, **plain)
            do(os.setxattr, path, name, b"again", os.XATTR_CREATE, **plain)
            do(os.setxattr, path, name, b"a longer one", **plain)
            for size in (0, 3, 12, 100):
                do(getxattr_into, path, name, size)
            do(os.listxattr, path, **plain)
            for size in (0, 2, 1000):
                do(listxattr_into, path, size)
            do(os.setxattr, path, name, b"", **plain)
            do(os.getxattr, path, name, **plain)
            do(os.removexattr, path, name, **plain)
            do(os.removexattr, path, name, **plain)
    do(os.setxattr, "f", "user.big", bytes(65537))
    do(os.setxattr, "f", "user." + "n" * 250, b"")
    do(os.setxattr, "f", "user." + "n" * 251, b"")
    return calls


def extended_attributes(kinds):
    for name, owner, mode in (("f", 0, 0o644), ("mine", USER, 0o600), ("read-only", USER, 0o400)):
        with open(name, "w", encoding="ascii"):
            os.chown(name, owner, owner)
            os.chmod(name, mode)
    for name, mode in (("sticky", 0o1777), ("open", 0o777)):
        os.mkdir(name)
        os.chmod(name, mode)
    os.symlink("f", "link")
    os.mkfifo("pipe")
    objects = ("f", "mine", "read-only", "sticky", "open", "link", "pipe")
    names = [f"{kind}.a" for kind in kinds] + ["user.", "unknown.a"]
    calls = attributes_of(objects, names)
    os.setxattr("f", "user.seen", b"by all")
    os.setxattr("f", "trusted.seen", b"by root")
    calls += as_user(lambda: attributes_of(objects, names + ["user.seen", "trusted.seen"]))
    return calls


def mode_after(change, mode, has_capabilities):
    """What is left of set-user-id and set-group-id after a change by an ordinary user."""
    with open("privileged", "wb") as file:
        file.write(bytes(100_000))
    os.chmod("privileged", mode)
    if has_capabilities:
        os.setxattr("privileged", "security.capability", CAPABILITY)
    # Now it is known, as it was.
    os.stat("privileged")
    os.listxattr("privileged")
    answer = change()
    left = oct(stat.S_IMODE(os.stat("privileged").st_mode))
    attributes = os.listxattr("privileged")
    os.remove("privileged")
    return [answer, left, attributes]


def with_open(work, flags=os.O_RDWR):
    def opened():
        descriptor = os.open("privileged", flags)
        try:
            return work(descriptor)
        finally:
            os.close(descriptor)

    return told(opened)


def given_away(work):
    """Opened by root, used by somebody else."""
    descriptor = os.open("privileged", os.O_RDWR)
    os.seteuid(USER)
    try:
        return told(work, descriptor)
    finally:
        os.seteuid(0)
        os.close(descriptor)


def privileges(kinds):
    has_capabilities = "security" in kinds
    changes = {
        "write": lambda file: os.pwrite(file, b"x", 5),
        "writes": lambda file: [os.pwrite(file, b"x", at) for at in range(3)],
        "truncate": lambda file: os.ftruncate(file, 50),
        "room": lambda file: os.posix_fallocate(file, 0, 200_000),
        "punch": lambda file: fallocate(file, KEEP | PUNCH, 0, 4096),
        "copy": lambda file: os.copy_file_range(file, file, 10, 0, 50_000),
    }
    calls = []
    for name, change in changes.items():
        for mode in (0o6777, 0o2777, 0o4777):
            by_user = lambda change=change: as_user(lambda: with_open(change))
            calls.append([name, oct(mode), mode_after(by_user, mode, has_capabilities)])
            by_other = lambda change=change: given_away(change)
            calls.append([name, "given", oct(mode), mode_after(by_other, mode, has_capabilities)])
    truncating = lambda: as_user(lambda: with_open(lambda _: 0, os.O_RDWR | os.O_TRUNC))
    calls.append(["O_TRUNC", mode_after(truncating, 0o6777, has_capabilities)])
    return calls


USER_OBJECT, NAMED_USER, GROUP_OBJECT, NAMED_GROUP, MASK, OTHER = 1, 2, 4, 8, 16, 32
ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"


def access_list(*entries):
    """An access control list as the kernel has it: tags, permissions, and whose."""
    body = b"".join(struct.pack("<HHI", *entry) for entry in entries)
    return struct.pack("<I", 2) + body


def list_for(user, group, permissions, mask=7):
    nobody = 0xFFFFFFFF
    return access_list(
        (USER_OBJECT, 7, nobody),
        (NAMED_USER, permissions, user),
        (GROUP_OBJECT, 5, nobody),
        (NAMED_GROUP, permissions, group),
        (MASK, mask, nobody),
        (OTHER, 0, nobody),
    )


def found(path):
    """What can be seen of an object's permissions."""
    mode = oct(os.lstat(path).st_mode)
    lists = [told(os.getxattr, path, name, follow_symlinks=False) for name in (ACCESS, DEFAULT)]
    return [path, mode, lists, told(os.listxattr, path, follow_symlinks=False)]


def used(path):
    """What an ordinary user may do with an object."""
    answers = [told(os.access, path, kind) for kind in (os.R_OK, os.W_OK, os.X_OK)]
    for flags in (os.O_RDONLY, os.O_RDWR):
        answers.append(told(lambda: os.close(os.open(path, flags))))
    return answers


def made_in(directory):
    """Objects of all kinds, with what they are made with."""
    top = f"{directory}/{os.getuid()}"
    for umask in (0, 0o022, 0o077, 0o777):
        os.umask(umask)
        for mode in (0o666, 0o640, 0o777):
            path = f"{top}-{umask}-{mode}"
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, mode))
            os.mkdir(path + "d", mode)
            os.mkfifo(path + "p", mode)
    os.umask(0o022)
    os.close(os.open(top + "s", os.O_CREAT | os.O_WRONLY, 0o6777))
    os.mkdir(top + "sd", 0o3777)
    os.symlink("nowhere", top + "l")
    return 0


def access_lists():
    calls = []
    group = 1234
    permissions = range(8)
    for name in [str(number) for number in permissions] + ["denied", "masked", "outer"]:
        os.mkdir("acl-" + name)
        with open(f"acl-{name}/f", "wb"):
            os.chmod(f"acl-{name}/f", 0o644)
    by_list = lambda path, value: told(os.setxattr, path, ACCESS, value)
    for bits in permissions:
        calls.append(by_list(f"acl-{bits}", list_for(USER, group, bits)))
        calls.append(by_list(f"acl-{bits}/f", list_for(USER, group, bits)))
    calls.append(by_list("acl-denied/f", list_for(USER, USER, 0)))
    calls.append(by_list("acl-masked/f", list_for(USER, group, 7, mask=4)))
    names = (*permissions, "denied", "masked")
    paths = [f"acl-{name}{file}" for name in names for file in ("", "/f")]
    calls += [found(path) for path in paths]
    calls += as_user(lambda: [used(path) for path in paths])
    calls += as_user(lambda: [used(path) for path in paths], user=1001, groups=[group])
    # Changed modes are changed lists, and other users may set none.
    os.chmod("acl-7/f", 0o604)
    calls.append(found("acl-7/f"))
    calls += as_user(lambda: [by_list(path, list_for(USER, group, 7)) for path in paths])
    calls.append(by_list("acl-7/f", b"no list"))
    calls.append(by_list("acl-7/f", access_list((USER_OBJECT, 7, 0))))
    calls += [told(os.removexattr, "acl-7/f", ACCESS) for _ in range(2)] + [found("acl-7/f")]
    calls.append(told(os.setxattr, "acl-7/f", DEFAULT, list_for(USER, group, 7)))
    # What is made where there is a list for it.
    for name, default in (("plain", None), ("wide", list_for(USER, group, 7)),
                          ("narrow", list_for(1001, group, 1, mask=1))):
        os.mkdir("make-" + name)
        os.chmod("make-" + name, 0o3777)
        if default:
            calls.append(told(os.setxattr, "make-" + name, DEFAULT, default))
            os.setxattr("make-" + name, ACCESS, list_for(USER, group, 7))
        calls.append(made_in("make-" + name))
        calls.append(as_user(lambda name=name: made_in("make-" + name)))
        calls += [found(f"make-{name}/{path}") for path in sorted(os.listdir("make-" + name))]
    return calls


def state(descriptor):
    """Length and bytes, as a program sees them at once."""
    size = os.fstat(descriptor).st_size
    content = os.pread(descriptor, size + 1, 0)
    runs = [(at, content[at]) for at in range(0, size, 999)]
    return [size, len(content), runs]


def room_and_holes():
    calls = []
    descriptor = os.open("room", os.O_RDWR | os.O_CREAT)
    os.write(descriptor, bytes(range(256)) * 1000)
    ranges = ((0, 4096), (4096, 70_000), (100, 200), (250_000, 50_000), (400_000, 10), (0, 0))
    for mode in (0, KEEP, KEEP | PUNCH, PUNCH, ZERO, ZERO | KEEP, COLLAPSE | KEEP, 1 << 20):
        for offset, length in ranges:
            answer = told(fallocate, descriptor, mode, offset, length)
            calls.append([mode, offset, length, answer, state(descriptor)])
        os.pwrite(descriptor, bytes(range(1, 256)) * 1000, 0)
    far = [told(fallocate, descriptor, mode, (1 << 63) - 10, 100) for mode in (0, KEEP)]
    reader = os.open("room", os.O_RDONLY)
    calls.append([far, told(fallocate, reader, 0, 0, 10)])
    os.close(reader)
    os.close(descriptor)
    directory = os.open(".", os.O_RDONLY)
    calls.append(told(fallocate, directory, 0, 0, 10))
    os.close(directory)
    return calls


def copies():
    calls = []
    source = os.open("source", os.O_RDWR | os.O_CREAT)
    target = os.open("target", os.O_RDWR | os.O_CREAT)
    os.write(source, bytes(range(256)) * 1000)
    for offset, to, length in (
        (0, 0, 100_000),
        (1000, 300_000, 5000),
        (250_000, 0, 100_000),
        (256_000, 0, 10),
        (300_000, 0, 10),
        (0, 7, 0),
    ):
        # What the reader keeps of the target must not be told any more.
        state(target)
        answer = told(os.copy_file_range, source, target, length, offset, to)
        calls.append([offset, to, length, answer, state(target)])
    inside = told(os.copy_file_range, source, source, 1000, 0, 500)
    calls.append([inside, told(os.copy_file_range, source, source, 1000, 0, 5000), state(source)])
    os.close(target)
    reader = os.open("target", os.O_RDONLY)
    calls.append(told(os.copy_file_range, source, reader, 10, 0, 0))
    writer = os.open("target", os.O_WRONLY)
    calls.append(told(os.copy_file_range, writer, source, 10, 0, 0))
    for descriptor in (source, reader, writer):
        os.close(descriptor)
    return calls


def answers(top, kinds):
    os.chdir(top)
    os.umask(0o022)
    lists = access_lists() if "lists" in kinds else []
    kinds = [kind for kind in kinds if kind != "lists"]
    return {
        "access control lists": lists,
        "extended attributes": extended_attributes(kinds),
        "privileges": privileges(kinds),
        "room and holes": room_and_holes(),
        "copies": copies(),
    }


def main():
    mount, local, kinds = sys.argv[1], sys.argv[2], sys.argv[3].split(",")
    ours, theirs = answers(mount, kinds), answers(local, kinds)
    os.chdir("/")
    different = 0
    for name, calls in ours.items():
        assert len(calls) == len(theirs[name])
        for number, (one, other) in enumerate(zip(calls, theirs[name])):
            if one != other:
                different += 1
                print(f"{name} {number}:\n  mount: {one!s:.600}\n  local: {other!s:.600}")
    sys.exit(different > 0)


main()

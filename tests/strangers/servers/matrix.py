"""Measures the cells of one server: what it offers a bare client, and what Pagewell makes of it.

usage: matrix.py NAME PROGRAM WORK

Environment: PAGEWELL, the program under test. WORK is an empty directory. Runs as root in a network
and a mount name space of its own. Prints a line for each cell, with tabs between: the table, its
row, the word, and the seconds it took.
"""

import contextlib
import errno
import functools
import hashlib
import multiprocessing
import os
import random
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time

import bare
import operations
from operations import MEBIBYTE, OPERATIONS, SOME_TIME, get, kept, put

HERE = os.path.dirname(os.path.abspath(__file__))
PAGEWELL = os.environ["PAGEWELL"]
SECONDS_MAX = 300
# The path that clients mount, where it is not "/", and the MOUNT port less the NFS port.
EXPORTS = {"nfs-ganesha": ("/shared", 1)}


def note(text):
    print(text, file=sys.stderr, flush=True)


def free_port():
    """
    One with another behind it, of those that no client gets: a server that is started again needs
    the same two.
    """
    while True:
        port = random.randrange(20_000, 30_000)
        with socket.socket() as one, socket.socket() as two:
            try:
                one.bind(("127.0.0.1", port))
                two.bind(("127.0.0.1", port + 1))
                return port
            except OSError:
                continue


def wait_until(ready, process, what):
    end = time.monotonic() + 60
    while not ready():
        if process.poll() is not None or time.monotonic() > end:
            sys.exit(f"{what} does not start")
        time.sleep(0.05)


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def groups_alive():
    """The process groups of which a process runs; one that has ended may wait for its parent."""
    groups = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            state, _, group = get(f"/proc/{name}/stat").rpartition(b")")[2].split()[:3]
        except OSError:
            continue
        if state not in (b"Z", b"X"):
            groups.add(int(group))
    return groups


class Server:
    """A server of others, on a directory that holds what the rows want to find."""

    def __init__(self, name, program, work):
        self.name, self.program, self.work = name, program, work
        self.directory = work + "/served"
        os.makedirs(self.directory + "/many")
        for number in range(10_000):
            put(f"{self.directory}/many/name-{number}", b"")
        self.port = free_port()
        path, offset = EXPORTS.get(name, ("/", 0))
        self.export = self.directory if name == "unfs3" else path
        self.mount_port = self.port + offset
        self.process = None

    def start(self):
        arguments = [self.name, self.program, self.directory, str(self.port), self.work]
        log = open(self.work + "/server.log", "ab")
        command = [HERE + "/serve.sh", *arguments]
        self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        wait_until(self.answers, self.process, self.name)

    def answers(self):
        try:
            return listens(self.port) and self.bare() is not None
        except (bare.Refused, OSError):
            return False

    def kill(self):
        """Its port mapper, too. None of them holds a port any more when this returns."""
        group = self.process.pid
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
        self.process.wait()
        while group in groups_alive():
            time.sleep(0.01)

    def last_words(self):
        for name in ("server.log", "ganesha.log", "rpcbind.log"):
            path = f"{self.work}/{name}"
            if os.path.exists(path):
                lines = get(path).decode(errors="replace").splitlines()[-10:]
                note("\n".join([f"{name} ends with:", *lines]))

    def bare(self):
        return bare.Client(self.port, self.mount_port, self.export)

    def url(self, path=""):
        return f"{self.source}::/{path}"

    @property
    def source(self):
        options = f"mountport={self.mount_port}"
        if self.name == "rclone":
            # It loses bytes of a file that grows by calls of several connections.
            options += "&connections=1"
        return f"nfs://127.0.0.1:{self.port}{self.export}?{options}"


class Running:
    """A `pagewell mount` or `pagewell serve`, until the end of a `with`."""

    def __init__(self, work, *arguments):
        self.log = open(work + "/pagewell.log", "ab")
        command = [PAGEWELL, *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.ready = self.process.stdout.readline()

    def __enter__(self):
        if not self.ready.startswith("ready "):
            sys.exit(f"pagewell is not ready: {self.ready!r}")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()


def mounted(server, name):
    """A mount of the export, and its directory."""
    directory = f"{server.work}/{name}"
    os.makedirs(directory, exist_ok=True)
    return Running(server.work, "mount", "--foreground", server.source, directory), directory


def pagewell(*arguments):
    command = [PAGEWELL, *arguments]
    done = subprocess.run(command, capture_output=True, timeout=SECONDS_MAX, check=False)
    if done.stderr:
        note(f"  pagewell {arguments[0]}: {done.stderr.decode(errors='replace')[:2000]}")
    return done


# --- what the server offers a bare client ---------------------------------------------------------


def offers_attributes(client, **wanted):
    handle = client.create(b"bare-set", mode=0o644)
    before = client.attributes(handle)
    client.set(handle, **wanted)
    after = client.attributes(handle)
    names = {"mode": ["mode"], "uid": ["uid", "gid"], "times": ["mtime"]}
    (keys,) = [names[name] for name in wanted if name in names]
    want = [wanted["times"][1]] if "times" in wanted else [wanted[key] for key in keys]
    return kept(want, [after[key] for key in keys], [before[key] for key in keys])


def offers_links(client):
    handle = client.create(b"bare-one", mode=0o644)
    client.link(handle, b"bare-two")
    client.write(client.look_up(b"bare-two"), b"both")
    return "ok" if client.read(client.look_up(b"bare-one"), 10) == b"both" else "wrong"


def offers_symlinks(client, target):
    handle = client.make_symlink(b"bare-" + target, target)
    return "ok" if client.read_link(handle) == target else "wrong"


def offers_fifos(client):
    found = client.attributes(client.make_fifo(b"bare-fifo"))
    return "ok" if found["type"] == bare.FIFO else "wrong"


def offers_names(client, names):
    directory = client.make_directory(b"bare-names")
    for name in names:
        handle = client.create(name, directory, mode=0o644)
        client.write(handle, name)
    listed = {name for name, _, _ in listing(client, directory)} - {b".", b".."}
    for name in names:
        handle = client.ask(bare.LOOKUP, bare.opaque(directory) + bare.opaque(name)).opaque()
        assert client.read(handle, 300) == name
        client.ask(bare.REMOVE, bare.opaque(directory) + bare.opaque(name))
    client.ask(bare.RMDIR, bare.opaque(client.root) + bare.opaque(b"bare-names"))
    return "ok" if listed == set(names) else "wrong"


def listing(client, directory):
    """With attributes where the server has them."""
    try:
        return client.list(directory, page_bytes=65536)
    except bare.Refused as refused:
        if str(refused) not in ("EOPNOTSUPP", "PROC_UNAVAIL"):
            raise
        return client.list(directory, plus=False, page_bytes=65536)


def offers_listing(client):
    return all_names(listing(client, client.look_up(b"many")))


def offers_large_pages(client):
    return all_names(client.list(client.look_up(b"many"), plus=False, page_bytes=MEBIBYTE))


def all_names(entries):
    names = [name for name, _, _ in entries if name not in (b".", b"..")]
    return "ok" if len(names) == len(set(names)) == 10_000 else f"{len(names)} names"


def offers_dots(client):
    found = [name for name, _, _ in listing(client, client.make_directory(b"bare-empty"))]
    return "yes" if b"." in found and b".." in found else "no"


def offers_plus(client):
    directory = client.make_directory(b"bare-plus")
    client.create(b"file", directory, mode=0o644)
    return all_or_some(entry for entry in client.list(directory) if entry[0] == b"file")


def all_or_some(entries):
    told = [found is not None and handle for _, found, handle in entries]
    return "yes" if all(told) else "some" if any(told) else "no"


def offers_rename(client):
    """Whether a file that is open elsewhere can be used after its name was changed."""
    handle = client.create(b"bare-old", mode=0o644)
    client.rename(b"bare-old", b"bare-new")
    client.write(handle, b"by the old handle")
    return "ok" if client.read(client.look_up(b"bare-new"), 30) == b"by the old handle" else "wrong"


def offers_truncate(client):
    handle = client.create(b"bare-size", mode=0o644)
    client.write(handle, b"0123456789")
    client.set(handle, size=4)
    client.set(handle, size=6)
    return "ok" if client.read(handle, 20) == b"0123\0\0" else "wrong"


TIME = divmod(SOME_TIME, 10**9)
OFFERS = {
    '"." and ".."': offers_dots,
    "attributes and handles": offers_plus,
    "list 10,000 names": offers_listing,
    "list them by READDIR, 1 MiB a page": offers_large_pages,
    "truncate": offers_truncate,
    "chmod": functools.partial(offers_attributes, mode=0o440),
    "times": functools.partial(offers_attributes, times=(TIME, TIME)),
    "chown": functools.partial(offers_attributes, uid=1234, gid=1235),
    "symbolic links": functools.partial(offers_symlinks, target=b"many"),
    "dangling symbolic links": functools.partial(offers_symlinks, target=b"nowhere"),
    "hard links": offers_links,
    "fifos": offers_fifos,
    "a handle after a rename": offers_rename,
    "odd names, 255 bytes": functools.partial(offers_names, names=operations.ODD_NAMES),
    "names not in UTF-8": functools.partial(offers_names, names=operations.NOT_UTF8),
}


def measure_bare(server):
    for row, work in OFFERS.items():
        try:
            yield row, work(server.bare())
        except bare.Refused as refused:
            yield row, str(refused)
        except TimeoutError:
            yield row, "hangs"


# --- under `pagewell mount` ----------------------------------------------------------------------


def measure_mount(server):
    one, directory = mounted(server, "mount")
    two, other = mounted(server, "other")
    with one, two:
        for row, work in OPERATIONS.items():
            places = (directory, other) if row == "two appenders, two mounts" else (directory,)
            yield row, operations.in_a_process(functools.partial(work, *places), SECONDS_MAX)
        yield from measure_restart(server, directory)


def measure_restart(server, directory):
    """A file is written while the server is killed and started again, and then the mount used."""
    path = directory + "/restarted"
    data = os.urandom(1 << 20)

    ours, theirs = multiprocessing.Pipe()

    def write():
        # In a process of its own: no other may have the file open, and close it while the server
        # is not there.
        with open(path, "wb", buffering=0) as file:
            file.write(data)
            theirs.send("half")
            word = theirs.recv()
            assert word == "started again", word
            file.write(data)
            os.fsync(file.fileno())
        return "ok" if get(path) == data * 2 else "bytes lost"

    def restart():
        ours.recv()
        server.kill()
        try:
            server.start()
            ours.send("started again")
        except SystemExit as error:
            ours.send(str(error))

    threading.Thread(target=restart, daemon=True).start()

    def use():
        end = time.monotonic() + 120
        while True:
            try:
                return use_once()
            except OSError as error:
                # Of what was known before a handle may be stale, which the first use finds out.
                if error.errno != errno.ESTALE or time.monotonic() > end:
                    raise
            time.sleep(0.1)

    def use_once():
        put(directory + "/afterwards", data)
        assert get(directory + "/afterwards") == data
        assert len(os.listdir(directory + "/many")) == 10_000
        return "ok"

    yield "server restarted while written", operations.in_a_process(write, SECONDS_MAX)
    yield "the mount after a restart", operations.in_a_process(use, SECONDS_MAX)


# --- commands ------------------------------------------------------------------------------------


def make_tree(tree):
    os.makedirs(tree + "/directory/below")
    put(tree + "/file", b"some bytes")
    os.chmod(tree + "/file", 0o640)
    put(tree + "/owned", b"of somebody")
    put(tree + "/readonly", b"not to be written")
    os.chmod(tree + "/readonly", 0o444)
    put(tree + "/empty", b"")
    put(tree + "/directory/below/program", os.urandom(3_000_001))
    os.chmod(tree + "/directory/below/program", 0o755)
    os.symlink("../file", tree + "/directory/symlink")
    os.link(tree + "/file", tree + "/directory/hard")
    os.mkfifo(tree + "/fifo", 0o600)
    for name in operations.ODD_NAMES:
        put(os.fsencode(tree) + b"/" + name, name)
    for folder, names, files in os.walk(tree):
        for name in names + files:
            os.utime(os.path.join(folder, name), ns=(SOME_TIME, SOME_TIME), follow_symlinks=False)
    os.chown(tree + "/owned", 1234, 1235)
    os.chmod(tree + "/directory", 0o750)
    os.utime(tree + "/directory", ns=(SOME_TIME, SOME_TIME))


def paths(tree):
    found = set()
    for folder, names, files in os.walk(tree):
        found |= {os.path.relpath(os.path.join(folder, name), tree) for name in names + files}
    return found


def losses(tree, copy):
    """What a copy does not have of its original, in words."""
    lost = set()
    missing = paths(tree) - paths(copy)
    for name in missing:
        mode = os.lstat(tree + "/" + name).st_mode
        links = "symbolic links" if stat.S_ISLNK(mode) else "files"
        lost.add("fifos" if stat.S_ISFIFO(mode) else links)
    if paths(copy) - paths(tree):
        lost.add("more names")
    for name in paths(tree) - missing:
        old, new = os.lstat(tree + "/" + name), os.lstat(copy + "/" + name)
        if stat.S_IFMT(old.st_mode) != stat.S_IFMT(new.st_mode):
            lost.add("types")
        elif stat.S_ISREG(old.st_mode):
            if get(tree + "/" + name) != get(copy + "/" + name):
                lost.add("bytes")
        if stat.S_ISLNK(old.st_mode):
            continue  # its times are no program's business
        if old.st_mode != new.st_mode:
            lost.add("modes")
        if old.st_mtime_ns != new.st_mtime_ns:
            lost.add("times")
        if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
            lost.add("owners")
    linked = {"file", "directory/hard"}
    if not linked & missing and len({os.stat(copy + "/" + name).st_ino for name in linked}) > 1:
        lost.add("hard links")
    return "all but " + ", ".join(sorted(lost)) if lost else "ok"


def measure_commands(server):
    listed = pagewell("ls", server.url("many"))
    whole = len(listed.stdout.splitlines()) == 10_000
    yield "`pagewell ls` of 10,000 names", "ok" if whole else "not all"
    tree = server.work + "/tree"
    make_tree(tree)
    copied = pagewell("cp", "-a", tree, server.url("copied"))
    back = pagewell("cp", "-a", server.url("copied"), server.work + "/back")
    yield "`pagewell cp -a` in and out", losses(tree, server.work + "/back")
    yield "its exit statuses", f"{copied.returncode}, {back.returncode}"
    large = os.urandom(1 << 20) * 20
    put(server.work + "/sum", large)
    pagewell("cp", server.work + "/sum", server.url("sum"))
    summed = pagewell("sum", server.url("sum")).stdout[:64].decode()
    yield "`pagewell sum`", "ok" if summed == hashlib.sha256(large).hexdigest() else "other bytes"


# --- served again --------------------------------------------------------------------------------


def said_by(*command):
    done = subprocess.run(command, capture_output=True, timeout=SECONDS_MAX, check=False)
    return done.stdout


def serving(server):
    return Running(
        server.work, "serve", "--listen", "127.0.0.1:0", "--squash", "none",
        "--state-dir", server.work + "/state", "/again=" + server.source,
    )  # fmt: skip


def measure_again(server):
    with serving(server) as served:
        port = int(served.ready.split("127.0.0.1:")[1].split("/")[0])
        client = bare.Client(port, port, "/again")
        yield from again_listing(client)
        url = f"nfs://127.0.0.1/again/{{}}?nfsport={port}&mountport={port}&version=3"
        lines = said_by("nfs-ls", url.format("many")).splitlines()
        files = [line for line in lines if line.startswith(b"-")]
        yield "nfs-ls of 10,000 names", "ok" if len(files) == 10_000 else "not all"
        data = os.urandom(3_000_000)
        put(server.work + "/copied-in", data)
        said_by("nfs-cp", server.work + "/copied-in", url.format("again"))
        read = said_by("nfs-cat", url.format("again"))
        yield "nfs-cp in, nfs-cat out", "ok" if read == data else "other bytes"
        yield "rename and remove", again_change(client)


def again_listing(client):
    many = client.look_up(b"many")
    for words, plus in (("READDIRPLUS", True), ("READDIR", False)):
        try:
            entries = client.list(many, plus=plus)
        except bare.Refused as refused:
            entries = []
            note(f"  served again, {words}: {refused}")
        names = [name for name, _, _ in entries]
        whole = len(set(names) - {b".", b".."}) == 10_000 and len(set(names)) == len(names)
        yield f"{words} of 10,000 names", "ok" if whole else "not all"
        yield f'"." and ".." in {words}', "yes" if {b".", b".."} <= set(names) else "no"
        if plus:
            yield "attributes and handles in it", all_or_some(entries)


def again_change(client):
    try:
        handle = client.create(b"again-one", mode=0o644)
        client.write(handle, b"bytes")
        client.rename(b"again-one", b"again-two")
        if client.read(client.look_up(b"again-two"), 10) != b"bytes":
            return "other bytes"
        client.remove(b"again-two")
        return "ok"
    except bare.Refused as refused:
        return str(refused)


def main():
    name, program, work = sys.argv[1:]
    server = Server(name, program, work)
    try:
        server.start()
        for part, measure in (
            ("bare", measure_bare),
            ("mount", measure_mount),
            ("commands", measure_commands),
            ("again", measure_again),
        ):
            begun = time.monotonic()
            for row, word in measure(server):
                print(f"{part}\t{row}\t{word}\t{time.monotonic() - begun:.1f}", flush=True)
                begun = time.monotonic()
                if server.process.poll() is not None:
                    sys.exit(f"{name} has ended by itself")
    except (Exception, SystemExit):
        server.last_words()
        raise
    finally:
        server.kill()
        with open("/proc/mounts", encoding="utf-8") as mounts:
            for place in [line.split()[1] for line in mounts if " fuse.pagewell " in line]:
                if place.startswith(work):
                    subprocess.run([PAGEWELL, "umount", "--lazy", place], check=False)
        shutil.rmtree(work + "/served", ignore_errors=True)


main()

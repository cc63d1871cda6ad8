#!/usr/bin/env python3
"""usage: scripts/bench-object.py [--quick] [--delay MS[,MS...]] [--rounds N] [--only WORDS]
                               [--files N] [--server versitygw|rclone]

Measures mounts of a bucket: Pagewell beside `rclone mount` (with and without its file cache), s3fs,
mountpoint-s3 (with and without its cache), and a program that does nothing but ranged GETs or parts of
an upload, eight at a time. The bucket is versitygw's (or rclone's) on loopback, behind a proxy that adds
latency to each request and counts requests and bytes. Each case begins with a new mount; the programs take turns,
the first another one each time. Shown are medians: seconds until the calls returned (each file is
closed, and fsync was called before), seconds until the store had all, requests, MiB over the wire in
both directions, and processor time and largest memory of the program that mounts. At the end come
tables with one row for each case: seconds until the store had all, and requests.

`fsync` means that the store has the object to Pagewell (ack=store), s3fs and mountpoint-s3; that the
disk of this machine has it to Pagewell with ack=journal; and nothing to rclone, which uploads later.
Writing is compared among those that mean the same; rclone's and the journal's rows stand beside.
mountpoint-s3 writes files once, in order; it changes none, and appends and renames only in S3 Express.
A program that cannot do a case on this server is shown as `fails`; its error goes to standard error.

Servers of NFS are a group of their own: `pagewell serve` beside `rclone serve nfs` with its file cache,
with and without --use-server-modtime, all behind `pagewell mount nfs://`; processor time and memory are
the server's.

With --stalled nothing is compared: a mount has a cache of 128 MiB, the store stands still in the middle
of 16 readers and 4 writers, and the largest memory of the program may be 64 MiB above its cache.

  --quick          a tenth of the bytes and files, one round
  --files N        this many small files (10,000)
  --server NAME    whose bucket: versitygw (the default) or rclone (`rclone serve s3`)
  --delay MS,...   added latencies in milliseconds (0,5,50)
  --rounds N       rounds (3)
  --only WORDS     only cases with these words in their names; may be repeated
  --stalled        what memory a mount takes whose store stands still

Exit status 1 when Pagewell is in a case neither the fastest nor within 10 percent of it, or makes more
requests than another, or moves bytes in order at less than 0.9 of the speed of the bare program. Known
weakness: the server, the proxy and the programs share the processors of one machine. Needs root, fuse3,
and what tests/objects/servers.sh installs: versitygw and rclone (Go), and s3fs and mountpoint-s3 for
their rows.
"""
import argparse
import concurrent.futures
import contextlib
import datetime
import hashlib
import hmac
import http.client
import json
import os
import random
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

KEYS = ("pagewell-test", "pagewell-test-secret")
REGION = "us-east-1"
TARGET = os.environ.get("CARGO_TARGET_DIR", "target")
# Without these the others are measured all the same.
OPTIONAL = {
    "s3fs": f"{TARGET}/objects/s3fs/root/usr/bin/s3fs",
    "mountpoint-s3": f"{TARGET}/objects/mountpoint-s3/mount-s3",
}
ENVIRONMENT = {
    **os.environ,
    "AWS_ACCESS_KEY_ID": KEYS[0],
    "AWS_SECRET_ACCESS_KEY": KEYS[1],
    "AWS_REGION": REGION,
    "AWS_EC2_METADATA_DISABLED": "true",
}
DIRECTORIES = 20
SMALL_BYTES = 4096
RANDOM_READS = 200
RENAMED = 100
CHUNK_BYTES = 8 << 20
MOUNTS = ["pagewell", "pagewell, journal", "rclone", "rclone, cache full", "s3fs"]
MOUNTS += ["mountpoint-s3", "mountpoint-s3, cache"]
SERVERS = ["pagewell serve", "rclone serve", "rclone serve, server times"]
STORED_WAIT_SECONDS = 120
STALLED_CACHE_MIB = 128
STALLED_BESIDE_MIB = 64
STALLED_READERS = 16
STALLED_WRITERS = 4
STALLED_SECONDS = 20


class Failed(Exception):
    """A program did not do what a case asks for."""


def query_signed(method, host, path, body):
    """The same of a path with a query, whose names are in order."""
    path, _, query = path.partition("?")
    return signed(method, host, path, body, query)


def signed(method, host, path, body, query=""):
    """Headers of a request to S3 (AWS signature 4); the path has nothing to encode."""
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    digest = hashlib.sha256(body).hexdigest()
    names = "host;x-amz-content-sha256;x-amz-date"
    request = f"{method}\n{path}\n{query}\nhost:{host}\nx-amz-content-sha256:{digest}\n"
    request += f"x-amz-date:{now}\n\n{names}\n{digest}"
    scope = f"{now[:8]}/{REGION}/s3/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = ("AWS4" + KEYS[1]).encode()
    for part in [now[:8], REGION, "s3", "aws4_request"]:
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    credential = f"AWS4-HMAC-SHA256 Credential={KEYS[0]}/{scope}, SignedHeaders={names}"
    return {
        "x-amz-date": now,
        "x-amz-content-sha256": digest,
        "Authorization": f"{credential}, Signature={signature}",
    }


def fill(address, files, large_bytes):
    """Makes the objects."""
    chance = random.Random(1)
    connection = http.client.HTTPConnection(address)

    def put(key, body):
        path = f"/bucket/{key}"
        connection.request("PUT", path, body, signed("PUT", address, path, body))
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            sys.exit(f"PUT {path}: {answer.status}")

    for number in range(files):
        put(f"tree/d{number % DIRECTORIES:02}/f{number:05}", chance.randbytes(SMALL_BYTES))
    # Python has no number of so many bits.
    put("large", b"".join(chance.randbytes(1 << 20) for _ in range(large_bytes >> 20)))


class Store:
    """The server itself, past the proxy."""

    def __init__(self, address, large_bytes):
        self.address = address
        self.large_bytes = large_bytes
        self.old_tag = None

    def ask(self, method, key, body=b"", query=""):
        """Status, headers and body."""
        connection = http.client.HTTPConnection(self.address)
        path = f"/bucket/{key}"
        headers = signed(method, self.address, path, body, query)
        connection.request(method, f"{path}?{query}" if query else path, body, headers)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, answer.headers, text

    def keys(self, prefix):
        """Keys of at most 1,000 objects."""
        _, _, text = self.ask("GET", "", query=f"list-type=2&prefix={prefix}")
        return re.findall("<Key>([^<]*)", text.decode())

    def count(self, prefix):
        """How many objects there are."""
        count, token = 0, ""
        while True:
            query = f"{token}list-type=2&prefix={prefix}"
            _, _, text = self.ask("GET", "", query=query.replace("/", "%2F"))
            count += text.count(b"<Key>")
            more = re.search(b"<NextContinuationToken>([^<]*)", text)
            if not more:
                return count
            token = f"continuation-token={urllib.parse.quote(more[1].decode(), safe='')}&"

    def restore(self, case):
        """Makes the objects that a writer changes what they were."""
        for prefix in ("many", "there", "moved", "new", "old"):
            while keys := self.keys(prefix):
                for key in keys:
                    self.ask("DELETE", key)
        for number in range(RENAMED if "rename" in case.name else 0):
            self.ask("PUT", f"moved/f{number:03}", bytes(SMALL_BYTES))
        if case.old_bytes:
            _, headers, _ = self.ask("PUT", "old", bytes(case.old_bytes))
            self.old_tag = headers["ETag"]

    def length(self, key):
        """Bytes of an object; None if there is none, or the one that is to be changed."""
        status, headers, _ = self.ask("HEAD", key)
        is_there = status == 200 and headers["ETag"] != self.old_tag
        return int(headers["Content-Length"]) if is_there else None

    def wait(self, wanted):
        """Until these keys have these lengths. Of many, all are there before one is looked at."""
        deadline = time.monotonic() + STORED_WAIT_SECONDS
        prefix = os.path.commonprefix([key for key, _ in wanted])
        while len(wanted) > 2 and self.count(prefix) < len(wanted):
            if time.monotonic() > deadline:
                raise Failed(f"{prefix}: not all of {len(wanted)} objects come")
            time.sleep(0.005)
        for key, length in wanted[:2] + wanted[-1:]:
            while self.length(key) != length:
                if time.monotonic() > deadline:
                    raise Failed(f"{key} has {self.length(key)} bytes, not {length}")
                time.sleep(0.005)


def transfer(address, key, length, method):
    """What a program does that only reads or writes an object: parts, eight at a time."""
    upload = ""
    if method == "PUT":
        path = f"/bucket/{key}?uploads="
        connection = http.client.HTTPConnection(address)
        connection.request("POST", path, b"", query_signed("POST", address, path, b""))
        answer = connection.getresponse().read().decode()
        upload = re.search("<UploadId>([^<]*)", answer)[1]
    tags, body = {}, bytes(CHUNK_BYTES)

    def part(numbers):
        connection = http.client.HTTPConnection(address)
        for number in numbers:
            begin = number * CHUNK_BYTES
            end = min(begin + CHUNK_BYTES, length)
            if method == "PUT":
                path = f"/bucket/{key}?partNumber={number + 1}&uploadId={upload}"
                sent = body[: end - begin]
                connection.request("PUT", path, sent, query_signed("PUT", address, path, sent))
            else:
                path = f"/bucket/{key}"
                headers = signed("GET", address, path, b"")
                headers["Range"] = f"bytes={begin}-{end - 1}"
                connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            while answer.read(1 << 20):
                pass
            tags[number] = answer.headers["ETag"]
        connection.close()

    count = -(-length // CHUNK_BYTES)
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        list(threads.map(part, [range(first, count, 8) for first in range(8)]))
    if method == "PUT":
        parts = "".join(
            f"<Part><PartNumber>{number + 1}</PartNumber><ETag>{tags[number]}</ETag></Part>"
            for number in range(count)
        )
        body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
        path = f"/bucket/{key}?uploadId={upload}"
        connection = http.client.HTTPConnection(address)
        connection.request("POST", path, body, query_signed("POST", address, path, body))
        if connection.getresponse().status != 200:
            sys.exit(f"{path} is not completed")
    return length


def started(command, pattern, **more):
    """Starts a program, and returns it and what a line of its output has that matches."""
    program = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **more)
    for line in program.stdout:
        found = re.match(pattern, line)
        if found:
            return program, found
    sys.exit(f"{command[0]} does not get ready")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def is_listening(port):
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def remote_of_rclone(address):
    return f":s3,provider=Other,env_auth=true,endpoint='http://{address}':bucket"


def serving(name, address, port, scratch):
    """The command of a server of NFS, whose export is /."""
    if name.startswith("pagewell"):
        command = [f"{TARGET}/release/pagewell", "serve", "--listen", f"127.0.0.1:{port}"]
        command += ["--squash", "none", "--staging-dir", os.path.join(scratch, "staging")]
        return command + [f"s3://bucket?endpoint=http://{address}"]
    command = [f"{TARGET}/objects/rclone/rclone", "serve", "nfs", remote_of_rclone(address)]
    command += ["--addr", f"127.0.0.1:{port}", "--vfs-cache-mode", "full"]
    command += ["--cache-dir", os.path.join(scratch, "cache"), "--config", "/dev/null"]
    return command + ["--use-server-modtime"] * name.endswith("times")


class Mount:
    """A program that mounts the bucket at a place, or serves it to a mount there."""

    def __init__(self, name, address, place, scratch, more=()):
        cache = os.path.join(scratch, "cache")
        shutil.rmtree(cache, ignore_errors=True)
        os.makedirs(cache)
        self.place = place
        self.server = None
        environment = dict(ENVIRONMENT)
        pagewell = [f"{TARGET}/release/pagewell", "mount", "--foreground", *more]
        if "serve" in name:
            port = free_port()
            command = serving(name, address, port, scratch)
            self.server = self.start(command, "server", environment, scratch)
            self.wait(lambda: is_listening(port), self.server)
            command = [*pagewell, f"nfs://127.0.0.1:{port}/?mountport={port}", place]
        elif name.startswith("pagewell"):
            acknowledge = "journal" if name.endswith("journal") else "store"
            command = [*pagewell, "--staging-dir", os.path.join(scratch, "staging")]
            command += [f"s3://bucket?endpoint=http://{address}&ack={acknowledge}", place]
        elif name.startswith("rclone"):
            mode = "full" if name.endswith("full") else "off"
            command = [f"{TARGET}/objects/rclone/rclone", "mount", remote_of_rclone(address), place]
            command += ["--vfs-cache-mode", mode, "--cache-dir", cache, "--vfs-write-back", "0s"]
            command += ["--config", "/dev/null"]
        elif name.startswith("mountpoint-s3"):
            command = [OPTIONAL["mountpoint-s3"], f"http://{address}", "bucket", place]
            command += [cache] * name.endswith("cache")
        else:
            libraries = f"{TARGET}/objects/s3fs/root"
            passwords = os.path.join(scratch, "passwords")
            with open(passwords, "w") as file:
                file.write(":".join(KEYS))
            os.chmod(passwords, 0o600)
            parts = [f"{libraries}/usr/lib/x86_64-linux-gnu", f"{libraries}/lib/x86_64-linux-gnu"]
            environment["LD_LIBRARY_PATH"] = ":".join(parts)
            command = [OPTIONAL["s3fs"], "bucket", place, "-f"]
            command += ["-o", f"url=http://{address},use_path_request_style"]
            command += ["-o", f"passwd_file={passwords},use_cache={cache}"]
        self.program = self.start(command, "mount", environment, scratch)
        self.wait(lambda: os.path.ismount(place), self.program)

    @staticmethod
    def start(command, kind, environment, scratch):
        with open(os.path.join(scratch, f"errors.{kind}"), "w") as errors:
            program = subprocess.Popen(
                command, env=environment, stdout=subprocess.DEVNULL, stderr=errors
            )
        program.errors = errors.name
        return program

    @staticmethod
    def wait(is_ready, program):
        deadline = time.monotonic() + 60
        while not is_ready():
            if program.poll() is not None or time.monotonic() > deadline:
                with open(program.errors) as errors:
                    sys.exit(f"{program.args[:2]} is not ready: {errors.read()[-300:]}")
            time.sleep(0.01)

    def spent(self):
        """Processor seconds and the largest resident MiB so far."""
        process = (self.server or self.program).pid
        with open(f"/proc/{process}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        with open(f"/proc/{process}/status") as file:
            peak = int(re.search(r"VmHWM:\s*(\d+)", file.read())[1]) / 1024
        return seconds, peak

    def end(self):
        subprocess.run(["umount", self.place], check=True)
        try:
            self.program.wait(60)
        except subprocess.TimeoutExpired:
            # rclone was seen to stay.
            self.program.kill()
            self.program.wait(60)
        if self.server:
            self.server.terminate()
            self.server.wait(60)


def list_all(place):
    found = 0
    for folder, _, files in os.walk(os.path.join(place, "tree")):
        found += sum(1 for name in files if os.stat(os.path.join(folder, name)).st_size > 0)
    return found


def read_small(place):
    read = 0
    for folder, _, files in os.walk(os.path.join(place, "tree")):
        for name in files:
            with open(os.path.join(folder, name), "rb") as file:
                read += len(file.read())
    return read


def read_large(place):
    read = 0
    with open(os.path.join(place, "large"), "rb", buffering=0) as file:
        while part := file.read(1 << 20):
            read += len(part)
    return read


def read_random(place):
    chance = random.Random(2)
    path = os.path.join(place, "large")
    length = os.stat(path).st_size
    file = os.open(path, os.O_RDONLY)
    read = 0
    for _ in range(RANDOM_READS):
        read += len(os.pread(file, 8192, chance.randrange(length // 8192) * 8192))
    os.close(file)
    return read


def first_byte(place):
    with open(os.path.join(place, "large"), "rb", buffering=0) as file:
        return len(file.read(1))


def write(path, parts, flags=os.O_WRONLY | os.O_CREAT):
    """Writes, synchronises and closes; parts are pairs of an offset (None: the end) and bytes."""
    file = os.open(path, flags)
    try:
        for offset, data in parts:
            os.lseek(file, offset or 0, os.SEEK_END if offset is None else os.SEEK_SET)
            while data:
                data = data[os.write(file, data) :]
        os.fsync(file)
    except OSError:
        # The first error is the one to show; an open file would keep the mount.
        with contextlib.suppress(OSError):
            os.close(file)
        raise
    os.close(file)


def write_large(length):
    def run(place):
        data = bytes(1 << 20)
        write(os.path.join(place, "new"), ((at, data) for at in range(0, length, len(data))))
        return [("new", length)]

    return run


def write_small(files):
    def run(place):
        os.mkdir(os.path.join(place, "many"))
        for number in range(files):
            write(os.path.join(place, f"many/f{number:05}"), [(0, bytes(SMALL_BYTES))])
        return [(f"many/f{number:05}", SMALL_BYTES) for number in range(files)]

    return run


def append(length):
    def run(place):
        write(os.path.join(place, "old"), [(None, b"more")], os.O_WRONLY)
        return [("old", length + 4)]

    return run


def change(length):
    def run(place):
        write(os.path.join(place, "old"), [(length // 2, b"change")], os.O_WRONLY)
        return [("old", length)]

    return run


def rename_one(place):
    os.rename(os.path.join(place, "moved/f000"), os.path.join(place, "moved/g000"))
    return [("moved/g000", SMALL_BYTES), ("moved/f000", None)]


def rename_all(place):
    os.rename(os.path.join(place, "moved"), os.path.join(place, "there"))
    return [(f"there/f{number:03}", SMALL_BYTES) for number in range(RENAMED)]


class Case:
    """What is measured. A reader returns how much it has read, a writer what the store has then."""

    def __init__(self, name, run, wanted=None, bare=None, old_bytes=None):
        self.name, self.run, self.wanted = name, run, wanted
        self.bare, self.old_bytes = bare, old_bytes
        self.programs = [name for name in MOUNTS if name != "pagewell, journal"]
        if wanted is None:
            self.programs = ["pagewell", "pagewell, journal", "s3fs", "rclone, cache full"]
            self.programs += ["mountpoint-s3"] * name.startswith("write")
        if bare:
            self.programs.append("bare")
        self.programs += SERVERS

    def peers(self, own):
        """Those that do the same for the same clients, and mean the same by fsync."""
        if self.wanted is None:
            return list(OPTIONAL) if own == "pagewell" else []
        alike = [name for name in self.programs if ("serve" in name) == ("serve" in own)]
        return [name for name in alike if name not in (own, "bare")]


def cases(files, large_bytes):
    mebibytes, old_bytes = large_bytes >> 20, large_bytes // 5
    return [
        Case("first byte", first_byte, 1),
        Case(f"list {files} files", list_all, files),
        Case(f"read {files} files of 4 KiB", read_small, files * SMALL_BYTES),
        Case(f"read {mebibytes} MiB in order", read_large, large_bytes, ("large", "GET")),
        Case(f"read {RANDOM_READS} x 8 KiB at random", read_random, RANDOM_READS * 8192),
        Case(f"write {mebibytes} MiB in order", write_large(large_bytes), None, ("new", "PUT")),
        Case(f"write {files} files of 4 KiB", write_small(files)),
        Case(f"append 4 B to {old_bytes >> 20} MiB", append(old_bytes), old_bytes=old_bytes),
        Case(f"change 6 B of {old_bytes >> 20} MiB", change(old_bytes), old_bytes=old_bytes),
        Case("rename a file", rename_one),
        Case(f"rename a directory of {RENAMED} files", rename_all),
    ]


def ask(control, method, path, body=None):
    request = urllib.request.Request(f"http://{control}{path}", data=body, method=method)
    with urllib.request.urlopen(request) as answer:
        return answer.read()


def measure(name, case, proxy, store, scratch):
    """Seconds until the calls returned and until the store had all, requests, MiB, processor
    seconds, resident MiB of one program in one case."""
    address, control = proxy
    if case.wanted is None:
        store.restore(case)
    ask(control, "POST", "/reset", b"")
    mount = None
    if name != "bare":
        place = os.path.join(scratch, "mount")
        os.makedirs(place, exist_ok=True)
        mount = Mount(name, address, place, scratch)
    try:
        begin = time.monotonic()
        before, _ = mount.spent() if mount else (0, 0)
        if mount:
            done = case.run(place)
        else:
            done = transfer(address, case.bare[0], case.wanted or store.large_bytes, case.bare[1])
        seconds = stored = time.monotonic() - begin
        if case.wanted is None and mount:
            store.wait(done)
            stored = time.monotonic() - begin
        elif mount and done != case.wanted:
            raise Failed(f"{done}, not {case.wanted}")
        after, peak = mount.spent() if mount else (0, 0)
    except OSError as error:
        raise Failed(str(error)) from error
    finally:
        if mount:
            mount.end()
    counts = json.loads(ask(control, "GET", "/counts"))["all"]
    mebibytes = (counts["bytes_down"] + counts["bytes_up"]) / (1 << 20)
    return seconds, stored, counts["requests"], mebibytes, after - before, peak


def stalled(proxy, scratch, large_bytes):
    """The largest memory of a mount whose store stands still among readers and writers; whether
    that is little enough."""
    address, control = proxy
    place = os.path.join(scratch, "mount")
    os.makedirs(place)
    mount = Mount("pagewell", address, place, scratch, ["--cache", f"{STALLED_CACHE_MIB}m"])
    share = (large_bytes >> 20) // STALLED_READERS
    commands = [
        ["dd", f"if={place}/large", "of=/dev/null", "bs=1M", f"skip={at * share}", f"count={share}"]
        for at in range(STALLED_READERS)
    ]
    commands += [
        ["dd", "if=/dev/zero", f"of={place}/new{at}", "bs=1M", f"count={2 * share}", "conv=fsync"]
        for at in range(STALLED_WRITERS)
    ]
    # Everything that is asked for from the fortieth request on.
    ask(control, "PUT", "/script", b"any after=40 hang")
    programs = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for command in commands]
    try:
        time.sleep(STALLED_SECONDS)
        _, peak = mount.spent()
        waiting = sum(program.poll() is None for program in programs)
        ask(control, "PUT", "/script", b"")
        failed = sum(program.wait(STORED_WAIT_SECONDS) != 0 for program in programs)
    finally:
        for program in programs:
            program.kill()
        mount.end()
    print(
        f"{STALLED_CACHE_MIB} MiB of cache, {STALLED_SECONDS} s without an answer: resident "
        f"{peak:.0f} MiB, {waiting} of {len(programs)} programs waited, {failed} failed",
        flush=True,
    )
    return waiting > 0 and peak <= STALLED_CACHE_MIB + STALLED_BESIDE_MIB


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--delay", default="0,5,50")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--files", type=int)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--server", choices=["versitygw", "rclone"], default="versitygw")
    parser.add_argument("--stalled", action="store_true")
    try:
        options = parser.parse_args()
    except SystemExit:
        sys.exit(__doc__)
    rounds = 1 if options.quick else options.rounds
    files, large_bytes = (1000, 100 << 20) if options.quick else (10_000, 1 << 30)
    files = options.files or files
    scratch = tempfile.mkdtemp(prefix="pagewell-object.", dir="/var/tmp")
    running = []
    failed = False
    try:
        servers = ["tests/objects/servers.sh", "run", "--stdin", options.server, f"{scratch}/data"]
        os.makedirs(f"{scratch}/data")
        server, ready = started(servers, r"ready http://(\S+)", stdin=subprocess.PIPE)
        running.append(server)
        fill(ready[1], files, large_bytes)
        store = Store(ready[1], large_bytes)
        proxy, ready = started(
            [f"{TARGET}/release/pagewell-object-proxy", ready[1]], r"ready (\S+) control (\S+)"
        )
        running.append(proxy)
        # Once for each store, not for each mount.
        probe = [f"{TARGET}/release/pagewell", "probe", f"s3://bucket?endpoint=http://{ready[1]}"]
        subprocess.run(probe, env=ENVIRONMENT, stdout=subprocess.DEVNULL, check=True)
        if options.stalled:
            return not stalled((ready[1], ready[2]), scratch, large_bytes)
        print("| latency | case | program | s | stored s | requests | MiB | processor s | resident MiB |")
        print("|---:|---|---|---:|---:|---:|---:|---:|---:|")
        medians = []
        for delay in options.delay.split(","):
            ask(ready[2], "PUT", "/script", f"latency={delay}ms".encode() if delay != "0" else b"")
            for case in cases(files, large_bytes):
                if options.only and not any(words in case.name for words in options.only):
                    continue
                of_case = row(delay, case, rounds, (ready[1], ready[2]), store, scratch)
                failed |= not is_good(delay, case, of_case)
                medians.append((f"{delay} ms, {case.name}", of_case))
        for programs in [MOUNTS, SERVERS]:
            print_summary(medians, programs)
    finally:
        for program in reversed(running):
            program.terminate()
            program.wait(60)
        shutil.rmtree(scratch, ignore_errors=True)
    return failed


def row(delay, case, rounds, proxy, store, scratch):
    """Measures and prints one case; returns the medians by program, of those that can do it."""
    lacking = tuple(name for name, path in OPTIONAL.items() if not os.path.exists(path))
    programs = [name for name in case.programs if not name.startswith(lacking)]
    runs = {name: [] for name in programs}
    errors = {}
    for number in range(rounds):
        first = number % len(programs)
        for name in programs[first:] + programs[:first]:
            if name in errors:
                continue
            try:
                runs[name].append(measure(name, case, proxy, store, scratch))
            except Failed as error:
                errors[name] = error
    able = [name for name in programs if name not in errors]
    medians = {name: [statistics.median(of) for of in zip(*runs[name])] for name in able}
    for name in programs:
        if name in errors:
            print(f"| {delay} ms | {case.name} | {name} | fails | | | | | |", flush=True)
            continue
        seconds, stored, requests, mebibytes, processor, peak = medians[name]
        print(
            f"| {delay} ms | {case.name} | {name} | {seconds:.2f} | {stored:.2f} | {requests:.0f} "
            f"| {mebibytes:.1f} | {processor:.2f} | {peak:.0f} |",
            flush=True,
        )
    for name, error in errors.items():
        print(f"fails: {name}: {error}", file=sys.stderr, flush=True)
    return medians


def print_summary(medians, programs):
    titles = [re.sub(", (.*)", r" (\1)", name) for name in programs]
    print("\n| case | " + " | ".join(titles) + " |\n|---" + "|---:" * len(programs) + "|")
    for case, of_case in medians:
        cells = [
            f"{of_case[name][1]:.2f} s, {of_case[name][2]:.0f}" if name in of_case else ""
            for name in programs
        ]
        if any(cells):
            print(f"| {case} | " + " | ".join(cells) + " |", flush=True)


def is_good(delay, case, medians):
    """Whether Pagewell is what it must be; prints what it is not."""
    faults = []
    for name in ["pagewell", "pagewell serve"]:
        faults += [f"{name}: {fault}" for fault in faults_of(name, case, medians)]
    if faults:
        print(f"FAIL {delay} ms, {case.name}: {'; '.join(faults)}", flush=True)
    return not faults


def faults_of(name, case, medians):
    """In what Pagewell is worse than the others, or than it must be."""
    if name not in medians:
        return ["fails"]
    own, bare = medians[name], medians.get("bare")
    others = [medians[other] for other in case.peers(name) if other in medians]
    faults = []
    fastest = min((other[0] for other in others), default=own[0])
    fewest = min((other[2] for other in others), default=own[2])
    if own[0] > 1.1 * fastest:
        faults.append(f"{own[0] / fastest:.2f} of the fastest other's time")
    if own[2] > fewest:
        faults.append(f"{own[2]:.0f} requests, {fewest:.0f} of another")
    if bare and name == "pagewell" and bare[0] < 0.9 * own[0]:
        faults.append(f"{bare[0] / own[0]:.2f} of the bare program's speed")
    return faults


sys.exit(main())

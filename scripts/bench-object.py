#!/usr/bin/env python3
"""usage: scripts/bench-object.py [--quick] [--delay MS[,MS...]] [--rounds N]

Measures mounts of a bucket: Pagewell beside `rclone mount` (with and without its file cache), and s3fs
where it is installed. The bucket is versitygw's on loopback, behind a proxy that adds latency to each
request and counts requests and bytes. Each case begins with a new mount; the programs take turns, the
first another one each time. Shown are medians: seconds, requests, MiB that came over the wire, and
processor time and largest memory of the program that mounts.

  --quick          a tenth of the bytes and files, one round
  --delay MS,...   added latencies in milliseconds (0,5,50)
  --rounds N       rounds (3)

Exit status 1 when Pagewell is in a case neither the fastest nor within 10 percent of it, or makes more
requests than another. Known weakness: the server, the proxy and the programs share the processors of
one machine. Needs root, fuse3, and what tests/objects/servers.sh installs (Go).
"""
import argparse
import datetime
import hashlib
import hmac
import http.client
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

KEYS = ("pagewell-test", "pagewell-test-secret")
REGION = "us-east-1"
TARGET = os.environ.get("CARGO_TARGET_DIR", "target")
DIRECTORIES = 20
SMALL_BYTES = 4096
RANDOM_READS = 200


def signed(method, host, path, body):
    """Headers of a request to S3 (AWS signature 4); the path has nothing to encode."""
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    digest = hashlib.sha256(body).hexdigest()
    names = "host;x-amz-content-sha256;x-amz-date"
    request = f"{method}\n{path}\n\nhost:{host}\nx-amz-content-sha256:{digest}\n"
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
    put("large", chance.randbytes(large_bytes))


def started(command, pattern, **more):
    """Starts a program, and returns it and what a line of its output has that matches."""
    program = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **more)
    for line in program.stdout:
        found = re.match(pattern, line)
        if found:
            return program, found
    sys.exit(f"{command[0]} does not get ready")


class Mount:
    """A program that mounts the bucket at a place."""

    def __init__(self, name, address, place, scratch):
        environment = {
            **os.environ,
            "AWS_ACCESS_KEY_ID": KEYS[0],
            "AWS_SECRET_ACCESS_KEY": KEYS[1],
            "AWS_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        cache = os.path.join(scratch, "cache")
        shutil.rmtree(cache, ignore_errors=True)
        os.makedirs(cache)
        self.place = place
        if name == "pagewell":
            command = [f"{TARGET}/release/pagewell", "mount", "--foreground"]
            command += [f"s3://bucket?endpoint=http://{address}", place]
        elif name.startswith("rclone"):
            options = f"provider=Other,env_auth=true,endpoint='http://{address}'"
            mode = "full" if name.endswith("full") else "off"
            command = [f"{TARGET}/objects/rclone/rclone", "mount", f":s3,{options}:bucket", place]
            command += ["--read-only", "--vfs-cache-mode", mode, "--cache-dir", cache]
            command += ["--config", "/dev/null"]
        else:
            passwords = os.path.join(scratch, "passwords")
            with open(passwords, "w") as file:
                file.write(":".join(KEYS))
            os.chmod(passwords, 0o600)
            command = ["s3fs", "bucket", place, "-f", "-o", f"url=http://{address}"]
            command += ["-o", f"use_path_request_style,ro,passwd_file={passwords}"]
        errors = open(os.path.join(scratch, "errors"), "w")
        self.program = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=errors
        )
        deadline = time.monotonic() + 60
        while not os.path.ismount(place):
            if self.program.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"{name} does not mount: {open(errors.name).read()[-300:]}")
            time.sleep(0.01)

    def spent(self):
        """Processor seconds and the largest resident MiB so far."""
        with open(f"/proc/{self.program.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        with open(f"/proc/{self.program.pid}/status") as file:
            peak = int(re.search(r"VmHWM:\s*(\d+)", file.read())[1]) / 1024
        return seconds, peak

    def end(self):
        subprocess.run(["umount", self.place], check=True)
        self.program.wait(60)


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


def cases(files, large_bytes):
    return [
        ("first byte", first_byte, 1),
        (f"list {files} files", list_all, files),
        (f"read {files} files of 4 KiB", read_small, files * SMALL_BYTES),
        (f"read {large_bytes >> 20} MiB in order", read_large, large_bytes),
        (f"read {RANDOM_READS} x 8 KiB at random", read_random, RANDOM_READS * 8192),
    ]


def ask(control, method, path, body=None):
    request = urllib.request.Request(f"http://{control}{path}", data=body, method=method)
    with urllib.request.urlopen(request) as answer:
        return answer.read()


def measure(name, case, proxy, scratch):
    """Seconds, requests, MiB, processor seconds, resident MiB of one program in one case."""
    address, control = proxy
    place = os.path.join(scratch, "mount")
    os.makedirs(place, exist_ok=True)
    ask(control, "POST", "/reset", b"")
    mount = Mount(name, address, place, scratch)
    try:
        begin, (before, _) = time.monotonic(), mount.spent()
        done = case[1](place)
        seconds, (after, peak) = time.monotonic() - begin, mount.spent()
        if done != case[2]:
            sys.exit(f"{name}, {case[0]}: {done}, not {case[2]}")
    finally:
        mount.end()
    counts = json.loads(ask(control, "GET", "/counts"))["all"]
    return seconds, counts["requests"], counts["bytes_down"] / (1 << 20), after - before, peak


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--delay", default="0,5,50")
    parser.add_argument("--rounds", type=int, default=3)
    try:
        options = parser.parse_args()
    except SystemExit:
        sys.exit(__doc__)
    rounds = 1 if options.quick else options.rounds
    files, large_bytes = (1000, 100 << 20) if options.quick else (10_000, 1 << 30)
    programs = ["pagewell", "rclone", "rclone, cache full"]
    programs += ["s3fs"] if shutil.which("s3fs") else []
    scratch = tempfile.mkdtemp(prefix="pagewell-object.", dir="/var/tmp")
    running = []
    failed = False
    try:
        servers = ["tests/objects/servers.sh", "run", "--stdin", "versitygw", f"{scratch}/data"]
        os.makedirs(f"{scratch}/data")
        server, ready = started(servers, r"ready http://(\S+)", stdin=subprocess.PIPE)
        running.append(server)
        fill(ready[1], files, large_bytes)
        proxy, ready = started(
            [f"{TARGET}/release/pagewell-object-proxy", ready[1]], r"ready (\S+) control (\S+)"
        )
        running.append(proxy)
        print("| latency | case | program | s | requests | MiB | processor s | resident MiB |")
        print("|---:|---|---|---:|---:|---:|---:|---:|")
        for delay in options.delay.split(","):
            ask(ready[2], "PUT", "/script", f"latency={delay}ms".encode() if delay != "0" else b"")
            for case in cases(files, large_bytes):
                failed |= not row(delay, case, programs, rounds, (ready[1], ready[2]), scratch)
    finally:
        for program in reversed(running):
            program.terminate()
            program.wait(60)
        shutil.rmtree(scratch, ignore_errors=True)
    sys.exit(failed)


def row(delay, case, programs, rounds, proxy, scratch):
    """Measures and prints one case; whether Pagewell is what it must be."""
    runs = {name: [] for name in programs}
    for number in range(rounds):
        first = number % len(programs)
        for name in programs[first:] + programs[:first]:
            runs[name].append(measure(name, case, proxy, scratch))
    medians = {name: [statistics.median(of) for of in zip(*runs[name])] for name in programs}
    for name in programs:
        seconds, requests, mebibytes, processor, peak = medians[name]
        print(
            f"| {delay} ms | {case[0]} | {name} | {seconds:.2f} | {requests:.0f} | {mebibytes:.1f} "
            f"| {processor:.2f} | {peak:.0f} |",
            flush=True,
        )
    others = [medians[name] for name in programs if name != "pagewell"]
    seconds, requests = medians["pagewell"][:2]
    fastest = min(other[0] for other in others)
    fewest = min(other[1] for other in others)
    is_right = seconds <= 1.1 * fastest and requests <= fewest
    if not is_right:
        print(
            f"FAIL {delay} ms, {case[0]}: {seconds / fastest:.2f} of the time of the fastest other, "
            f"{requests:.0f} requests, {fewest:.0f} of another",
            flush=True,
        )
    return is_right


main()

#!/usr/bin/env python3
"""usage: scripts/bench-idle.py [PROGRAM [PACKAGE]]

What a server costs that has nothing to do, of a directory, with its sandbox: the time from its start
to "ready" (READY=1 of sd_notify) in 20 runs, and memory and processor time over a minute. What is
required of it stands in REQUIRED; the exit status is 1 where that is missed, but for times: a busy
machine makes them longer, so of those that are too long it is said that nothing is proven.
PACKAGE is the file of a package, whose size is compared, too. Known weakness: one kernel, one
directory that is empty.
"""
import glob
import os
import socket
import subprocess
import sys
import tempfile
import time

RUNS = 20
IDLE_SECONDS = 60
REQUIRED = {"ready ms": 30, "resident MiB": 12, "processor %": 0.1, "package MB": 6}


def start(program, scratch):
    """Starts a server; returns the process and the milliseconds until it was ready."""
    path = os.path.join(scratch, "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(path)
        notify.settimeout(60)
        os.mkdir(os.path.join(scratch, "data"))
        command = [program, "serve", "--sandbox", "require", "--listen", "127.0.0.1:0"]
        command += ["--state-dir", os.path.join(scratch, "state"), os.path.join(scratch, "data")]
        begin = time.monotonic()
        server = subprocess.Popen(
            command,
            env={**os.environ, "NOTIFY_SOCKET": path},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            while b"READY=1" not in notify.recv(4096):
                pass
        except TimeoutError:
            server.kill()
            sys.exit(f"{program} does not get ready")
        return server, (time.monotonic() - begin) * 1000


def stop(server):
    server.terminate()
    if server.wait(60) != 0:
        sys.exit(f"it ended with {server.returncode}")


def processor_nanoseconds(server):
    """Of all its threads, as the scheduler counts them."""
    total = 0
    for task in glob.glob(f"/proc/{server.pid}/task/*/schedstat"):
        with open(task) as file:
            total += int(file.read().split()[0])
    return total


def resident_mib(server):
    with open(f"/proc/{server.pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:")) / 1024


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else "target/release/pagewell"
    measured = {}
    times = []
    for _ in range(RUNS):
        with tempfile.TemporaryDirectory() as scratch:
            server, milliseconds = start(program, scratch)
            times.append(milliseconds)
            stop(server)
    times.sort()
    print(f"ready after {times[RUNS // 2]:.1f} ms, the median of {RUNS}; the longest {times[-1]:.1f} ms")
    measured["ready ms"] = times[RUNS // 2]
    with tempfile.TemporaryDirectory() as scratch:
        server, _ = start(program, scratch)
        time.sleep(1)
        before = processor_nanoseconds(server)
        time.sleep(IDLE_SECONDS)
        used = processor_nanoseconds(server) - before
        measured["processor %"] = used / IDLE_SECONDS / 1e7
        measured["resident MiB"] = resident_mib(server)
        stop(server)
    print(f"resident {measured['resident MiB']:.1f} MiB")
    print(f"processor {used / 1e6:.1f} ms in {IDLE_SECONDS} s: {measured['processor %']:.3f} %")
    if len(sys.argv) > 2:
        measured["package MB"] = os.path.getsize(sys.argv[2]) / 1e6
        print(f"package {measured['package MB']:.2f} MB")
    missed = 0
    for name, value in measured.items():
        if value >= REQUIRED[name]:
            not_proven = name == "ready ms"
            missed += not not_proven
            print(f"{name}: {'not proven' if not_proven else 'missed'}, {REQUIRED[name]} is required")
    sys.exit(1 if missed else 0)


main()

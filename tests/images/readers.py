"""Reads each image with each program of this machine, and writes down what it shows.

usage: readers.py IMAGES READ [--only READER] [NAME...]       READ/READER/NAME.json

PAGEWELL is the program under test. Owners and device nodes need root.
"""

import os
import shutil
import subprocess
import sys
import tempfile

import manifest

READER_SECONDS = 120


def run(command, said, **other):
    """Its status; what it says goes into a file."""
    with open(said, "ab") as errors:
        try:
            return subprocess.run(command, stdin=subprocess.DEVNULL, stderr=errors, check=False,
                                  timeout=READER_SECONDS, **other).returncode
        except subprocess.TimeoutExpired:
            errors.write(b"not finished in time\n")
            return 124


def pagewell(image, work, said):
    with open(said, "ab") as output:
        run([os.environ["PAGEWELL"], "cp", "-a", "--sync", "never", image + "::/", work + "/out"], said,
            stdout=output)
    return manifest.of_directory(work + "/out")


def mounted(image, work, said):
    """The same through FUSE: what programs see."""
    program = os.environ["PAGEWELL"]
    os.mkdir(work + "/mnt")
    with open(said, "ab") as output:
        if run([program, "mount", image, work + "/mnt"], said, stdout=output) != 0:
            return []
        try:
            return manifest.of_directory(work + "/mnt")
        finally:
            run([program, "umount", work + "/mnt"], said, stdout=output)


def bsdtar(image, work, said):
    os.mkdir(work + "/out")
    with open(said, "ab") as output:
        run(["bsdtar", "-xpf", image, "--numeric-owner", "-C", work + "/out"], said, stdout=output)
    return manifest.of_directory(work + "/out")


def seven_zip(image, work, said):
    # -snld20: links that lead out are made, too.
    with open(said, "ab") as output:
        run(["7z", "x", "-y", "-snld20", "-o" + work + "/out", image], said, stdout=output)
    return manifest.of_directory(work + "/out")


def xorriso(image, work, said):
    os.mkdir(work + "/out")
    with open(said, "ab") as output:
        run(["xorriso", "-abort_on", "NEVER", "-osirrox", "on", "-hardlinks", "on",
             "-xattr", "on", "-indev", "stdio:" + image,
             "-extract", "/", work + "/out"], said, stdout=output)
    return manifest.of_directory(work + "/out")


READERS = {"pagewell": pagewell, "mounted": mounted, "bsdtar": bsdtar, "7z": seven_zip, "xorriso": xorriso}


def remove(folder):
    """Also where a directory may not be searched, which root may."""
    shutil.rmtree(folder, ignore_errors=True)


def main():
    images, into, *names = sys.argv[1:]
    readers = READERS
    if names[:1] == ["--only"]:
        readers = {name: READERS[name] for name in names[1].split(",")}
        names = names[2:]
    names = names or sorted(
        name for name in os.listdir(images)
        if os.path.isfile(os.path.join(images, name)) and not name.endswith((".json", ".failed", ".cue")))
    os.umask(0)
    for reader, read in readers.items():
        os.makedirs(os.path.join(into, reader), exist_ok=True)
        for name in names:
            work = tempfile.mkdtemp(dir=into)
            said = os.path.join(into, reader, name + ".said")
            if os.path.exists(said):
                os.remove(said)
            try:
                shown = read(os.path.join(images, name), work, said)
            except OSError as error:
                shown = []
                with open(said, "a", encoding="utf-8") as errors:
                    errors.write(f"{error}\n")
            manifest.save(os.path.join(into, reader, name + ".json"), shown)
            remove(work)


if __name__ == "__main__":
    main()

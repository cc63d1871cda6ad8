"""What a Linux kernel in the guest does for the corpus: it fills images of UDF, and reads all.

usage: guest.py fill TREES IMAGES
       guest.py read IMAGES READ [NAME...]       READ/isofs/NAME.json and READ/udf/NAME.json
"""

import base64
import json
import os
import subprocess
import sys
import tempfile

import manifest

HERE = os.path.dirname(os.path.abspath(__file__))
BOOT = os.path.join(HERE, "..", "guest", "boot.sh")
# QEMU translates each instruction.
GUEST_SECONDS = 1500
UDF_BYTES = 64 << 20


def fill(trees, images):
    with open(os.path.join(images, "recipes.json"), encoding="utf-8") as file:
        recipes = [recipe for recipe in json.load(file) if recipe["udffs"]]
    recipes = [(recipe, os.path.join(images, recipe["name"] + ".udf")) for recipe in recipes]
    recipes = [pair for pair in recipes if not os.path.exists(pair[1])]
    if not recipes:
        return
    with tempfile.TemporaryDirectory(dir=images) as work:
        os.mkdir(os.path.join(work, "tars"))
        disks = []
        for at, (recipe, _) in enumerate(recipes):
            names = os.listdir(os.fsencode(os.path.join(trees, recipe["tree"])))
            tar = os.path.join(work, "tars", f"{at:02}-{recipe['tree']}.tar")
            excluded = ["--exclude=./" + name for name in recipe["without"]]
            subprocess.run(
                ["tar", "--format=posix", "-C", os.path.join(trees, recipe["tree"]), *excluded, "-cf", tar, "--",
                 *sorted(b"./" + name for name in names)], check=True)
            disk = os.path.join(work, f"{at:02}.udf")
            with open(disk, "wb") as file:
                file.truncate(UDF_BYTES)
            subprocess.run(["mkudffs", "--utf8", *recipe["udffs"], "--label=corpus", disk],
                           check=True, stdout=subprocess.DEVNULL)
            disks.append(disk)
        source = os.path.join(work, "tars.iso")
        subprocess.run(["xorriso", "-as", "mkisofs", "-quiet", "-R", "-o", source, os.path.join(work, "tars")],
                       check=True, stderr=subprocess.DEVNULL)
        options = ["-t", str(GUEST_SECONDS), "-k", "udf", "-d", source]
        for disk in disks:
            options += ["-d", disk]
        jobs = [f"{at:02}-{recipe['tree']}" for at, (recipe, _) in enumerate(recipes)]
        subprocess.run([BOOT, *options, os.path.join(HERE, "guest-fill.sh"), *jobs], check=True)
        for disk, (_, image) in zip(disks, recipes):
            os.rename(disk, image)


def entries(status_part, links_part, sums_part):
    """The manifest of what guest-read.sh has printed."""
    targets = dict(pairs(base64.b64decode(links_part)))
    sums = {}
    for line in base64.b64decode(sums_part).split(b"\0")[:-1]:
        sums[line[66:].removeprefix(b"./")] = line[:64].decode()
    found = []
    for line in base64.b64decode(status_part).split(b"\0")[:-1]:
        mode, uid, gid, time, size, number, links, major, minor, path = line.split(b" ", 9)
        path = path.removeprefix(b"./")
        mode = int(mode, 16)
        found.append(manifest.entry(
            path, mode, int(uid), int(gid), manifest.nanoseconds(time.decode()), int(size),
            os.makedev(int(major, 16), int(minor, 16)), int(links) > 1 and (int(number),) or None,
            sums.get(path), targets.get(path)))
    return manifest.with_groups(found)


def pairs(data):
    parts = data.split(b"\0")[:-1]
    return zip(parts[::2], parts[1::2])


def is_read(image, result):
    return os.path.exists(result) and os.path.getmtime(result) > os.path.getmtime(image)


def read(images, into, names):
    with tempfile.TemporaryDirectory(dir=images) as work:
        source = os.path.join(work, "images.iso")
        listed = names or sorted(
            name for name in os.listdir(images) if os.path.isfile(os.path.join(images, name)))
        # The kernel shows of an image today what it showed yesterday.
        listed = [name for name in listed if not name.endswith((".json", ".failed", ".cue"))
                  and not is_read(os.path.join(images, name), os.path.join(into, "udf", name + ".json"))]
        if not listed:
            return
        # Boot records of images must not be taken for the disk's.
        grafts = [f"/{name}={os.path.join(images, name)}" for name in listed]
        subprocess.run(["xorriso", "-as", "mkisofs", "-quiet", "-R", "-iso-level", "3", "-graft-points",
                        "-o", source, *grafts], check=True, stderr=subprocess.DEVNULL)
        done = subprocess.run(
            [BOOT, "-t", str(GUEST_SECONDS), "-k", "udf", "-k", "nls_utf8", "-d", source,
             os.path.join(HERE, "guest-read.sh")], check=False, stdout=subprocess.PIPE)
    text = done.stdout.decode("ascii", "replace")
    if "== end" not in text:
        sys.exit(f"guest: status {done.returncode}: {text[-1000:]}")
    for part in text.split("== ")[1:-1]:
        title, body = part.split("\n", 1)
        name, reader = title.rsplit(" ", 1)
        folder = os.path.join(into, reader)
        os.makedirs(folder, exist_ok=True)
        manifest.save(os.path.join(folder, name + ".json"), entries(*body.split("--\n")[:3]))
    # An image that is not mounted is one of which nothing is shown.
    for name in listed:
        for reader in ("isofs", "udf"):
            path = os.path.join(into, reader, name + ".json")
            if not os.path.exists(path):
                manifest.save(path, [])


def main():
    if sys.argv[1] == "fill":
        fill(*sys.argv[2:4])
    else:
        read(sys.argv[2], sys.argv[3], sys.argv[4:])


if __name__ == "__main__":
    main()

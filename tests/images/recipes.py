"""The images of the corpus: which tree, which writer, and what the format can hold of the tree.

usage: recipes.py TREES IMAGES WRITERS [NAME...]

Makes IMAGES/NAME.FORM for each recipe that is not there, and IMAGES/recipes.json, which compare.py
reads. WRITERS is the folder of writers.sh. A writer that is not there costs its images; they are
named, and no more. Images that a Linux kernel fills are made in guest.py.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, field

ALL_KINDS = ["file", "directory", "link", "fifo", "character device", "block device"]
NO_PIPES = [kind for kind in ALL_KINDS if kind != "fifo"]


@dataclass
class Holds:
    """What a format can hold; what it cannot is not compared."""

    kinds: list = field(default_factory=lambda: ALL_KINDS)
    # exact: bytes of the source. folded: by a rule of the writer (compare.py aligns by content).
    names: str = "exact"
    mode: bool = True
    owner: bool = True
    # Seconds between two times that the format tells apart; None: no times of files.
    time: float | None = 1
    hard_links: bool = False
    # In the name space `user`.
    extended: bool = False


def rock_ridge(**other):
    return Holds(**other)


def joliet():
    return Holds(kinds=["file", "directory"], mode=False, owner=False)


def plain():
    return Holds(kinds=["file", "directory"], names="folded", mode=False, owner=False)


def udf(**other):
    # Microseconds.
    return Holds(**({"time": 1e-6, "hard_links": True} | other))


@dataclass
class Recipe:
    name: str
    tree: str
    holds: Holds
    make: object = None
    # Names, with those below them, that this writer is not given: it ends or damages the image.
    without: list = field(default_factory=list)
    form: str = "iso"
    needs: list = field(default_factory=list)
    # Pagewell must show all of it, whether others do or not.
    complete: bool = False
    # Of mkudffs, for an image that a Linux kernel fills.
    udffs: list = field(default_factory=list)


class Workshop:
    """Where the makers of images find things."""

    def __init__(self, trees, images, writers):
        self.trees, self.images, self.writers = trees, images, writers

    def run(self, *command, seconds=120, **other):
        command = [os.fsencode(part) for part in command]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=seconds, check=False, **other)
        if done.returncode != 0:
            said = done.stdout.decode(errors="replace")[-600:]
            raise RuntimeError(f"{os.fsdecode(command[0])}: status {done.returncode}: {said}")

    def writer(self, name):
        return os.path.join(self.writers, name)


def given(shop, recipe, work):
    """The tree, or a copy of it without what this writer is not given."""
    source = os.path.join(shop.trees, recipe.tree)
    if not recipe.without:
        return source
    copy = os.path.join(work, "tree")
    shop.run("cp", "-a", source, copy)
    times = {folder: os.stat(folder) for folder, _, _ in os.walk(copy)}
    for path in recipe.without:
        shop.run("rm", "-r", os.path.join(copy, path))
    for folder, status in times.items():
        if os.path.isdir(folder):
            os.utime(folder, ns=(status.st_atime_ns, status.st_mtime_ns))
    return copy


# Which images, by which option


def xorriso(*options):
    def make(shop, tree, image, _work):
        shop.run("xorriso", "-as", "mkisofs", "-quiet", *options, "-o", image, tree)

    return make


def native(*commands):
    """xorriso by its own commands; TREE stands for the tree."""

    def make(shop, tree, image, _work):
        commands_here = [tree if command == "TREE" else command for command in commands]
        shop.run("xorriso", "-outdev", "stdio:" + image, *commands_here, "-commit")

    return make


def two_sessions(shop, tree, image, work):
    """The second adds, changes and removes."""
    first = os.path.join(work, "first")
    shop.run("cp", "-a", tree, first)
    with open(os.path.join(first, "readme"), "ab") as file:
        file.write(b"old")
    shop.run("rm", "-r", os.path.join(first, "src"))
    shop.run("cp", os.path.join(tree, "readme"), os.path.join(first, "removed"))
    shop.run("xorriso", "-outdev", "stdio:" + image, "-map", first, "/", "-commit")
    shop.run("xorriso", "-dev", "stdio:" + image, "-rm", "/removed", "--", "-update_r", tree, "/",
             "-commit")


def genisoimage(*options):
    def make(shop, tree, image, _work):
        shop.run("genisoimage", "-quiet", *options, "-o", image, tree)

    return make


def bsdtar(*options):
    def make(shop, tree, image, _work):
        names = sorted(os.listdir(os.fsencode(tree)))
        shop.run("bsdtar", "--format", "iso9660", *options, "-cf", image, "-C", tree, "--", *names)

    return make


def pycdlib(*options):
    def make(shop, tree, image, _work):
        shop.run(shop.writer("pycdlib-genisoimage"), "-quiet", *options, "-o", image, tree)

    return make


def go(library, kind):
    def make(shop, tree, image, work):
        # go-diskfs removes what it has written.
        copy = os.path.join(work, "copy")
        shop.run("cp", "-a", tree, copy)
        shop.run(shop.writer("images-go"), library, kind, copy, image)

    return make


def hadris(kind):
    def make(shop, tree, image, _work):
        shop.run(shop.writer("images-rust"), kind, tree, image)

    return make


def udfkit(kind):
    def make(shop, tree, image, _work):
        shop.run(shop.writer("udfkit"), kind, tree, image, "--label", "CORPUS")

    return make


# Containers: other files around an image of the corpus


def raw_sectors(size, offset, mode, with_cue=False):
    """Sectors as a drive reads them: synchronisation, header, and no bytes of correction."""

    def make(shop, tree, image, work):
        plain_image = os.path.join(work, "plain")
        xorriso("-R")(shop, tree, plain_image, work)
        with open(plain_image, "rb") as source, open(image, "wb") as target:
            number = 150
            while data := source.read(2048):
                minute, second, frame = number // 4500, number // 75 % 60, number % 75
                address = bytes(int(str(part), 16) for part in (minute, second, frame))
                header = b"\0" + b"\xff" * 10 + b"\0" + address + bytes([mode])
                sector = (header if size != 2336 else b"").ljust(offset, b"\0") + data
                target.write(sector.ljust(size, b"\0"))
                number += 1
        if with_cue:
            with open(image[:-3] + "cue", "w", encoding="ascii") as file:
                file.write(f'FILE "{os.path.basename(image)}" BINARY\n'
                           f"  TRACK 01 MODE{mode}/{size}\n    INDEX 01 00:00:00\n")

    return make


def compressed(program):
    def make(shop, tree, image, work):
        plain_image = os.path.join(work, "plain")
        xorriso("-R")(shop, tree, plain_image, work)
        with open(image, "wb") as target:
            subprocess.run([program, "-c", plain_image], stdout=target, check=True)

    return make


def maxcso(kind, *options):
    def make(shop, tree, image, work):
        plain_image = os.path.join(work, "plain.iso")
        xorriso("-R")(shop, tree, plain_image, work)
        shop.run(shop.writer("maxcso"), "--quiet", f"--format={kind}", *options, plain_image,
                 "-o", image)

    return make


def in_partition(shop, tree, image, work):
    """A stick of which the first partition is an image."""
    plain_image = os.path.join(work, "plain")
    xorriso("-R")(shop, tree, plain_image, work)
    length = os.path.getsize(plain_image)
    first, sectors = 2048, length // 512
    entry = bytes([0, 0xFE, 0xFF, 0xFF, 0x17, 0xFE, 0xFF, 0xFF])
    entry += first.to_bytes(4, "little") + sectors.to_bytes(4, "little")
    with open(image, "wb") as target, open(plain_image, "rb") as source:
        target.write((bytes(446) + entry).ljust(510, b"\0") + b"\x55\xaa")
        target.seek(first * 512)
        shutil.copyfileobj(source, target)


# Everyday images


def windows_installer(shop, tree, image, _work):
    """Only the UDF tree has the files; the other has a note."""
    hidden = [part for name in os.listdir(tree) if name != "README.TXT" for part in ("-hide", name)]
    shop.run("genisoimage", "-quiet", "-udf", "-V", "INSTALLER", *hidden, "-o", image, tree)


# xorriso takes targets up to 1,023 bytes; genisoimage never ends with one of 950.
TOO_LONG = ["links/very-long"]
LONG_LINKS = ["links/very-long", "links/long-parts"]
# UDF holds 254 characters of eight bits.
LONG_NAMES = ["long/255-" + "n" * 251, "long/" + "d" * 255]
# What Linux refuses to write into UDF.
NOT_LINUX = {
    "posix": ["links/very-long", "links/long-255", "nodes/far"],
    "names": [*LONG_NAMES, "long/" + "\u8cc7" * 85],
}
NOT_LINUX["whole"] = NOT_LINUX["posix"] + NOT_LINUX["names"]
# A target has to fit into a block.
NOT_LINUX_512 = ["links/parts", "links/long-parts"]

RECIPES = [
    # xorriso, by the options of mkisofs
    *[Recipe(f"xorriso-rock-{tree}", tree, rock_ridge(), xorriso("-R", "-iso-level", "3"), without)
      for tree, without in (("plain", []), ("posix", TOO_LONG), ("names", []), ("deep", []),
                            ("dates", []), ("bytes", []), ("whole", TOO_LONG))],
    Recipe("xorriso-rational-posix", "posix", rock_ridge(), xorriso("-r"), TOO_LONG),
    *[Recipe(f"xorriso-level{level}-plain", "plain", plain(),
             xorriso("--norock", "-iso-level", str(level))) for level in (1, 2, 3)],
    Recipe("xorriso-level4-office", "office", plain(), xorriso("--norock", "-iso-level", "4")),
    Recipe("xorriso-lowercase-office", "office", plain(), xorriso(
        "--norock", "-iso-level", "3", "-allow-lowercase", "-l", "-allow-multidot")),
    Recipe("xorriso-joliet-office", "office", joliet(), xorriso("--norock", "-J", "-joliet-long")),
    Recipe("xorriso-rock-joliet-whole", "whole", rock_ridge(), xorriso("-R", "-J"), TOO_LONG),
    Recipe("xorriso-hfsplus-office", "office", rock_ridge(), xorriso("-R", "-hfsplus")),
    Recipe("xorriso-dirmoved-deep", "deep", rock_ridge(), xorriso("-R", "-D")),
    Recipe("xorriso-boot-plain", "plain", rock_ridge(), xorriso(
        "-R", "-b", "src/makefile", "-no-emul-boot", "-c", "boot.cat")),
    # xorriso, by its own commands
    Recipe("xorriso-native-whole", "whole", rock_ridge(hard_links=True), native(
        "-hardlinks", "on", "-map", "TREE", "/"), TOO_LONG),
    Recipe("xorriso-backup-posix", "posix", rock_ridge(hard_links=True), native(
        "-for_backup", "-map", "TREE", "/"), TOO_LONG),
    Recipe("xorriso-extended", "extended", rock_ridge(extended=True), native(
        "-xattr", "on", "-map", "TREE", "/")),
    Recipe("xorriso-rrip112-names", "names", rock_ridge(), native(
        "-compliance", "new_rr", "-map", "TREE", "/")),
    Recipe("xorriso-1999-office", "office", rock_ridge(), native(
        "-compliance", "iso_9660_1999", "-map", "TREE", "/")),
    Recipe("xorriso-1999-only-office", "office", plain(), native(
        "-rockridge", "off", "-compliance", "iso_9660_1999", "-map", "TREE", "/")),
    Recipe("xorriso-zisofs-text", "text", rock_ridge(), native(
        "-map", "TREE", "/", "-set_filter_r", "--zisofs", "/", "--")),
    Recipe("xorriso-zisofs-128k-text", "text", rock_ridge(), native(
        "-zisofs", "block_size=128k", "-map", "TREE", "/", "-set_filter_r", "--zisofs", "/", "--")),
    Recipe("xorriso-zisofs2-text", "text", rock_ridge(), native(
        "-zisofs", "version_2=on:block_size_v2=256k", "-map", "TREE", "/",
        "-set_filter_r", "--zisofs", "/", "--")),
    Recipe("xorriso-sessions-plain", "plain", rock_ridge(), two_sessions),
    # genisoimage
    *[Recipe(f"genisoimage-level{level}-plain", "plain", plain(),
             genisoimage("-iso-level", str(level))) for level in (1, 2, 3)],
    Recipe("genisoimage-level4-office", "office", plain(), genisoimage("-iso-level", "4")),
    *[Recipe(f"genisoimage-rock-{tree}", tree, rock_ridge(), genisoimage(
        "-R", "-iso-level", "3", "-input-charset", "utf-8"), without=without)
      for tree, without in (("plain", []), ("posix", LONG_LINKS), ("names", []), ("deep", []),
                            ("dates", []), ("bytes", []), ("whole", LONG_LINKS))],
    Recipe("genisoimage-rational-posix", "posix", rock_ridge(), genisoimage("-r"), LONG_LINKS),
    Recipe("genisoimage-cached-posix", "posix", rock_ridge(hard_links=True), genisoimage(
        "-R", "-cache-inodes"), LONG_LINKS),
    Recipe("genisoimage-joliet-office", "office", joliet(), genisoimage(
        "-J", "-joliet-long", "-input-charset", "utf-8")),
    Recipe("genisoimage-rock-joliet-office", "office", rock_ridge(), genisoimage(
        "-R", "-J", "-joliet-long", "-input-charset", "utf-8")),
    Recipe("genisoimage-hfs-plain", "plain", rock_ridge(), genisoimage("-R", "-hfs")),
    Recipe("genisoimage-apple-plain", "plain", rock_ridge(), genisoimage("-R", "-apple")),
    Recipe("genisoimage-udf-office", "office", udf(mode=False, owner=False), genisoimage(
        "-udf", "-input-charset", "utf-8")),
    Recipe("genisoimage-udf-plain", "plain", udf(mode=False, owner=False), genisoimage("-udf")),
    Recipe("genisoimage-udf-rock-posix", "posix", rock_ridge(), genisoimage(
        "-R", "-udf", "-input-charset", "utf-8"), LONG_LINKS),
    Recipe("genisoimage-udf-joliet-office", "office", joliet(), genisoimage(
        "-J", "-udf", "-joliet-long", "-input-charset", "utf-8")),
    Recipe("genisoimage-udf-rock-joliet-office", "office", rock_ridge(), genisoimage(
        "-R", "-J", "-udf", "-joliet-long", "-input-charset", "utf-8")),
    # bsdtar
    *[Recipe(f"bsdtar-rock-{tree}", tree, rock_ridge(hard_links=True), bsdtar())
      for tree in ("plain", "posix", "names", "deep", "dates", "bytes", "whole")],
    Recipe("bsdtar-joliet-office", "office", joliet(), bsdtar("--options", "iso9660:!rockridge")),
    Recipe("bsdtar-level1-plain", "plain", plain(), bsdtar(
        "--options", "iso9660:!rockridge,iso9660:!joliet,iso9660:iso-level=1")),
    Recipe("bsdtar-level4-office", "office", plain(), bsdtar(
        "--options", "iso9660:!rockridge,iso9660:!joliet,iso9660:iso-level=4")),
    Recipe("bsdtar-zisofs-text", "text", rock_ridge(), bsdtar("--options", "iso9660:zisofs")),
    # pycdlib
    Recipe("pycdlib-plain", "plain", plain(), pycdlib(), needs=["pycdlib-genisoimage"]),
    Recipe("pycdlib-rock-plain", "plain", rock_ridge(), pycdlib("-R"), needs=["pycdlib-genisoimage"]),
    Recipe("pycdlib-rock-deep", "deep", rock_ridge(kinds=["file", "directory"]), pycdlib("-R"), needs=["pycdlib-genisoimage"]),
    # Its genisoimage writes no links.
    Recipe("pycdlib-rock-posix", "posix", rock_ridge(kinds=["file", "directory"]),
           pycdlib("-R"), ["nodes"], needs=["pycdlib-genisoimage"]),
    Recipe("pycdlib-joliet-office", "office", joliet(), pycdlib("-J", "-joliet-long"),
           needs=["pycdlib-genisoimage"]),
    Recipe("pycdlib-udf-plain", "plain", udf(mode=False, owner=False), pycdlib("-udf"),
           needs=["pycdlib-genisoimage"]),
    Recipe("pycdlib-udf-rock-joliet-plain", "plain", rock_ridge(), pycdlib("-udf", "-R", "-J"),
           needs=["pycdlib-genisoimage"]),
    # go-diskfs and kdomanski/iso9660
    Recipe("go-diskfs-plain", "plain", plain(), go("diskfs", "plain"), needs=["images-go"]),
    *[Recipe(f"go-diskfs-rock-{tree}", tree, rock_ridge(), go("diskfs", "rock"), without,
             needs=["images-go"])
      for tree, without in (("plain", []), ("posix", ["links/very-long", "nodes"]), ("names", []), ("deep", []),
                            ("dates", []))],
    Recipe("go-diskfs-joliet-plain", "plain", joliet(), go("diskfs", "joliet"), needs=["images-go"]),
    Recipe("go-diskfs-rock-joliet-office", "office", rock_ridge(), go("diskfs", "both"),
           needs=["images-go"]),
    Recipe("kdomanski-plain", "plain", plain(), go("kdomanski", "plain"), needs=["images-go"]),
    # hadris
    # It leaves out pipes, and says so.
    *[Recipe(f"hadris-rock-{tree}", tree, rock_ridge(kinds=NO_PIPES, hard_links=True), hadris("rock"),
             needs=["images-rust"])
      for tree in ("plain", "posix", "names", "deep", "dates", "whole")],
    Recipe("hadris-plain", "plain", plain(), hadris("plain"), needs=["images-rust"]),
    Recipe("hadris-joliet-office", "office", joliet(), hadris("joliet"), needs=["images-rust"]),
    Recipe("hadris-1999-office", "office", plain(), hadris("iso1999"), needs=["images-rust"]),
    Recipe("hadris-rock-joliet-office", "office", rock_ridge(hard_links=True), hadris("both"),
           needs=["images-rust"]),
    *[Recipe(f"hadris-udf{revision}-{tree}", tree, udf(kinds=["file", "directory", "link"]),
             hadris(f"udf{revision}"), without, needs=["images-rust"])
      for revision in ("102", "201")
      for tree, without in (("office", []), ("posix", ["nodes", "links/long-255"]),
                            ("names", LONG_NAMES), ("deep", []), ("dates", []))],
    Recipe("hadris-bridge-posix", "posix", rock_ridge(kinds=NO_PIPES, hard_links=True), hadris("bridge"),
           needs=["images-rust"]),
    # udfkit
    Recipe("udfkit-bluray", "bluray", udf(mode=False, owner=False, time=None, hard_links=False),
           udfkit("bluray"), needs=["udfkit"]),
    Recipe("udfkit-dvd", "dvd", udf(mode=False, owner=False, time=None, hard_links=False), udfkit("dvd"),
           needs=["udfkit"]),
    # mkudffs, filled by Linux in the guest
    *[Recipe(f"linux-udf{revision}-{media}-{block}-{tree}", tree, udf(), form="udf",
             without=NOT_LINUX.get(tree, []) + (NOT_LINUX_512 if (block, tree) == (512, "whole") else []),
             udffs=[f"--media-type={media}", f"--udfrev=0x0{revision}", f"--blocksize={block}"])
      for revision, media, block, tree in (
          ("201", "hd", 512, "whole"), ("201", "hd", 2048, "posix"), ("201", "hd", 4096, "names"),
          ("201", "hd", 1024, "dates"), ("150", "hd", 512, "deep"), ("102", "hd", 2048, "posix"),
          ("201", "dvdram", 2048, "office"), ("150", "cdrw", 2048, "posix"),
          ("201", "dvdrw", 2048, "whole"))],
    # Containers
    Recipe("sectors-2352-mode1", "plain", rock_ridge(), raw_sectors(2352, 16, 1, True), form="bin",
           complete=True),
    Recipe("sectors-2352-mode2", "plain", rock_ridge(), raw_sectors(2352, 24, 2), form="bin",
           complete=True),
    Recipe("sectors-2448", "plain", rock_ridge(), raw_sectors(2448, 16, 1), form="img",
           complete=True),
    Recipe("sectors-2336", "plain", rock_ridge(), raw_sectors(2336, 8, 2), form="img",
           complete=True),
    Recipe("gzip", "plain", rock_ridge(), compressed("gzip"), form="iso.gz",
           complete=True),
    Recipe("xz", "plain", rock_ridge(), compressed("xz"), form="iso.xz",
           complete=True),
    Recipe("zstd", "plain", rock_ridge(), compressed("zstd"), form="iso.zst",
           complete=True),
    Recipe("maxcso-cso1", "plain", rock_ridge(), maxcso("cso1"), form="cso",
           complete=True, needs=["maxcso"]),
    Recipe("maxcso-cso2", "plain", rock_ridge(), maxcso("cso2", "--block=8192"), form="cso",
           complete=True, needs=["maxcso"]),
    Recipe("maxcso-zso", "plain", rock_ridge(), maxcso("zso"), form="zso",
           complete=True, needs=["maxcso"]),
    Recipe("session-alone", "plain", rock_ridge(), genisoimage("-R", "-C", "0,45150"),
           complete=True),
    Recipe("partition-mbr", "plain", rock_ridge(), in_partition, form="img",
           complete=True),
    # Everyday
    Recipe("windows-installer", "windows", udf(mode=False, owner=False), windows_installer,
           complete=True),
    Recipe("cloud-init", "seed", rock_ridge(mode=False, owner=False), genisoimage(
        "-V", "cidata", "-J", "-r")),
    Recipe("cloud-init-udf", "seed", rock_ridge(mode=False, owner=False), genisoimage(
        "-V", "cidata", "-J", "-r", "-udf")),
    Recipe("cloud-localds", "seed", rock_ridge(mode=False, owner=False), genisoimage(
        "-V", "cidata", "-J", "-rock")),
    Recipe("autounattend", "seed", udf(mode=False, owner=False), genisoimage(
        "-V", "OEMDRV", "-J", "-udf", "-iso-level", "3")),
]


def forget_changed(shop, recipe):
    """Removes an image that another recipe has made."""
    image = os.path.join(shop.images, f"{recipe.name}.{recipe.form}")
    stamp = os.path.join(shop.images, "made", recipe.name)
    cells = [cell.cell_contents for cell in recipe.make.__closure__ or ()] if recipe.make else []
    code = recipe.make.__code__.co_code.hex() if recipe.make else ""
    made_by = repr((recipe.tree, recipe.without, recipe.udffs, code, cells))
    if os.path.exists(stamp):
        with open(stamp, encoding="utf-8") as file:
            if file.read() == made_by:
                return
    if os.path.exists(image):
        os.remove(image)
    with open(stamp, "w", encoding="utf-8") as file:
        file.write(made_by)


def make(shop, recipe):
    """The image, unless it is there; what is wrong otherwise."""
    image = os.path.join(shop.images, f"{recipe.name}.{recipe.form}")
    if os.path.exists(image):
        return None
    for need in recipe.needs:
        if not os.path.exists(shop.writer(need)):
            return f"{need} is not here"
    with tempfile.TemporaryDirectory(dir=shop.images) as work:
        tree = given(shop, recipe, work)
        try:
            recipe.make(shop, tree, image, work)
        except (RuntimeError, OSError, subprocess.SubprocessError) as error:
            if os.path.exists(image):
                os.rename(image, image + ".failed")
            return str(error).strip()
    return None


def main():
    trees, images, writers, *names = sys.argv[1:]
    os.makedirs(os.path.join(images, "made"), exist_ok=True)
    shop = Workshop(trees, images, writers)
    described, failed = [], 0
    for recipe in RECIPES:
        if names and recipe.name not in names:
            continue
        forget_changed(shop, recipe)
        wrong = None if recipe.udffs else make(shop, recipe)
        if wrong:
            failed += 1
            print(f"no image {recipe.name}: {wrong}")
            continue
        described.append({key: value for key, value in asdict(recipe).items() if key != "make"})
    with open(os.path.join(images, "recipes.json"), "w", encoding="utf-8") as file:
        json.dump(described, file, indent=1)
    print(f"images: {len(described)} made, {failed} not")


if __name__ == "__main__":
    main()

"""Makes the source trees of the corpus.

usage: trees.py FOLDER          makes FOLDER/NAME for each name of TREES that is not there

Every file has bytes of its own, made from its path, so that a copy is known by them whatever became
of its name. Owners and device nodes need root.
"""

import hashlib
import os
import stat
import sys

# Seconds since 1970. Two days apart each, even, and in winter and in summer.
FIRST_TIME = 1_700_000_000
SIZES = [0, 1, 2, 511, 512, 513, 2047, 2048, 2049, 4095, 4096, 4097, 30_000, 32_768, 65_537, 150_001]


def content(path, length):
    """Bytes that no other path has."""
    seed = hashlib.sha256(path.encode("utf-8", "surrogateescape")).digest()
    return hashlib.shake_128(seed).digest(length)


class Tree:
    """A directory that is being filled. Times of directories are set last."""

    def __init__(self, root):
        self.root = root
        self.times = {}
        self.count = 0
        os.mkdir(root, 0o755)

    def at(self, path):
        return os.path.join(self.root, path)

    def note(self, path, time=None):
        self.count += 1
        self.times[path] = FIRST_TIME + 86400 * 2 * self.count if time is None else time
        os.utime(self.at(path), ns=(int(self.times[path] * 10**9),) * 2, follow_symlinks=False)

    def directory(self, path, mode=0o755, owner=(0, 0)):
        os.mkdir(self.at(path))
        os.chmod(self.at(path), mode)
        os.chown(self.at(path), *owner)
        self.note(path)

    def directories(self, path):
        """The directory and those above it."""
        parts = path.split("/")
        for end in range(1, len(parts) + 1):
            if not os.path.isdir(self.at("/".join(parts[:end]))):
                self.directory("/".join(parts[:end]))

    def file(self, path, length=None, mode=0o644, owner=(0, 0), time=None):
        length = SIZES[self.count % len(SIZES)] if length is None else length
        with open(self.at(path), "xb") as file:
            file.write(content(path, length))
        os.chown(self.at(path), *owner)
        os.chmod(self.at(path), mode)
        self.note(path, time)

    def link(self, path, target, owner=(0, 0)):
        os.symlink(target, self.at(path))
        os.lchown(self.at(path), *owner)
        self.note(path)

    def hard_link(self, path, other):
        os.link(self.at(other), self.at(path))
        self.times[path] = self.times[other]
        self.count += 1

    def node(self, path, kind, device=0, mode=0o640):
        os.mknod(self.at(path), kind | mode, device)
        os.chmod(self.at(path), mode)
        self.note(path)

    def finish(self):
        """Deepest first: a file that is made changes the time of its directory."""
        for path in sorted(self.times, key=lambda path: -path.count("/")):
            time = int(self.times[path] * 10**9)
            os.utime(self.at(path), ns=(time, time), follow_symlinks=False)
        os.utime(self.root, (FIRST_TIME, FIRST_TIME))


def fill(tree, wanted):
    """More of the ordinary, until there are so many entries."""
    at = 0
    while tree.count < wanted:
        if at % 20 == 0:
            tree.directories(f"more/{at // 20:02}")
        if tree.count < wanted:
            tree.file(f"more/{at // 20:02}/file-{at:03}.dat")
        at += 1


def plain(tree):
    """Names of eight and three characters, which every format holds."""
    for path in ["docs", "docs/old", "src", "src/lib", "src/lib/deep"]:
        tree.directory(path)
    for at, length in enumerate(SIZES[1:]):
        folder = ["", "docs/", "docs/old/", "src/", "src/lib/", "src/lib/deep/"][at % 6]
        tree.file(f"{folder}file{at:02}.dat", length)
    tree.file("empty.txt", 0)
    tree.file("readme", 300)
    tree.file("src/makefile", 200)
    tree.file("docs/read_me.txt", 7000)


OFFICE = [
    "Annual Report 2026.docx", "notes.txt", "Photo (1).JPG", "r\u00e9sum\u00e9 d\u2019\u00e9t\u00e9.pdf",
    "\u8cc7\u6599\u4e00\u89a7.xlsx", "\u0424\u043e\u0442\u043e \u043b\u0435\u0442\u043e.png",
    "archive.tar.gz", "no extension", "two  spaces.txt", ".hidden settings", "a+b=c,d&e.txt",
    "percent%20name.html", "100% (final) [2].txt", "it's.txt", "UPPER CASE.TXT", "MixedCase.Java",
    "\u03b1\u03b2\u03b3.dat", "\ud55c\uad6d\uc5b4.txt", "stra\u00dfe.txt", "x" * 60 + ".txt",
]


def office(tree):
    """What people have on Windows and macOS: no links, and no names that differ in case alone."""
    for folder in ["", "My Documents/", "\u00c4rger mit \u00dcmlauten/", "Program Files/App 1.0/"]:
        if folder:
            tree.directories(folder[:-1])
        for at, name in enumerate(OFFICE):
            # Long enough that no two files have the same bytes: names may be folded.
            tree.file(folder + name, SIZES[3 + at % (len(SIZES) - 3)])


def names(tree):
    """Names at the limits: long, wide, and almost the same."""
    tree.directory("long")
    for length in [200, 210, 221, 230, 240, 248, 250, 251, 252, 253, 254, 255]:
        tree.file(f"long/{length}-" + "n" * (length - 4))
    tree.file("long/" + "\u00e9" * 127)
    tree.file("long/" + "\u8cc7" * 85)
    tree.file("long/" + "\U0001f4bf" * 63)
    tree.directory("long/" + "d" * 255)
    tree.file("long/" + "d" * 255 + "/inside")
    tree.directory("wide")
    for name in ["\u00e9", "\u0439", "\u8cc7", "\U0001f4bf", "e\u0301", "\u202eabc", "\u00a0", "\ufb01"]:
        tree.file("wide/" + name)
        tree.file("wide/" + name + " with more.txt")
    tree.directory("case")
    for name in ["Makefile", "makefile", "MAKEFILE", "readme.TXT", "README.txt", "Readme.txt"]:
        tree.file("case/" + name)
    tree.directory("Case")
    tree.file("Case/other")
    tree.directory("odd")
    for name in [" ", "  leading", "trailing ", "trailing.", "...", "..x", ".x.", "a;1", "a;2", "a",
                 "a.;1", "a:b", "a*b", "a?b", "a\\b", 'a"b', "a|b", "<a>", "~", "-rf", "#", "$HOME",
                 "tab\there", "two\nlines", "a" + "." * 20, "1.2.3.4.5", "rr_moved", ".rr_moved"]:
        tree.file("odd/" + name, 100)
    # They differ only where an ISO name has been cut already.
    tree.directory("alike")
    for at in range(12):
        tree.file(f"alike/the same for thirty-one characters and more {at:02}.txt")


LINKS = [
    "target", "./target", "../links/target", "folder", "folder/", "/", "//", ".", "..", "../..", "a//b",
    "/usr//lib", "//host/share", "/etc/passwd", "a/./b", "a/../b", "/..", "/.", "./", "../", "dangling",
    "/no/such/place", "name with spaces", "r\u00e9sum\u00e9", "...", "a/", "/a/", "a///b////c", "-", "~",
]


def posix(tree):
    """What Rock Ridge was made for: links, nodes, owners, modes."""
    tree.directory("links")
    tree.file("links/target")
    tree.directory("links/folder")
    for at, target in enumerate(LINKS):
        tree.link(f"links/link-{at:02}", target)
    for length in [100, 240, 249, 250, 255]:
        tree.link(f"links/long-{length}", "t" * length)
    tree.link("links/parts", "/".join(["part"] * 60))
    tree.link("links/long-parts", "/".join(["p" * 120] * 8))
    tree.link("links/very-long", "/".join([f"{at:03}-" + "q" * 96 for at in range(40)]))
    tree.link("links/owned", "target", (1001, 1002))
    tree.directory("hard")
    tree.directory("hard/below")
    for at, length in enumerate([5000, 1, 0]):
        tree.file(f"hard/first-{at}", length)
        tree.hard_link(f"hard/second-{at}", f"hard/first-{at}")
        tree.hard_link(f"hard/below/third-{at}", f"hard/first-{at}")
    tree.file("hard/alone", 0)
    tree.directory("nodes")
    tree.node("nodes/pipe", stat.S_IFIFO)
    tree.node("nodes/null", stat.S_IFCHR, os.makedev(1, 3), 0o666)
    tree.node("nodes/tty", stat.S_IFCHR, os.makedev(4, 64), 0o620)
    tree.node("nodes/disk", stat.S_IFBLK, os.makedev(8, 17), 0o660)
    tree.node("nodes/far", stat.S_IFBLK, os.makedev(259, 70000))
    tree.directory("modes")
    for mode in [0o000, 0o400, 0o444, 0o600, 0o640, 0o700, 0o755, 0o777, 0o4755, 0o2755, 0o6711, 0o1644]:
        tree.file(f"modes/file-{mode:04o}", 700 + mode, mode)
    for mode in [0o700, 0o1777, 0o2775, 0o555, 0o711]:
        tree.directory(f"modes/folder-{mode:04o}", mode)
        tree.file(f"modes/folder-{mode:04o}/inside")
    tree.directory("owners")
    for at, owner in enumerate([(0, 0), (1, 2), (1000, 1000), (65534, 65534), (70000, 80000), (2**31, 2**31 + 5)]):
        tree.file(f"owners/file-{at}", None, 0o644, owner)
        tree.directory(f"owners/folder-{at}", 0o755, owner)
    tree.directory("empty")
    for length in [2**20, 2**20 + 1]:
        tree.file(f"size-{length}", length)


def deep(tree):
    """More levels than ISO 9660 has, and directories below those that were moved."""
    path = ""
    for level in range(1, 13):
        path += ("/" if path else "") + f"level-{level}"
        tree.directory(path)
        tree.file(path + "/here")
    tree.directories("a/b/c/d/e/f/g/h/i/j")
    tree.directories("a/b/c/d/e/f/g/h2/i/j")
    tree.directories("a/b/c/d/e/f/g/empty/empty/empty")
    tree.file("a/b/c/d/e/f/g/h/i/j/file")
    tree.file("a/b/c/d/e/f/g/h2/i/j/file")
    tree.link("a/b/c/d/e/f/g/h/link", "../h2/i/j/file")


# Years, in seconds since 1970. The first is in 1901.
DATES = {
    "1901": -2_147_483_648, "1902": -2_145_916_800, "1930": -1_250_000_000, "1969": -2, "1970": 0,
    "1970-later": 1_000_001, "1980": 315_532_800, "1999": 946_684_799, "2000": 951_826_401,
    "2026-summer": 1_784_000_000, "2026-winter": 1_796_000_000, "2037": 2_140_000_000,
    "2038-before": 2_147_483_647, "2038-after": 2_147_483_648, "2040": 2_208_988_800,
    "2099": 4_102_444_799, "2100": 4_102_444_800, "2106-after": 4_294_967_296 + 7, "2155": 5_869_583_999,
}


def dates(tree):
    for name, time in DATES.items():
        tree.file(f"at-{name}", None, time=time)
    for part in [0.25, 0.5, 0.75]:
        tree.file(f"part-{part}", None, time=FIRST_TIME + part)
    for name, time in DATES.items():
        tree.directory(f"folder-{name}")
        tree.times[f"folder-{name}"] = time


def octets(tree):
    """Names in the character sets of before, which are not UTF-8."""
    for folder in ["", "\udce9t\udce9/"]:
        if folder:
            tree.directory(folder[:-1])
        for name in ["latin-\udce9\udce8", "koi8-\udcf0\udcf2", "sjis-\udc83\\", "cut-\udcc3", "\udcff",
                     "wide-\udced\udca0\udc80", "utf-\u00e9", "over-\udcc0\udcaf"]:
            tree.file(folder + name)


def extended(tree):
    """Extended attributes: small, large, without a value, many."""
    tree.directory("folder")
    for at in range(12):
        tree.file(f"folder/file-{at}", 1000 + at)
        for number in range(at):
            os.setxattr(tree.at(f"folder/file-{at}"), f"user.number.{number}", b"value %d" % number)
    for length in [0, 1, 200, 255, 256, 1000, 2000]:
        tree.file(f"length-{length}", 1100 + length)
        os.setxattr(tree.at(f"length-{length}"), "user.pagewell.value", content("value", length))
    tree.file("text", 900)
    os.setxattr(tree.at("text"), "user.comment", "\u00fcber \u8cc7\u6599".encode())
    os.setxattr(tree.at("text"), "user.n" + "n" * 200, b"a long name")
    os.setxattr(tree.at("folder"), "user.of.folder", b"directory")
    tree.file("none", 901)
    tree.link("link", "text")


def whole(tree):
    """All of it, in 423 entries."""
    posix(tree)
    names(tree)
    deep(tree)
    office(tree)
    fill(tree, 423)


def seed(tree):
    """What a new virtual machine is given."""
    for name in ["user-data", "meta-data"]:
        tree.file(name, 200)


def text(tree):
    """Bytes that shrink, and some that do not."""
    for at, length in enumerate([0, 1, 2000, 32_767, 32_768, 32_769, 65_536, 100_000, 400_000, 1_000_003]):
        tree.file(f"shrinks-{length}", 0)
        with open(tree.at(f"shrinks-{length}"), "wb") as file:
            file.write((f"line of {at}\n" * (length // 8 + 1)).encode()[:length])
    with open(tree.at("shrinks-65536"), "wb") as file:
        file.write(bytes(32_768) + b"x" * 32_768)
    tree.file("holes", 0)
    with open(tree.at("holes"), "wb") as file:
        file.write(content("a", 10) + bytes(300_000) + content("b", 10))
    tree.directory("random")
    for at in range(12):
        tree.file(f"random/file-{at}", 5000 * at + 1)
    tree.link("link", "random/file-3")


def bluray(tree):
    """The layout of a Blu-ray disc."""
    for path in ["BDMV/AUXDATA", "BDMV/BACKUP/CLIPINF", "BDMV/BACKUP/PLAYLIST", "BDMV/CLIPINF", "BDMV/JAR",
                 "BDMV/META/DL", "BDMV/PLAYLIST", "BDMV/STREAM", "CERTIFICATE/BACKUP"]:
        tree.directories(path)
    for path in ["BDMV/index.bdmv", "BDMV/MovieObject.bdmv", "BDMV/BACKUP/index.bdmv",
                 "BDMV/BACKUP/MovieObject.bdmv", "CERTIFICATE/id.bdmv", "BDMV/META/DL/bdmt_eng.xml"]:
        tree.file(path, 400 + len(path))
    for at in range(5):
        tree.file(f"BDMV/CLIPINF/{at:05}.clpi", 3000 + at)
        tree.file(f"BDMV/BACKUP/CLIPINF/{at:05}.clpi", 3100 + at)
        tree.file(f"BDMV/PLAYLIST/{at:05}.mpls", 800 + at)
        tree.file(f"BDMV/BACKUP/PLAYLIST/{at:05}.mpls", 900 + at)
        tree.file(f"BDMV/STREAM/{at:05}.m2ts", 6144 * (20 + at))


def dvd(tree):
    """The layout of a DVD-Video, with IFO files of which a writer reads nothing."""
    tree.directory("AUDIO_TS")
    tree.directory("VIDEO_TS")
    for name, length in [("VIDEO_TS.IFO", 4096), ("VIDEO_TS.VOB", 20_480), ("VIDEO_TS.BUP", 4096),
                         ("VTS_01_0.IFO", 6144), ("VTS_01_0.VOB", 8192), ("VTS_01_1.VOB", 1_048_576),
                         ("VTS_01_2.VOB", 204_800), ("VTS_01_0.BUP", 6144)]:
        tree.file("VIDEO_TS/" + name, length)


def windows(tree):
    """The layout of a Windows installer, small."""
    for path in ["boot/fonts", "efi/boot", "efi/microsoft/boot", "sources/$OEM$/$1", "support/logging",
                 "sources/replacementmanifests/microsoft-activedirectory-webservices"]:
        tree.directories(path)
    for path in ["README.TXT", "autorun.inf", "bootmgr", "bootmgr.efi", "setup.exe", "boot/bcd", "boot/boot.sdi",
                 "boot/etfsboot.com", "boot/fonts/segmono_boot.ttf", "efi/boot/bootx64.efi",
                 "efi/microsoft/boot/efisys.bin", "sources/boot.wim", "sources/install.wim",
                 "sources/ei.cfg", "sources/setup.exe", "sources/AxInst.dll.mui", "support/logging/actionqueue.dll",
                 "sources/replacementmanifests/microsoft-activedirectory-webservices/adws-replacement.man",
                 "sources/$OEM$/$1/Drivers.txt"]:
        tree.file(path, 1000 + 777 * len(path))


TREES = {
    "plain": plain, "office": office, "names": names, "posix": posix, "deep": deep, "dates": dates, "bytes": octets,
    "extended": extended,
    "whole": whole, "seed": seed, "text": text, "bluray": bluray, "dvd": dvd,
    "windows": windows,
}


def main():
    folder = sys.argv[1]
    os.umask(0)
    for name, make in TREES.items():
        root = os.path.join(folder, name)
        if not os.path.isdir(root):
            tree = Tree(root + ".new")
            make(tree)
            tree.finish()
            os.rename(root + ".new", root)


if __name__ == "__main__":
    main()

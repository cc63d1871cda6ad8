"""What a tree holds: one entry for each name, with all that can be compared."""

import hashlib
import json
import os
import stat

KINDS = {
    stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link", stat.S_IFIFO: "fifo",
    stat.S_IFCHR: "character device", stat.S_IFBLK: "block device", stat.S_IFSOCK: "socket",
}


def text(data):
    return os.fsdecode(data) if data is not None else None


def nanoseconds(seconds):
    """Of a decimal number, without the errors of floating point."""
    whole, _, part = seconds.partition(".")
    value = abs(int(whole)) * 10**9 + int(part.ljust(9, "0")[:9] or "0")
    return -value if whole.startswith("-") else value


def entry(path, mode, uid, gid, time, size, device, group, digest, target, extended=None):
    """One name. `group` is what its hard links share; None for a file of one name. `extended` are its
    attributes in the name space `user`, by name, in hexadecimal."""
    kind = KINDS.get(stat.S_IFMT(mode), "unknown")
    is_device = kind in ("character device", "block device")
    return {
        "path": text(path), "kind": kind, "mode": stat.S_IMODE(mode), "owner": [uid, gid],
        "time": time, "size": size if kind == "file" else None,
        "content": digest if kind == "file" else None, "target": text(target),
        "device": device if is_device else None, "group": group, "extended": extended or {},
    }


def with_groups(entries):
    """With the names of each group instead of what they share."""
    names = {}
    for one in entries:
        if one["group"] is not None and one["kind"] != "directory":
            names.setdefault(one["group"], []).append(one["path"])
    for one in entries:
        shared = names.get(one["group"], []) if one["kind"] != "directory" else []
        one["group"] = sorted(shared) if len(shared) > 1 else None
    return entries


def digest(path):
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        return f"error {error.errno}"


def target_of(path):
    try:
        return os.readlink(path)
    except OSError as error:
        return f"error {error.errno}".encode()


def extended_of(path):
    """Not of a link: Linux keeps none in the name space `user` there."""
    if os.path.islink(path):
        return {}
    try:
        names = [name for name in os.listxattr(path) if name.startswith("user.")]
    except OSError:
        return {}
    return {name: os.getxattr(path, name).hex() for name in names}


def of_directory(root):
    root = os.fsencode(root)
    found = []
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            mode = status.st_mode
            group = (status.st_dev, status.st_ino) if status.st_nlink > 1 else None
            found.append(entry(
                os.path.relpath(path, root), mode, status.st_uid, status.st_gid, status.st_mtime_ns,
                status.st_size, status.st_rdev, group, digest(path) if stat.S_ISREG(mode) else None,
                target_of(path) if stat.S_ISLNK(mode) else None, extended_of(path)))
    return with_groups(found)


def save(path, entries):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as file:
        json.dump(entries, file)


def load(path):
    with open(path, encoding="ascii") as file:
        return json.load(file)

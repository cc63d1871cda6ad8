"""Compares what readers show of each image with the tree that it was made from, entry by entry.

usage: compare.py [--table DOCUMENT] [--verbose] TREES IMAGES READ [NAME...]

The rule. An entry is right when its name is there and all that its format can hold (Holds in
recipes.py) is as in the source: kind, length, SHA-256, target, device, mode, owner, time, hard links.
Writers change things by themselves, so of names, modes, owners, times, targets and hard links:

- the source stands where any reader shows the source's value, Pagewell included;
- where none does, the value stands that most of the other readers show, never Pagewell's alone; such
  entries are counted as `changed`;
- kind, length, bytes and extended attributes are the source's, whatever the readers say.

Where a format folds names, entries are found by their bytes, and directories by what is in them; a
name is right when it is, but for case, version and last dot, the source's or what most others show.
An entry that no reader shows is wrong for all of them. What a reader cannot show of any image
(BLIND) is not held against it, which is in favour of the others. Entries that are not in the source
are `more`, unless another reader shows them, too.

The exit status is 1 when Pagewell has fewer right than another reader, or more that nobody shows, of
any image, or not all of one that its recipe calls `complete`.
"""

import collections
import json
import os
import re
import sys

import manifest

READERS = ["pagewell", "mounted", "bsdtar", "7z", "xorriso", "isofs", "udf"]
OURS = {"pagewell", "mounted"}
# What no extraction by the program sets.
BLIND = {
    "7z": {"owner", "group", "mode", "device", "extended"},
    "bsdtar": {"extended"},
    "isofs": {"extended"},
    "udf": {"extended"},
    "xorriso": {"link time"},
}
FREE = ["target", "mode", "owner", "time", "group"]
FIXED = ["kind", "size", "content", "device"]


def fold(path):
    parts = path.split("/")
    parts = [re.sub(r";\d+$", "", part).rstrip(".").lower() for part in parts]
    return "/".join(parts)


class Source:
    """What the image should show."""

    def __init__(self, recipe, tree):
        self.holds = recipe["holds"]
        self.entries = {}
        for one in tree:
            path = one["path"]
            out = any(path == name or path.startswith(name + "/") for name in recipe["without"])
            if not out and one["kind"] in self.holds["kinds"]:
                self.entries[path] = one
        for one in self.entries.values():
            if one["group"]:
                group = [path for path in one["group"] if path in self.entries]
                one["group"] = group if len(group) > 1 else None

    def compared(self, one):
        """The attributes of this entry that the format holds."""
        holds = self.holds
        parts = list(FIXED)
        if one["kind"] == "link":
            parts.append("target")
        elif holds["mode"]:
            parts.append("mode")
        if holds["owner"]:
            parts.append("owner")
        if holds["time"] is not None:
            parts.append("time")
        if holds["hard_links"]:
            parts.append("group")
        if holds["extended"]:
            parts.append("extended")
        return parts

    def value(self, one, part):
        if part == "time":
            step = int(self.holds["time"] * 10**9)
            return one["time"] // step
        if part == "group":
            return tuple(one["group"] or ())
        if part == "target":
            # No format has room for a slash at the end.
            return (one["target"] or "").rstrip("/") or one["target"]
        return json.dumps(one[part], sort_keys=True)


def aligned(source, shown):
    """The entries of a reader by the paths of the source, found by their bytes."""
    by_content = {}
    for one in shown:
        if one["kind"] == "file":
            by_content.setdefault((one["content"], one["size"]), []).append(one)
    found = {}
    for path, one in source.entries.items():
        candidates = by_content.get((one["content"], one["size"]), [])
        if one["kind"] == "file" and len(candidates) == 1:
            found[path] = candidates[0]
    by_path = {one["path"]: one for one in shown}
    # A directory is where the files are.
    for path in list(found):
        ours, theirs = path, found[path]["path"]
        while "/" in ours and "/" in theirs:
            ours, theirs = ours.rsplit("/", 1)[0], theirs.rsplit("/", 1)[0]
            if ours in source.entries and theirs in by_path:
                found.setdefault(ours, by_path[theirs])
    return found


class Image:
    def __init__(self, recipe, tree, shown):
        self.source = Source(recipe, tree)
        self.folded = recipe["holds"]["names"] == "folded"
        self.all = shown
        self.shown = {}
        for reader, entries in shown.items():
            if self.folded:
                self.shown[reader] = aligned(self.source, entries)
            else:
                self.shown[reader] = {one["path"]: one for one in entries}
        self.changed = set()
        self.wrong = {reader: {} for reader in shown}
        for path, one in self.source.entries.items():
            self.judge(path, one)

    def stands(self, path, part, of_source, value):
        """What is right, and whether it is what the source has."""
        seen = {reader: value(found[path]) for reader, found in self.shown.items()
                if path in found and part not in BLIND.get(reader, ())}
        if of_source in seen.values():
            return of_source, False
        counts = collections.Counter(one for reader, one in seen.items() if reader not in OURS)
        if not counts:
            return of_source, False
        return counts.most_common(1)[0][0], True

    def judge(self, path, one):
        source = self.source
        compared = {part: (lambda found, part=part: source.value(found, part))
                    for part in source.compared(one)}
        if self.folded:
            compared["name"] = lambda found: fold(found["path"])
        for part, value in compared.items():
            right = fold(path) if part == "name" else value(one)
            if part in FREE or part == "name":
                right, is_changed = self.stands(path, part, right, value)
                if is_changed:
                    self.changed.add(path)
            for reader, found in self.shown.items():
                blind = BLIND.get(reader, ())
                if part in blind or (one["kind"] == "link" and "link " + part in blind):
                    continue
                if path not in found:
                    self.wrong[reader][path] = "missing"
                elif value(found[path]) != right:
                    said = f"{part} {value(found[path])!s:.80}, not {right!s:.80}"
                    self.wrong[reader].setdefault(path, said)

    def total(self):
        return len(self.source.entries)

    def right(self, reader):
        return self.total() - len(self.wrong[reader])

    def more(self, reader):
        """Names that only this reader shows, besides those of the source."""
        if self.folded:
            known = {one["path"] for one in self.shown[reader].values()}
        else:
            known = set(self.source.entries)
        others = {fold(one["path"]) for other, entries in self.all.items() if other not in OURS
                  for one in entries}
        lost = {self.source.entries[path]["content"] for path in self.wrong[reader]}
        # NAME~2 is the second that an image calls NAME, and a file of another name is missing already.
        return sorted(one["path"] for one in self.all[reader]
                      if one["path"] not in known and (one["content"] is None or one["content"] not in lost)
                      and not {fold(one["path"]), fold(re.sub(r"~\d+", "", one["path"]))} & others)


def load(recipe, trees, images, read):
    name = f"{recipe['name']}.{recipe['form']}"
    if not os.path.exists(os.path.join(images, name)):
        return None
    shown = {}
    for reader in READERS:
        path = os.path.join(read, reader, name + ".json")
        if os.path.exists(path):
            shown[reader] = manifest.load(path)
    tree = manifest.of_directory(os.path.join(trees, recipe["tree"]))
    return Image(recipe, tree, shown)


def rows(table):
    readers = [reader for reader in READERS if any(reader in image.shown for _, image in table)]
    titles = {"pagewell": "Pagewell", "mounted": "mounted", "isofs": "Linux isofs", "udf": "Linux udf"}
    yield ["image", "entries", "changed", *[titles.get(reader, reader) for reader in readers]]
    sums = collections.Counter()
    for recipe, image in table:
        cells = [recipe["name"], image.total(), len(image.changed)]
        sums["entries"] += image.total()
        sums["changed"] += len(image.changed)
        for reader in readers:
            cells.append(image.right(reader))
            sums[reader] += image.right(reader)
        yield [str(cell) for cell in cells]
    yield ["all", *[str(sums[key]) for key in ("entries", "changed", *readers)]]


def write_table(document, table):
    with open(document, encoding="utf-8") as file:
        text = file.read()
    begin, end = "<!-- table -->\n", "<!-- end of table -->\n"
    lines = [f"| {' | '.join(row)} |" for row in rows(table)]
    lines.insert(1, "|" + "---|" + "--:|" * (lines[0].count("|") - 2))
    before, rest = text.split(begin)
    after = rest.split(end)[1]
    with open(document, "w", encoding="utf-8") as file:
        file.write(before + begin + "\n".join(lines) + "\n" + end + after)


def main():
    arguments = sys.argv[1:]
    document = None
    if arguments[0] == "--table":
        document = arguments[1]
        arguments = arguments[2:]
    is_verbose = arguments[0] == "--verbose"
    trees, images, read, *names = arguments[is_verbose:]
    with open(os.path.join(images, "recipes.json"), encoding="utf-8") as file:
        recipes = json.load(file)
    table, passed, failed = [], 0, 0
    for recipe in recipes:
        if names and recipe["name"] not in names:
            continue
        image = load(recipe, trees, images, read)
        if image is None:
            print(f"no image {recipe['name']}")
            continue
        table.append((recipe, image))
        best = image.total() if recipe["complete"] else max(
            image.right(reader) for reader in image.shown if reader not in OURS)
        bad = []
        for reader in sorted(OURS & image.shown.keys()):
            more = image.more(reader)
            if image.right(reader) < best or more:
                bad.append(reader)
            if image.right(reader) < best or more or is_verbose:
                for path, why in list(image.wrong[reader].items())[:None if is_verbose else 5]:
                    print(f"  {recipe['name']}: {reader}: {path!r:.60}: {why}")
                for path in more[:5]:
                    print(f"  {recipe['name']}: {reader}: {path!r:.60}: only shown here")
        counts = " ".join(f"{reader} {image.right(reader)}" for reader in image.shown)
        print(f"{'FAILED' if bad else 'ok'} {recipe['name']}: of {image.total()}: {counts}"
              f" changed {len(image.changed)}")
        passed, failed = passed + (not bad), failed + bool(bad)
    if document:
        write_table(document, table)
    print(f"images: {passed} passed, {failed} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Counts lines of code by crate, and words of comments and documents.

Use: scripts/lines.py [FOLDER], of a checkout; without FOLDER of this one.

A line of code has something else than blanks and comments. Tests are the folders `tests`,
`testing`, `benches` and `examples`, the files `tests.rs`, `*_tests.rs` and `testing.rs`, and each
item below `#[cfg(test)]` or another condition that begins with it; of a module its file and
folder, too. The rest is production in `crates` and the laboratory in `lab`. A word is a run of
characters between blanks that has a letter or a digit; those of comments are counted in files that
are not tests, and `words/line` is for a line of production.

Weakness: it reads tokens, not syntax; an item that a macro makes for tests alone is production.
"""

import pathlib
import re
import sys

TEST_FOLDERS = {"tests", "testing", "benches", "examples"}
TEST_FILE = re.compile(r"^(tests|testing|.*_tests)\.rs$")
TEST_ATTRIBUTE = re.compile(r"#\[cfg\((?:all\()?\s*test\b[^\]]*\]")
TEST_MODULE = re.compile(
    TEST_ATTRIBUTE.pattern + r"(?:\s*#\[[^\]]*\])*\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*;"
)
TOKEN = re.compile(
    r"""(?P<line>//[^\n]*)
      | (?P<block>/\*)
      | (?P<raw>\b(?:br|cr|r)(?P<hashes>\#*)")
      | (?P<string>\b(?:b|c)?"(?:\\.|[^"\\])*"|"(?:\\.|[^"\\])*")
      | (?P<character>b?'(?:\\(?:u\{[^}]*\}|x..|.)|[^'\\\n])')
    """,
    re.VERBOSE | re.DOTALL,
)
WORD = re.compile(r"\S*\w\S*")


def blank(text):
    """As many lines, without anything in them."""
    return "\n" * text.count("\n")


def block_end(text, start):
    """Where the block comment ends that begins at `start`; they nest."""
    depth, position = 1, start + 2
    for found in re.compile(r"/\*|\*/").finditer(text, position):
        depth += 1 if found.group() == "/*" else -1
        position = found.end()
        if depth == 0:
            return position
    return len(text)


def split(text):
    """The code without comments, with strings as a word each, and the comments."""
    code, comments, position = [], [], 0
    while found := TOKEN.search(text, position):
        code.append(text[position : found.start()])
        position = found.end()
        if found["line"]:
            comments.append(found["line"])
        elif found["block"]:
            position = block_end(text, found.start())
            comments.append(text[found.start() : position])
            code.append(blank(comments[-1]))
        elif found["raw"]:
            end = text.find('"' + found["hashes"], position)
            position = len(text) if end < 0 else end + 1 + len(found["hashes"])
            # Each line of a string is a line of code.
            code.append("_" + "\n_" * text.count("\n", found.start(), position))
        else:
            code.append("_" + "\n_" * found.group().count("\n"))
    code.append(text[position:])
    return "".join(code), comments


def item_end(code, start):
    """Where the item ends that begins at `start`: behind its `;` or its last brace."""
    depth = 0
    for position in range(start, len(code)):
        character = code[position]
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
            if depth < 0:
                return position
            if depth == 0 and character == "}":
                return position + 1
        elif character in ";," and depth == 0:
            return position + 1
    return len(code)


def lines(code):
    """How many lines hold something."""
    return sum(1 for line in code.split("\n") if line.strip())


def test_modules(path):
    """The modules that a file declares for tests alone, as paths without an ending."""
    within = path.parent if path.stem in ("lib", "main", "mod") else path.with_suffix("")
    return [within / name for name in TEST_MODULE.findall(split(path.read_text())[0])]


class Count:
    """What one crate holds."""

    def __init__(self):
        self.production = self.tests = self.comments = self.words = 0

    def add_file(self, path, is_test):
        """Counts one file of Rust."""
        code, comments = split(path.read_text())
        self.comments += sum(comment.count("\n") + 1 for comment in comments)
        if is_test:
            self.tests += lines(code)
            return
        self.words += sum(len(WORD.findall(comment)) for comment in comments)
        production, position = [], 0
        while found := TEST_ATTRIBUTE.search(code, position):
            end = item_end(code, found.end())
            production.append(code[position : found.start()])
            self.tests += lines(code[found.start() : end])
            position = end
        production.append(code[position:])
        self.production += lines("".join(production))

    def add(self, other):
        """Adds another count."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


def count_crate(folder):
    """Everything of one crate."""
    count = Count()
    paths = sorted(folder.rglob("*.rs"))
    modules = {module for path in paths for module in test_modules(path)}
    for path in paths:
        inside = path.relative_to(folder)
        is_test = (
            bool(TEST_FOLDERS & set(inside.parts[:-1]))
            or bool(TEST_FILE.match(path.name))
            or any(module == path.with_suffix("") or module in path.parents for module in modules)
        )
        count.add_file(path, is_test)
    return count


def show(name, count):
    """One line of the table."""
    numbers = (count.production, count.tests, count.comments, count.words)
    ratio = f"{count.words / count.production:>12.1f}" if count.production else ""
    print(f"{name:24}" + "".join(f"{number:>11,}" for number in numbers) + ratio)


def main():
    """Prints the tables."""
    here = pathlib.Path(__file__).resolve().parent.parent
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here
    heads = ("production", "tests", "comments", "words")
    print(f"{'crate':24}" + "".join(f"{head:>11}" for head in heads) + f"{'words/line':>12}")
    for part in ("crates", "lab"):
        total = Count()
        for manifest in sorted((root / part).glob("*/Cargo.toml")):
            count = count_crate(manifest.parent)
            total.add(count)
            show(f"{part}/{manifest.parent.name}", count)
        show(f"all of {part}", total)
        print()
    documents = [*root.glob("*.md"), *(root / "docs").rglob("*.md")]
    for path in sorted(documents):
        words = len(WORD.findall(path.read_text()))
        print(f"{str(path.relative_to(root)):40}{words:>9,} words")


if __name__ == "__main__":
    main()

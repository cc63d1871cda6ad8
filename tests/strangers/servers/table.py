"""Compares what was measured of a server with the tables of docs/INTEROPERABILITY.md.

usage: table.py [--write] NAME FILE

FILE has a line for each cell, as matrix.py prints them. With --write the cells of the server are
put into the tables instead. A cell that is worse than what a bare client gets fails in any case.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
DOCUMENT = HERE + "/../../../docs/INTEROPERABILITY.md"
HEADINGS = {
    "### What a bare client gets": "bare",
    "### Under `pagewell mount`": "mount",
    "### Commands": "commands",
    "### Served again by `pagewell serve`": "again",
}
SOFT = ("ignored", "in part")


def rank(word):
    return 2 if word == "ok" else 1 if word in SOFT else 0


def cells_of(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def is_row(line):
    return line.startswith("|") and not set(line) <= set("|-: \n")


def measured(path):
    with open(path, encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t") for line in file]
    return {(part, row): word for part, row, word, _ in lines}


class Table:
    """The document, and where in it the cells of a server are."""

    def __init__(self, name):
        with open(DOCUMENT, encoding="utf-8") as file:
            self.lines = file.readlines()
        self.places = {}
        part = column = None
        for number, line in enumerate(self.lines):
            if line.startswith("#"):
                part, column = HEADINGS.get(line.strip()), None
            elif part and is_row(line):
                cells = cells_of(line)
                if column is None:
                    column = cells.index(name)
                else:
                    self.places[part, cells[0]] = (number, column)

    def word(self, place):
        number, column = self.places[place]
        return cells_of(self.lines[number])[column]

    def put(self, place, word):
        number, column = self.places[place]
        cells = cells_of(self.lines[number])
        cells[column] = word
        self.lines[number] = "| " + " | ".join(cells) + " |\n"

    def write(self):
        with open(DOCUMENT, "w", encoding="utf-8") as file:
            file.writelines(self.lines)


def main():
    write = sys.argv[1] == "--write"
    name, path = sys.argv[-2:]
    table, found = Table(name), measured(path)
    wrong = []
    for place in sorted(table.places.keys() | found.keys()):
        if place not in found:
            wrong.append(f"{place}: not measured")
        elif place not in table.places:
            wrong.append(f"{place}: not in the table, is '{found[place]}'")
        elif write:
            table.put(place, found[place])
        elif found[place] != table.word(place):
            wrong.append(f"{place}: '{table.word(place)}' in the table, is '{found[place]}'")
    for (part, row), word in found.items():
        best = found.get(("bare", row), "")
        if part == "mount" and rank(word) < rank(best):
            wrong.append(f"{row}: '{word}' under a mount, a bare client gets '{best}'")
    if write:
        table.write()
    for line in wrong:
        print(f"  {name}: {line}")
    sys.exit(bool(wrong))


main()

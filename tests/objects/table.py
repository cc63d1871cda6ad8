"""Compares what was seen of a server with its column in docs/INTEROPERABILITY.md.

usage: table.py [--write] KIND NAME VERSION FILE

KIND is s3, az, gs or web. FILE has a line for each cell: the row, a tab, what was seen. With --write the
cells of the server are put into the table instead, and its version.
"""

import os
import sys

DOCUMENT = os.path.dirname(os.path.abspath(__file__)) + "/../../docs/INTEROPERABILITY.md"
HEADINGS = {
    "s3": "### Object stores",
    "az": "### Object stores",
    "gs": "### Object stores",
    "web": "### Web servers",
}


def cells_of(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def row_of(cells):
    return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|\n"


class Table:
    """The document, and the lines of the table in it."""

    def __init__(self, kind):
        with open(DOCUMENT, encoding="utf-8") as file:
            self.lines = file.readlines()
        begin = self.lines.index(HEADINGS[kind] + "\n")
        while not self.lines[begin].startswith("|"):
            begin += 1
        end = begin
        while end < len(self.lines) and self.lines[end].startswith("|"):
            end += 1
        self.begin, self.end = begin, end
        # The title of a column is a name and a version.
        self.titles = cells_of(self.lines[begin])

    def column(self, name):
        return [title.split(" ")[0] for title in self.titles].index(name)

    def rows(self):
        return {cells_of(self.lines[at])[0]: at for at in range(self.begin + 2, self.end)}

    def put(self, at, column, text):
        cells = cells_of(self.lines[at])
        cells[column] = text
        self.lines[at] = row_of(cells)

    def add(self, row):
        self.lines.insert(self.end, row_of([row] + ["" for _ in self.titles[1:]]))
        self.end += 1

    def write(self):
        with open(DOCUMENT, "w", encoding="utf-8") as file:
            file.writelines(self.lines)


def main():
    is_to_write = sys.argv[1] == "--write"
    kind, name, version, path = sys.argv[-4:]
    with open(path, encoding="utf-8") as file:
        found = dict(line.rstrip("\n").split("\t") for line in file)
    table = Table(kind)
    column = table.column(name)
    title = f"{name} {version}"
    if is_to_write:
        table.put(table.begin, column, title)
        for row, seen in found.items():
            if row not in table.rows():
                table.add(row)
            table.put(table.rows()[row], column, seen)
        table.write()
        return
    wrong = []
    if table.titles[column] != title:
        wrong.append(f"'{table.titles[column]}' in the table, is '{title}'")
    rows = table.rows()
    for row in rows.keys() | found.keys():
        stated = cells_of(table.lines[rows[row]])[column] if row in rows else "no row"
        seen = found.get(row, "nothing")
        if stated != seen:
            wrong.append(f"{row}: '{stated}' in the table, is '{seen}'")
    for line in sorted(wrong):
        print(f"  {name}: {line}")
    sys.exit(bool(wrong))


main()

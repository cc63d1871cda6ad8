"""What the drivers written in Python have in common: see run.sh for what each operation is."""

import sys
import traceback

CONTENT = "".join("%015d\n" % line for line in range(200_000))[: (3 << 20) + 5]
SHORT = CONTENT[:100_000]
NAMES = ["name-%04d" % number for number in range(1, 2001)]
STATUSES = {1: "PERM", 2: "NOENT", 5: "IO", 13: "ACCES", 17: "EXIST", 22: "INVAL", 30: "ROFS",
            66: "NOTEMPTY", 70: "STALE", 10001: "BADHANDLE", 10002: "NOT_SYNC",
            10003: "BAD_COOKIE", 10004: "NOTSUPP", 10005: "TOOSMALL", 10006: "SERVERFAULT"}


class Status(Exception):
    """An operation that the server answered with an error."""


class Unknown(Exception):
    """An operation that failed, and the library does not tell with which error."""


def status(number):
    if number != 0:
        raise Status(STATUSES.get(number, str(number)))


def check(is_right, what="another result"):
    if not is_right:
        raise AssertionError(what)


def put(operation, cell):
    print("%s\t%s" % (operation, cell), flush=True)


def failure(error):
    """The cell of an operation that failed."""
    if isinstance(error, Status):
        return str(error)
    if isinstance(error, Unknown):
        return "refused"
    traceback.print_exception(error, file=sys.stderr)
    return "wrong"


def attempt(operation, run):
    try:
        run()
        put(operation, "ok")
    except Exception as error:
        put(operation, failure(error))

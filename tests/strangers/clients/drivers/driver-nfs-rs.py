"""PyPI nfs-rs: files and paths."""

import errno
import sys

from nfs_rs import Client, FileType, NfsError

from cells import CONTENT, NAMES, SHORT, STATUSES, Status, Unknown, check, failure, put

HOST, EXPORT, WORK = sys.argv[1:]


def attempt(operation, run):
    try:
        run()
        put(operation, "ok")
    except NfsError as error:
        number = error.code or error.errno
        name = STATUSES.get(number) or errno.errorcode.get(number or 0, "")[1:]
        print(operation, error, file=sys.stderr)
        put(operation, failure(Status(name) if name else Unknown()))
    except Exception as error:
        put(operation, failure(error))


client = Client.connect("nfs://%s%s" % (HOST, EXPORT), uid=0, gid=0)


def at(name):
    return "%s/%s" % (WORK, name)


def read(path):
    with client.open(path, "rb") as file:
        content = b""
        while piece := file.read(1 << 20):
            content += piece
    return content.decode()


def write(path, content):
    with client.open(path, "r+b") as file:
        check(file.write(content.encode()) == len(content))
        file.flush()
    check(read(path) == content)


def getattr_of():
    info = client.stat("content")
    check((info.size, info.type) == (len(CONTENT), FileType.FILE), info)


def listing():
    names = client.listdir("many")
    check(sorted(set(names) - {".", ".."}) == NAMES and len(names) <= len(NAMES) + 2, len(names))


def mkdir():
    client.mkdir(at("folder"), 0o750)
    check(client.stat(at("folder")).type is FileType.DIRECTORY)


def create():
    # Of version 3 it has no exclusive one.
    client.touch(at("created"))
    client.chmod(at("created"), 0o640)
    check(client.stat(at("created")).mode & 0o777 == 0o640)


def truncate():
    client.truncate(at("long"), 1000)
    check(client.stat(at("long")).size == 1000)


def rename():
    client.rename(at("before"), at("place/after"))
    check(client.exists(at("place/after")) and not client.exists(at("before")))


def symlink():
    check(client.readlink("link") == "content")
    client.symlink("../content", at("symlink"))
    check(client.readlink(at("symlink")) == "../content")


def link():
    client.link(at("long"), at("second"))
    check(client.stat(at("second")).nlink == 2)


def remove():
    client.remove(at("victim"))
    client.rmdir(at("empty"))
    check(not client.exists(at("victim")) and not client.exists(at("empty")))


attempt("getattr", getattr_of)
attempt("list", listing)
attempt("read", lambda: check(read("content") == CONTENT))
attempt("mkdir", mkdir)
attempt("create", create)
# Each write() is made of unstable WRITEs and a COMMIT.
attempt("write", lambda: write(at("old"), CONTENT))
attempt("commit", lambda: write(at("unstable"), SHORT))
attempt("truncate", truncate)
attempt("rename", rename)
attempt("symlink", symlink)
attempt("link", link)
attempt("remove", remove)
attempt("mount", client.close)

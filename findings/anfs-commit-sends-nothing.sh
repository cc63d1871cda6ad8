#!/usr/bin/env bash
# anfs 0.0.3 (PyPI): NFSv3Client.commit() does not await the call that it makes, so that no COMMIT
# is ever sent and each commit fails, whatever the server would have said. fsstat(), which fails in
# the same way, and getattr(), which does not, are beside it.
#
# Seen (Python 3.11): "getattr: sent, commit: not sent, fsstat: not sent"
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --disable-pip-version-check anfs==0.0.3
"$folder/bin/python" -W ignore - <<'END'
import asyncio
import sys

from anfs.protocol.nfs3.client import NFSv3Client


class Connection:
    """In place of one with a server: notes what is sent."""
    sent = 0

    async def call(self, *call):
        self.sent += 1
        return b"\0" * 400, None


async def main():
    said = []
    for name in ("getattr", "commit", "fsstat"):
        client = NFSv3Client(b"handle", None)
        client.rpc = Connection()
        await getattr(client, name)(0)
        said.append("%s: %s" % (name, "sent" if client.rpc.sent else "not sent"))
    return ", ".join(said)


said = asyncio.run(main())
print(said)
sys.exit(said != "getattr: sent, commit: not sent, fsstat: not sent")
END

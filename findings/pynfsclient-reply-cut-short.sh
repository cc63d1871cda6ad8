#!/usr/bin/env bash
# pyNfsClient 0.1.5 (PyPI) hands out a reply without its last bytes when these come in a segment of
# their own: RPC.recv() counts the four bytes of the record mark as part of the record, and stops
# that much too early. Nothing fails there; the next reply is read from the middle of this one.
#
# Seen (Python 3.11): "record of 96 bytes: 93 came back"
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --disable-pip-version-check pyNfsClient==0.1.5
"$folder/bin/python" - <<'END'
import socket
import struct
import sys
import threading

from pyNfsClient import RPC

ours, theirs = socket.socketpair()
record = struct.pack("!L", 0x80000000 | 96) + bytes(range(96))
rpc = RPC("localhost", 0, 60)
rpc.client = theirs
ours.sendall(record[:-3])
# The rest is on its way for as long as nobody has read what is there.
threading.Timer(1, ours.sendall, [record[-3:]]).start()
found = len(rpc.recv()) - 4
print("record of 96 bytes: %d came back" % found)
sys.exit(found != 93)
END

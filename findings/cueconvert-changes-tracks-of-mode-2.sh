#!/usr/bin/env bash
# cueconvert 1.4.1 (cuetools, Debian 12), from a cue sheet to a sheet of cdrdao and back: a track of
# MODE2/2048 comes back as MODE2/2336, one of MODE2/2336 as MODE2/2048, so that a program that follows
# the sheet reads other bytes of the same file; of MODE2/2352 (every game of the first PlayStation) the
# sheet of cdrdao has "TRACK " without a mode, with exit status 0, and cueconvert refuses to read it.
# Tracks of mode 1 come back as they were.
#
# Seen: "MODE1/2048: MODE1/2048, MODE1/2352: MODE1/2352, MODE2/2048: MODE2/2336, MODE2/2336: MODE2/2048,
# MODE2/2352: refused". Exit status 1 when that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(
    cd "$work"
    apt-get -q -o APT::Sandbox::User=root download cuetools=1.4.1-0.2
    dpkg-deb -x ./*.deb root
) >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
cueconvert=$work/root/usr/bin/cueconvert

there_and_back() { # MODE
    printf 'FILE "x.bin" BINARY\n  TRACK 01 %s\n    INDEX 01 00:00:00\n' "$1" >"$work/x.cue"
    "$cueconvert" -i cue -o toc "$work/x.cue" >"$work/x.toc"
    if "$cueconvert" -i toc -o cue "$work/x.toc" >"$work/back.cue" 2>/dev/null; then
        sed -n 's/ *TRACK 01 //p' "$work/back.cue"
    else
        echo refused
    fi
}

seen=
for mode in MODE1/2048 MODE1/2352 MODE2/2048 MODE2/2336 MODE2/2352; do
    seen+="${seen:+, }$mode: $(there_and_back "$mode")"
done
echo "$seen"
[ "$seen" = 'MODE1/2048: MODE1/2048, MODE1/2352: MODE1/2352, MODE2/2048: MODE2/2336, MODE2/2336: MODE2/2048, MODE2/2352: refused' ]

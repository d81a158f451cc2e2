#!/usr/bin/env python3
"""Keeps the users of a domain: a program of the extauth protocol (docs/external-authentication.md). The right password is `right`; with
a name that begins with `hang` it never answers."""

import struct
import sys
import time

read, write = sys.stdin.buffer, sys.stdout.buffer
while len(head := read.read(2)) == 2:
    what, user, *rest = read.read(struct.unpack(">H", head)[0]).decode().split(":", 3)
    if user.startswith("hang"):
        time.sleep(3600)
    good = what == "auth" and rest[1:] == ["right"]
    write.write(struct.pack(">HH", 2, good))
    write.flush()

#!/usr/bin/env python3
"""An example of a program for Throng's option external_auth (docs/external-authentication.md).

    check.py FILE                       answers questions; this is what the server runs
    check.py FILE set USER@DOMAIN       adds a user or sets a password, which is read from standard input
    check.py FILE remove USER@DOMAIN    removes a user

FILE has a line for each user: address, salt and PBKDF2 of the password, separated by blanks. It is read anew when it
has changed. The protocol is that of ejabberd's extauth programs: a length of two bytes, big endian, and
`auth:USER:DOMAIN:PASSWORD` or `isuser:USER:DOMAIN`; the answer is 0, 2, 0 and 0 or 1.
"""

import hashlib
import hmac
import os
import struct
import sys

ROUNDS = 100_000


def derive(password, salt):
    """What the file keeps of a password."""
    return hashlib.pbkdf2_hmac("sha256", password.encode(), salt, ROUNDS)


class Users:
    """The file."""

    def __init__(self, path):
        self.path, self.seen, self.users = path, None, {}

    def read(self):
        """All users: salt and key by address."""
        found = os.stat(self.path)
        now = (found.st_mtime_ns, found.st_size, found.st_ino)
        if now != self.seen:
            with open(self.path, encoding="utf-8") as file:
                rows = [line.split() for line in file if line.strip()]
            self.users = {jid: (bytes.fromhex(salt), bytes.fromhex(key)) for jid, salt, key in rows}
            self.seen = now
        return self.users

    def write(self, users):
        """Replaces the file: who reads it meanwhile sees the old one or the new one."""
        beside = self.path + ".new"
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.writelines(f"{jid} {salt.hex()} {key.hex()}\n" for jid, (salt, key) in users.items())
        os.replace(beside, self.path)

    def answer(self, question):
        """Whether the password is right, or the user is there. Anything else is answered with no."""
        what, *rest = question.split(":", 3)
        user = self.read().get("@".join(rest[:2]))
        if what == "isuser" and len(rest) == 2:
            return user is not None
        if what == "auth" and len(rest) == 3:
            salt, key = user or (b"nobody", b"")
            return hmac.compare_digest(derive(rest[2], salt), key)
        return False


def serve(users):
    """Answers until the server closes the pipe."""
    read, write = sys.stdin.buffer, sys.stdout.buffer
    while len(head := read.read(2)) == 2:
        question = read.read(struct.unpack(">H", head)[0]).decode()
        write.write(struct.pack(">HH", 2, users.answer(question)))
        write.flush()


def main():
    """The command line."""
    match sys.argv[1:]:
        case [path]:
            serve(Users(path))
        case [path, "set", jid]:
            users = Users(path)
            there = users.read() if os.path.exists(path) else {}
            salt = os.urandom(16)
            users.write(there | {jid: (salt, derive(sys.stdin.readline().rstrip("\n"), salt))})
        case [path, "remove", jid]:
            users = Users(path)
            users.write({other: row for other, row in users.read().items() if other != jid})
        case _:
            sys.exit(__doc__)


main()

#!/usr/bin/env python3
"""ejabberd -> Throng -> ejabberd and Prosody; Prosody -> Throng -> Prosody and ejabberd; each into itself. See run."""

import argparse
import asyncio
import logging
import random
import shutil
import sys
import tempfile
from pathlib import Path

import kill
import people
from peers import PEERS, Throng


def live(peer):
    """Accounts, and what they do."""
    server = peer()
    server.start()
    try:
        for jid, password in people.PASSWORDS.items():
            name, host = jid.split("@")
            server.add(name, host, password)
        asyncio.run(people.live(server.port, server.keeps))
    except BaseException:
        print(server.log(), file=sys.stderr)
        server.close()
        raise
    return server


def take_back(name, export, keeps, way):
    """Into a new server of a peer; everybody looks."""
    other = PEERS[name]()
    try:
        if name == "ejabberd":
            other.start()
            other.take(export)
        else:
            other.take(export)
            other.start()
        keeps &= PEERS[name].keeps
        seen = asyncio.run(people.look(other.port, keeps, other.drops))
        dropped = ", ".join(sorted(keeps & other.drops)) or "nothing"
        print(f"{way} -> {name}: seen {', '.join(seen)}; {name} drops {dropped}", flush=True)
    except BaseException:
        print(other.log(), file=sys.stderr)
        raise
    finally:
        other.close()


def main_file(export):
    """The file of ejabberd's export that includes the others."""
    return next(path for path in export.glob("*.xml") if "xi:include" in path.read_text())


def move(name, driver, keep):
    """From a peer into Throng, and out again into both."""
    folder = Path(tempfile.mkdtemp(prefix="throng-move-"))
    server, throng = live(PEERS[name]), Throng(driver)
    try:
        server.give(folder / "export")
        server.stop()
        if keep:
            shutil.copytree(folder / "export", Path(keep) / name, dirs_exist_ok=True)
        # What the peer's own tools drop of the peer's own export is no fault of what Throng writes.
        export = folder / "export"
        take_back(name, main_file(export) if name == "ejabberd" else export, server.keeps, name)
        tried = throng.take(folder / "export", "--dry-run")
        assert not throng.data.exists(), "a dry run has made a folder"
        took = throng.take(folder / "export")
        print(f"{name} -> throng: {took['users']} users, {took['contacts']} contacts, notes: {took['notes']}")
        assert took["users"] == len(people.PASSWORDS) and took["left_out"] == 0, took
        same = ("users", "contacts", "waiting", "archived", "private", "vcards", "nodes", "items", "blocked", "requests")
        assert [tried[key] for key in same] == [took[key] for key in same], (tried, took)
        again = throng.take(folder / "export")
        assert (again["users"], again["already_there"]) == (0, len(people.PASSWORDS)), again
        # Out before anybody logs in, so that all that waits is still there.
        throng.give(folder / "out", "--layout", "folder")
        throng.give(folder / "hosts", "--layout", "ejabberd")
        throng.give(folder / "out.xml")
        throng.give(folder / "users", "--layout", "prosody")
        throng.start()
        print(f"{name} -> throng ({driver}): seen", ", ".join(asyncio.run(people.look(throng.port, server.keeps))))
        throng.stop()
        for form in ("out", "out.xml", "hosts", "users"):
            other = Throng(driver)
            try:
                took = other.take(folder / form)
                assert took["users"] == len(people.PASSWORDS) and not took["notes"], took
                other.start()
                seen = asyncio.run(people.look(other.port, server.keeps))
                print(f"{name} -> throng -> throng by {form}: seen", ", ".join(seen))
            finally:
                other.close()
        for back, export in (("ejabberd", folder / "hosts" / "main.xml"), ("prosody", folder / "users")):
            take_back(back, export, server.keeps, f"{name} -> throng")
    except BaseException:
        print(throng.log(), file=sys.stderr)
        raise
    finally:
        server.close()
        throng.close()
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--driver", choices=["uring", "epoll"], default="uring")
    parser.add_argument("--peer", choices=sorted(PEERS), action="append")
    parser.add_argument("--keep")
    parser.add_argument("--only-kills", action="store_true", help="only imports that are killed")
    parser.add_argument("--skip-kills", action="store_true", help="all but these")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="of the moments of kills")
    parser.add_argument("--memory", type=int, nargs="+", metavar="ACCOUNTS", help="only the memory of imports of so many accounts")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if given.memory:
        return kill.memory(given.memory)
    if not given.skip_kills:
        kill.kills(given.seed)
    if given.only_kills:
        return
    for name in given.peer or sorted(PEERS):
        move(name, given.driver, given.keep)
    print("tests/move: all moved")


if __name__ == "__main__":
    main()

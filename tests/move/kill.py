"""`throng import`, killed with SIGKILL at random moments: after a second run all is there, and nothing twice. And the memory that it
takes, of small and of large files."""

import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

HOST = "big.example"
# As many as take an import a second or two, and one user with more rows than one commit has (32 MiB).
USERS, LARGE_MESSAGES, LARGE_BYTES = 2_000, 420, 100_000
ROUNDS, KILLS = 5, 2
KEYS = (
    "<scram-credentials xmlns='urn:xmpp:pie:0#scram' mechanism='SCRAM-SHA-1'><iter-count>4096</iter-count>"
    "<salt>06qa0o/a/xN6XpIdiIXU+A==</salt><server-key>xNxA4XJ3p1hjMLdapaSVtJUrBmk=</server-key>"
    "<stored-key>v1Shu8QMmSo5wEaYoSC/6falEVY=</stored-key></scram-credentials>"
)


def result(user, number, body):
    """An archived message."""
    return (
        f"<result xmlns='urn:xmpp:mam:2' id='{number}'><forwarded xmlns='urn:xmpp:forward:0'><delay xmlns='urn:xmpp:delay' "
        f"stamp='2020-01-01T00:{number // 60:02}:{number % 60:02}Z'/><message xmlns='jabber:client' from='p{number}@other.example/r' "
        f"to='{user}@{HOST}' type='chat' id='m{number}'><body>{number} {body}</body></message></forwarded></result>\n"
    )


def write(path, users, large=True):
    """Accounts with a contact, a card, a message that waits and three of the archive; one in the middle with a large archive."""
    with open(path, "w") as out:
        out.write(f"<?xml version='1.0'?>\n<server-data xmlns='urn:xmpp:pie:0'><host jid='{HOST}'>\n")
        for n in range(users):
            user, messages, body = f"u{n}", 3, "lorem ipsum"
            if large and n == users // 2:
                messages, body = LARGE_MESSAGES, "x" * LARGE_BYTES
            out.write(f"<user name='{user}'>{KEYS}<query xmlns='jabber:iq:roster'>")
            out.write(f"<item jid='u{(n + 1) % users}@{HOST}' subscription='both'/></query>")
            out.write(f"<vCard xmlns='vcard-temp'><FN>User {n}</FN></vCard><offline-messages><message xmlns='jabber:client' ")
            out.write(f"from='a@other.example/r' to='{user}@{HOST}' type='chat' id='w{n}'><body>waits</body></message>")
            out.write("</offline-messages><archive xmlns='urn:xmpp:pie:0#mam'>\n")
            out.writelines(result(user, number, body) for number in range(messages))
            out.write("</archive></user>\n")
        out.write("</host></server-data>\n")


class Import:
    """`throng import` into a folder of its own."""

    def __init__(self, source, data):
        self.data = data
        self.command = [
            os.environ["THRONG_BIN"], "import", str(source), "--data", str(data), "--domain", HOST, "--json",
        ]  # fmt: skip

    def start(self):
        return subprocess.Popen(
            self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def whole(self):
        """To its end: what it says, the seconds that it took, and the most memory that it has had, MiB."""
        begun, process, peak = time.monotonic(), self.start(), 0
        while process.poll() is None:
            try:
                status = Path(f"/proc/{process.pid}/status").read_text()
                peak = max(peak, *map(int, re.findall(r"VmHWM:\s+(\d+)", status)), 0)
            except OSError:
                pass
            time.sleep(0.02)
        assert process.returncode == 0, f"throng import: exit {process.returncode}"
        return json.loads(process.stdout.read()), time.monotonic() - begun, peak >> 10

    def cut(self, after_s):
        """Killed after so many seconds; whether it was in the middle of it."""
        process = self.start()
        time.sleep(after_s)
        running = process.poll() is None
        if running:
            process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        return running

    def digest(self):
        """Of all that is there, but for the numbers that the server gives."""
        out = self.data.with_suffix(".xml")
        subprocess.run(
            [self.command[0], "export", str(out), "--data", str(self.data), "--json"], check=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        total = hashlib.sha256()
        with open(out, "rb") as lines:
            for line in lines:
                total.update(re.sub(rb" (id=['\"]\d+['\"]|stamp=['\"][^'\"]*['\"])", b"", line))
        out.unlink()
        return total.hexdigest()


def kills(seed):
    """Several times: killed twice, and run to the end."""
    chance = random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="throng-move-kill-"))
    try:
        source = folder / "in.xml"
        write(source, USERS)
        first = Import(source, folder / "whole")
        said, took_s, _ = first.whole()
        assert said["users"] == USERS and said["left_out"] == 0, said
        wanted, cut, left = first.digest(), 0, []
        for number in range(ROUNDS):
            again = Import(source, folder / f"cut{number}")
            for _ in range(KILLS):
                cut += again.cut(chance.uniform(0.02, took_s))
            said, _, _ = again.whole()
            assert said["users"] + said["already_there"] == USERS and said["left_out"] == 0, said
            left.append(said["already_there"])
            assert again.digest() == wanted, f"seed {seed}: another export after kills, and {said}"
            shutil.rmtree(again.data)
        assert cut >= ROUNDS, f"seed {seed}: only {cut} kills came in the middle of an import of {took_s:.1f} s"
        print(
            f"kills: {cut} in the middle of imports of {took_s:.1f} s (seed {seed}); accounts that were there by then: {left}; "
            f"all the same after another run", flush=True,
        )  # fmt: skip
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def memory(counts):
    """The most memory that imports of so many accounts take."""
    for count in counts:
        folder = Path(tempfile.mkdtemp(prefix="throng-move-memory-"))
        try:
            source = folder / "in.xml"
            write(source, count, large=False)
            said, took_s, peak = Import(source, folder / "data").whole()
            assert said["users"] == count, said
            size = source.stat().st_size >> 20
            print(f"memory: {count} accounts in a file of {size} MiB: {took_s:.1f} s, at most {peak} MiB", flush=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

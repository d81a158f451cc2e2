"""The siege by accounts: attackers who have accounts, against ordinary pairs who are to notice nothing. See README.md."""

import asyncio
import json
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import attackers
from server import Server
from wire import Surprise, Wire

HERE = Path(__file__).parent
# Attackers of one process: more would wait for each other.
SHARE = 25
# Attackers give way to server and pairs: in the wild they compute on hosts of their own.
ATTACKERS_NICE = 15
# How often a user that attackers want to lock out logs in, seconds.
LOGIN_EVERY_S = 2

class Size:
    """How large a siege is."""

    def __init__(self, quick, seconds):
        self.quick = quick
        self.attackers, self.pairs = (34, 100) if quick else (200, 1_000)
        self.rate = 100 if quick else 500
        self.before_s, self.seconds, self.after_s = (4, seconds or 20, 20) if quick else (20, seconds or 600, 60)
        # Milliseconds; in a quick run the machine may have anything else to do.
        self.p99_ms_max = 5_000 if quick else 100
        # Memory that may stay: pages that the allocator keeps, and memory tables of the store that have not been written out.
        self.margin_bytes = 96 << 20 if quick else 64 << 20


def accounts(size):
    names = [f"u{n}" for n in range(2 * size.pairs)] + [f"mallory{n}" for n in range(size.attackers)]
    return names + [f"away{n}" for n in range(8)] + ["juliet", "romeo"]


# Who may register by the listener of browsers may come through a proxy: the server wants to be told that this is meant.
OPTIONS = [
    "--i-know", "--open-registration", "--cache-seconds", "10", "--sm-resume-seconds", "20", "--send-timeout-seconds", "10",
    "--preauth-timeout-seconds", "10", "--registrations-hourly-max", "60",
]  # fmt: skip


class Pairs:
    """The ordinary users: `throng load`, from before the siege until after it."""

    def __init__(self, server, size):
        self.out = server.folder / "pairs.json"
        hold_s = size.before_s + size.seconds + size.after_s
        command = [
            server.binary, "load", "--quiet", "--to", f"127.0.0.1:{server.port}", "--auth", "plain", "--pairs", str(size.pairs),
            "--sessions", str(2 * size.pairs), "--in-flight", "0", "--rate", str(size.rate), "--hold-s", str(hold_s),
            "--drain-s", "15", "--server-pid", str(server.process.pid), "--out", str(self.out),
        ]  # fmt: skip
        self.log = open(server.folder / "pairs.log", "wb")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def result(self):
        self.process.wait(timeout=120)
        self.log.close()
        if not self.out.exists():
            raise RuntimeError(f"throng load told nothing: {Path(self.log.name).read_text()[-1000:]}")
        return json.loads(self.out.read_text())


async def logins(server, until):
    """An ordinary user's logins, whose name the attackers use: how many went well, and what became of the others."""
    seen = {}
    while time.monotonic() < until:
        wire, what = None, "in"
        try:
            wire = await Wire.connect(server.port)
            await wire.login("juliet")
        except (Surprise, OSError, TimeoutError) as error:
            what = f"{type(error).__name__}: {str(error)[-200:]}"
        finally:
            if wire is not None:
                wire.close()
        seen[what] = seen.get(what, 0) + 1
        await asyncio.sleep(LOGIN_EVERY_S)
    return seen


async def attack(server, size):
    """All attackers until the time is over; what they tell, and how the user fared whose name they use."""
    shares = [(first, min(SHARE, size.attackers - first)) for first in range(0, size.attackers, SHARE)]
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-B", str(HERE / "attackers.py"), str(server.port), str(size.seconds), str(first), str(count),
            stdout=asyncio.subprocess.PIPE, preexec_fn=partial(os.nice, ATTACKERS_NICE),
        )
        for first, count in shares
    ]  # fmt: skip
    told, seen = await asyncio.gather(
        asyncio.gather(*(process.communicate() for process in processes)),
        logins(server, time.monotonic() + size.seconds),
    )
    made = {}
    for number, (out, _) in enumerate(told):
        if processes[number].returncode != 0:
            raise RuntimeError(f"attackers {number} ended with {processes[number].returncode}")
        for name, outcomes in json.loads(out).items():
            sums = made.setdefault(name, {})
            for what, many in outcomes.items():
                sums[what] = sums.get(what, 0) + many
    return made, seen


def settle(server, size, before):
    """Memory once the siege is over: the least within the time that is given, as soon as it is low enough."""
    end, least = time.monotonic() + size.after_s - 2, None
    while time.monotonic() < end and (least is None or least > before + size.margin_bytes):
        least = min(filter(None, [least, server.memory()["rss"]]))
        time.sleep(0.5)
    return least


def judge(size, report, server, code):
    """What is wrong."""
    pairs, faults = report["pairs"], []
    if pairs["broken"]:
        faults.append(f"{pairs['broken']} sessions of ordinary pairs ended")
    for name in ("lost", "duplicates", "reordered", "corrupted"):
        if pairs[name]:
            faults.append(f"{pairs[name]} messages of ordinary pairs {name}")
    if pairs["p99_ms"] is None or pairs["p99_ms"] > size.p99_ms_max:
        faults.append(f"p99 of ordinary pairs {pairs['p99_ms']} ms, more than {size.p99_ms_max}")
    if report["memory_after"] > report["memory_before"] + size.margin_bytes:
        faults.append(f"memory {report['memory_after']} bytes after the siege, {report['memory_before']} before")
    refused = {what: many for what, many in report["logins"].items() if what != "in"}
    if refused:
        faults.append(f"logins of an ordinary user whose name was used: {refused}")
    # On a busy machine a short siege may be over before each attack got as far as it goes.
    missing = [attack.__name__ for attack in attackers.ALL if not report["attacks"].get(attack.__name__, {}).get("made")]
    if missing and not size.quick:
        faults.append(f"nobody made these attacks: {missing}")
    if code != 0:
        faults.append(f"the server ended with {code}")
    if server.complaints():
        faults.append(f"the log complains: {server.complaints()[:3]}")
    return faults


def run(binary, driver, quick, seconds):
    """One siege; its report, with `faults`."""
    size = Size(quick, seconds)
    server = Server(binary, driver, accounts(size), OPTIONS)
    start, kept = time.monotonic(), True
    try:
        pairs = Pairs(server, size)
        time.sleep(size.before_s)
        while server.status()["sessions"] < 2 * size.pairs:
            if pairs.process.poll() is not None or time.monotonic() > start + 120:
                raise RuntimeError("the ordinary pairs could not log in")
            time.sleep(0.5)
        before, cpu = server.memory()["rss"], server.cpu_seconds()
        print(f"-- siege by {size.attackers} accounts against {size.pairs} pairs, {size.seconds} s, {driver}", flush=True)
        made, seen = asyncio.run(attack(server, size))
        peak, cpu = server.memory()["peak"], server.cpu_seconds() - cpu
        if not server.alive():
            raise RuntimeError(f"the server is gone: {server.log.read_text()[-2000:]}")
        after = settle(server, size, before)
        told = pairs.result()
        messages, latency = told["messages"], told["messages"]["latency_ms"]
        report = {
            "driver": driver, "attackers": size.attackers, "seconds": size.seconds, "attacks": made, "logins": seen,
            "pairs": {
                "pairs": size.pairs, "sent": messages["sent"], "broken": told["sessions"]["broken"],
                **{name: messages[name] for name in ("lost", "duplicates", "reordered", "corrupted", "foreign")},
                "p50_ms": latency["p50"], "p99_ms": latency["p99"], "max_ms": latency["max"],
            },
            "memory_before": before, "memory_peak": peak, "memory_after": after, "server_cpu_s": round(cpu, 1),
        }  # fmt: skip
        code = server.stop()
        report["faults"] = judge(size, report, server, code)
        show(report)
        kept = bool(report["faults"])
        return report
    finally:
        server.stop()
        if kept:
            print(f"-- log kept: {server.log}", file=sys.stderr)
        else:
            server.remove()


def show(report):
    for name, outcomes in sorted(report["attacks"].items()):
        what = (getattr(attackers, name).__doc__ or name).splitlines()[0]
        print(f"   {what[:90]:90} {outcomes}")
    pairs = report["pairs"]
    mib = {name: round(report[f"memory_{name}"] / 1048576) for name in ("before", "peak", "after")}
    print(
        f"-- pairs: {pairs['sent']} messages, p50 {pairs['p50_ms']} ms, p99 {pairs['p99_ms']} ms, {pairs['broken']} ended, "
        f"{pairs['lost']} lost; server {report['server_cpu_s']} s cpu, memory {mib} MiB",
        flush=True,
    )
    for fault in report["faults"]:
        print(f"   WRONG: {fault}", flush=True)

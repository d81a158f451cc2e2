"""Hostile input against the real server: every kind in waves, while two users chat undisturbed. See README.md."""

import argparse
import asyncio
import json
import os
import platform
import select
import subprocess
import sys
import time
from pathlib import Path

import accounts
import channel_kinds
import channel_siege
import kinds
import outside
import siege
import wave
import web_kinds
import web_siege
from server import FILLERS, Server
from wire import Surprise

HERE = Path(__file__).parent
# Caches, pools and the allocator give back what they hold within this time.
SETTLE_S = 45
# What resident memory may have grown by, over all waves.
MARGIN_BYTES = 8 << 20
RESUME_S = 60
# The control pair answers within this time: its own two waits, and a busy machine.
CONTROL_S = 90
STANZA_MAX = 262_144
# So many variants of a kind come at least once, however few connections there are.
VARIANTS_LEAST = 64
# Accounts that fill the store before memory is looked at, and for how long: some hundred MB of archive.
FILLERS_COUNT = 40
FILL_S = 6
# In a quick run the server has so few descriptors that the half-open connections alone would take all of them.
QUICK_DESCRIPTORS = 600


class Times:
    """Time-outs of the server in seconds. In a full run there is time for more half-open connections than it can hold."""

    def __init__(self, quick):
        self.preauth_s = 8 if quick else 20
        self.send_s = 5 if quick else 10
        self.resume_s = RESUME_S


class Control:
    """The two who chat, in a process of their own."""

    def __init__(self, port):
        command = [sys.executable, str(HERE / "control.py"), str(port)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._read()

    def _read(self):
        # It says one line for one that it is given, so there is nothing in between that a buffer could hold.
        ready, _, _ = select.select([self.process.stdout], [], [], CONTROL_S)
        line = self.process.stdout.readline() if ready else ""
        if not line:
            self.process.kill()
            raise RuntimeError("the control pair is gone, or says nothing any more")
        return json.loads(line)

    def mark(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self._read()

    async def marked(self):
        return await asyncio.get_running_loop().run_in_executor(None, self.mark)

    def end(self):
        self.process.stdin.close()
        self.process.wait(timeout=10)


def options(times):
    return [
        "--preauth-timeout-seconds", str(times.preauth_s), "--send-timeout-seconds", str(times.send_s),
        "--sm-resume-seconds", str(RESUME_S), "--cache-seconds", "10",
        # Failed logins are the point here; their limits have tests of their own.
        "--login-failures-per-address-max", "300000", "--login-failures-per-account-max", "300000",
        "--login-failures-per-pair-max", "300000",
    ]  # fmt: skip


class Run:
    def __init__(self, arguments, server, times):
        self.arguments, self.server, self.times = arguments, server, times
        self.control = Control(server.port)
        self.cpu = server.cpu_seconds()
        self.results, self.faults, self.memory = [], [], {}

    def fault(self, text):
        self.faults.append(text)
        print(f"   WRONG: {text}", flush=True)

    async def attend(self, result):
        """Adds what the control pair saw, checks the server, prints a line."""
        result["control"] = control = await self.control.marked()
        name = result["kind"]
        if result["wrong"]:
            self.fault(f"{name}: {result['wrong']} of {result['connections']}: {result['first_wrong'][0]}")
        if control["missing"] or control["twice"] or control["error"] or control["sent"] == 0:
            self.fault(f"{name}: control pair {control}")
        if not self.server.alive():
            raise RuntimeError(f"{name}: the server is gone: {self.server.log.read_text()[-2000:]}")
        cpu, self.cpu = self.cpu, self.server.cpu_seconds()
        result["server_cpu_s"] = round(self.cpu - cpu, 2)
        result["rss_after"] = self.server.memory()["rss"]
        self.results.append(result)
        print(
            f"{name:48} {result['connections']:>6} connections {result['seconds']:7.2f} s  {result['outcomes']}  "
            f"control {control['arrived']}/{control['sent']} p99 {control['p99_ms']} ms  "
            f"cpu {result['server_cpu_s']} s  rss {result['rss_after'] / 1048576:.1f} MiB",
            flush=True,
        )

    async def waves(self, total):
        both = kinds.all_kinds(STANZA_MAX) + web_kinds.web_kinds(STANZA_MAX) + channel_kinds.channel_kinds()
        table = [k for k in both if self.arguments.only in k.name]
        share = total / (sum(k.weight for k in table) or 1)
        for kind in table:
            count = max(round(share * kind.weight), min(kind.variants, VARIANTS_LEAST))
            await self.attend(await wave.run(kind, self.server, count))
        return sum(r["connections"] for r in self.results)

    async def settle(self, name):
        """Memory once everything had time to be given back."""
        if self.arguments.quick:
            return
        await asyncio.sleep(SETTLE_S)
        await self.control.marked()
        self.memory[name] = self.server.memory()
        print(f"-- memory, {name}: {self.memory[name]['rss'] / 1048576:.1f} MiB", flush=True)

    async def everything(self):
        quick = self.arguments.quick
        before = self.memory["before"] = self.server.memory()
        if not quick:
            self.server.fill(FILLERS_COUNT, FILL_S)
            # As many as later: how much the allocator keeps of large buffers (bounded by its pages' sizes times threads
            # times classes, some 25 MiB, while what lives stays at 21) depends on how many stood at once.
            await self.waves(self.arguments.connections)
            self.results.clear()
            await self.settle("after warm-up")
        made = await self.waves(self.arguments.connections)
        await self.settle("after the waves")
        if not quick:
            grown = self.memory["after the waves"]["rss"] - self.memory["after warm-up"]["rss"]
            print(f"-- {made} connections; resident memory grew by {grown / 1024:.0f} KiB", flush=True)
            if grown > MARGIN_BYTES:
                self.fault(f"resident memory grew by {grown} bytes over {made} connections")
        for attack in siege.ALL + outside.ALL + web_siege.ALL + channel_siege.ALL:
            name = attack.__doc__.splitlines()[0]
            if self.arguments.only not in name:
                continue
            try:
                result = await attack(self.server, quick, self.arguments.half_open, self.times)
            except (Surprise, OSError, TimeoutError) as error:
                self.fault(f"{name}: {type(error).__name__} {error}")
            else:
                await self.attend(result)
        await self.settle("after everything")
        return before

    def counters(self):
        """All that was taken in has been let go: only the control pair is there."""
        status = self.server.status()
        end = time.monotonic() + RESUME_S + 10
        while time.monotonic() < end and not settled(status):
            time.sleep(0.5)
            status = self.server.status()
        if not settled(status):
            self.fault(f"counters do not settle: {status}")
        return status


def settled(status):
    counters = status["counters"]
    empty = ["gate_bytes", "gate_waiting", "jobs_pending", "jobs_kept", "letters_kept", "reads_pending", "reads_kept", "parked"]
    return status["connections"] == 2 and status["sessions"] == 2 and all(counters[name] == 0 for name in empty)


def by_accounts(arguments):
    """Only the siege by accounts."""
    report = accounts.run(os.environ["THRONG_BIN"], arguments.driver, arguments.quick, arguments.seconds)
    where = {"command": "tests/abuse/run " + " ".join(sys.argv[1:]), "kernel": platform.release(), "cores": os.cpu_count()}
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(where | report, indent=1) + "\n")
    return 1 if report["faults"] else 0


def main():
    parser = argparse.ArgumentParser(prog="tests/abuse/run", description=__doc__)
    parser.add_argument("--driver", choices=["uring", "epoll"], default="uring")
    parser.add_argument("--connections", type=int, default=0, help="of all waves together (100,000; with --quick 800)")
    parser.add_argument("--half-open", type=int, default=50_000, help="connections that say nothing")
    parser.add_argument("--quick", action="store_true", help="under a minute, without measuring memory")
    parser.add_argument("--only", default="", help="kinds with this in their name")
    parser.add_argument("--accounts", action="store_true", help="only the siege by accounts, ten minutes; with --quick a short one")
    parser.add_argument("--seconds", type=int, default=0, help="how long the siege by accounts takes")
    parser.add_argument("--json", help="file that the results are written to")
    arguments = parser.parse_args()
    if arguments.accounts:
        sys.exit(by_accounts(arguments))
    arguments.connections = arguments.connections or (800 if arguments.quick else 100_000)
    times = Times(arguments.quick)
    names = ["romeo", "juliet", "sluggard", "spammer"]
    names += [f"{FILLERS}{n}" for n in range(FILLERS_COUNT)]
    names += [f"mallory{n}" for n in range(wave.MALLORIES)] + [f"trudy{n}" for n in range(64)]
    descriptors = QUICK_DESCRIPTORS if arguments.quick else None
    server = Server(os.environ["THRONG_BIN"], arguments.driver, names, options(times), descriptors)
    start = time.monotonic()
    run, status, kept = None, {}, False
    try:
        run = Run(arguments, server, times)
        asyncio.run(run.everything())
        status = run.counters()
        run.control.end()
        code = server.stop()
        if code != 0:
            run.fault(f"the server ended with {code}")
        if server.complaints():
            run.fault(f"the log complains: {server.complaints()[:3]}")
    finally:
        kept = run is None or bool(run.faults) or server.alive()
        server.stop()
        if kept:
            print(f"-- log kept: {server.log}", file=sys.stderr)
        else:
            server.remove()
    by_account = None
    if arguments.quick and not arguments.only:
        by_account = accounts.run(os.environ["THRONG_BIN"], arguments.driver, True, arguments.seconds)
        run.faults += by_account["faults"]
    report = {
        "command": "tests/abuse/run " + " ".join(sys.argv[1:]),
        "driver": arguments.driver,
        "kernel": platform.release(),
        "cores": os.cpu_count(),
        "seconds": round(time.monotonic() - start),
        "connections": sum(r["connections"] for r in run.results),
        "memory_bytes": run.memory,
        "kinds": run.results,
        "warnings_logged": server.warnings() if kept else {},
        "counters_at_the_end": status.get("counters"),
        "siege_by_accounts": by_account,
        "faults": run.faults,
    }
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(report, indent=1) + "\n")
    # Once more, behind all that went well.
    for fault in run.faults:
        print(f"   WRONG: {fault}")
    print(f"{report['connections']} connections, {len(run.results)} kinds, {len(run.faults)} faults, {report['seconds']} s")
    sys.exit(1 if run.faults else 0)


main()

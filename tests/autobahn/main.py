"""Runs the Autobahn suite's fuzzing client against a server with an echo of WebSockets, on both drivers, and says what came of each case."""

import collections
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
#: Framing, pings, reserved bits, opcodes, fragments, UTF-8, the closing handshake, and messages that others cut. Of the other groups 9 measures,
#: and 12 and 13 are about compression, which the server declines.
GROUPS = ["1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "10.*"]
CASES = 247
#: What a case may come to. The suite wants text that is no UTF-8 to be refused before the message is whole, and says NON-STRICT where it is
#: refused then (RFC 6455 8.1 leaves that open). INFORMATIONAL are cases of which the RFC does not say what follows.
GOOD = {"OK", "NON-STRICT", "INFORMATIONAL"}
#: Cases that are not strict: those in which invalid text comes in several frames or pieces.
NOT_STRICT_MAX = 4


def free_port():
    """A loopback port that nothing listens on."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def serve(folder, driver):
    """A server that has the echo, and its port."""
    port, c2s, admin = (free_port() for _ in range(3))
    command = [os.environ["THRONG_DEBUG_BIN"], "serve", "--data", str(folder / "data"), "--domain", "localhost", "--driver", driver,
               "--shards", "2", "--http", f"127.0.0.1:{port}", "--c2s", f"127.0.0.1:{c2s}", "--c2s-tls", "off",
               "--admin-http", f"127.0.0.1:{admin}"]
    log = open(folder / "log", "wb")
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, "PLANTED_STALLS": "echo=on"})
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return process, port
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                sys.exit(f"the server does not listen:\n{(folder / 'log').read_text(errors='replace')}")
            time.sleep(0.05)


def play(driver, cases):
    """What each of these cases came to, by its number."""
    folder = Path(tempfile.mkdtemp(prefix="throng-autobahn-"))
    process, port = serve(folder, driver)
    try:
        spec = {"outdir": str(folder / "reports"), "servers": [{"agent": "throng", "url": f"ws://127.0.0.1:{port}/echo"}],
                "cases": cases, "exclude-cases": [], "exclude-agent-cases": {}}
        (folder / "spec.json").write_text(json.dumps(spec))
        command = [str(HERE / ".venv/bin/wstest"), "-m", "fuzzingclient", "-s", "spec.json"]
        done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
        if done.returncode:
            sys.exit(f"the suite has failed:\n{done.stdout[-5_000:]}{done.stderr[-5_000:]}")
        index = json.loads((folder / "reports/index.json").read_text())["throng"]
        reports = {case: json.loads((folder / "reports" / told["reportfile"]).read_text()) for case, told in index.items()}
        return index, reports
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def wrong_of(index):
    """The cases that were not answered as they should be."""
    return [case for case, told in index.items() if not {told["behavior"], told["behaviorClose"]} <= GOOD]


def main():
    """All of it; the exit status says whether all cases are good."""
    passed = failed = 0
    for driver in ("uring", "epoll"):
        index, reports = play(driver, GROUPS)
        # The suite's client waits a second for an answer, and may not get it in time beside other tests: such a case is played once more.
        if again := wrong_of(index):
            print(f"{driver}: played once more: {', '.join(again)}")
            for known, new in zip((index, reports), play(driver, again)):
                known.update(new)
        tally = collections.Counter(told["behavior"] for told in index.values())
        print(f"{driver}: {len(index)} cases, {dict(tally)}")
        wrong = wrong_of(index)
        for case in wrong:
            report = reports[case]
            print(f"  {case}: {index[case]['behavior']}, {index[case]['behaviorClose']}: {report['description']}\n"
                  f"    {report['result']} {report['resultClose']}")
        if len(index) != CASES or tally["NON-STRICT"] > NOT_STRICT_MAX:
            print(f"  {CASES} cases were expected, and {NOT_STRICT_MAX} that are not strict at the most")
            failed += 1
        passed, failed = passed + len(index) - len(wrong), failed + len(wrong)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())

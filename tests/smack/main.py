"""Runs Smack's integration tests against a server of its own, and compares the outcomes with those expected."""

import argparse
import os
import subprocess
import sys
import time
import tomllib
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "clients"))

from servers import Prosody, Throng  # noqa: E402

#: Seconds that one run of the tests may take; 40 on two idle cores.
RUN = 300
#: Milliseconds that a client waits for an answer. Tests that end a connection wait that long for the end, too.
REPLY = 10_000
ADMIN = "user0000"
#: Tests that may fail in one run and pass alone, besides those of which that is known.
AGAIN = 2


def servers(arguments):
    """The servers to run against, not started."""
    if arguments.server == "prosody":
        return [Prosody(accounts=1)]
    drivers = [arguments.driver] if arguments.driver else ["uring", "epoll"]
    # All accounts of a run are registered by one client, which never logs in.
    options = ["--admins", f"{ADMIN}@localhost", "--registrations-hourly-max", "1000", "--preauth-timeout-seconds", "600"]
    return [Throng(driver, accounts=1, options=options) for driver in drivers]


def properties(server, expected, which, debug):
    """The options of the tests: the addresses, the trust in the server's certificate alone, which tests."""
    trust = server.folder / "trust.p12"
    if not trust.exists():
        subprocess.run(
            ["keytool", "-importcert", "-noprompt", "-alias", "server", "-file", server.cafile, "-keystore", trust,
             "-storetype", "PKCS12", "-storepass", "changeit"],
            check=True, capture_output=True,
        )
    options = {
        "javax.net.ssl.trustStore": trust,
        "javax.net.ssl.trustStorePassword": "changeit",
        "sinttest.service": "localhost",
        "sinttest.host": "127.0.0.1",
        "sinttest.securityMode": "required",
        # No names are looked up: the host is given.
        "sinttest.dnsResolver": "javax",
        "sinttest.replyTimeout": REPLY,
        "sinttest.defaultConnection": "tcp",
        "sinttest.disabledConnections": ",".join(expected["connections"]),
    }
    # One driver by the commands of administrators (XEP-0133), the other one by registration in band (XEP-0077).
    if server.driver == "uring":
        options |= {"sinttest.adminAccountUsername": ADMIN, "sinttest.adminAccountPassword": "pass-0000"}
    options |= which
    if debug:
        options["sinttest.debugger"] = "console"
    return [f"-D{name}={value}" for name, value in options.items()]


def outcomes(server, expected, arguments):
    """The lines of all tests, or of those that are asked for. Those that others may have spoilt have two more tries alone, the second of
    which shows all stanzas. `AGAIN` others have one: accounts of one run subscribe to each other and part again in most tests."""
    which = {"sinttest.enabledTests": arguments.only} if arguments.only else {
        "sinttest.disabledTests": ",".join(expected["left_out"])}
    lines, others = run(server, expected, which, arguments.debug), 0
    for at, (outcome, test, _, reason) in enumerate(lines):
        if outcome != "failed" or test in expected["outcomes"]:
            continue
        others += test not in expected["again"]
        if test in expected["again"] or others <= AGAIN:
            print(f"{test} again, alone: {expected['again'].get(test, 'not known to fail')} ({reason})")
            # Without the kind of connection that it ran on.
            alone = {"sinttest.enabledTests": test.split(" ")[0]}
            for shown in (False, True)[:1 + (test in expected["again"])]:
                tried = run(server, expected, alone, arguments.debug or shown)
                lines[at] = next((line for line in tried if line[0] != "passed"), tried[0])
                if lines[at][0] == "passed":
                    break
    return lines


def run(server, expected, which, debug):
    """The lines of one run: [outcome, test, milliseconds, reason]."""
    classpath = (HERE / ".target" / "classpath").read_text().strip()
    results, said = server.folder / "results", server.folder / "smack.log"
    results.unlink(missing_ok=True)
    with open(said, "wb") as out:
        status = subprocess.run(
            ["timeout", "--kill-after=10", str(RUN), "java", "-Djava.util.logging.SimpleFormatter.format=%5$s%6$s%n",
             "-cp", f"{HERE / '.target' / 'classes'}:{classpath}", *properties(server, expected, which, debug),
             "Sinttest", str(server.c2s), str(results)],
            cwd=server.folder, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
        ).returncode
    log = said.read_text(errors="replace")
    if debug:
        print(log)
    if status or not results.exists():
        raise RuntimeError(f"the tests ended with status {status} (124: not done in {RUN} s)\n{log[-5000:]}")
    return [line.split("\t") for line in results.read_text().splitlines()]


def judge(lines, expected, complete):
    """What is not as expected: a test that fails or cannot run and is not listed, or is listed and passes."""
    wrong, seen = [], set()
    for outcome, test, _, reason in lines:
        listed = expected["outcomes"].get(test)
        seen.add(test)
        if outcome == "passed" and listed:
            wrong.append(f"{test} passes: take it out of expected.toml")
        elif outcome != "passed" and (listed is None or listed["outcome"] != outcome):
            wrong.append(f"{test} {outcome}: {reason}")
    if complete:
        wrong += [f"{test} has not been run: expected.toml names it" for test in expected["outcomes"] if test not in seen]
    return wrong


def table(name, lines, expected, seconds):
    """The outcomes of one run, a class of tests a row."""
    rows = {}
    for outcome, test, milliseconds, _ in lines:
        row = rows.setdefault(test.split(".")[0].removesuffix("IntegrationTest").removesuffix("Test"), [Counter(), 0, []])
        row[0][outcome] += 1
        row[1] += int(milliseconds)
        if test in expected["outcomes"]:
            row[2].append(expected["outcomes"][test]["why"])
    print(f"\nSmack's integration tests against {name}, {seconds:.0f} s\n")
    print(f"{'tests':44} {'passed':>7} {'failed':>7} {'not possible':>13} {'ms':>7}")
    for test, (counts, milliseconds, why) in sorted(rows.items()):
        print(f"{test:44} {counts['passed']:7} {counts['failed']:7} {counts['not possible']:13} {milliseconds:7}")
        for reason in why:
            print(f"    {reason}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", choices=["throng", "prosody"], default="throng")
    parser.add_argument("--driver", choices=["uring", "epoll"])
    parser.add_argument("--only", help="classes or tests, as Smack names them, separated by commas")
    parser.add_argument("--debug", action="store_true", help="print all stanzas")
    arguments = parser.parse_args()
    if arguments.server == "throng":
        os.environ["THRONG_BIN"] = str(Path(os.environ["THRONG_BIN"]).resolve())

    expected = tomllib.loads((HERE / "expected.toml").read_text())
    wrong, passed = [], 0
    for server in servers(arguments):
        began = time.monotonic()
        try:
            server.start()
            lines = outcomes(server, expected, arguments)
            server.stop()
        except Exception:
            print(server.log(), file=sys.stderr)
            raise
        finally:
            if server.process and server.process.poll() is None:
                server.process.kill()
                server.process.wait()
            server.remove()
        table(server.name, lines, expected, time.monotonic() - began)
        passed += sum(line[0] == "passed" for line in lines)
        wrong += [f"{server.name}: {line}" for line in judge(lines, expected, not arguments.only)]
    print()
    for line in wrong:
        print(f"tests/smack: {line}")
    print(f"{passed} passed, {len(wrong)} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""What a session and a message cost the server over TCP, WebSocket and BOSH, one after the other in the same run.

    python3 tools/bench/transports.py --out tools/bench/results/transports.json

For each transport: user space of the server per idle session, by the growth between two numbers of them, and then pairs that chat
among idle sessions, in the open loop. Each run has a server and a folder of its own.
"""

import argparse
import json
import os
import platform
import socket
import subprocess
import tempfile
import time


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def anonymous_bytes(pid):
    """User space of a process."""
    with open(f"/proc/{pid}/smaps_rollup") as text:
        return next(int(line.split()[1]) << 10 for line in text if line.startswith("Anonymous:"))


class Bench:
    def __init__(self, options):
        self.options = options

    def run(self, transport, sessions, pairs, rate, hold_s):
        """A load against a new server: its result, and the server's user space in the middle of the hold."""
        options = self.options
        with tempfile.TemporaryDirectory() as folder:
            users, data, out = (os.path.join(folder, name) for name in ("users.csv", "data", "out.json"))
            quietly = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
            subprocess.run([options.load, "load", "--write-accounts", users, "--sessions", str(sessions)], check=True, **quietly)
            subprocess.run(
                [options.throng, "user", "import", users, "--data", data, "--domain", "localhost"], check=True, **quietly
            )
            c2s, http = free_port(), free_port()
            server = subprocess.Popen(
                [options.throng, "serve", "--data", data, "--c2s", f"127.0.0.1:{c2s}", "--c2s-tls", "off", "--plain-auth"]
                + ["--http", f"127.0.0.1:{http}", "--shards", str(options.shards), "--driver", options.driver],
                # Synthetic users send faster than people do. Builds that have no such rate know no such flag.
                env={**os.environ, "THRONG_ACCOUNT_STANZAS_PER_SECOND": "0"},
                **quietly,
            )
            try:
                port = c2s if transport == "tcp" else http
                self.await_port(port)
                load = subprocess.Popen(
                    [options.load, "load", "--to", f"127.0.0.1:{port}", "--transport", transport, "--quiet", "--out", out]
                    + ["--sessions", str(sessions), "--pairs", str(pairs), "--in-flight", "0", "--rate", str(rate)]
                    + ["--hold-s", str(hold_s), "--ramp-s-max", "120", "--driver", options.driver]
                    + ["--ramp-per-s", "1000", "--login-s-max", "60"],
                    **quietly,
                )
                at_most, memory = 0, []
                while load.poll() is None:
                    memory.append((time.monotonic(), anonymous_bytes(server.pid)))
                    time.sleep(0.25)
                # The middle of the hold: sessions are closed in the last moments.
                end = memory[-1][0]
                in_hold = [size for at, size in memory if end - hold_s - 0.5 < at < end - 1.0]
                at_most = sorted(in_hold)[len(in_hold) // 2]
                with open(out) as text:
                    return json.load(text), at_most
            finally:
                server.terminate()
                server.wait()

    @staticmethod
    def await_port(port):
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.05)
        raise SystemExit(f"no server at port {port}: does `throng serve` start?")

    def row(self, transport):
        options = self.options
        few, many = options.sessions // 5, options.sessions
        (first, less), (second, more) = (self.run(transport, count, 0, 0, options.idle_s) for count in (few, many))
        chat, _ = self.run(transport, many + 2 * options.pairs, options.pairs, options.rate, options.hold_s)
        results = (first, second, chat)
        return {
            "transport": transport,
            "good": all(result["good"] for result in results),
            "errors": [result["errors"] for result in results],
            "server_bytes_per_idle_session": round((more - less) / (many - few)),
            "client_bytes_per_idle_session": second["generator"]["client_bytes_per_session"],
            "logins_per_s": second["sessions"]["logins_per_s"],
            "cpu_us_per_login": second["server"]["cpu_us_per_login"],
            "messages_per_s": chat["messages"]["received_per_s"],
            "messages": {name: chat["messages"][name] for name in ("sent", "received", "lost", "duplicates", "reordered")},
            "server_cpu_us_per_message": chat["server"]["cpu_us_per_message"],
            "client_cpu_us_per_message": chat["generator"]["cpu_us_per_message"],
            "latency_ms": chat["messages"]["latency_ms"],
            "sent_late_ms_p99": chat["generator"]["sent_late_ms"]["p99"],
            "bytes": chat["bytes"],
            "requests": chat.get("bosh"),
        }


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--throng", default="target/dist/throng", help="the server")
    arguments.add_argument("--load", default=None, help="the program that loads; the server's, unless said")
    arguments.add_argument("--out", required=True)
    arguments.add_argument("--sessions", type=int, default=5000)
    arguments.add_argument("--pairs", type=int, default=100)
    arguments.add_argument("--rate", type=int, default=1000)
    arguments.add_argument("--hold-s", type=float, default=15)
    arguments.add_argument("--idle-s", type=float, default=4)
    arguments.add_argument("--shards", type=int, default=2)
    arguments.add_argument("--driver", default="uring")
    arguments.add_argument("--note", default=None, help="what a reader has to know of this run")
    options = arguments.parse_args()
    options.load = options.load or options.throng
    bench = Bench(options)
    rows = [bench.row(transport) for transport in ("tcp", "websocket", "bosh")]
    result = {
        "program": "transports",
        "command": "python3 tools/bench/transports.py --out tools/bench/results/transports.json",
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "driver": options.driver,
        "sessions": options.sessions,
        "pairs": options.pairs,
        "rate": options.rate,
        "note": options.note,
        "rows": rows,
    }
    with open(options.out, "w") as out:
        json.dump(result, out, indent=2, sort_keys=True)
        out.write("\n")


if __name__ == "__main__":
    main()

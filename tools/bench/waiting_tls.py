#!/usr/bin/env python3
"""What a subscriber that waits at /n/ over TLS costs the server: user space, by its growth between counts of them.

    python3 tools/bench/waiting_tls.py --out tools/bench/results/channels-tls.json

Subscribers are Python's own TLS 1.3, by server-sent events, on 100 channels at which nothing is published. As many as the last count
have come and gone before the first one is looked at. 1,024 bytes are aimed at.
"""

import argparse
import json
import os
import platform
import signal
import socket
import ssl
import subprocess
import tempfile
import time

from transports import anonymous_bytes, free_port

CHANNELS = 100
MOST = 1_024


def settled_bytes(pid, settle_s):
    """The same once it stands still."""
    time.sleep(settle_s)
    looks = []
    while len(looks) < 60:
        looks.append(anonymous_bytes(pid))
        last = looks[-10:]
        if len(last) == 10 and max(last) - min(last) <= 16 << 10:
            break
        time.sleep(0.5)
    return looks[-1]


def subscribe(context, port, number):
    """One more subscriber, once the stream of events has begun."""
    raw = socket.create_connection(("127.0.0.1", port))
    tls = context.wrap_socket(raw, server_hostname="localhost")
    path = f"/n/load.{number % CHANNELS}"
    tls.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n".encode())
    head = tls.recv(4_096)
    if not head.startswith(b"HTTP/1.1 200"):
        raise SystemExit(f"a subscriber was answered {head[:80]!r}")
    return tls


def weigh(options, driver):
    """User space at each count."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        flags = ["--domain=localhost", f"--https=127.0.0.1:{port}", "--c2s=off", "--c2s-tls=off", "--notify=load."]
        flags += ["--notify-waiting-per-address-max=1000000", "--unauthenticated-per-address-max=0"]
        flags += [f"--driver={driver}", f"--shards={options.shards}", f"--data={folder}/data"]
        quietly = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
        server = subprocess.Popen([options.throng, "serve", *flags], **quietly)
        try:
            for _ in range(200):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.05)
            waiting = [subscribe(context, port, number) for number in range(options.at[-1])]
            for tls in waiting:
                tls.close()
            time.sleep(2)
            waiting, found = [], []
            for count in options.at:
                waiting += [subscribe(context, port, number) for number in range(len(waiting), count)]
                found.append(settled_bytes(server.pid, options.settle_s))
            return found
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()


def slope(xs, ys):
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys)) / sum((x - mean_x) ** 2 for x in xs)


def main():
    say = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    say.add_argument("--throng", default="target/dist/throng", help="the server's program")
    say.add_argument("--at", default="2000,4000,6000,8000", help="counts of subscribers to weigh at")
    say.add_argument("--shards", type=int, default=2, help="shards of the server")
    say.add_argument("--settle-s", type=float, default=14, help="seconds to wait at least before memory is looked at")
    say.add_argument("--out", help="file that the figures are written to")
    options = say.parse_args()
    options.at = [int(count) for count in options.at.split(",")]
    rows = []
    for driver in ["uring", "epoll"]:
        found = weigh(options, driver)
        each = round(slope(options.at, found))
        rows.append({"driver": driver, "anonymous_bytes": found, "bytes_a_subscriber": each, "met": each <= MOST})
        print(f"{driver}: {each} bytes a subscriber", flush=True)
    result = {
        "program": "waiting_tls",
        "command": f"python3 tools/bench/waiting_tls.py --out {options.out}" if options.out else "python3 tools/bench/waiting_tls.py",
        "what": "growth of the server's anonymous resident memory with subscribers that wait by events over TLS 1.3",
        "kernel": platform.release(),
        "cores": os.cpu_count(),
        "shards": options.shards,
        "at": options.at,
        "target_bytes": MOST,
        "drivers": rows,
        "met": all(row["met"] for row in rows),
    }
    if options.out:
        with open(options.out, "w") as file:
            json.dump(result, file, indent=2)
            file.write("\n")
    raise SystemExit(0 if result["met"] else 1)


if __name__ == "__main__":
    main()

"""Ports of servers that tests start."""

import random
import socket
from pathlib import Path

#: Names of the ports that this process has chosen: while they are held, no other run chooses the same.
chosen = []


def free_port():
    """A loopback port that nothing listens on, and that no other run of these tests chooses while this one goes on. It is below
    those that the kernel gives to connections and to whoever listens on any port."""
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(10_000, max(lowest, 20_000))
        name = socket.socket(socket.AF_UNIX)
        try:
            name.bind(f"\0throng-tests-port-{port}")
            with socket.socket() as s:
                s.bind(("127.0.0.1", port))
        except OSError:
            name.close()
            continue
        chosen.append(name)
        return port

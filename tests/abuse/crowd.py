"""Connections that say nothing: `crowd.py PORT COUNT NUMBER`. Opens them as fast as the server takes them, waits until
each is closed, and says how they ended, as JSON."""

import json
import selectors
import socket
import sys
import time

AT_ONCE = 200
PATIENCE_S = 240


def start(port, address):
    sock = socket.socket()
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_IP, 24, 1)  # IP_BIND_ADDRESS_NO_PORT
    sock.bind((address, 0))
    sock.connect_ex(("127.0.0.1", port))
    return sock


def outcome(heard):
    if b"<connection-timeout " in heard:
        return "connection-timeout"
    return "said " + repr(bytes(heard[-200:])) if heard else "closed without a word"


def main(port, count, number):
    selector = selectors.EpollSelector()
    outcomes = {}
    made = connecting = over = 0
    end = time.monotonic() + PATIENCE_S
    while over < count and time.monotonic() < end:
        while made < count and connecting < AT_ONCE:
            address = f"127.{10 + number}.{1 + made // 200 % 200}.{1 + made % 200}"
            selector.register(start(port, address), selectors.EVENT_WRITE, bytearray())
            made += 1
            connecting += 1
        for key, events in selector.select(1):
            sock, heard = key.fileobj, key.data
            if events & selectors.EVENT_WRITE:
                connecting -= 1
                selector.modify(sock, selectors.EVENT_READ, heard)
                continue
            try:
                data = sock.recv(4096)
            except OSError as error:
                data, heard = b"", heard + repr(error).encode()
            if data:
                heard += data
                continue
            selector.unregister(sock)
            sock.close()
            over += 1
            how = outcome(heard)
            outcomes[how] = outcomes.get(how, 0) + 1
    if over < count:
        outcomes["still open"] = count - over
    print(json.dumps(outcomes))


main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))

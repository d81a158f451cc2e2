"""A web service that says who may use which channels (`notify_ask`), of whom a test can want that it fails.

Who shows the cookie `session=NAME`, or `Authorization: Bearer NAME`, is NAME, and may use all channels but those that have `closed` in
their names. Other tokens make the service do what they say.
"""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from events import WAIT

#: What the server has to show (`notify_ask_token`).
TOKEN = "a token of the server's own"
#: What makes the service fail.
WRONG = ["hang", "endless", "garbage", "text", "long", "status", "redirect", "silent", "drip"]


class Decider:
    """The service, which can be stopped and started on its port."""

    def __init__(self, port):
        self.port, self.questions, self.wrong, self.server = port, [], [], None
        #: Seconds that a yes counts.
        self.seconds = None

    def start(self):
        """Listens."""
        decider = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                decider.answer(self)

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads, request_queue_size = True, 64

            def handle_error(self, *_):
                """A client may go."""

        self.server = Server(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def stop(self):
        """Takes no more connections. Those that are open are closed with their next question."""
        self.server.shutdown()
        self.server.server_close()
        self.server = None

    def answer(self, request):
        """Answers one question."""
        question = json.loads(request.rfile.read(int(request.headers["Content-Length"])))
        if self.server is None:
            request.close_connection = True
            return
        if request.headers["Authorization"] != f"Bearer {TOKEN}":
            self.wrong.append(dict(request.headers))
        self.questions.append(question)
        headers = question["headers"]
        name = headers.get("authorization", "").removeprefix("Bearer ")
        name = name or headers.get("cookie", "").removeprefix("session=")
        if name in WRONG:
            return self.fail(request, name)
        allow = bool(name) and not any("closed" in channel for channel in question["channels"])
        told = {"allow": allow, "name": name or None}
        if self.seconds is not None:
            told["seconds"] = self.seconds
        self.say(request, json.dumps(told).encode())

    def say(self, request, body, status=200, **fields):
        """One response."""
        request.send_response(status)
        for field, value in {"Content-Length": str(len(body)), **fields}.items():
            request.send_header(field, value)
        request.end_headers()
        request.wfile.write(body)

    def fail(self, request, how):
        """No answer, or none that counts."""
        yes = b'{"allow":true}'
        request.close_connection = True
        if how == "hang":
            time.sleep(2 * WAIT)
        elif how == "endless":
            request.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            while True:
                request.wfile.write(b"1000\r\n" + b" " * 4096 + b"\r\n")
        elif how == "garbage":
            request.wfile.write(b"\x16\x03\x01\x00 what?\r\n\r\n" + yes)
        elif how == "text":
            self.say(request, b"<html>allow</html>")
        elif how == "long":
            self.say(request, yes + b" " * 100_000)
        elif how == "status":
            self.say(request, yes, 403)
        elif how == "redirect":
            self.say(request, b"", 302, Location=f"http://127.0.0.1:{self.port}/yes")
        elif how == "drip":
            request.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n")
            for byte in yes[:-1]:
                request.wfile.write(bytes([byte]))
                request.wfile.flush()
                time.sleep(0.5)

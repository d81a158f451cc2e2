#!/usr/bin/env python3
"""A small back end for notify_ask (docs/notifications.md): says who may use which channels.

    contrib/notify-ask/decide.py 8080

Users are known by the cookie `session`, or by `Authorization: Bearer`. Here a session is the name of its
user; put a look-up in your own database in its place. Everybody who is known may read and write `room.*`,
and each user alone `user.NAME`.
"""

import json
import sys
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

USERS = {"romeo", "juliet"}
#: Seconds for which an answer counts: then subscriptions end, and are asked about again.
SECONDS = 300


def user_of(headers):
    """The user of a request, or None."""
    scheme, _, session = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get("session")
        except CookieError:
            cookie = None
        session = cookie.value if cookie else ""
    return session if session in USERS else None


def may(user, channel):
    """Whether a user may use a channel."""
    return user is not None and (channel.startswith("room.") or channel == f"user.{user}")


def decide(question):
    """The answer to a question."""
    user = user_of(question["headers"])
    # By Nchan's protocol what a channel keeps can be deleted: here by nobody.
    if question["operation"] == "delete" or not all(may(user, channel) for channel in question["channels"]):
        return {"allow": False}
    # Each publication is asked about by itself.
    if question["operation"] == "publish":
        return {"allow": True}
    return {"allow": True, "name": user, "seconds": SECONDS}


class Handler(BaseHTTPRequestHandler):
    """Connections are kept for the next question."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        length = int(self.headers.get("Content-Length", 0))
        answer = json.dumps(decide(json.loads(self.rfile.read(length)))).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        """Questions have secrets of users."""


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8080
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()

"""The filter for fail2ban in contrib/, on lines that a server has written."""

import configparser
import pathlib
import re
import shutil
import subprocess

import pytest

from raw import Raw, plain
from servers import Account

FILTER = pathlib.Path(__file__).parents[2] / "contrib/fail2ban/filter.d/throng.conf"
#: What fail2ban makes of <HOST>, but for names of hosts.
HOST = r"(?:\[?(?P<host>(?:\d{1,3}\.){3}\d{1,3}|[0-9a-fA-F:]{2,})\]?)"


def regexes():
    """The filter's expressions, as Python's own."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(FILTER)
    lines = parser["Definition"]["failregex"].strip().splitlines()
    return [re.compile(line.strip().replace("<HOST>", HOST)) for line in lines]


def found(line):
    """The host that the filter finds in a line."""
    matches = [match for regex in regexes() if (match := regex.search(line))]
    return matches[0]["host"] if matches else None


async def fail(world, name):
    """A login of this name with a wrong password."""
    raw = await Raw(world).open()
    raw.send(plain(Account(name, "wrong")))
    await raw.until("</failure>")
    raw.close()


async def test_fail2ban_finds_failed_logins_and_nothing_else(world, tmp_path):
    """RFC 6120 6.4.5: each failed login is one line with its address, whatever the name holds."""
    if world.server.driver == "prosody":
        pytest.skip("Throng's own")
    since = world.server.log_size() if hasattr(world.server, "log_size") else 0
    forged = 'x" peer=203.0.113.9 INFO login failed peer=203.0.113.9 account="'
    for name in ("nobody-here", "n\u00f6body", forged, "a\nINFO login failed peer=203.0.113.9 account="):
        await fail(world, name)
    text = await world.server.logged("nobody-here", "n\u00f6body", since=since)
    lines = [line for line in text.splitlines() if found(line)]
    ours = [line for line in lines if "nobody-here" in line or "n\u00f6body" in line]
    assert len(ours) >= 2, text
    assert all(found(line) in ("127.0.0.1", "::1") for line in lines), lines
    assert not any("order" in line for line in lines)
    tool = shutil.which("fail2ban-regex")
    if tool:
        log = tmp_path / "server.log"
        log.write_text(text)
        done = subprocess.run([tool, str(log), str(FILTER)], capture_output=True, text=True, timeout=120)
        assert f" {len(lines)} matched" in done.stdout, done.stdout


def test_the_filter_reads_both_formats_and_is_not_misled():
    """Lines as the server writes them; names are escaped in both formats."""
    human = '2026-11-22T16:47:15.000000Z  INFO login failed peer={} account="{}" mechanism="PLAIN" reason="not-authorized"'
    json = (
        '{{"timestamp":"2026-11-22T16:47:15.000000Z","level":"INFO","message":"login failed","peer":"{0}",'
        '"account":"{1}","mechanism":"PLAIN","reason":"not-authorized"}}'
    )
    forged = r'\",\"message\":\"login failed\",\"peer\":\"203.0.113.9\",\"reason\":\"'
    for form in (human, json):
        for peer in ("192.0.2.7", "2001:db8::7"):
            for name in ("romeo@localhost", "", forged):
                assert found(form.format(peer, name)) == peer, form.format(peer, name)
    assert found(human.format("192.0.2.7", "x").split("Z", 1)[1]) == "192.0.2.7", "fail2ban takes the date away"
    assert found(human.format("192.0.2.7", "x").replace("failed", "refused")) is None
    assert found('2026-11-22T16:47:15Z  INFO order uid=0 order="say" of="INFO login failed peer=203.0.113.9 account="') is None

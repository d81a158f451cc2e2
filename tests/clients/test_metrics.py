"""What the operator's HTTP tells, read by Prometheus' own parsers and its linter."""

import asyncio
import json
import subprocess
import urllib.error
import urllib.request

import pytest
from prometheus_client import parser
from prometheus_client.openmetrics import parser as open_parser

OPEN = "application/openmetrics-text;version=1.0.0"


def ask(server, path, host="localhost", accept="*/*"):
    """Status, type and text of an answer."""
    if server.driver == "prosody":
        pytest.skip("Throng's own")
    headers = {"Host": host, "Accept": accept}
    request = urllib.request.Request(f"http://127.0.0.1:{server.admin_http}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.headers["Content-Type"], refused.read().decode()


def values(server, accept="*/*"):
    """Every number, by its name, summed over the shards; of histograms sum and count."""
    status, kind, text = ask(server, "/metrics", accept=accept)
    is_open = accept == OPEN
    assert status == 200 and kind.startswith("application/openmetrics-text" if is_open else "text/plain; version=0.0.4")
    families = open_parser if is_open else parser
    told = {}
    for family in families.text_string_to_metric_families(text):
        assert family.documentation, f"{family.name} does not say what it is"
        for sample in family.samples:
            if not sample.name.endswith("_bucket"):
                told[sample.name] = told.get(sample.name, 0) + sample.value
    return told


@pytest.mark.parametrize("accept", ["*/*", OPEN])
async def test_numbers_are_what_has_happened(world, kind, accept):
    """Both formats: the official parser takes the whole text, and a login and a message are seen in it."""
    before = values(world.server, accept)
    romeo, juliet = await world.online(kind), await world.online(kind)
    marker = await romeo.settle(juliet)
    assert marker in romeo.bodies()
    # A commit is counted only after the stanzas that wait for it were released.
    commits = "throng_store_commits_total", "throng_commit_seconds_count"
    async with asyncio.timeout(30):
        while True:
            after = values(world.server, accept)
            if len(rises := {after[name] - before[name] for name in commits}) == 1 and rises != {0}:
                break
            await asyncio.sleep(0.05)
    grown = {name: after[name] - before[name] for name in after}
    assert grown["throng_shard_logins_total"] == 2
    assert grown["throng_shard_messages_live_total"] >= 1
    assert grown["throng_login_seconds_count"] == 2 and 0 < grown["throng_login_seconds_sum"] < 60
    assert grown["throng_message_delivery_seconds_count"] == grown["throng_shard_messages_live_total"]
    assert 0 < grown["throng_message_delivery_seconds_sum"] < 60
    assert grown["throng_commit_seconds_count"] == grown["throng_store_commits_total"] > 0
    resident = after["process_resident_memory_bytes"]
    assert abs(after["throng_memory_bytes"] - resident) < resident / 10, "the parts are all that is resident"
    # Linux tells how many descriptors are open since 6.2.
    assert 10 < after.get("process_open_fds", 11) <= after["process_max_fds"] and after["process_cpu_seconds_total"] > 0
    assert after["throng_sessions"] >= 2
    assert all(grown[name] >= 0 for name in grown if name.endswith("_total")), "counters do not fall"


def test_prometheus_finds_nothing_to_complain_about(server):
    """`promtool check metrics`: names, units, helps and types. It knows Prometheus' own format. In OpenMetrics the samples of a counter
    have another name than their family, which it takes for a family without a help."""
    for accept in ("*/*", OPEN):
        text = ask(server, "/metrics", accept=accept)[2]
        checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=60)
        complaints = (checked.stdout + checked.stderr).splitlines()
        if accept == OPEN:
            counters = {f"{line.split()[2]}_total no help text" for line in text.splitlines() if line.endswith(" counter")}
            complaints = [line for line in complaints if line not in counters]
        assert complaints == []


def test_the_server_lives_and_is_ready(server):
    """For who balances load."""
    for path, key in (("/health", "alive"), ("/ready", "ready")):
        status, _, text = ask(server, path)
        assert (status, json.loads(text)[key]) == (200, True)


def test_other_names_are_not_answered(server):
    """A page of the web whose name was pointed here (DNS rebinding) gets nothing."""
    assert ask(server, "/metrics", host="evil.example")[0] == 403


def test_what_tells_of_users_needs_the_token(server):
    """Other users of this machine are told numbers, and nobody's address."""
    for path in ("/api/now", "/api/busiest", "/api/series?pick=cpu", "/api/recording"):
        assert ask(server, path)[0] == 401

"""What the operator's HTTP tells, read by Prometheus' own parser."""

import json
import urllib.error
import urllib.request

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families


def ask(server, path, host="localhost"):
    """Status, type and text of an answer."""
    if server.driver == "prosody":
        pytest.skip("Throng's own")
    request = urllib.request.Request(f"http://127.0.0.1:{server.admin_http}{path}", headers={"Host": host})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.headers["Content-Type"], refused.read().decode()


def values(server):
    """Every number, by its name, summed over the shards."""
    status, kind, text = ask(server, "/metrics")
    assert status == 200 and kind.startswith("application/openmetrics-text")
    told = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation, f"{family.name} does not say what it is"
        for sample in family.samples:
            told[sample.name] = told.get(sample.name, 0) + sample.value
    return told


async def test_numbers_are_what_has_happened(world, kind):
    """OpenMetrics: the official parser takes the whole text, and a login and a message are seen in it."""
    before = values(world.server)
    romeo, juliet = await world.online(kind), await world.online(kind)
    marker = await romeo.settle(juliet)
    assert marker in romeo.bodies()
    after = values(world.server)
    grown = {name: after[name] - before[name] for name in after}
    assert grown["throng_shard_logins_total"] == 2
    assert grown["throng_shard_messages_live_total"] >= 1
    assert after["throng_sessions"] >= 2
    assert all(grown[name] >= 0 for name in grown if name.endswith("_total")), "counters do not fall"


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

"""Accounts that move in by XEP-0227, from samples that ejabberd and Prosody have written (tests/move/run --keep).

What the two servers make of Throng's exports is for tests/move/run, which starts them."""

import asyncio
import sys
from pathlib import Path

import pytest

MOVE = Path(__file__).resolve().parent.parent / "move"
sys.path.insert(0, str(MOVE))

import people  # noqa: E402
import peers  # noqa: E402


@pytest.mark.parametrize("peer", ["ejabberd", "prosody"])
def test_accounts_with_all_they_have_move_in_and_out_again(server, peer):
    """XEP-0227 4: everybody logs in with the old password and finds what the other server has written."""
    if server.driver == "prosody":
        pytest.skip("XEP-0227: of Throng's own commands")
    sample = MOVE / "samples" / peer
    first, second = peers.Throng(server.driver), peers.Throng(server.driver)
    try:
        took = first.take(sample)
        assert took["users"] == len(people.PASSWORDS) and took["left_out"] == 0, took
        keeps = peers.PEERS[peer].keeps
        given = first.give(first.folder / "out")
        assert given["users"] == took["users"] and not given["notes"], given
        first.start()
        assert "login" in asyncio.run(people.look(first.port, keeps))
        took = second.take(first.folder / "out")
        assert took["users"] == given["users"] and not took["notes"], took
        second.start()
        assert "login" in asyncio.run(people.look(second.port, keeps))
    finally:
        first.close()
        second.close()

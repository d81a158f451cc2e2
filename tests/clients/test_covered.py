"""The table of what is covered is what the tests say. Needs no server."""

from covered import README, updated


def test_the_table_in_the_readme_is_current():
    text = README.read_text()
    assert updated(text) == text, "run tests/clients/.venv/bin/python tests/clients/covered.py"

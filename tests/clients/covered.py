"""Which client plays which feature in which test: the table in README.md, made of the tests' own text.

    tests/clients/.venv/bin/python tests/clients/covered.py     writes it
"""

import ast
import re
import sys
from collections import defaultdict
from pathlib import Path

from actors import ALL, KINDS

HERE = Path(__file__).parent
README = HERE / "README.md"
BEGIN, END = "<!-- coverage: made by covered.py -->\n", "<!-- end of the coverage -->\n"
COLUMNS = [*ALL, "profanity", "gajim", "dino", "converse", "smack", "raw"]
#: What no page of the project names, because it passes through the server.
TITLES = {
    "0084": "User Avatar", "0085": "Chat State Notifications", "0107": "User Mood", "0118": "User Tune", "0080": "User Location",
    "0292": "vCard4", "0384": "OMEMO", "0374": "OpenPGP for XMPP", "0454": "OMEMO Media Sharing", "0232": "Software Information",
    "0096": "SI File Transfer", "0166": "Jingle", "0184": "Message Delivery Receipts", "0308": "Last Message Correction",
    "0333": "Displayed Markers", "0444": "Message Reactions", "0461": "Message Replies", "RFC 6120": "Core", "RFC 6121": "Instant Messaging and Presence",
}
#: Smack's classes of tests (tests/smack), by what they say that they test.
SMACK = {
    "RFC 6120": "Login, XmppConnection, SimpleXmppConnection, WaitForClosingStreamElement",
    "RFC 6121": "Roster, LowLevelRoster, Chat, IncomingMessageListener, OutgoingMessageListener",
    "0050": "AdHocCommand", "0065": "FileTransfer", "0077": "the accounts of a run, epoll", "0080": "Geolocation", "0085": "ChatState",
    "0092": "Version", "0096": "FileTransfer", "0107": "Mood", "0115": "EntityCaps", "0118": "UserTune",
    "0133": "the accounts of a run, io_uring", "0163": "UserTune, Mood, Geolocation", "0198": "StreamManagement",
    "0060": "PubSub", "0199": "Ping", "0232": "SoftwareInfo", "0313": "Mam", "0363": "HttpFileUpload",
    "0374": "OXInstantMessaging, OXSecretKeyBackup",
    "0384": "MessageEncryption, ReadOnlyDevice, SessionRenegotiation, OmemoMamDecryption",
}


def clauses(text):
    """The specifications that a text cites: numbers of XEPs, and RFCs."""
    found = set()
    # A number may follow another one without the word before it.
    for run in re.findall(r"XEP-\d{4}[^.;:()]*", text or ""):
        found |= set(re.findall(r"\b(0\d{3})\b", run))
    return found | {name for name in re.findall(r"RFC 612[01]", text or "")}


def needs(decorators):
    """What the markers of a test or file ask of a client."""
    wanted = set()
    for decorator in decorators:
        wanted |= set(re.findall(r"needs\('(\w[\w-]*)'\)", ast.unparse(decorator)))
    return wanted


def players(source, arguments, wanted):
    """The clients that a test runs with."""
    if "kind" in arguments:
        kinds = {kind for kind, actor in KINDS.items() if wanted <= actor.capabilities}
    else:
        kinds = set()
    kinds |= {kind for kind in ALL if f"'{kind}'" in source} | (set(KINDS) if "in KINDS" in source else set())
    helpers = {"profanity": r"world\.terminal\(|[^.]terminal\(", "gajim": r"world\.gajim\(", "dino": r"world\.dino\(",
               "converse": r"world\.converse\(", "raw": r"Raw\w*\("}
    return kinds | {kind for kind, called in helpers.items() if re.search(called, source)}


def cells():
    """{specification: {client: {file}}}."""
    table = defaultdict(lambda: defaultdict(set))
    for path in sorted(HERE.glob("test_*.py")):
        tree = ast.parse(path.read_text())
        file_marks = [n.value for n in tree.body if isinstance(n, ast.Assign) and "pytestmark" in ast.unparse(n.targets[0])]
        helpers = {n.name: ast.unparse(n) for n in tree.body if isinstance(n, (ast.AsyncFunctionDef, ast.FunctionDef, ast.ClassDef))
                   and not n.name.startswith("test_")}
        for test in tree.body:
            if not isinstance(test, ast.AsyncFunctionDef) or not test.name.startswith("test_"):
                continue
            source = ast.unparse(test)
            source += "".join(body for name, body in helpers.items() if f"{name}(" in source)
            arguments = {argument.arg for argument in test.args.args}
            cited = clauses(ast.get_docstring(test)) or clauses(ast.get_docstring(tree))
            for client in players(source, arguments, needs([*file_marks, *test.decorator_list])):
                for specification in cited:
                    table[specification][client].add(path.stem.removeprefix("test_"))
    for specification, classes in SMACK.items():
        table[specification]["smack"] = {classes}
    return table


def titles():
    """The names of the XEPs, as docs/compliance.md has them."""
    page = (HERE.parents[1] / "docs" / "compliance.md").read_text()
    return TITLES | dict(re.findall(r"^\| \[(\d{4})\]\([^)]*\) \| ([^|]+?) \|", page, re.M))


def table():
    """The text between the marks."""
    names, found = titles(), cells()
    lines = [f"| feature | {' | '.join(COLUMNS)} |", "| --- |" + " --- |" * len(COLUMNS)]
    for specification in sorted(found, key=lambda s: (not s.startswith("RFC"), s)):
        if specification not in names:
            continue
        row = [", ".join(sorted(found[specification].get(client, ()))) for client in COLUMNS]
        label = specification if specification.startswith("RFC") else f"XEP-{specification}"
        lines.append(f"| {label} {names[specification]} | " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"


def updated(text):
    """The README with the table as it is now."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + table() + END + rest.split(END)[1]


if __name__ == "__main__":
    README.write_text(updated(README.read_text()))
    sys.exit(0)

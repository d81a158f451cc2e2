#!/usr/bin/env python3
"""A preprocessor of mdBook (docs/book.toml): links that leave docs/ lead to a source browser.

mdBook copies only what is below docs/. A link from there to the repository's other files would be
broken on the site.
"""

import json
import posixpath
import re
import sys

LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(((?:\.\./)+[^)]*)\)")


def rewritten(content, folder, source):
    """The text of a page in `folder`, which is relative to docs/."""

    def link(match):
        text, target = match.groups()
        path = posixpath.normpath(posixpath.join("docs", folder, target))
        if path.startswith("docs/"):
            return match.group(0)
        return f"[{text}]({source}{path})" if source else text

    return LINK.sub(link, content)


def walk(value, source):
    """Rewrites all chapters below `value`, a part of the book as mdBook writes it."""
    if isinstance(value, list):
        for item in value:
            walk(item, source)
    elif isinstance(value, dict):
        if isinstance(value.get("content"), str) and value.get("path"):
            value["content"] = rewritten(value["content"], posixpath.dirname(value["path"]), source)
        for item in value.values():
            walk(item, source)


def main():
    if sys.argv[1:2] == ["supports"]:
        return
    context, book = json.load(sys.stdin)
    walk(book, context["config"]["preprocessor"]["sources"].get("source", ""))
    json.dump(book, sys.stdout)


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The prose of the tree follows its rules: terms, lengths of sentences and lines, spelling, subjects of commits.

TERMS has phrases that may not be used, each with what to write instead; LONGEST has the most words that a sentence may have.
A phrase of TERMS in any checked file, a longer sentence in a document or a comment, and a line of comment of more than WIDEST columns
are failures.
The pattern of a new row of TERMS must not match right texts.  `seeded()` has texts that test which breaches are found.
tests/prose.words has the right words that codespell takes for misspelt ones.  tests/docs.py checks links.

Runs in any folder and prints TAP.  srcdir: the source; CELLGRAD_TEST_REQUIRE: if it has codespell, a lack of codespell is a failure.
"""
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections import Counter
from typing import Iterator, NamedTuple

SOURCE = os.path.abspath(os.environ.get("srcdir") or os.path.join(os.path.dirname(__file__), ".."))
TOP = ["README.md", "CONTRIBUTING.md", "bootstrap", "configure.ac", "Makefile.am", "pyproject.toml"]
FOLDERS = ["gen", "runtime", "backends", "bindings", "verify", "command", "templates", "examples", "python", "docs", "man", "tests"]
# Files that are not checked: texts by others, of earlier versions or by programs, and the lists of this test.
LEFT_OUT = re.compile(r"tests/(gen/golden|reports|data|old)/|alice\.txt$|\.(svg|json|patch|safetensors|pb|npz)$|tests/prose\.(py|words)$")

# Each row: a phrase as a regular expression, in which a blank stands for any white space; what to write instead.
TERMS = [
    (r"\bha(?:s|ve) in mind\b", "the noun: what is in memory, the state"),
    (r"\bwhose an? [a-z]+ is\b", "which network the reserve belongs to"),
    (r"\bwhose it is\b", "its owner"),
    (r"\bwho will close\b", "takes a reference"),
    (r"\b(?:seq|scan)(?:'s)? room\b", "workspace"),
    (r"\basks? nothing\b", "does not prompt"),
    (r"\banother, another\b", "another seed gives another curve"),
    (r"\bnobody (?:wants|asks)\b", "not requested, not needed"),
    (r"\b(?:is|are|was) told\b", "takes, reads, the argument is"),
    (r"\bwhat (?:it|they|he) ha(?:s|ve)\b", "the noun"),
    (r"[a-z] theirs[.,;:]", "the noun"),
    (r"\bin vain\b", "without use"),
    (r"\blest\b", "so that ... not"),
    (r"\bfor want of\b", "because there is no"),
    (r"\ba stranger\b", "a user, another program"),
    (r"\b(?:never |not |is |are )believed?\b", "not trusted"),
    (r"\bhands? back\b", "returns"),
    (r"\b(?:its|'s|our|their|your|nobody's|cuDNN's) business\b", "who decides or does it"),
]
ANY_TERM = re.compile("|".join(pattern.replace(" ", r"\s+") for pattern, _ in TERMS))
# The most words that a sentence may have, in documents and in comments.
LONGEST = {"document": 45, "comment": 40}
# The most columns that a line of comment may have, with tabs of 4 columns; documents have one sentence on each line.
WIDEST = 140
# The test checks the subjects of the commits after the commit BASE.
BASE = "ad982e62183140118430ef30e9cf4307270ead14"
SUBJECT = re.compile(r"[a-z0-9][\w./+-]*(?:, [\w./+-]+)*: (?:[a-z][\w.'/-]*)(?: .*)?(?<!\.)$")
NOT_IMPERATIVE = re.compile(r": (?:an?|the|what|who|which|one|it|its|all|more|no|now|is|are|how|why|when|where|[a-z]+s(?<!ss)(?<!focus)(?<!alias)|"
                            r"[a-z]+ed(?<!need)(?<!seed)(?<!feed)(?<!embed)(?<!speed)|[a-z]{3,}ing(?<!bring)(?<!string)) ")

STRING = r'"(?:\\.|[^"\\\n])*"' + r"|'(?:\\.|[^'\\\n])*'"
C_TOKENS = re.compile(r"(?P<comment>/\*.*?\*/|(?:^[ \t]*//[^\n]*\n)+|//[^\n]*)|" + STRING, re.S | re.M)
HASH_TOKENS = re.compile(r'(?P<comment>(?:^[ \t]*#(?!!)[^\n]*\n?)+|"""(?:.*?)"""|(?<=[ \t])#+ [^\n]*)|' + STRING, re.S | re.M)
C_FILE = re.compile(r"\.(c|h|cc|cu|cl|in|fn|cell)$")
HASH_FILE = re.compile(r"\.(sh|py|bats|bash|mk|m4|ac|am|toml|supp)$|(^|/)(bootstrap|mutants)$")
LEADER = re.compile(r"^[ \t]*(?:/\*+|\*+/|\*+(?=\s|$)|//+|#+:?(?=\s|$)|\"\"\")?|[ \t]*(?:\*+/|\"\"\")[ \t]*$", re.M)


class Text(NamedTuple):
    """A piece of prose: its file, the line on which it begins, its kind (document, page, comment or string) and its words."""

    path: str
    line: int
    kind: str
    words: str


class Finding(NamedTuple):
    """A breach of a rule in a file: the rule, and the place."""

    rule: str
    where: str


def files() -> list[str]:
    """Returns the files of the source, relative to it, that have prose to look at."""
    lister = subprocess.run(["sh", os.path.join(SOURCE, "tests/source_files.sh")], env={**os.environ, "srcdir": SOURCE},
                            capture_output=True, text=True, check=True)
    return [path for path in lister.stdout.splitlines() if (path in TOP or path.split("/")[0] in FOLDERS)
            and "/." not in path and not LEFT_OUT.search(path)]


def texts(path: str, text: str) -> Iterator[Text]:
    """Yields the prose of a file: documents without blocks, whole manual pages, comments, docstrings and strings of code, and the `why`
    lines of tests/mutants."""
    if path.endswith(".md"):
        text = re.sub(r"^```.*?^```$|<!--.*?-->", lambda block: "\n" * block.group().count("\n"), text, flags=re.M | re.S)
        for number, line in enumerate(text.split("\n"), 1):
            for cell in line.split("|") if line.startswith("|") else [line]:
                yield Text(path, number, "document", re.sub(r"`[^`]*`", "`code`", cell))
    elif re.search(r"\.[1-8](\.in)?$", path):
        yield Text(path, 1, "page", text)
    elif tokens := C_TOKENS if C_FILE.search(path) else HASH_TOKENS if HASH_FILE.search(path) else None:
        for found in tokens.finditer(text):
            kind = "comment" if found["comment"] else "string"
            words = textwrap.dedent(LEADER.sub("", textwrap.dedent(found.group()))) if found["comment"] else found.group()
            yield Text(path, text.count("\n", 0, found.start()) + 1, kind, words)
        if path.endswith("mutants"):
            for found in re.finditer(r"^why +(.*)$", text, re.M):
                yield Text(path, text.count("\n", 0, found.start()) + 1, "comment", found[1])


def sentences(text: Text) -> Iterator[str]:
    """Yields a text's sentences, which end at one of . : ; ! ? or before an empty line, a list or an indented line; an example of
    Python has none."""
    for paragraph in re.split(r"\n[ \t]*\n|\n(?=\t| {2,}|[-*|] )", text.words):
        if not paragraph.lstrip().startswith(">>> "):
            yield from re.split(r"(?<=[.!?:;])[\"')]*\s+", " ".join(paragraph.split()))


def breaches(text: Text) -> Iterator[Finding]:
    """Yields the breaches of TERMS and LONGEST in a text."""
    for pattern, instead in TERMS if ANY_TERM.search(text.words) else ():
        for found in re.finditer(pattern.replace(" ", r"\s+"), text.words):
            line = text.line + text.words.count("\n", 0, found.start())
            phrase = " ".join(found.group().split())
            yield Finding(f"'{phrase}': {instead}", f"{text.path}:{line}")
    if text.kind in LONGEST:
        for sentence in sentences(text):
            if (count := len(re.findall(r"\S*[A-Za-z]\S*", sentence))) > LONGEST[text.kind]:
                yield Finding(f"{text.kind}: more than {LONGEST[text.kind]} words in a sentence",
                              f"{text.path}:{text.line}: {count} words: {sentence[:60]}...")


def wide_lines(path: str, text: str) -> Iterator[Finding]:
    """Yields the too wide lines of a file that are only a comment, none for a document or tests/mutants."""
    if path.endswith((".md", "mutants")):
        return
    for number, line in enumerate(text.split("\n"), 1):
        if len(line.expandtabs(4)) > WIDEST and re.match(r"[ \t]*(/\*|\* |//|# )", line):
            yield Finding(f"a line of comment of more than {WIDEST} columns", f"{path}:{number}: {len(line.expandtabs(4))} columns")


def wrong_subjects(subjects: list[str]) -> list[str]:
    """Returns the subjects of commits that are not `part: imperative` in at most 72 characters."""
    return [subject for subject in subjects if len(subject) > 72 or not SUBJECT.match(subject) or NOT_IMPERATIVE.search(subject + " ")]


def subjects() -> list[str] | str:
    """Returns the subjects of the commits after BASE, or the reason why they cannot be read."""
    def git(*arguments: str) -> str:
        return subprocess.run(["git", "-C", SOURCE, *arguments], capture_output=True, text=True, check=True).stdout

    try:
        if os.path.realpath(git("rev-parse", "--show-toplevel").strip()) != os.path.realpath(SOURCE):
            return "the source is no repository"
        git("merge-base", "--is-ancestor", BASE, "HEAD")
        return git("log", "--no-merges", "--format=%s", f"{BASE}..HEAD").splitlines()
    except FileNotFoundError:
        return "there is no git"
    except subprocess.CalledProcessError:
        return f"there is no repository with commit {BASE[:7]}"


def misspelt(paths: list[str]) -> list[str]:
    """Returns the findings of codespell in files of the source."""
    words = os.path.join(SOURCE, "tests", "prose.words")
    done = subprocess.run(["codespell", "--builtin", "clear", "-I", words, *paths], cwd=SOURCE, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).splitlines()


def seeded() -> list[str]:
    """Returns the breaches in the texts of this test that are not found, and the right texts of this test that are taken for breaches."""
    def rules(path: str, text: str) -> list[str]:
        return [finding.rule for piece in texts(path, text) for finding in breaches(piece)]

    long = "a word " * 25
    expected = [
        ("a.c", "/* What the row\n   has in\n   mind. */", 1), ("a.c", 'f("scan room");', 1), ("a.c", "int theirs;", 0), ("a.sh", "# in vain\n", 1),
        ("a.py", '"""Is told."""', 0), ("a.py", '"""It is told."""', 1), ("a.md", f"{long}.", 1), ("a.md", "It is. " * 30, 0),
        ("a.h", f"/* {long}. */", 1), ("a.h", f"int a; // {long}", 1), ("a.h", f'"{long}"', 0), ("tests/mutants", f"why    {long}\n", 1),
        ("a.h", f"/* {long[:90]}.\n   {long[:90]}. */", 0), ("a.h", f"/* {long[:90]}\n   {long[:90]} */", 1),
    ]
    wrong = [f"{path}: {text!r}: {rules(path, text)}" for path, text, count in expected if len(rules(path, text)) != count]
    bad = ["rnn: adds a row", "rnn: added a row", "rnn add a row", "rnn: add a row.", "rnn: what a row has", "Rnn: add a row", "rnn: " + "add " * 18]
    good = ["runtime/rnn: add a row", "gen, command: compile C texts as C++", "tests: process all rows", "core: need no lock"]
    return wrong + [subject for subject in bad if not wrong_subjects([subject])] + wrong_subjects(good)


def report(number: int, name: str, wrong: list[str]) -> bool:
    """Prints a line of TAP; returns whether it is a failure."""
    for line in wrong:
        print("# " + line)
    print(f"{'not ok' if wrong else 'ok'} {number} - {name}", flush=True)
    return bool(wrong)


def main() -> None:
    paths = files()
    found: list[Finding] = []
    kinds: Counter[str] = Counter()
    for path in paths:
        with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
            content = file.read()
        found += wide_lines(path, content)
        for text in texts(path, content):
            kinds[text.kind] += 1
            found += breaches(text)
    print("1..5")
    red = report(1, "there are documents, comments and strings to look at",
                 [] if kinds["document"] > 2000 and kinds["comment"] > 5000 and kinds["string"] > 10000 else [str(dict(kinds))])
    red |= report(2, "no file has a phrase of TERMS, a long sentence or a wide comment", [f"{finding.where}: {finding.rule}" for finding in found])
    red |= report(3, "seeded phrases, sentences and subjects are found, and nothing else is", seeded())
    if shutil.which("codespell"):
        red |= report(4, "codespell finds no misspelt word", misspelt(paths))
    elif "codespell" in os.environ.get("CELLGRAD_TEST_REQUIRE", "").split(","):
        red |= report(4, "codespell finds no misspelt word", ["CELLGRAD_TEST_REQUIRE has codespell, which is not installed"])
    else:
        print("ok 4 - codespell finds no misspelt word # SKIP there is no codespell")
    log = subjects()
    if isinstance(log, str):
        print(f"ok 5 - subjects of commits are `part: imperative`, at most 72 characters # SKIP {log}")
    else:
        red |= report(5, f"subjects of {len(log)} commits are `part: imperative`, at most 72 characters", wrong_subjects(log))
    sys.exit(red)


if __name__ == "__main__":
    main()

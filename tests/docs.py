#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the fenced blocks of README.md and of the pages of docs/, and the links between documents.

A block that is a program or a command runs, each line of a block that is a message is in the message of the block's command, and every link
between documents leads to a file and a heading.  A block that cannot run here has a marker with the reason; such blocks are counted and
printed.

A fenced block is tried by its language, and by the comments `<!-- KIND: TEXT -->` on the lines above it:

    sh        the whole block runs in a temporary folder of the page, with `cellgrad`, `cc` and `pkg-config` of this build
    c         the block is a program that compiles without a warning and exits with 0; COMMANDs below can run it as ./program
    cell      the block is a cell, which is the file NAME.cell for later blocks; `cellgrad emit --pass gradgrad` must print its kernel
    python    the block is Python code, which is compiled here, and which tests/python/py_docs.py runs

    not run: REASON     the block is not tried
    slow: REASON        the block is only tried by `docs.py slow`
    file: NAME          the block is the file NAME for later blocks
    from: PATH          the block is equal to the file PATH of the source without the line of its licence
    part of: COMMAND    COMMAND prints the lines of the block, one after the other
    needs: PART         the block is not tried if this build lacks PART, a backend or `cache`
    says: COMMAND       COMMAND fails, and its message has the lines of the block, in which ... matches any text

All blocks of a page run in order in one folder, which has the files of `INPUTS` at first.  Runs in the build tree and prints TAP.
srcdir: the source; CELLGRAD: the command; CC, BUILD_CFLAGS, SANITIZE: how the library was compiled; LIBRARY, ARCHIVE: the library.
"""
import json
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile

SOURCE = os.path.abspath(os.environ.get("srcdir", os.path.join(os.path.dirname(__file__), "..")))
COMMAND = os.environ.get("CELLGRAD", os.path.abspath("cellgrad"))
LIBRARY = os.environ.get("LIBRARY", os.path.abspath(".libs/libcellgrad.so"))
ARCHIVE = os.environ.get("ARCHIVE", os.path.abspath(".libs/libcellgrad.a"))
SLOW = sys.argv[1:] == ["slow"]
FOLDERS = ["docs", "gen", "runtime", "backends", "bindings", "verify", "command", "templates", "examples", "python", "tests"]

STEP = {"cs_prev": (2, 3), "h_prev": (2, 3), "w": (5, 12), "b": (12,), "wci": (3,), "wcf": (3,), "wco": (3,)}
NETWORK = {"input": (3, 2, 2), "input_h": (1, 2, 3), "input_c": (1, 2, 3), "params": (84,)}
GRU = {"x": (2, 1), "h_prev": (2, 3), "w_ru": (4, 6), "w_c": (4, 3), "b_ru": (6,), "b_c": (3,)}
# The metadata and the shapes of the tensors of each file that every page's folder has at first.  All tensors are F32, except
# sequence_lengths.
INPUTS = {
    "case": ({"use_peephole": "true"}, {"x": (2, 2), **STEP}),
    "upstream": ({}, {"cs_grad": (2, 3), "h_grad": (2, 3)}),
    "in": ({}, {**GRU, "r": (2, 3), "u": (2, 3), "c": (2, 3), "d_h": (2, 3)}),
    "gru": ({}, GRU),
    "sequence": ({}, {"x": (20, 2, 2), **STEP}),
    "network": ({}, {**NETWORK, "sequence_lengths": (2,), "output_backprop": (3, 2, 3), "output_h_backprop": (1, 2, 3),
                     "output_c_backprop": (1, 2, 3)}),
    "short": ({}, {**NETWORK, "params": (80,), "sequence_lengths": (2,)}),
    "model": ({}, {"rnn.weight_ih_l0": (12, 2), "rnn.weight_hh_l0": (12, 3), "rnn.bias_ih_l0": (12,), "rnn.bias_hh_l0": (12,)}),
    "peephole": ({"rnn_mode": "lstm"}, {"W": (1, 12, 2), "R": (1, 12, 3), "B": (1, 24), "P": (1, 9)}),
    "plain": ({}, {"weight_ih_l0": (3, 2), "weight_hh_l0": (3, 3), "bias_ih_l0": (3,), "bias_hh_l0": (3,)}),
}


def write_tensors(path, metadata, shapes):
    """Writes a safetensors file, in whose tensors no two adjacent numbers are equal."""
    header, data = {"__metadata__": metadata} if metadata else {}, b""
    for name, shape in shapes.items():
        count = 1
        for length in shape:
            count *= length
        is_lengths = name == "sequence_lengths"
        numbers = [3, 1] if is_lengths else [((37 * k + len(data)) % 101 - 50) / 100 for k in range(count)]
        piece = struct.pack(f"<{count}{'i' if is_lengths else 'f'}", *numbers)
        header[name] = {"dtype": "I32" if is_lengths else "F32", "shape": list(shape), "data_offsets": [len(data), len(data) + len(piece)]}
        data += piece
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def read(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
        return file.read()


def documents(folder):
    """Yields the Markdown files of a folder of the source and of those below it."""
    for at, folders, files in os.walk(os.path.join(SOURCE, folder)):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if name.endswith(".md"):
                yield os.path.relpath(os.path.join(at, name), SOURCE)


class Block:
    """A fenced block: its language, its text, its line, and the markers above it as (KIND, TEXT)."""

    def __init__(self, language, line, markers):
        self.language, self.line, self.markers, self.text = language, line, markers, ""

    def marker(self, kind):
        return next((text for of, text in self.markers if of == kind), None)


def blocks(text):
    found, markers, block = [], [], None
    for number, line in enumerate(text.split("\n"), 1):
        if block is not None:
            if line.strip() == "```":
                block = None
            else:
                block.text += line + "\n"
        elif line.startswith("```"):
            block = Block(line[3:].strip(), number, markers)
            found.append(block)
            markers = []
        elif match := re.fullmatch(r"<!-- ([a-z ]+): (.*) -->", line):
            markers.append(match.groups())
        else:
            if markers:
                raise AssertionError(f"line {number}: a marker stands above no block")
            markers = []
    if block is not None:
        raise AssertionError(f"line {block.line}: a block does not end")
    return found


class Page:
    """A document, whose blocks run in a folder of its own."""

    def __init__(self, path, scratch):
        self.path, self.wrong, self.left, self.tried = path, [], [], 0
        self.folder = os.path.join(scratch, path.replace("/", "-"))
        os.mkdir(self.folder)
        for name, (metadata, shapes) in INPUTS.items():
            write_tensors(os.path.join(self.folder, name + ".safetensors"), metadata, shapes)

    def run(self, command):
        return subprocess.run(["sh", "-euc", command], cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=1800 if SLOW else 300, check=False)

    def expect(self, block, command):
        """Runs a command, which must succeed; returns its standard output."""
        done = self.run(command)
        if done.returncode:
            self.wrong.append(f"line {block.line}: {command.strip()}: exit status {done.returncode}: {done.stderr or done.stdout}")
        return done.stdout

    def compile(self, block):
        self.write("program.c", block.text)
        self.expect(block, "cc -std=c11 -Wall -Wextra -pedantic -Werror program.c -o program $(pkg-config --cflags --libs cellgrad) -lm && ./program")

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def cell(self, block):
        name = re.search(r"^cell\s+(\w+)", block.text, re.M).group(1)
        self.write(name + ".cell", block.text)
        self.expect(block, f"cellgrad emit ./{name}.cell --pass gradgrad")

    def python(self, block):
        try:
            compile(block.text, self.path, "exec")
        except SyntaxError as error:
            self.wrong.append(f"line {block.line}: {error}")

    def part_of(self, block, command):
        if "\n" + block.text not in "\n" + self.expect(block, command):
            self.wrong.append(f"line {block.line}: this is not part of what {command} prints")

    def says(self, block, command):
        done = self.run(command)
        if done.returncode == 0:
            self.wrong.append(f"line {block.line}: {command} does not fail")
        for line in block.text.splitlines():
            if not re.search(".*".join(map(re.escape, line.split("..."))), done.stderr):
                self.wrong.append(f"line {block.line}: {command} does not say\n{line}\nbut\n{done.stderr}")

    def same(self, block, path):
        if block.text != re.sub(r"^.*SPDX-License-Identifier.*\n", "", read(path), flags=re.M):
            self.wrong.append(f"line {block.line}: this is not {path}")

    def try_block(self, block):
        markers = {"file": self.write_block, "from": self.same, "part of": self.part_of, "says": self.says}
        languages = {"sh": lambda block: self.expect(block, block.text), "c": self.compile, "cell": self.cell, "python": self.python}
        kinds = ("not run",) if SLOW else ("not run", "slow")
        if (reason := next((text for kind, text in block.markers if kind in kinds), None)) is not None:
            if len(reason.split()) < 2:
                self.wrong.append(f"line {block.line}: why is this not run?")
            self.left.append(f"{self.path}:{block.line}: {reason}")
            return
        if (part := block.marker("needs")) and self.run("cellgrad cache path" if part == "cache" else f"cellgrad info --why {part}").returncode:
            self.left.append(f"{self.path}:{block.line}: this build has no {part}")
            return
        self.tried += 1
        for kind, text in block.markers:
            if kind in ("needs", "slow"):
                continue
            if kind in markers:
                markers[kind](block, text)
            else:
                self.wrong.append(f"line {block.line}: there is no marker '{kind}'")
        if block.language not in (*languages, "text", "json"):
            self.wrong.append(f"line {block.line}: a block of the language '{block.language}'")
        elif block.language in languages and not {"part of", "file"} & {kind for kind, _ in block.markers}:
            languages[block.language](block)

    def write_block(self, block, name):
        self.write(name, block.text)

    def try_all(self):
        try:
            for block in blocks(read(self.path)):
                self.try_block(block)
        except (AssertionError, AttributeError, OSError, subprocess.TimeoutExpired) as error:
            self.wrong.append(str(error))
        return self


def prose(text):
    """Returns the text of a document without its fenced blocks and its comments."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    return re.sub(r"<!--.*?-->", "", text, flags=re.S)


def anchors(text):
    """Returns the anchors of a document's headings, by the rule of GitHub."""
    found = set()
    for heading in re.findall(r"^#+ +(.*?) *$", prose(text), re.M):
        heading = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        k = 0
        while f"{name}-{k}" if k else name in found:
            if k and f"{name}-{k}" not in found:
                break
            k += 1
        found.add(f"{name}-{k}" if k else name)
    return found


def wrong_links(path, text):
    """Yields a line for each link of a document to another document, or within it, that leads to no file or no heading."""
    for target in re.findall(r"\]\(([^) ]+)\)", re.sub(r"`[^`\n]*`", "", prose(text))):
        if re.match(r"[a-z]+:", target):
            continue
        to, _, anchor = target.partition("#")
        file = os.path.normpath(os.path.join(os.path.dirname(path), to)) if to else path
        if not os.path.exists(os.path.join(SOURCE, file)):
            yield f"{path}: {target}: there is no {file}"
        elif anchor and anchor not in anchors(read(file)):
            yield f"{path}: {target}: {file} has no such heading"


def write_tools(folder):
    """Makes commands `cellgrad`, `cc` and `pkg-config` that use this build as if it were installed."""
    flags = ["-I" + os.path.join(SOURCE, "runtime")]
    if os.path.exists(LIBRARY):
        flags += [LIBRARY, "-Wl,-rpath," + os.path.dirname(LIBRARY)]
    else:
        private = "-lm"
        if os.path.exists("runtime/cellgrad.pc"):
            with open("runtime/cellgrad.pc", encoding="utf-8") as file:
                private = re.search(r"^Libs.private:(.*)$", file.read(), re.M).group(1)
        flags += [ARCHIVE, *private.split(), "-lm", "-lpthread"]
    compiler = " ".join([os.environ.get("CC") or shutil.which("cc") or "false", os.environ.get("BUILD_CFLAGS", ""),
                         os.environ.get("SANITIZE", "")])
    for name, line in (("cellgrad", f"exec {shlex.quote(COMMAND)} \"$@\""), ("cc", f"exec {compiler} \"$@\""),
                       ("pkg-config", "echo " + " ".join(map(shlex.quote, flags)))):
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{line}\n")
        os.chmod(path, 0o755)


def main():
    with tempfile.TemporaryDirectory() as scratch:
        tools = os.path.join(scratch, "bin")
        os.mkdir(tools)
        write_tools(tools)
        for name in [name for name in os.environ if name.startswith("CELLGRAD_") and not name.startswith("CELLGRAD_TEST_")]:
            del os.environ[name]
        os.environ.update(PATH=tools + os.pathsep + os.environ["PATH"], CELLGRAD_BACKEND="cpu", HOME=scratch, LC_ALL="C",
                          XDG_CACHE_HOME=scratch)
        pages = ["README.md", *documents("docs")]
        checks = [(path, Page(path, scratch)) for path in pages]
        print(f"1..{len(checks) + 2}", flush=True)
        red, left, tried = 0, [], 0
        for number, (path, page) in enumerate(checks, 1):
            page.try_all()
            red |= report(number, f"the fenced blocks of {path} are right", page.wrong)
            left += page.left
            tried += page.tried
        for line in left:
            print("# not run: " + line)
        print(f"# {tried} blocks were tried, {len(left)} were not")
        red |= report(len(checks) + 1, "at least 100 blocks of the documents are tried", [] if tried >= 100 else [f"only {tried} blocks"])
        texts = {path: read(path) for path in ["README.md", "CONTRIBUTING.md", *(path for folder in FOLDERS for path in documents(folder))]}
        red |= report(len(checks) + 2, "links between documents lead to a file and a heading",
                      [line for path, text in texts.items() for line in wrong_links(path, text)])
    sys.exit(red)


def report(number, name, wrong):
    for line in "\n".join(wrong).splitlines():
        print("# " + line)
    print(f"{'not ok' if wrong else 'ok'} {number} - {name}", flush=True)
    return bool(wrong)


if __name__ == "__main__":
    main()

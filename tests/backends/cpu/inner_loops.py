#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the instructions of the innermost loops of the cpu backend's matrix products, in the disassembly of their objects.  For each
step of k, the loop of a large tile has as many loads as the tile has rows and vectors, no store, and few instructions beside its loads and
multiplications."""
import os
import re
import shutil
import subprocess
import sys

# For each kind of product, the name of its object file and of the function in it that has the loops over k; %s stands for the dtype.
VECTORS = {"panels": ("panels", "block_%s"), "tiles": ("tiles_%s", "multiply_vectors")}
MATRICES = {"panels": ("amx_panels", "multiply"), "tiles": ("tiles_%s", "multiply_tile")}
OBJECTS = {"avx2": VECTORS, "avx512": VECTORS, "avx512bf16": VECTORS, "amxbf16": MATRICES}
DTYPES = {"avx2": ("f32", "f64"), "avx512": ("f32", "f64"), "avx512bf16": ("bf16",), "amxbf16": ("bf16",)}
# TILES: the rows and vectors of each tile that fills the registers of an instruction set; for AMX, its registers of rows and of columns.
WIDE = {"panels": [(12, 2)], "tiles": [(6, 4)]}
TILES = {"avx2": {"panels": [(6, 2)], "tiles": [(3, 4), (4, 3), (6, 2)]}, "avx512": WIDE, "avx512bf16": WIDE,
         "amxbf16": {"panels": [(2, 2)], "tiles": [(1, 4), (2, 2)]}}
# OTHERS: the most instructions, per step of the loop, beside loads, products and prefetches: for pointers, a counter and a jump.
# PREFETCHES: the most prefetches per step of the loop, 0 if not listed.  An AMX product takes 16 cycles, time enough for more instructions,
# and for prefetches of two rows of sums of two vectors each.
OTHERS = {"avx2": 5, "avx512": 5, "avx512bf16": 5, "amxbf16": 8}
PREFETCHES = {"amxbf16": 4}


def disassemble(objdump, path):
    """Disassembles an object file: {function: [(address, mnemonic, operands)]}."""
    functions, at = {}, None
    text = subprocess.run([objdump, "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True).stdout
    for line in text.splitlines():
        name = re.match(r"[0-9a-f]+ <([\w.]+)>:", line)
        instruction = re.match(r"\s+([0-9a-f]+):\s+(?:(?:rep|bnd|notrack)\s+)?(\S+)\s*(.*)", line)
        if name:
            at = functions.setdefault(name.group(1), [])
        elif instruction and at is not None:
            at.append((int(instruction.group(1), 16), instruction.group(2), instruction.group(3)))
    return functions


def innermost_loops(instructions):
    """Yields the instructions of each loop that has no other jump than the one at the loop's end."""
    place = {address: k for k, (address, _, _) in enumerate(instructions)}
    for end, (address, mnemonic, operands) in enumerate(instructions):
        target = re.match(r"([0-9a-f]+)", operands)
        if not mnemonic.startswith("j") or not target or int(target.group(1), 16) not in place or int(target.group(1), 16) >= address:
            continue
        body = instructions[place[int(target.group(1), 16)]:end]
        if not any(m.startswith("j") for _, m, _ in body):
            yield body + [instructions[end]]


def count(loop):
    """Returns the numbers of products, loads, stores, prefetches and other instructions in a loop."""
    products = loads = stores = prefetches = rest = 0
    for _, mnemonic, operands in loop:
        parts = re.sub(r"\([^)]*\)", "()", operands).split(",")
        reads = any("()" in part for part in parts[:-1])
        if re.match(r"vfn?m(add|sub)[0-9]*p[sd]|vdpbf16ps|tdpbf16ps", mnemonic):
            products += 1
            loads += reads
        elif mnemonic in ("tileloadd", "tileloaddt1"):
            loads += 1
        elif mnemonic == "tilestored" or mnemonic.startswith("v") and "()" in parts[-1]:
            stores += 1
        elif mnemonic.startswith("v") and reads:
            loads += 1
        elif mnemonic.startswith("prefetch"):
            prefetches += 1
        else:
            rest += 1
    return products, loads, stores, prefetches, rest


def is_minimal(counted, rows, vectors, isa):
    """Returns whether a loop has the products and loads of a whole number of steps of a tile of rows and vectors, no store, and few other
    instructions."""
    products, loads, stores, prefetches, rest = counted
    steps, left = divmod(products, rows * vectors)
    return (not left and loads == (rows + vectors) * steps and not stores and prefetches <= PREFETCHES.get(isa, 0) * steps
            and rest <= OTHERS[isa] * steps)


def fill(form, dtype):
    return form.replace("%s", dtype)


def path_of(isa, kind, dtype):
    return f"backends/cpu/.libs/lib{isa}_product_la-{fill(OBJECTS[isa][kind][0], dtype)}.o"


def check(objdump, isa, kind, dtype):
    """Yields the complaints about the loops of a function of an object file, for a dtype."""
    tiles, name = TILES[isa][kind], fill(OBJECTS[isa][kind][1], dtype)
    functions = disassemble(objdump, path_of(isa, kind, dtype))
    loops = [c for c in map(count, innermost_loops(functions.get(name, []))) if c[0] >= min(rows * vectors for rows, vectors in tiles)]
    for counted in loops:
        if not any(is_minimal(counted, *tile, isa) for tile in tiles):
            yield "%s %s %s %s: a loop of %d products, %d loads, %d stores, %d prefetches, %d others" % (isa, kind, dtype, name, *counted)
    if len(loops) < len(tiles):
        yield f"{isa} {kind} {dtype} {name}: {len(loops)} loops, expected one of each tile of {tiles} rows and vectors"


def main():
    objdump = shutil.which(os.environ.get("OBJDUMP", "objdump"))
    objects = [(isa, kind, dtype) for isa in TILES for kind in OBJECTS[isa] for dtype in DTYPES[isa]]
    objects = [o for o in objects if os.path.exists(path_of(*o))]
    flags = " ".join(filter(None, map(os.environ.get, ("BUILD_CFLAGS", "SANITIZE"))))
    print("1..1")
    compiler = os.environ.get("CC", "gcc")
    why = ("no objdump" if not objdump else "neither AVX2 nor AVX-512 in this build" if not objects else
           f"counted of gcc's loops, this is {compiler}" if "clang" in compiler else
           f"built with {flags}" if re.search(r"-O[01g]|-fsanitize|--coverage", flags) else None)
    if why:
        print(f"ok 1 - the loops of products # SKIP {why}")
        return 0
    complaints = [line for o in objects for line in check(objdump, *o)]
    for line in complaints:
        print(f"# {line}")
    print(f"{'not ' if complaints else ''}ok 1 - each large tile's loop has one load per row and vector, no store and few other instructions")
    return bool(complaints)


if __name__ == "__main__":
    sys.exit(main())

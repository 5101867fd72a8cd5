#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The C texts of `cellgrad emit --shape scan`, which compute all steps of a sequence, give the bits of the cpu backend's route scan.

The texts of each of CASES are compiled without cellgrad's headers, for the instruction set that the library uses, and called by their
manifest: in one share, and in two shares by two threads.  The output and the gradients of the initial states have the bits of route scan;
the gradients of the gates add up to the gradient of the input, within a bound.  Prints TAP.  Runs in the build's top
folder, and needs tests/gen/scan_net there.  CELLGRAD: the command; CC, CXX: compilers.  A case is skipped if this processor lacks its
instruction set; a case in C++ also if CXX is empty.
"""
import ctypes
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import threading

COMMAND = os.environ.get("CELLGRAD", "./cellgrad")
COMPILERS = {"c": os.environ.get("CC", "cc").split() + ["-std=c11"], "c++": os.environ.get("CXX", "").split() + ["-x", "c++", "-std=c++11"]}
AVX512 = "-mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c".split()
FLAGS = {"baseline": [], "avx2": "-mavx2 -mfma -mf16c".split(), "avx512": AVX512, "avx512bf16": AVX512 + ["-mavx512bf16"],
         "amxbf16": AVX512 + ["-mavx512bf16", "-mamx-tile", "-mamx-bf16"]}
TYPES = {"f32": ctypes.c_float, "f64": ctypes.c_double, "i64": ctypes.c_int64, "f16": ctypes.c_uint16, "bf16": ctypes.c_uint16}
T, B = 5, 7

# The columns: cell; options; number of the options' per-unit weights; dtype; units; instruction set; language; 1 if R is stored as [units,
# columns], 0 if as [columns, units]; 1 if the direction is backward.
CASES = [
    ("lstm", "", 0, "f32", 83, "avx2", "c", 0, 0),
    ("lstm", "peephole", 3, "bf16", 37, "avx512bf16", "c", 1, 1),
    ("lstm", "peephole", 3, "bf16", 37, "amxbf16", "c", 1, 1),
    ("gru_block", "", 0, "bf16", 64, "amxbf16", "c++", 0, 0),
    ("lstm_block", "", 0, "bf16", 40, "baseline", "c", 0, 0),
    ("gru_block", "", 0, "f16", 70, "avx512", "c++", 0, 1),
    ("gru", "", 0, "f64", 21, "baseline", "c++", 1, 0),
    ("rnn_tanh", "", 0, "f16", 9, "avx2", "c", 0, 0),
]
GATES = {"lstm": "ifgo", "lstm_block": "icfo", "gru_block": "ruc", "gru": "rzn", "rnn_tanh": "a"}


def encode(dtype, values):
    """Converts numbers to the bytes of a dtype; for bf16 rounds them to nearest, ties to even."""
    if dtype != "bf16":
        return struct.pack(f"{len(values)}{ {'f32': 'f', 'f64': 'd', 'f16': 'e'}[dtype]}", *values)
    words = struct.unpack(f"{len(values)}I", struct.pack(f"{len(values)}f", *values))
    return struct.pack(f"{len(values)}H", *((w + 0x7fff + (w >> 16 & 1)) >> 16 for w in words))


def decode(dtype, data):
    if dtype != "bf16":
        size = {"f32": 4, "f64": 8, "f16": 2}[dtype]
        return list(struct.unpack(f"{len(data) // size}{ {'f32': 'f', 'f64': 'd', 'f16': 'e'}[dtype]}", data))
    words = struct.unpack(f"{len(data) // 2}H", data)
    return list(struct.unpack(f"{len(words)}f", struct.pack(f"{len(words)}I", *(w << 16 for w in words))))


def draw(dtype, n, size=1.0):
    """Draws n random numbers that the dtype has exactly."""
    return decode(dtype, encode(dtype, [random.uniform(-size, size) for _ in range(n)]))


class Text:
    """A text of a scan that is compiled: its manifest, its struct and its functions."""

    def __init__(self, folder, cell, options, dtype, which, isa, lang):
        # Each library has a name of its own, since the loader does not load a second library of the same name.
        source, manifest, library = (os.path.join(folder, f"{cell}_{which}_{dtype}_{isa}.{e}") for e in ("c", "json", "so"))
        subprocess.run([COMMAND, "emit", cell, *(["--options", options] if options else []), "--shape", "scan", "--pass", which, "--dtype", dtype,
                        "-o", source, "--manifest", manifest], check=True)
        with open(manifest, encoding="utf-8") as file:
            self.about = json.load(file)
        # The texts are compiled with -O2 instead of -O3: from -O2 on gcc fuses the multiplications and additions of products.
        flags = ["-O2" if f == "-O3" else f for f in self.about["flags"]]
        subprocess.run(COMPILERS[lang] + flags + FLAGS[isa] + ["-w", "-shared", "-fPIC", "-o", library, source], check=True)
        if "amx" in isa:
            assert ctypes.CDLL(None).syscall(158, 0x1023, 18) == 0, "arch_prctl: Linux gives no registers of AMX"
        self.library = ctypes.CDLL(library)
        self.fields = self.about["fields"]
        self.members = [(f["name"], TYPES[f["type"]] if f["kind"] in ("count", "stride", "step", "scalar") else ctypes.c_void_p)
                        for f in self.fields]
        self.struct = type("struct", (ctypes.Structure,), {"_fields_": self.members})

    def function(self, name, result=None):
        f = getattr(self.library, self.about["functions"][name])
        f.restype = result
        return f

    def run(self, given, sizes, shares, is_back):
        """Computes a scan by this text.  given: the inputs by the names of the fields, as lists of numbers or None.  Returns the numbers of
        the fields in memory after the call."""
        steps, rows, units = sizes
        a, memory, gap = self.struct(), {}, 3
        for f in self.fields:
            name, kind = f["name"], f["kind"]
            if kind == "count":
                setattr(a, name, {"steps": steps, "rows": rows, "units": units, "shares": shares}.get(name, given.get(name)))
            elif kind == "scalar":
                setattr(a, name, f["default"])
            elif kind in ("sequence", "tensor", "matrix", "per_unit"):
                count = {"sequence": steps * rows, "tensor": rows, "per_unit": 1}.get(kind)
                values = given.get(name)
                if values is None and f["flow"] == "in":
                    assert f["optional"], name
                    continue
                width = units * f.get("blocks", 1)
                if kind == "matrix":
                    width = units if not given["by_input"] else len(values) // units
                    count = len(values) // width
                at = [0.0] * (count * (width + gap))
                for row in range(count if values is not None else 0):
                    at[row * (width + gap):row * (width + gap) + width] = values[row * width:(row + 1) * width]
                memory[name] = (ctypes.create_string_buffer(encode(f["type"], at)), count, width, f)
                address = ctypes.addressof(memory[name][0])
                step = rows * (width + gap)
                # For a backward direction the steps are in memory in the opposite order, so the stride of a step is negative.
                if kind == "sequence":
                    setattr(a, name + "_step", -step if is_back else step)
                    address += (steps - 1) * step * ctypes.sizeof(TYPES[f["type"]]) if is_back else 0
                if kind != "per_unit":
                    setattr(a, name + "_stride", width + gap)
                setattr(a, name, address)
        size = self.function("bytes", ctypes.c_size_t)(ctypes.byref(a))
        guard = b"\xa5" * 64
        work = ctypes.create_string_buffer(guard + guard * (size // 64) + guard, size + 128)
        base = ctypes.addressof(work) + 64
        a.work = base
        self.walk(a, shares)
        assert work.raw[:64] == guard and work.raw[-64:-1] == (guard * (size // 64 + 2)).ljust(size + 128, b"\0")[-64:-1], "beside work"
        return {name: self.read(*m, gap) for name, m in memory.items()}

    def walk(self, a, shares):
        barrier = threading.Barrier(shares)
        meet = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: barrier.wait())
        pack, scan = self.function("pack"), self.function("scan")

        def share_of(k):
            pack(ctypes.byref(a), ctypes.c_int64(k))
            scan(ctypes.byref(a), ctypes.c_int64(k), None if shares == 1 else meet, None)

        threads = [threading.Thread(target=share_of, args=(k,)) for k in range(shares)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()

    @staticmethod
    def read(buffer, count, width, field, gap):
        each = ctypes.sizeof(TYPES[field["type"]])
        data = buffer.raw[:-1]
        rows = [data[row * (width + gap) * each:][:width * each] for row in range(count)]
        assert all(data[row * (width + gap) * each + width * each:][:gap * each] == bytes(gap * each) for row in range(count)), field["name"]
        return decode(field["type"], b"".join(rows))


def turn(values, rows):
    """Reverses the order of the steps."""
    size = len(values) // rows
    return [v for step in reversed(range(rows)) for v in values[step * size:(step + 1) * size]]


def difference(what, dtype, got, want):
    """Returns a complaint with the number of bytes in which two lists of numbers of a dtype differ; None if they do not differ."""
    got, want = encode(dtype, got), encode(dtype, want)
    return None if got == want else f"{what}: other bits, in {sum(a != b for a, b in zip(got, want))} bytes of {len(want)}"


def try_case(folder, case):
    cell, options, n_vectors, dtype, units, isa, lang, by_input, is_back = case
    n, state, all_rows = len(GATES[cell]), cell.startswith("lstm"), T * B
    acc = "f64" if dtype == "f64" else "f32"
    x, h, c = draw(dtype, all_rows * units, 2), draw(dtype, B * units), draw(dtype, B * units)
    R, vectors = [draw(dtype, units * units, 2 / units ** 0.5) for _ in range(n)], [draw(dtype, units) for _ in range(n_vectors)]
    dy, dh, dc = draw(dtype, all_rows * units), draw(dtype, B * units), draw(dtype, B * units)
    parts = [x, h] + [c] * state + R + vectors + [dy, dh] + [dc] * state
    net = subprocess.run(["tests/gen/scan_net", cell, options, dtype, str(T), str(B), str(units)], stdout=subprocess.PIPE,
                         input=b"".join(encode(dtype, p) for p in parts), check=False,
                         env={**os.environ, "CELLGRAD_BACKEND": "cpu", "CELLGRAD_CPU_ISA": isa})
    if net.returncode == 77:
        return "skip"
    assert net.returncode == 0
    answers = decode(dtype, net.stdout)
    cut = [all_rows * units, (1 + state) * B * units]
    output, firsts, d_x = answers[:cut[0]], answers[cut[0]:sum(cut)], answers[sum(cut):]

    order = (lambda v: turn(v, T)) if is_back else list
    texts = {which: Text(folder, cell, options, dtype, which, isa, lang) for which in ("seq_forward", "seq_grad")}
    gates = next(f for f in texts["seq_forward"].fields if f["name"] == "gates")
    n_blocks = gates["blocks"]
    blocks = [x[row * units:(row + 1) * units] for row in range(all_rows)]
    # In the cell gru the recurrent part of the candidate is a separate block, which begins with zeros; other blocks begin with the input.
    added = [[0.0] * units if cell == "gru" and g == 2 else None for g in range(n_blocks)]
    pre = [v for row in blocks for zeros in added for v in (zeros or row)]
    whole = [[v for g in stage for v in R[g]] for stage in ([[0, 1], [2]] if cell == "gru_block" else [list(range(n))])]
    if by_input:
        whole = [[m[column * units + row] for row in range(units) for column in range(len(m) // units)] for m in whole]
    shared = {"by_input": by_input, "h_first": h, "c_first": c, "cs_first": c}
    shared.update({f"R_s{k + 1}": m for k, m in enumerate(whole)} if len(whole) > 1 else {"R": whole[0]})
    shared.update(zip(("p_i", "p_f", "p_o"), vectors))
    for shares in (1, 2):
        forward = texts["seq_forward"].run({**shared, "gates": order(pre)}, (T, B, units), shares, is_back)
        complaint = difference(f"h, {shares} shares", dtype, order(forward["h"]), output)
        if complaint:
            return complaint
        saved = {name: values for name, values in forward.items() if name not in ("gates",)}
        back = texts["seq_grad"].run({**saved, **shared, "dh_out": order(dy), "dh": dh, "dc": dc, "dcs": dc}, (T, B, units), shares, is_back)
        got = back["dh_prev"] + (back.get("dc_prev") or back.get("dcs_prev") or [])
        complaint = difference(f"dh_prev and dc_prev, {shares} shares", dtype, got, firsts)
        if complaint:
            return complaint
        # The gradient of the input is a sum over gates, which is rounded once or more, so it is compared within a bound.
        used = [g for g in range(n_blocks) if not added[g]]
        d_gates = order(back["dgates"])
        for row in range(all_rows):
            for unit in range(units):
                terms = [d_gates[(row * n_blocks + g) * units + unit] for g in used]
                bound = {"f64": 2 ** -50, "f32": 2 ** -21, "f16": 2 ** -9, "bf16": 2 ** -6}[dtype] * (sum(map(abs, terms)) + 1e-7)
                if not abs(sum(terms) - d_x[row * units + unit]) <= bound:
                    return f"dgates, {shares} shares: row {row}, unit {unit}"
    return None


def main():
    random.seed(7)
    print(f"1..{len(CASES)}")
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for k, case in enumerate(CASES):
            what = f"{case[0]} {case[1]}, {case[3]}, {case[4]} units, {case[5]}, {case[6]}"
            missing = case[6] == "c++" and not os.environ.get("CXX")
            complaint = "skip" if missing else try_case(folder, case)
            if complaint == "skip":
                print(f"ok {k + 1} - {what} # SKIP there is no {'C++ compiler' if missing else 'such instruction set'}")
                continue
            if complaint:
                print(f"# {complaint}")
            failed += complaint is not None
            print(f"{'not ok' if complaint else 'ok'} {k + 1} - the bits of the library: {what}")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())

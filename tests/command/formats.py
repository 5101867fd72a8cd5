#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests conversions by `cellgrad convert` between every two formats that can hold a network, against layouts that were written from the
documents of the programs that own the formats.

A network is a dict of matrices and biases by layer, direction and gate.  This test makes each format's tensors from such a dict, by rules
that share nothing with the command's code, so that the right OUT is known to the bit.  OUT is then converted back; the result must equal
IN, unless biases were lost.  All matrices have random numbers, so that transposed or exchanged ones are noticed.  Prints TAP.  CELLGRAD:
the command.
"""
import itertools
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

COMMAND = os.path.abspath(os.environ.get("CELLGRAD", "cellgrad"))
CODES = {"F64": "d", "F32": "f", "F16": "e"}

# ---- files ----


def shape_of(tensor):
    shape = []
    while isinstance(tensor, list):
        shape.append(len(tensor))
        tensor = tensor[0]
    return shape


def flat(tensor):
    return [tensor] if not isinstance(tensor, list) else [x for part in tensor for x in flat(part)]


def packed(tensor, dtype):
    numbers = flat(tensor)
    return struct.pack(f"<{len(numbers)}{CODES[dtype]}", *numbers)


def write(path, tensors, dtype):
    header, data = {}, b""
    for name, tensor in tensors.items():
        raw = packed(tensor, dtype)
        header[name] = {"dtype": dtype, "shape": shape_of(tensor), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def read(path):
    with open(path, "rb") as file:
        raw = file.read()
    length, = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8:8 + length])
    header.pop("__metadata__", None)
    data = raw[8 + length:]
    return {name: (about["dtype"], about["shape"], data[slice(*about["data_offsets"])]) for name, about in header.items()}


# ---- networks ----

GATES = {"lstm": "ifco", "gru": "rzn", "gru_block": "rzn", "rnn_tanh": "h", "rnn_relu": "h"}
# The sizes of each network: L D I U P, and whether it has peepholes
SIZES = [(1, 1, 3, 5, 0, 0), (2, 1, 2, 3, 0, 0), (2, 2, 3, 4, 0, 0), (3, 2, 6, 4, 0, 0), (1, 2, 7, 2, 0, 1), (2, 2, 2, 5, 3, 0), (1, 1, 1, 1, 0, 0)]


def network(cell, L, D, I, U, P, bias, draw):
    """Draws a network: by (layer, direction), W [U, in], R [U, H] and v [U] of each gate, P [P, U], and biases whose sum
    the command can split again in the way that `bias` names, or cannot if `bias` is "two"."""
    def vector(n):
        return [draw.randrange(1, 999) / 1024 * draw.choice((-1, 1)) for _ in range(n)]
    H, net = P or U, {}
    for place in itertools.product(range(L), range(D)):
        part = {"P": [vector(U) for _ in range(P)]}
        for g in GATES[cell]:
            part["W" + g] = [vector(D * H if place[0] else I) for _ in range(U)]
            part["R" + g] = [vector(H) for _ in range(U)]
            part["v" + g] = vector(U)
            b = vector(U)
            part["bw" + g] = {"input": b, "halves": b, "recurrent": [0.0] * U, "none": [0.0] * U}.get(bias) or vector(U)
            part["br" + g] = {"recurrent": b, "halves": b, "input": [0.0] * U, "none": [0.0] * U}.get(bias) or vector(U)
        net[place] = part
    return net


def turned(matrix):
    return [list(row) for row in zip(*matrix)]


def stacked(part, what, gates):
    """Stacks the matrices `what` of these gates, or concatenates their vectors `what`."""
    return [row for g in gates for row in part[what + g]]


def summed(part, gates):
    return [w + r for g in gates for w, r in zip(part["bw" + g], part["br" + g])]


# ---- formats: tensors by name ----


def cellgrad(net, cell, L, D, P, peep):
    gates = GATES[cell]
    matrices = [[stacked(p, "W", gates), stacked(p, "R", gates), p["P"]] for _, p in sorted(net.items())]
    biases = [[stacked(p, "bw", gates), stacked(p, "br", gates)] for _, p in sorted(net.items())]
    vectors = [stacked(p, "v", "ifo") for _, p in sorted(net.items())] if peep else []
    return {"params": flat([matrices, biases, vectors])}


def canonical(net, cell, L, D, P, peep):
    weights, biases = [], []
    for _, p in sorted(net.items()):
        weights += [p["W" + g] for g in GATES[cell]] + [p["R" + g] for g in GATES[cell]]
        weights += ([p["P"]] if P else []) + ([p["v" + g] for g in "ifo"] if peep else [])
        biases += [p["bw" + g] for g in GATES[cell]] + [p["br" + g] for g in GATES[cell]]
    return {**{f"weights_{k}": t for k, t in enumerate(weights)}, **{f"biases_{k}": t for k, t in enumerate(biases)}}


def pytorch(net, cell, L, D, P, peep):
    tensors = {}
    for (l, d), p in net.items():
        end = f"_l{l}" + ("_reverse" if d else "")
        for name, what in (("weight_ih", "W"), ("weight_hh", "R"), ("bias_ih", "bw"), ("bias_hh", "br")):
            tensors[name + end] = stacked(p, what, GATES[cell])
        if P:
            tensors["weight_hr" + end] = p["P"]
    return tensors


def keras(net, cell, L, D, P, peep):
    gates = {"lstm": "ifco", "gru": "zrn", "gru_block": "zrn"}.get(cell, "h")
    stem = {"lstm": "lstm", "gru": "gru", "gru_block": "gru"}.get(cell, "simple_rnn")
    tensors = {}
    for (l, d), p in net.items():
        number = f"_{l}" if l else ""
        group = f"{stem}{number}/{stem}_cell/"
        if D == 2:
            group = f"bidirectional{number}/{('forward', 'backward')[d]}_{group}"
        tensors[group + "kernel"] = turned(stacked(p, "W", gates))
        tensors[group + "recurrent_kernel"] = turned(stacked(p, "R", gates))
        tensors[group + "bias"] = [stacked(p, "bw", gates), stacked(p, "br", gates)] if cell == "gru" else summed(p, gates)
    return tensors


def layered(L, D, l, d):
    return (f"layer_{l}/" if L > 1 else "") + ((("fw/", "bw/")[d]) if D > 1 else "")


def block(net, cell, L, D, P, peep, gates="icfo"):
    tensors = {}
    for (l, d), p in net.items():
        group = layered(L, D, l, d)
        if cell == "gru_block":
            for name, gates in (("ru", "rz"), ("c", "n")):
                tensors[group + "w_" + name] = turned(stacked(p, "W", gates)) + turned(stacked(p, "R", gates))
                tensors[group + "b_" + name] = summed(p, gates)
            continue
        tensors[group + "w"] = turned(stacked(p, "W", gates)) + turned(stacked(p, "R", gates))
        tensors[group + "b"] = summed(p, gates)
        if peep:
            tensors.update({group + "wc" + g: p["v" + g] for g in "ifo"})
    return tensors


def block_v2(*arguments):
    return block(*arguments, gates="ifco")


def checkpoint(net, cell, L, D, P, peep):
    name = {"lstm": "cudnn_compatible_lstm_cell", "gru": "cudnn_compatible_gru_cell"}.get(cell, "basic_rnn_cell")
    tensors = {}
    for (l, d), p in net.items():
        group = (f"rnn/multi_rnn_cell/cell_{l}/{name}/" if D == 1 else
                 f"stack_bidirectional_rnn/cell_{l}/bidirectional_rnn/{('fw', 'bw')[d]}/{name}/")
        gates = {"lstm": "icfo", "gru": "rz"}.get(cell, "h")
        kernel, bias = turned(stacked(p, "W", gates)) + turned(stacked(p, "R", gates)), summed(p, gates)
        if cell == "gru":
            tensors[group + "gates/kernel"], tensors[group + "gates/bias"] = kernel, bias
            for way, what in (("input", ("W", "bw")), ("hidden", ("R", "br"))):
                tensors[f"{group}candidate/{way}_projection/kernel"] = turned(p[what[0] + "n"])
                tensors[f"{group}candidate/{way}_projection/bias"] = p[what[1] + "n"]
        else:
            tensors[group + "kernel"], tensors[group + "bias"] = kernel, bias
    return tensors


def onnx(net, cell, L, D, P, peep):
    gates = {"lstm": "iofc", "gru": "zrn", "gru_block": "zrn"}.get(cell, "h")
    tensors = {}
    for l in range(L):
        group, both = layered(L, 1, l, 0), [net[l, d] for d in range(D)]
        tensors[group + "W"] = [stacked(p, "W", gates) for p in both]
        tensors[group + "R"] = [stacked(p, "R", gates) for p in both]
        tensors[group + "B"] = [stacked(p, "bw", gates) + stacked(p, "br", gates) for p in both]
        if peep:
            tensors[group + "P"] = [stacked(p, "v", "iof") for p in both]
    return tensors


ANY = (cellgrad, canonical)
HOLDS = {"lstm": ANY + (pytorch, keras, block, block_v2, checkpoint, onnx), "gru": ANY + (pytorch, keras, checkpoint, onnx),
         "gru_block": ANY + (keras, block, onnx), "rnn_tanh": ANY + (pytorch, keras, checkpoint, onnx),
         "rnn_relu": ANY + (pytorch, keras, checkpoint, onnx)}
PEEPHOLES, PROJECTIONS = ANY + (block, block_v2, onnx), ANY + (pytorch,)
# sums: does a format sum the two biases of a gate?  Format checkpoint sums, in a GRU, the two biases of some gates only.
def sums(form, cell):
    return form in (block, block_v2, checkpoint) or form is keras and cell != "gru"


# ---- conversions ----


def convert(*words):
    done = subprocess.run([COMMAND, "convert", *words], capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else None


def words_of(form, cell, L, D, I, U, P, peep, bias):
    """Returns the attributes of a network that the tensors of a format do not show, as arguments of the command."""
    words = ["cell=gru_block" if cell == "gru_block" else f"rnn_mode={cell}"]
    if form in ANY:
        words += [f"num_layers={L}", f"num_units={U}", f"input_size={I}", f"direction={('uni', 'bi')[D - 1]}directional",
                  f"num_proj={P}"] + (["options=peephole"] if peep else [])
    if form is block and cell == "lstm":
        words += ["forget_bias=0", "cell_clip=0"]
    return words + ([f"bias={bias}"] if sums(form, cell) and bias != "two" else [])


def compare(path, want, dtype):
    got = read(path)
    if set(got) != set(want):
        return f"holds {sorted(set(got) ^ set(want))}, or lacks it"
    for name, tensor in want.items():
        if got[name] != (dtype, shape_of(tensor), packed(tensor, dtype)):
            return f"{name}: {got[name][:2]}, expected {dtype} {shape_of(tensor)}, or other numbers"
    return None


def pair(a, b, files, cell, sizes, bias, dtype):
    """Converts from one format to another and back; returns a complaint, or None."""
    words = words_of(a, cell, *sizes, bias)
    lost = bias == "two" and sums(b, cell) and not sums(a, cell)
    first = ["--from", a.__name__, "--to", b.__name__, a.__name__, "out", *words]
    if lost:
        why = convert(*first)
        if not why or "could not be taken apart again" not in why:
            return f"two biases became one, and it was not refused: {why}"
        first.append("--force")
    why = convert(*first)
    if why:
        return why
    # OUT is not compared if IN has the sum of two biases and OUT has two biases: the command splits the sum, and the two parts differ from
    # the biases of the network.
    if not (bias == "two" and sums(a, cell) and not sums(b, cell)):
        why = compare("out", files[b], dtype)
        if why:
            return f"OUT {why}"
    why = convert("--from", b.__name__, "--to", a.__name__, "out", "back")
    if why:
        return f"back: {why}"
    if not lost:
        why = compare("back", files[a], dtype)
        if why:
            return f"back {why}"
    return None


def main():
    seed = 20240229
    draw = random.Random(seed)
    print(f"# seed {seed}")
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for cell in GATES:
            failures, pairs = [], 0
            for k, (sizes, bias) in enumerate(itertools.product(SIZES, ("recurrent", "halves", "input", "two"))):
                L, D, I, U, P, peep = sizes
                if (P or peep) and cell != "lstm":
                    continue
                if cell not in ("lstm", "gru") and (k + k // 4) % 4:     # for these cells: one `bias` for each of the sizes
                    continue
                dtype = tuple(CODES)[k % len(CODES)]
                net = network(cell, L, D, I, U, P, bias, draw)
                forms = [f for f in HOLDS[cell] if (not P or f in PROJECTIONS) and (not peep or f in PEEPHOLES)]
                files = {f: f(net, cell, L, D, P, peep) for f in forms}
                for f in forms:
                    write(f.__name__, files[f], dtype)
                for a, b in itertools.product(forms, forms):
                    why = pair(a, b, files, cell, sizes, bias, dtype)
                    pairs += 1
                    if why:
                        failures.append(f"{a.__name__} to {b.__name__}, {cell} L D I U P peepholes {sizes} bias {bias} {dtype}: {why}")
            count += 1
            for line in failures[:5]:
                print("#", line)
            print(f"{'not ok' if failures else 'ok'} {count} - {cell}: {pairs} pairs of formats, there and back")
    print(f"1..{count}")


if __name__ == "__main__":
    sys.exit(main())

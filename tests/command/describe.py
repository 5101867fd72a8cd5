#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that the output of `cellgrad info OP` is true, and suffices to call the op.

Every op is tried under TensorFlow's name and the library's, with each set of at most two of the attributes on which needs and shapes
depend.  The test writes its files by the JSON alone.  The op must run on a file with only the tensors that the JSON calls needed, and give
the described outputs in the described shapes.  With all inputs but opaque ones, needed or not, the op must run, too.  If a needed tensor
is left out, the op must be refused with that tensor's name.  The test leaves out five needed tensors, one at a time, if more than 20 are
needed; else each needed tensor, one at a time, with sets of at most one attribute.  Wrong words and numbers for attributes
must be refused.  The text of `cellgrad info OP` must have all names of the JSON, in at most 80 columns.  Prints TAP.
CELLGRAD: the command.
"""
import itertools
import json
import os
import struct
import subprocess
import sys
import tempfile

COMMAND = os.path.abspath(os.environ.get("CELLGRAD", "cellgrad"))
ENVIRONMENT = dict(os.environ, CELLGRAD_BACKEND="cpu")
SIZES = {"T": 3, "B": 2, "I": 4, "U": 5, "L": 2, "one": 1}
GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
BYTES = {"F32": 4, "I32": 4, "I64": 8, "I8": 1}


def command(*words):
    return subprocess.run([COMMAND, *words], capture_output=True, text=True, env=ENVIRONMENT, check=False)


def about(op):
    done = command("info", op, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def write(path, tensors):
    header, size = {}, 0
    data = b""
    for name, (dtype, shape) in tensors.items():
        count = 1
        for n in shape:
            count *= n
        one = struct.pack("<f", 0.5) if dtype == "F32" else (1).to_bytes(BYTES[dtype], "little")
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [size, size + count * BYTES[dtype]]}
        size += count * BYTES[dtype]
        data += one * count
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


# ---- sizes ----

def sizes_of(op, given):
    """Returns the value of every symbol in shapes, such as B, for the attributes that are given."""
    mode, directions = given.get("rnn_mode", "lstm"), 2 if given.get("direction") == "bidirectional" else 1
    sizes = dict(SIZES, H=SIZES["U"], C=SIZES["U"] if mode == "lstm" else 0)
    sizes.update({"in": SIZES["I"], "L*D": SIZES["L"] * directions, "D*H": directions * sizes["H"]})
    if "params" in op["sizes"]:
        done = command("run", "rnn_params_size", f"num_layers={SIZES['L']}", f"num_units={SIZES['U']}", f"input_size={SIZES['I']}",
                       f"rnn_mode={mode}", f"direction={given.get('direction', 'unidirectional')}", "--json")
        sizes["params"] = int(json.loads(done.stdout)["mean"])
    return sizes


def length(expression, sizes):
    total = 0
    for term in expression.split("+"):
        factor, star, symbol = term.partition("*")
        if star and factor.isdigit():
            total += int(factor) * sizes[symbol]
        else:
            total += sizes[term]
    return total


def shape(port, sizes, turned):
    key = "shape_batch_major" if turned and "shape_batch_major" in port else "shape"
    return [length(e, sizes) for e in port[key]]


def expand(port, sizes, given):
    """Returns the tensors of an input or output: one, or for a list all of its tensors, in the order that the description gives."""
    if not port["list"]:
        return {port["name"]: port}
    gates, directions, tensors = GATES[given.get("rnn_mode", "lstm")], 2 if given.get("direction") == "bidirectional" else 1, []
    for layer in range(SIZES["L"]):
        for _ in range(directions):
            if port["name"] == "biases":
                tensors += [["U"]] * 2 * gates
            else:
                tensors += [["U", "in" if layer == 0 else "D*H"]] * gates + [["U", "H"]] * gates
    return {f"{port['name']}_{k}": dict(port, name=f"{port['name']}_{k}", shape=t) for k, t in enumerate(tensors)}


# ---- attributes ----

def required(op, given):
    """Returns values for the attributes that an op requires, since they have no default."""
    counts = SIZES["L"] * (2 if given.get("direction") == "bidirectional" else 1) * 2 * GATES[given.get("rnn_mode", "lstm")]
    values = {"seq_len_max": SIZES["T"], "use_peephole": "false", "num_layers": SIZES["L"], "num_units": SIZES["U"],
              "input_size": SIZES["I"], "num_params": counts, "num_params_weights": counts, "num_params_biases": counts}
    return {a["name"]: values[a["name"]] for a in op["attributes"] if a["required"]}


def variants(op):
    """Yields dicts of values for none, one or two of the attributes on which a shape, or the need for an input, depends."""
    choices = {"use_peephole": "true", "time_major": "false", "rnn_mode": "gru", "direction": "bidirectional"}
    there = [a["name"] for a in op["attributes"] if a["name"] in choices]
    for n in range(3):
        for names in itertools.combinations(there, n):
            yield {name: choices[name] for name in names}


def defaults(op, given):
    values = {a["name"]: {True: "true", False: "false"}.get(a["default"], a["default"]) for a in op["attributes"]}
    values.update({k: str(v) for k, v in given.items()})
    return values


def is_needed(port, values):
    if port["needed"] in ("always", "no"):
        return port["needed"] == "always"
    assert port["needed"].startswith("if ")
    return any(values[name] == value for name, value in (c.split("=") for c in port["needed"][3:].replace(" or ", ", ").split(", ")))


# ---- one op ----

class Wrong(Exception):
    pass


def must(truth, words):
    if not truth:
        raise Wrong(words)


def run(name, given, tensors, path):
    write(path, tensors)
    return command("run", name, *(f"{k}={v}" for k, v in given.items()), path, "--json")


def check(name, op, given, path, drop):
    values = {**required(op, given), **given}
    # num_layers and num_units are given if the op has these attributes: it may be that no tensor's shape determines them.
    if "num_layers" in [a["name"] for a in op["attributes"]]:
        values.update(num_layers=SIZES["L"], num_units=SIZES["U"])
    sizes, turned = sizes_of(op, given), given.get("time_major") == "false"
    settings = defaults(op, values)
    inputs, needed = {}, []
    for port in op["inputs"]:
        for tensor in expand(port, sizes, given).values():
            if tensor["opaque"]:
                must(tensor["needed"] == "no", f"{tensor['name']} is needed, and only a forward makes it")
                continue
            dtype = "F32" if tensor["type"] == "float" else tensor["type"]
            inputs[tensor["name"]] = (dtype, shape(tensor, sizes, turned))
            if is_needed(port, settings):
                needed.append(tensor["name"])
    done = run(name, values, {n: inputs[n] for n in needed}, path)
    must(done.returncode == 0, f"{given}: with what is needed alone: {done.stderr}")
    got = {line["name"]: line["shape"] for line in map(json.loads, done.stdout.splitlines())}
    want = {}
    for port in op["outputs"]:
        for tensor in expand(port, sizes, given).values():
            if "state" in tensor:
                continue
            want[tensor["name"]] = None if tensor["opaque"] else shape(tensor, sizes, turned)
    must(set(got) == set(want), f"{given}: outputs {sorted(got)}, said were {sorted(want)}")
    for output, extent in want.items():
        must(extent is None or got[output] == extent, f"{given}: {output} is {got[output]}, said was {extent}")
    done = run(name, values, inputs, path)
    must(done.returncode == 0, f"{given}: with all inputs: {done.stderr}")
    for missing in needed[:4] + needed[-1:] if len(needed) > 20 else needed if drop else []:
        done = run(name, values, {n: inputs[n] for n in needed if n != missing}, path)
        must(done.returncode == 2 and missing in json.loads(done.stderr)["error"], f"{given}: without {missing}: {done.stderr}")


def check_attributes(name, op, path):
    """Checks that `cellgrad run` refuses a wrong value of each attribute but texts, and the integers just below and above a described range."""
    for a in op["attributes"]:
        bad = {"boolean": ["2"], "integer": ["x"], "number": ["x"], "word": ["nothing"], "text": []}[a["type"]]
        if a["type"] == "integer" and isinstance(a["least"], int):
            bad.append(str(a["least"] - 1))
        if a["type"] == "integer" and isinstance(a["most"], int):
            bad.append(str(a["most"] + 1))
        for value in bad:
            done = run(name, {**required(op, {}), a["name"]: value}, {"x": ("F32", [1])}, path)
            # For a wrong number the message may be about another attribute, since sizes are checked before ranges.
            named = a["name"] in json.loads(done.stderr)["error"]
            must(done.returncode == 2 and (named or value.lstrip("-").isdigit()), f"{a['name']}={value}: {done.stderr}")


def check_text(name, op):
    shown, helped = command("info", name), command("run", name, "--help")
    must(shown.returncode == 0 and shown.stdout == helped.stdout, "run --help is not info's")
    must(max(map(len, shown.stdout.splitlines())) <= 80, "lines of more than 80 letters")
    words = shown.stdout.replace(",", " ").split()
    for part in ("inputs", "outputs", "attributes"):
        for thing in op[part]:
            of = thing["name"] + "_0" if thing.get("list") else thing["name"]
            must(of in words, f"the text has no {of}")
    for symbol in op["sizes"]:
        must(symbol in words, f"the text has no {symbol}")


def check_pair(name, op, ops):
    """Checks that the origins of a gradient op's inputs agree with the description of its forward op."""
    if not op["gradient_of"]:
        return
    forward = ops[op["gradient_of"]]
    must(forward["gradient"] == name, f"{op['gradient_of']} has another gradient, {forward['gradient']}")
    taken = {o["name"] for o in forward["outputs"] if o["gradient_takes_it"]}
    must(taken == {i["name"] for i in op["inputs"] if i["of"] == "forward output"}, "outputs that it takes")
    inputs = {i["name"] for i in forward["inputs"]}
    must({i["name"] for i in op["inputs"] if i["of"] == "forward input"} <= inputs, "inputs that both take")
    above = {i["gradient_by"] for i in op["inputs"] if i["of"] == "gradient"}
    must(above and above <= {o["name"] for o in forward["outputs"]}, "gradients from above are by outputs")


def main():
    listed = json.loads(command("info", "--json").stdout)["ops"]
    ops = {name: about(name) for name in [*listed, *listed.values()]}
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "in.safetensors")
        for n, (name, op) in enumerate(ops.items(), 1):
            try:
                check_text(name, op)
                check_pair(name, op, ops)
                check_attributes(name, op, path)
                for given in variants(op):
                    check(name, op, given, path, len(given) < 2)
                print(f"ok {n} - {name}")
            except Wrong as wrong:
                failed = 1
                print(f"# {wrong}\nnot ok {n} - {name}")
            sys.stdout.flush()
    print(f"1..{len(ops)}")
    return failed


if __name__ == "__main__":
    sys.exit(main())

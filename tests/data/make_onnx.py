#!/usr/bin/env python3
"""Makes the test data of ONNX's weights: weights under the names of the operators' inputs, with answers of ONNX Runtime and ONNX's tests.

Runs the operators LSTM, GRU and RNN in ONNX Runtime, in float32, its only dtype for them; and copies ONNX's own tests of the
three operators.  Neither source has gradients.  Then compares every file with the equations of ONNX's specification, which are
written again in NumPy.  With --check the script only compares existing files, and needs neither onnx nor onnxruntime.  README.md
says what each file and case is for.
"""
import sys
import warnings

import numpy as np

sys.dont_write_bytecode = True          # no __pycache__ is written, since this folder goes whole into the tarball
from network_files import check_folder, check_given, check_run, drawn, load, main, path_of, run_shapes, save, sigmoid
from tensor_files import require

# mode: operator, number of gates, attributes of the operator, the library's cell
MODES = {
    "lstm":       ("LSTM", 4, {},                              "lstm"),
    "gru":        ("GRU",  3, dict(linear_before_reset=1),     "gru"),
    "gru_before": ("GRU",  3, dict(linear_before_reset=0),     "gru_block"),
    "tanh":       ("RNN",  1, {},                              "rnn_tanh"),
    "relu":       ("RNN",  1, dict(activations=["Relu"]),      "rnn_relu"),
}
PARTS = ("weights", "run")
OPSET = 22

CASES = [
    # mode         name        T  B  I  U  L  D  lengths        what else
    ("lstm",       "plain",    4, 3, 2, 5, 1, 1, None,          ""),
    ("lstm",       "deep",     5, 4, 3, 4, 2, 2, [3, 5, 1, 4],  ""),
    ("lstm",       "peephole", 4, 3, 2, 5, 2, 2, [2, 4, 3],     "P"),
    ("lstm",       "nobias",   3, 2, 3, 2, 1, 2, None,          "nobias"),
    ("gru",        "plain",    4, 3, 2, 5, 1, 1, None,          ""),
    ("gru",        "deep",     5, 4, 3, 4, 2, 2, [3, 5, 1, 4],  ""),
    ("gru_before", "plain",    4, 3, 2, 5, 1, 1, None,          ""),
    ("gru_before", "deep",     5, 4, 3, 4, 2, 2, [3, 5, 1, 4],  ""),
    ("tanh",       "deep",     4, 3, 2, 5, 2, 2, [2, 4, 3],     ""),
    ("relu",       "plain",    4, 3, 3, 5, 1, 2, None,          ""),
]
# The names of ONNX's own tests that are copied, by mode.  ONNX's three tests of direction reverse are left out.
NODES = {
    "lstm":       "lstm_defaults lstm_with_initial_bias lstm_with_peepholes lstm_batchwise lstm_bidirectional".split(),
    "gru_before": "gru_defaults gru_with_initial_bias gru_seq_length gru_batchwise gru_bidirectional".split(),
    "tanh":       "simple_rnn_defaults simple_rnn_with_initial_bias rnn_seq_length simple_rnn_batchwise "
                  "simple_rnn_bidirectional".split(),
}


def groups_of(L):
    """Returns the prefixes of the nodes' weights, one for each layer; the prefix is empty if there is one node."""
    return [f"layer_{layer}/" for layer in range(L)] if L > 1 else [""]


def weight_shapes(mode, I, U, L, D, what):
    G, shapes = MODES[mode][1], {}
    for layer, group in enumerate(groups_of(L)):
        shapes[f"{group}W"] = (D, G * U, D * U if layer else I)
        shapes[f"{group}R"] = (D, G * U, U)
        if what != "nobias":
            shapes[f"{group}B"] = (D, 2 * G * U)
        if what == "P":
            shapes[f"{group}P"] = (D, 3 * U)
    return shapes


def said_of(mode):
    """Returns the metadata of a node's weights: what its attributes determine and its inputs do not show."""
    operator, _, options, cell = MODES[mode]
    if operator == "RNN":
        return dict(rnn_mode=cell)
    return {name: str(value) for name, value in options.items()}


def run_metadata(mode, D, peephole, batch_major=False):
    metadata = dict(cell=MODES[mode][3], direction="bidirectional" if D == 2 else "unidirectional")
    if peephole:
        metadata["options"] = "peephole"
    if batch_major:
        metadata["time_major"] = "false"
    return metadata


# ---- ONNX Runtime's answers ----

def model_of(onnx, mode, weights, U, L, D):
    """Returns a model with a recurrent node for each layer; between two of these nodes, [T, D, B, U] becomes [T, B, D*U]."""
    make, (operator, _, options, _) = onnx.helper, MODES[mode]
    held = ["input_h", "input_c"] if mode == "lstm" else ["input_h"]
    nodes, x = [], "input"
    constants = [onnx.numpy_helper.from_array(tensor, name) for name, tensor in weights.items()]
    constants.append(onnx.numpy_helper.from_array(np.array([0, 0, -1], "int64"), "rows"))
    options = {name: value * D if name == "activations" else value for name, value in options.items()}
    for layer, group in enumerate(groups_of(L)):
        given = [f"{group}{name}" if f"{group}{name}" in weights else "" for name in "WRB"]
        inputs = [x, *given, "sequence_lengths", *(f"{name}_{layer}" for name in held)]
        if f"{group}P" in weights:
            inputs.append(f"{group}P")
        outputs = [f"y_{layer}"] + [f"{name.replace('input', 'output')}_{layer}" for name in held]
        nodes.append(make.make_node(operator, inputs, outputs, hidden_size=U, direction="bidirectional" if D == 2 else "forward",
                                    **options))
        nodes.append(make.make_node("Transpose", [f"y_{layer}"], [f"turned_{layer}"], perm=[0, 2, 1, 3]))
        x = f"x_{layer}"
        nodes.append(make.make_node("Reshape", [f"turned_{layer}", "rows"], [x]))
    names = ["input", "sequence_lengths"] + [f"{name}_{layer}" for layer in range(L) for name in held]
    values = [make.make_tensor_value_info(name, onnx.TensorProto.INT32 if name == "sequence_lengths" else onnx.TensorProto.FLOAT,
                                          None) for name in names]
    answers = [x] + [f"{name.replace('input', 'output')}_{layer}" for name in held for layer in range(L)]
    answers = [make.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in answers]
    graph = make.make_graph(nodes, "network", values, answers, constants)
    return make.make_model(graph, opset_imports=[make.make_opsetid("", OPSET)], ir_version=10)


def make_case(onnx, runtime, folder, mode, case, T, B, I, U, L, D, lengths, what, made_by):
    name = f"onnx-{mode}-{case}"
    weights = drawn(f"{name}-weights", weight_shapes(mode, I, U, L, D, what), 0.5, "float32")
    given = drawn(name, run_shapes(T, B, I, U, U, L, D, mode == "lstm"), 1, "float32")
    run = {key: tensor for key, tensor in given.items() if not key.endswith("_backprop")}
    run["sequence_lengths"] = np.array(lengths or [T] * B, "int32")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(model_of(onnx, mode, weights, U, L, D).SerializeToString(), options,
                                       providers=["CPUExecutionProvider"])
    feed = dict(input=run["input"], sequence_lengths=run["sequence_lengths"])
    for state in {"input_h", "input_c"} & set(run):
        feed.update((f"{state}_{layer}", run[state][layer * D:layer * D + D]) for layer in range(L))
    output, *last = session.run(None, feed)
    run["output"] = output
    run["output_h"] = np.concatenate(last[:L])
    if mode == "lstm":
        run["output_c"] = np.concatenate(last[L:])
    save(folder, name, dict(weights=weights, run=run), said_of(mode) | dict(made_by=made_by),
         run_metadata(mode, D, what == "P") | dict(made_by=made_by))


# ---- ONNX's own tests ----

def make_node(onnx, folder, mode, test, made_by):
    node = test.model.graph.node[0]
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    arguments = dict(zip([name for name in node.input if name], test.data_sets[0][0]))
    answers = dict(zip([name for name in node.output if name], test.data_sets[0][1]))
    batch_major = attributes.get("layout", 0) == 1
    weights = {name: arguments[name] for name in "WRBP" if name in arguments}
    x = arguments["X"]
    T, B = (x.shape[1], x.shape[0]) if batch_major else x.shape[:2]
    D, U = weights["R"].shape[0], attributes["hidden_size"]
    require(MODES[mode][0] == node.op_type and attributes.get("linear_before_reset", 0) == 0, f"{test.name} is another mode's")
    # If the test has no initial states, they are zeros; if it has no lengths, each row has T steps.
    zero = np.zeros((B, D, U) if batch_major else (D, B, U), "float32")
    run = dict(input=x, input_h=arguments.get("initial_h", zero),
               sequence_lengths=arguments.get("sequence_lens", np.full(B, T)).astype("int32"))
    if mode == "lstm":
        run["input_c"] = arguments.get("initial_c", zero)
    for theirs, ours in dict(Y_h="output_h", Y_c="output_c").items():
        if theirs in answers:
            run[ours] = answers[theirs]
    if "Y" in answers:
        y = answers["Y"]
        run["output"] = (y if batch_major else y.transpose(0, 2, 1, 3)).reshape(*x.shape[:2], D * U)
    name = f"onnx-node-{test.name.removeprefix('test_')}"
    save(folder, name, dict(weights=weights, run=run), said_of(mode) | dict(made_by=made_by),
         run_metadata(mode, D, "P" in weights, batch_major) | dict(made_by=made_by))


def make(folder):
    import onnx
    import onnxruntime
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")     # ignores warnings of the tests of other operators
        from onnx.backend.test.case.node import collect_testcases
        tests = {test.name.removeprefix("test_"): test for test in collect_testcases(None)}
    for row in CASES:
        make_case(onnx, onnxruntime, folder, *row, f"onnxruntime {onnxruntime.__version__}")
    for mode, names in NODES.items():
        for name in names:
            make_node(onnx, folder, mode, tests[name], f"onnx {onnx.__version__}")


# ---- ONNX's equations in NumPy ----

def cell_of(mode, w, group, d):
    """Makes a function for a step of a layer and direction.  The gates of an LSTM are in the order i o f c, those of a GRU z r h."""
    W, R = w[f"{group}W"][d].T, w[f"{group}R"][d].T
    G, U = MODES[mode][1], len(R)
    bias, recurrent_bias = np.split(w[f"{group}B"][d] if f"{group}B" in w else np.zeros(2 * G * U), 2)
    p_i, p_o, p_f = np.split(w[f"{group}P"][d] if f"{group}P" in w else np.zeros(3 * U), 3)

    def lstm(x, h, c):
        i, o, f, g = np.split(x @ W + h @ R + bias + recurrent_bias, 4, axis=1)
        c_new = sigmoid(f + p_f * c) * c + sigmoid(i + p_i * c) * np.tanh(g)
        return sigmoid(o + p_o * c_new) * np.tanh(c_new), c_new

    def gru(x, h, _):
        a_z, a_r, a_h = np.split(x @ W + bias, 3, axis=1)
        b_z, b_r, b_h = np.split(recurrent_bias, 3)
        r_z, r_r, r_h = np.split(R, 3, axis=1)
        z, r = sigmoid(a_z + h @ r_z + b_z), sigmoid(a_r + h @ r_r + b_r)
        new = r * (h @ r_h + b_h) if mode == "gru" else (r * h) @ r_h + b_h
        return (1 - z) * np.tanh(a_h + new) + z * h, None

    def rnn(x, h, _):
        a = x @ W + h @ R + bias + recurrent_bias
        return np.tanh(a) if mode == "tanh" else np.maximum(a, 0), None

    return dict(lstm=lstm, gru=gru, gru_before=gru).get(mode, rnn)


def check_files(folder, name, mode, L, D, peephole, batch_major=False):
    weights, run = load(folder, name, PARTS, run_metadata(mode, D, peephole, batch_major))
    if batch_major:
        run = {key: tensor.swapaxes(0, 1) if tensor.ndim == 3 else tensor for key, tensor in run.items()}
    check_run(name, lambda w: [cell_of(mode, w, group, d) for group in groups_of(L) for d in range(D)], D, weights, None, run)
    return weights, run


def check_case(folder, mode, case, T, B, I, U, L, D, lengths, what):
    name = f"onnx-{mode}-{case}"
    weights, run = check_files(folder, name, mode, L, D, what == "P")
    require({key: tensor.shape for key, tensor in weights.items()} == weight_shapes(mode, I, U, L, D, what),
            f"{name}: weights of another case")
    require(run["input"].shape == (T, B, I) and list(run["sequence_lengths"]) == (lengths or [T] * B),
            f"{name}: a run of another case")
    require({"output", "output_h"} <= set(run), f"{name}: lacks answers")
    check_given(name, weights, run)
    return [path_of(folder, name, part) for part in PARTS]


def check_node(folder, mode, test):
    name = f"onnx-node-{test}"
    check_files(folder, name, mode, 1, 2 if "bidirectional" in test else 1, "peephole" in test, "batchwise" in test)
    return [path_of(folder, name, part) for part in PARTS]


def check(folder):
    paths = [path for row in CASES for path in check_case(folder, *row)]
    paths += [path for mode, tests in NODES.items() for test in tests for path in check_node(folder, mode, test)]
    check_folder(folder, ["onnx-*.safetensors"], paths)


if __name__ == "__main__":
    main("ONNX", make, check)

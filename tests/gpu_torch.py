#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Networks of this library beside those of PyTorch on the same GPU, through the library's C interface.

Without --graph: prints a table in Markdown of the times of a forward pass, and of a forward and a backward pass, by PyTorch and by
cellgrad's routes cudnn and composed, and of the errors against float64 on the CPU.  With --graph: captures a forward and a backward pass
in a CUDA graph of PyTorch, and replays it 100 times; every replay must have the bits of a call outside of a graph.

Inputs and weights are exact in f32, f16 and bf16, so that one right answer in float64 serves all dtypes.  exit 0: measured; 1: an answer is
wrong, a call failed, or a replay had other bits; 77: there is nothing to measure on this machine, for the reason in the last line.
Needs PyTorch; with --backend cpu or opencl, to try the script, a PyTorch without CUDA suffices.
"""
import argparse
import ctypes
import json
import sys
import time

import torch

CELLS = {"lstm": (torch.nn.LSTM, {}), "gru": (torch.nn.GRU, {}), "rnn_tanh": (torch.nn.RNN, {"nonlinearity": "tanh"})}
DTYPES = {"f32": (0, torch.float32), "f16": (2, torch.float16), "bf16": (3, torch.bfloat16)}
# The sizes of a network: T, B, H, layers; the input is as wide as the hidden state.
SIZES = [(1024, 16, 768, 1), (1000, 8, 256, 1), (100, 32, 512, 1), (100, 16, 512, 2), (100, 8, 512, 1), (50, 128, 1024, 2), (200, 16, 256, 1),
         (100, 64, 128, 1), (512, 1, 1024, 1)]
SMALL = [(5, 3, 8, 1), (4, 2, 16, 2)]
# An error that is larger than WRONG, relative to the largest element, is not due to rounding.
WRONG = {"f32": 2e-2, "f16": 0.2, "bf16": 0.5}
HOST, DEVICE = 0, 1
REPLAYS = 100
TURNS_LEAST = 9


# ---- the library ----

class Mem(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("offset", ctypes.c_size_t), ("bytes", ctypes.c_size_t), ("place", ctypes.c_int)]


class Config(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("cell", ctypes.c_void_p), ("options", ctypes.c_char_p), ("values", ctypes.c_void_p),
                ("n_values", ctypes.c_int), ("dtype", ctypes.c_int), ("layers", ctypes.c_int), ("bidirectional", ctypes.c_int),
                ("input_mode", ctypes.c_int), ("time_major", ctypes.c_int), ("input", ctypes.c_int64), ("units", ctypes.c_int64),
                ("proj", ctypes.c_int64), ("dropout", ctypes.c_double), ("seed", ctypes.c_uint64), ("training", ctypes.c_int),
                ("allow_tf32", ctypes.c_int), ("allow_vendor_dropout", ctypes.c_int), ("route", ctypes.c_char_p)]


class Sizes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in ("params", "reserve", "work")]


MEMS = ("work reserve params input input_h input_c output output_h output_c output_backprop output_h_backprop output_c_backprop "
        "input_backprop input_h_backprop input_c_backprop params_backprop").split()


class Call(ctypes.Structure):
    _fields_ = ([("size", ctypes.c_size_t), ("T", ctypes.c_int64), ("B", ctypes.c_int64), ("lengths", ctypes.c_void_p),
                 ("counter", ctypes.c_uint64), ("first_step", ctypes.c_int64), ("accumulate", ctypes.c_int), ("spend_reserve", ctypes.c_int)]
                + [(name, Mem) for name in MEMS])


class Failure(Exception):
    pass


class Library:
    """The library with a context and a stream, which on a GPU are PyTorch's own, so that cellgrad and PyTorch work in one order on the same
    memory."""

    def __init__(self, path, backend, stream):
        self.lib = ctypes.CDLL(path)
        self.lib.cg_message.restype = ctypes.c_char_p
        self.lib.cg_cell_find.restype = ctypes.c_void_p
        self.lib.cg_rnn_route.restype = ctypes.c_char_p
        self.lib.cg_describe.restype = ctypes.c_char_p
        self.context, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        if stream is None:
            self.do("cg_open", backend.encode(), ctypes.byref(self.context))
            self.do("cg_stream_open", self.context, None, ctypes.byref(self.stream))
            return
        current = ctypes.c_void_p()
        if ctypes.CDLL("libcuda.so.1").cuCtxGetCurrent(ctypes.byref(current)) or not current.value:
            raise Failure("PyTorch has made no context")
        self.do("cg_adopt", b"cuda", current, None, ctypes.byref(self.context))
        self.do("cg_stream_open", self.context, ctypes.c_void_p(stream.cuda_stream), ctypes.byref(self.stream))

    def do(self, name, *arguments):
        if getattr(self.lib, name)(*arguments):
            raise Failure(f"{name}: {self.lib.cg_message().decode()}")

    def about(self):
        return self.lib.cg_describe(self.context).decode()


def mem(tensor):
    """Returns a tensor's memory as a struct cg_mem; the tensor must outlive the call that reads the struct."""
    place = DEVICE if tensor.is_cuda else HOST
    return Mem(tensor.data_ptr(), 0, tensor.numel() * tensor.element_size(), place)


class Ours:
    """A network of cellgrad with its arguments, which are copies of a Problem's tensors in a dtype."""

    def __init__(self, library, problem, dtype, route, tf32):
        number, kind = DTYPES[dtype]
        self.library, self.rnn, self.call = library, ctypes.c_void_p(), Call()
        config = Config()
        library.lib.cg_rnn_config_init(ctypes.byref(config), ctypes.c_size_t(ctypes.sizeof(config)))
        config.cell = library.lib.cg_cell_find(problem.cell.encode())
        config.dtype, config.layers, config.input, config.units = number, problem.layers, problem.H, problem.H
        config.allow_tf32, config.route = int(tf32), route.encode()
        library.do("cg_rnn_open", library.context, ctypes.byref(config), ctypes.byref(self.rnn))
        sizes = Sizes()
        library.do("cg_rnn_sizes", self.rnn, ctypes.c_int64(problem.T), ctypes.c_int64(problem.B), None, ctypes.byref(sizes))
        library.lib.cg_rnn_call_init(ctypes.byref(self.call), ctypes.c_size_t(ctypes.sizeof(self.call)))
        self.call.T, self.call.B, self.call.spend_reserve = problem.T, problem.B, 1
        x, params = problem.on(problem.x, kind), problem.on(problem.params(), kind)
        if params.numel() * params.element_size() != sizes.params:
            raise Failure(f"{problem.cell}: {sizes.params} bytes of parameters, PyTorch has {params.numel() * params.element_size()}")
        room = {"params": params, "input": x, "output_backprop": problem.on(problem.dy, kind), "output": torch.zeros_like(x),
                "input_backprop": torch.zeros_like(x), "params_backprop": torch.zeros_like(params),
                "reserve": torch.zeros(sizes.reserve, dtype=torch.uint8, device=x.device),
                "work": torch.zeros(max(sizes.work, 1), dtype=torch.uint8, device=x.device)}
        for name, tensor in room.items():
            setattr(self.call, name, mem(tensor))
        self.room = room

    def forward(self):
        self.library.do("cg_rnn_forward", self.library.stream, self.rnn, ctypes.byref(self.call))

    def both(self):
        self.forward()
        self.library.do("cg_rnn_backward", self.library.stream, self.rnn, ctypes.byref(self.call))

    def answers(self):
        return [self.room[name] for name in ("output", "input_backprop", "params_backprop")]

    def close(self):
        self.library.do("cg_stream_sync", self.library.stream)
        self.library.lib.cg_rnn_close(self.rnn)


# ---- PyTorch ----

def exact(shape, scale, generator):
    """Random numbers that f32, f16 and bf16 hold exactly."""
    x = (torch.randn(shape, generator=generator, dtype=torch.float64) * scale).to(torch.bfloat16).to(torch.float64)
    return torch.where(x.abs() < 2.0 ** -12, torch.zeros_like(x), x)


class Problem:
    """A network in float64 on the CPU with its inputs and weights, and its answers, with which all other answers are compared."""

    def __init__(self, cell, size, device):
        self.cell, (self.T, self.B, self.H, self.layers), self.device = cell, size, device
        generator = torch.Generator().manual_seed(20260101)
        make, options = CELLS[cell]
        self.options = options
        self.net = make(self.H, self.H, self.layers, dtype=torch.float64, **options)
        with torch.no_grad():
            for p in self.net.parameters():
                p.copy_(exact(p.shape, self.H ** -0.5, generator))
        self.x, self.dy = exact((self.T, self.B, self.H), 1, generator), exact((self.T, self.B, self.H), 0.1, generator)
        self.right = None

    def on(self, tensor, kind):
        return tensor.detach().to(kind).to(self.device).contiguous()

    def ordered(self, parts):
        """Joins tensors, given by their names, in the order of the library's params: matrices layer by layer, then biases."""
        names = [f"weight_{side}_l{layer}" for layer in range(self.layers) for side in ("ih", "hh")]
        names += [f"bias_{side}_l{layer}" for layer in range(self.layers) for side in ("ih", "hh")]
        return torch.cat([parts[name].reshape(-1) for name in names])

    def params(self):
        return self.ordered({name: p.detach() for name, p in self.net.named_parameters()})

    def solve(self):
        if self.right is None:
            theirs = Theirs(self, None)
            theirs.both()
            self.right = [a.clone() for a in theirs.answers()]

    def errors(self, answers):
        """Returns the errors of y, dx and dW: the largest difference, divided by the largest magnitude of the right answer."""
        self.solve()
        return [((a.detach().cpu().to(torch.float64) - r).abs().max() / r.abs().max()).item() for a, r in zip(answers, self.right)]


class Theirs:
    """PyTorch's network, in a dtype on the device; if dtype is None, the problem's own network in float64 on the CPU."""

    def __init__(self, problem, dtype):
        self.problem = problem
        if dtype is None:
            self.net, self.x, self.dy = problem.net, problem.x.clone(), problem.dy
        else:
            kind = DTYPES[dtype][1]
            make, options = CELLS[problem.cell]
            self.net = make(problem.H, problem.H, problem.layers, **options)
            self.net.load_state_dict(problem.net.state_dict())
            self.net = self.net.to(problem.device, kind)
            self.x, self.dy = problem.on(problem.x, kind), problem.on(problem.dy, kind)
        self.x.requires_grad_(True)

    def forward(self):
        self.y = self.net(self.x)[0]

    def both(self):
        self.net.zero_grad(set_to_none=True)
        self.x.grad = None
        self.forward()
        self.y.backward(self.dy)

    def answers(self):
        return [self.y.detach(), self.x.grad, self.problem.ordered({name: p.grad for name, p in self.net.named_parameters()})]

    def close(self):
        pass


# ---- the table ----

class Clock:
    """Measures milliseconds by events of the stream, or by the host's clock without a GPU."""

    def __init__(self, stream, library, turns, seconds):
        self.stream, self.library, self.turns, self.seconds = stream, library, turns, seconds

    def once(self, step):
        if self.stream is None:
            began = time.perf_counter()
            step()
            self.library.do("cg_stream_sync", self.library.stream)
            return (time.perf_counter() - began) * 1000
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record(self.stream)
        step()
        end.record(self.stream)
        end.synchronize()
        return begin.elapsed_time(end)

    def least(self, steps):
        """Runs the steps, {way: step}, in turn; returns the least time of each.  There are TURNS_LEAST turns, and more, up to self.turns,
        until self.seconds are over."""
        times, until = {way: [] for way in steps}, 0
        for turn in range(-2, self.turns):
            if turn == 0:
                times, until = {way: [] for way in steps}, time.monotonic() + self.seconds
            if turn >= TURNS_LEAST and time.monotonic() > until:
                break
            for way, step in steps.items():
                times[way].append(self.once(step))
        return {way: min(each) for way, each in times.items()}


HEAD = ("| network | dtype | T | B | H | layers | passes | PyTorch ms | cuDNN route ms | ratio | composed ms | ratio | composed us a step "
        "| error y dx dW: PyTorch | cuDNN route | composed |")


def measure_one(problem, dtype, tf32, library, clock):
    """Measures a problem by three ways: PyTorch, and the routes cudnn and composed.  Returns {way: {pass: ms}} and {way: errors}; if
    route cudnn is rejected, a message stands in place of its errors."""
    ms, errors = {}, {}
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = tf32
    makers = {"torch": lambda: Theirs(problem, dtype), "cudnn": lambda: Ours(library, problem, dtype, "cudnn", tf32),
              "composed": lambda: Ours(library, problem, dtype, "composed", tf32)}
    nets = {}
    for way, make in makers.items():
        try:
            nets[way] = net = make()
        except Failure as why:
            if way == "composed":
                raise
            errors[way] = str(why)
            continue
        net.both()
        library.do("cg_stream_sync", library.stream)
        if clock.stream is not None:
            clock.stream.synchronize()
        errors[way] = problem.errors(net.answers())
    for which in ("forward", "both"):
        for way, least in clock.least({way: getattr(net, which) for way, net in nets.items()}).items():
            ms.setdefault(way, {})[which] = least
    for net in nets.values():
        net.close()
    return ms, errors


def number(value, form):
    return "" if value is None else format(value, form)


def say(problem, dtype, tf32, ms, errors, to):
    words = {way: e if isinstance(e, str) else " ".join(f"{x:.2g}" for x in e) for way, e in errors.items()}
    name = dtype + (" with TF32" if tf32 else "")
    for which in ("forward", "both"):
        t = {way: ms[way][which] if way in ms else None for way in ("torch", "cudnn", "composed")}
        ratio = {way: t[way] / t["torch"] if t[way] else None for way in t}
        print(f"| {problem.cell} | {name} | {problem.T} | {problem.B} | {problem.H} | {problem.layers} | {which} | {number(t['torch'], '.4f')} "
              f"| {number(t['cudnn'], '.4f')} | {number(ratio['cudnn'], '.3f')} | {number(t['composed'], '.4f')} | {number(ratio['composed'], '.3f')} "
              f"| {t['composed'] * 1000 / problem.T:.2f} | {words['torch']} | {words['cudnn']} | {words['composed']} |", flush=True)
        if to:
            to.write(json.dumps({"kind": "torch", "cell": problem.cell, "dtype": dtype, "tf32": tf32, "T": problem.T, "B": problem.B,
                                 "H": problem.H, "layers": problem.layers, "passes": which, "ms": t, "ratio": ratio,
                                 "errors_y_dx_dw": errors}) + "\n")
            to.flush()


def tables(library, clock, given, to):
    until, left, wrong = time.monotonic() + given.seconds, [], []
    print(HEAD + "\n" + "|---" * HEAD.count(" |") + "|")
    for size in SMALL if given.small else SIZES:
        for cell in CELLS:
            if time.monotonic() > until:
                left.append(f"{cell} {size}")
                continue
            problem = Problem(cell, size, given.device)
            for dtype, tf32 in [("f32", False), ("f32", True), ("f16", False), ("bf16", False)]:
                ms, errors = measure_one(problem, dtype, tf32, library, clock)
                say(problem, dtype, tf32, ms, errors, to)
                wrong += [f"{cell} {dtype} {size} by {way}" for way, e in errors.items()
                          if not isinstance(e, str) and not all(x < WRONG[dtype] for x in e)]
    print(f"\nPyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()} there; {library.about()}.")
    print("Errors are the largest difference from float64 on the CPU over the largest element.")
    print(f"Times are the least of {TURNS_LEAST} to {clock.turns} calls; the three ways run in turn.")
    if left:
        print(f"\n**Not measured: {given.seconds} s were over before {', '.join(left)}.**")
    for one in wrong:
        print(f"\n**Wrong: {one}.**")
    return bool(wrong)


# ---- the graph ----

def bits(tensors):
    return [t.contiguous().view(torch.uint8).clone() for t in tensors]


def replay(library, stream, problem, dtype, route):
    """Returns the number of replays, of REPLAYS, that have other bits than the call without a graph."""
    net = Ours(library, problem, dtype, route, False)
    for _ in range(2):
        net.both()
    stream.synchronize()
    eager = bits(net.answers())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        net.both()
    differ = 0
    for _ in range(REPLAYS):
        for t in net.answers():
            t.zero_()
        stream.synchronize()
        torch.cuda.synchronize()
        graph.replay()
        torch.cuda.synchronize()
        differ += not all(torch.equal(a, b) for a, b in zip(eager, bits(net.answers())))
    del graph
    net.close()
    return differ


def graphs(library, stream, given):
    red = False
    print("| network | dtype | route | replays | with other bits than the call outside |\n|---|---|---|---|---|")
    for cell in ("lstm", "gru"):
        problem = Problem(cell, (20, 16, 128, 2), given.device)
        for dtype in DTYPES:
            for route in ("composed", "cudnn"):
                try:
                    differ = replay(library, stream, problem, dtype, route)
                except Failure as why:
                    if route == "cudnn" and "no cuDNN" in str(why):
                        print(f"| {cell} | {dtype} | {route} | | {why} |")
                        continue
                    raise
                print(f"| {cell} | {dtype} | {route} | {REPLAYS} | {differ} |", flush=True)
                # cuDNN promises equal bits only with CUBLAS_WORKSPACE_CONFIG, which gpu.sh sets for this script with --graph.
                red |= differ > 0
    return red


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--library", required=True, help="libcellgrad.so.0")
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--seconds", type=float, default=190)
    parser.add_argument("--turns", type=int, default=50, help="the most calls of each way for one time")
    parser.add_argument("--each", type=float, default=0.2, help=f"seconds after which calls for one time end, once there are {TURNS_LEAST} of each way")
    parser.add_argument("--small", action="store_true", help="sizes for trying the script")
    parser.add_argument("--graph", action="store_true")
    parser.add_argument("--json", help="a file for the rows, one object a line")
    given = parser.parse_args()
    given.device, stream = "cpu", None
    if given.backend == "cuda":
        if not torch.cuda.is_available():
            print(f"PyTorch {torch.__version__} sees no GPU")
            return 77
        given.device = "cuda"
        torch.zeros(1, device="cuda")
        stream = torch.cuda.Stream()
        torch.cuda.set_stream(stream)
    elif given.graph:
        print("there are no graphs on the CPU")
        return 77
    try:
        library = Library(given.library, given.backend, stream)
        if given.graph:
            return int(graphs(library, stream, given))
        with open(given.json or "/dev/null", "w") as to:
            return int(tables(library, Clock(stream, library, given.turns, given.each), given, to))
    except Failure as why:
        print(f"\n**Failed: {why}**")
        return 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The modules of cellgrad.torch beside PyTorch's, on a GPU: answers, PyTorch's features for modules, memory, and times of a training step.

For every check the script prints a line, `ok` or `not ok` with the reason; a check that raises anything but Skip is not ok, and the
next check runs.  Most checks compare answers with those of PyTorch's module in float64 on the same device, with the same weights and
inputs; the tolerance is derived from the dtype's epsilon and the number of steps.  The last lines are a table in Markdown of the least
times.

	python3 gpu_modules.py [--library PATH] [--device cpu --small] [--json FILE]

The package cellgrad is the one in ../python.  --device cpu tries the script on a machine without a GPU, without the checks that only CUDA
has.  exit 0: all checks passed; 1: a check failed; 77: nothing can be tried here, for the reason in the last line.
Needs PyTorch 2.5 or later and NumPy.
"""
import argparse
import itertools
import json
import os
import sys
import time
import traceback
import warnings

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
# NCCL and gloo use the loopback interface, since the machine may have no network card.
os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

try:
    import numpy  # noqa: F401
    import torch
    lacking = "" if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 5) else f"PyTorch {torch.__version__} is older than 2.5"
except ImportError as why:
    lacking = str(why)

SIZES = [(100, 32, 512), (100, 8, 256), (50, 1, 512)]
SMALL = [(5, 3, 8)]
ALTERNATIONS = 12


def run(modules, name, check):
    """Runs a check and prints its line; returns whether it passed or was skipped."""
    try:
        words = check()
        modules.sync()
    except modules.Skip as why:
        print(f"ok - {name} # SKIP {why}", flush=True)
        return True
    except Exception as why:
        print(f"not ok - {name}: {(str(why).splitlines() or [''])[0] or type(why).__name__}", flush=True)
        if not isinstance(why, AssertionError):
            print("".join("# " + line + "\n" for line in traceback.format_exc().splitlines()[-12:]), end="", flush=True)
        return False
    print(f"ok - {name}: {words}", flush=True)
    return True


def times(modules, given, to):
    """Prints the least time of a training step (a forward and a backward pass) by each of both modules, which run alternately."""
    print("\n| T, B, H | dtype | nn.LSTM ms | cellgrad.torch.LSTM ms | ratio |\n|---|---|---|---|---|")
    for (steps, rows, units), name in itertools.product(SMALL if given.small else SIZES, ("f32", "f16")):
        kind = {"device": given.device, "dtype": modules.DTYPES[name]}
        both = torch.nn.LSTM(units, units, **kind), modules.ours.LSTM(units, units, **kind)
        x, best = torch.randn(steps, rows, units, **kind), [float("inf")] * 2
        for turn in range(3 + ALTERNATIONS):
            for k, module in enumerate(both):
                start = time.perf_counter()
                module.zero_grad(set_to_none=True)
                module(x)[0].sum().backward()
                modules.sync()
                if turn >= 3:
                    best[k] = min(best[k], 1e3 * (time.perf_counter() - start))
        print(f"| {steps}, {rows}, {units} | {name} | {best[0]:.3f} | {best[1]:.3f} | {best[1] / best[0]:.2f} |", flush=True)
        to.write(json.dumps({"kind": "torch-modules", "cell": "lstm", "dtype": name, "T": steps, "B": rows, "H": units, "passes": "step",
                             "ms": {"torch": best[0], "cellgrad": best[1]}, "ratio": best[1] / best[0]}) + "\n")
        to.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--library", help="libcellgrad.so.0; else as the package finds it")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--small", action="store_true", help="times of a small size, for trying the script")
    parser.add_argument("--json", default=os.devnull, help="a file for the times, one object a line")
    given = parser.parse_args()
    if lacking or (given.device == "cuda" and not torch.cuda.is_available()):
        print(lacking or f"PyTorch {torch.__version__} sees no GPU")
        return 77
    if given.library:
        os.environ["CELLGRAD_LIBRARY"] = given.library
    import gpu_modules_checks as modules
    modules.device = given.device
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    warnings.simplefilter("ignore")
    where = torch.cuda.get_device_name() if given.device == "cuda" else "the CPU"
    print(f"# PyTorch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}, {where}", flush=True)
    began, passed = time.monotonic(), []
    for name, check in modules.checks():
        passed.append(run(modules, name, check))
    print(f"# {sum(passed)} of {len(passed)} checks passed in {time.monotonic() - began:.0f} s", flush=True)
    with open(given.json, "w") as to:
        times(modules, given, to)
    if "torch.distributed" in sys.modules and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())

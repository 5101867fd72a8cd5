# SPDX-License-Identifier: Apache-2.0
"""The checks of gpu_modules.py: each check is a function that returns words for its line of output, or raises.

`device` is the device of all tensors; the package finds the library by CELLGRAD_LIBRARY.
"""
import datetime
import gc
import itertools

import torch
import torch.utils.checkpoint
from torch import nn

import cellgrad.torch as ours
from cellgrad.torch import _run

T, B, I, H = 6, 4, 12, 16
DTYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
device = "cuda"


class Skip(Exception):
    """Raised by a check that is skipped, with the reason as the message."""


def sync():
    if device == "cuda":
        torch.cuda.synchronize()


# ---- one module beside PyTorch's ----


def rounded(tensor, dtype):
    """Returns a tensor rounded to a dtype, in float64 on the device."""
    return tensor.to(dtype).to(torch.float64).to(device)


def tensors(result):
    """Returns a list of the tensors in a result; for a PackedSequence, the tensor of its data."""
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, nn.utils.rnn.PackedSequence):
        return [result.data]
    return [tensor for part in result for tensor in tensors(part)]


def pair(kind, dtype, **more):
    """Returns PyTorch's module in float64, our module in the dtype, and PyTorch's module in the dtype; all three have the same weights,
    which are copied by state_dict from the first to the second, and from that to the third."""
    torch.manual_seed(7)
    right = getattr(nn, kind)(I, H, dtype=torch.float64, **more).to(device)
    with torch.no_grad():
        for weight in right.parameters():
            weight.copy_(rounded(weight, dtype))
    mine = getattr(ours, kind)(I, H, dtype=dtype, device=device, **more)
    mine.load_state_dict(right.state_dict())
    theirs = getattr(nn, kind)(I, H, dtype=dtype, device=device, **more)
    theirs.load_state_dict(mine.state_dict())
    theirs.flatten_parameters()
    return right, mine, theirs


def strided(whole, batch_first):
    """Returns the input as a view of `whole`, a longer and wider tensor: every second step, and I of the features."""
    part = whole[:, ::2, 1:I + 1]
    return part if batch_first else part.transpose(0, 1)


LAYOUTS = {
    "one layer": ({}, None),
    "bidirectional, 2 layers, batch_first": ({"num_layers": 2, "bidirectional": True, "batch_first": True}, None),
    "transposed and sliced input": ({}, strided),
    "packed, unsorted, bidirectional, 2 layers": ({"num_layers": 2, "bidirectional": True}, "packed"),
    "no bias, strided batch_first": ({"bias": False, "batch_first": True}, strided),
    "proj_size": ({"proj_size": 5, "num_layers": 2}, None),
    "relu": ({"nonlinearity": "relu"}, None),
}
ONLY = {"proj_size": "LSTM", "relu": "RNN"}


def results(module, dtype, held, form):
    """Returns the outputs and states of a module, and the gradients of the input, h0, c0 and all weights.  The input numbers are the same
    for every module, and the dtype `held` has them exactly.  form: None, the function `strided`, or "packed" for a PackedSequence."""
    generator = torch.Generator().manual_seed(8)

    def draw(*shape):
        return rounded(torch.randn(shape, generator=generator, dtype=torch.float64), held).to(dtype)

    count = module.num_layers * (2 if module.bidirectional else 1)
    first = module.batch_first
    x = draw(B, 2 * T, I + 3) if form is strided else draw(*((B, T) if first else (T, B)), I)
    states = [draw(count, B, module.proj_size or H), *([draw(count, B, H)] if module.mode == "LSTM" else [])]
    leaves = [leaf.requires_grad_() for leaf in (x, *states)]
    given = form(x, first) if form is strided else x
    if form == "packed":
        given = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([2, T, 1, 4]), first, enforce_sorted=False)
    found = tensors(module(given, tuple(states) if len(states) == 2 else states[0]))
    upstream = [draw(*tensor.shape) for tensor in found]
    return [tensor.detach() for tensor in found] + list(torch.autograd.grad(found, [*leaves, *module.parameters()], upstream))


def error(right, found):
    """Returns the largest error of all tensors: a tensor's largest difference, divided by the right tensor's largest magnitude."""
    if len(right) != len(found) or any(a.shape != b.shape for a, b in zip(right, found)):
        raise AssertionError(f"expected {[list(a.shape) for a in right]}, got {[list(b.shape) for b in found]}")
    worst = max(float((a.double() - b.double()).abs().max() / a.double().abs().max()) for a, b in zip(right, found))
    # The function max() of Python may ignore a NaN.
    return worst if all(bool(b.isfinite().all()) for b in found) else float("nan")


def allowed(dtype, layers=1):
    """Returns the tolerance.  Each step of each layer rounds its outputs and its gradients, so there are two epsilons for each step.  Sums
    of f16 and bf16 are in f32; other sums round at each term, and the error grows by the root of the number of terms."""
    terms = 1 if dtype in (torch.float16, torch.bfloat16) else (I + H) ** 0.5
    return 2 * torch.finfo(dtype).eps * terms * T * layers


def expect(found, most, what):
    """Fails unless found is a number of at most `most`."""
    if not found <= most:
        raise AssertionError(f"{what} {found:.2g}, allowed {most:.2g}")
    return f"{what} {found:.2g}, allowed {most:.2g}"


def same_answers(kind, name, layout):
    more, form = LAYOUTS[layout]
    dtype = DTYPES[name]
    right, mine, theirs = pair(kind, dtype, **more)
    expected = results(right, torch.float64, dtype, form)
    words = expect(error(expected, results(mine, dtype, dtype, form)), allowed(dtype, mine.num_layers), "error")
    try:
        return f"{words}; PyTorch's {error(expected, results(theirs, dtype, dtype, form)):.2g}"
    except RuntimeError as why:
        return f"{words}; PyTorch: {str(why).splitlines()[0]}"


# ---- PyTorch's features that call or change modules ----


def gradients(module, x, call=None):
    """Returns a module's output, and the gradients of input and weights; `call` is called in place of the module, unless it is None."""
    module.zero_grad(set_to_none=True)
    leaf = x.clone().requires_grad_()
    output, states = (module if call is None else call)(leaf)
    (output.sin().sum() + sum(2 * state.sum() for state in tensors(states))).backward()
    return [output.detach(), leaf.grad, *(weight.grad.clone() for weight in module.parameters())]


def like_itself(call, kind="LSTM", **more):
    """What `call` makes of a module, such as a compiled one, has the output and the gradients of the module."""
    module = getattr(ours, kind)(I, H, 2, device=device, **more)
    x = torch.randn(T, B, I, device=device)
    return expect(error(gradients(module, x), gradients(module, x, call(module))), allowed(torch.float32, 2), "difference")


class Model(nn.Module):
    """An LSTM of two layers, and a linear layer that reads its outputs."""

    def __init__(self):
        super().__init__()
        self.rnn, self.out = ours.LSTM(I, H, 2), nn.Linear(H, 3)

    def forward(self, x):
        return self.out(self.rnn(x)[0])


def streams():
    """A call on another CUDA stream reads its input after all earlier work on that stream, even if this work takes long."""
    module, late = ours.LSTM(I, H, 2, device=device), torch.randn(T, B, I, device=device)
    expected = gradients(module, late)
    for stream in (torch.cuda.Stream(), torch.cuda.default_stream(), torch.cuda.Stream(priority=-1)):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            x = torch.zeros_like(late)
            torch.cuda._sleep(200_000_000)
            x.copy_(late)
            found = gradients(module, x)
        stream.synchronize()
        expect(error(expected, found), allowed(torch.float32, 2), "difference")
    return "3 streams"


def scaled():
    """A training with autocast and GradScaler computes in float16, and ends near, but not at, the weights of a training without them."""
    ends = []
    for is_scaled in (False, True):
        torch.manual_seed(5)
        module = ours.LSTM(I, H, device=device)
        optimizer, scaler = torch.optim.SGD(module.parameters(), 0.5), torch.amp.GradScaler(device, enabled=is_scaled)
        for _ in range(5):
            optimizer.zero_grad()
            x = torch.randn(T, B, I, device=device)
            with torch.autocast(device, torch.float16, enabled=is_scaled):
                output = module(x)[0]
            assert output.dtype == (torch.float16 if is_scaled else torch.float32), output.dtype
            scaler.scale(output.float().square().mean()).backward()
            scaler.step(optimizer)
            scaler.update()
        ends.append([weight.detach().clone() for weight in module.parameters()])
    assert not all(torch.equal(a, b) for a, b in zip(*ends)), "autocast changed nothing"
    return expect(error(*ends), allowed(torch.float16), "difference")


def compiled(module):
    """Compiles a module as one whole graph by torch.compile, without code generation."""
    import torch._dynamo
    torch._dynamo.reset()
    return torch.compile(module, backend="aot_eager", fullgraph=True)


def replaced():
    """A training script with nn.LSTM and nn.GRU has the same losses over 50 steps with and without replace(model), to 1e-6.

    The training is in float64, since the difference between two orders of a sum grows from step to step.
    """
    losses = []
    for is_ours in (False, True):
        torch.manual_seed(0)
        model = nn.ModuleDict({"lstm": nn.LSTM(I, H, 2, batch_first=True), "gru": nn.GRU(H, H), "out": nn.Linear(H, 1)}).to(device, torch.float64)
        optimizer = torch.optim.SGD(model.parameters(), 0.3)
        if is_ours:
            ours.replace(model)
            assert type(model["lstm"]) is ours.LSTM and type(model["gru"]) is ours.GRU, model
        x = torch.randn(32, 10, I, device=device, dtype=torch.float64)
        for _ in range(50):
            optimizer.zero_grad()
            hidden = model["gru"](model["lstm"](x)[0].transpose(0, 1))[0]
            loss = (model["out"](hidden[-1]) - x[:, -1, :1]).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert losses[49] < 0.95 * losses[0], f"the loss went from {losses[0]} to {losses[49]}"
    return expect(max(abs(a - b) / abs(a) for a, b in zip(losses[:50], losses[50:])), 1e-6, "difference of the losses")


def uncopied():
    """A call makes no dense copy of transposed, sliced and packed inputs, or of weights after steps of an optimizer."""
    module = ours.LSTM(I, H, 2, device=device)
    optimizer, whole = torch.optim.SGD(module.parameters(), 0.1), torch.randn(B, 2 * T, I + 3, device=device)
    packed = nn.utils.rnn.pack_sequence([torch.randn(n, I, device=device) for n in (2, 5, 3)], enforce_sorted=False)
    start = _run.copies
    for x in (torch.randn(T, B, I, device=device), strided(whole, False), packed):
        output = module(x)[0]
        tensors(output)[0].square().sum().backward()
        optimizer.step()
    assert _run.copies == start, f"{_run.copies - start} copies"
    return "0 copies"


def dropped():
    """The same manual_seed gives the same masks of dropout, another seed gives others; checkpointing does not change the gradients."""
    module, x = ours.LSTM(I, H, 3, dropout=0.5, device=device), torch.randn(T, B, I, device=device)
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(module(x)[0].detach())
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2]), "the masks are not the seed's"
    torch.manual_seed(1)
    checkpointed = gradients(module, x, lambda leaf: torch.utils.checkpoint.checkpoint(module, leaf, use_reentrant=False))
    torch.manual_seed(1)
    return expect(error(gradients(module, x), checkpointed), allowed(torch.float32, 3), "difference by checkpointing")


def memory():
    """A call without gradients keeps only its results in memory; after backward the gradients remain, with at most 4 KiB beside them;
    100 steps take less than 32 MiB of the device outside of PyTorch's allocator."""
    module = ours.LSTM(256, 256, 2, device=device)
    x = torch.randn(100, 16, 256, device=device)

    def grown(start):
        gc.collect()
        # The statistic counts the bytes that were requested; memory_allocated() counts blocks, which may be larger.
        return torch.cuda.memory_stats()["requested_bytes.all.current"] - start

    def step():
        module.zero_grad(set_to_none=True)
        module(x)[0].square().sum().backward()

    step()
    module.zero_grad(set_to_none=True)
    start = grown(0)
    with torch.no_grad():
        returned = tensors(module(x))
    size = sum(tensor.numel() * tensor.element_size() for tensor in returned)
    assert grown(start) == size, f"a call without gradients holds {grown(start)} bytes, its results have {size}"
    del returned
    output = module(x)[0]
    assert grown(start) > size, "a call with gradients holds nothing for the backward"
    output.square().sum().backward()
    del output
    weights = sum(weight.numel() * weight.element_size() for weight in module.parameters())
    assert weights <= grown(start) <= weights + 4096, f"after the backward {grown(start)} bytes are held, the gradients have {weights}"
    module.zero_grad(set_to_none=True)
    assert grown(start) == 0, f"{grown(start)} bytes are left"
    sync()
    free = torch.cuda.mem_get_info()[0]
    for _ in range(100):
        step()
    sync()
    lost = (free - torch.cuda.mem_get_info()[0]) / 2**20
    assert lost < 32, f"100 steps took {lost:.0f} MiB of the device besides PyTorch's"
    return f"results {size} bytes, gradients {weights}; 100 steps take {lost:.0f} MiB more of the device"


def replicas(module):
    """Calls a module by the steps of DataParallel, on one device: the call goes to a replica, whose weights are no parameters."""
    def call(x):
        parts = nn.parallel.replicate(module, [0])
        return nn.parallel.parallel_apply(parts, [(x,)], devices=[0])[0]

    return call


def processes():
    """Begins a group of one process; raises Skip if torch.distributed does not work on this machine even without cellgrad."""
    import torch.distributed as dist
    backend = "nccl" if device == "cuda" else "gloo"
    if not dist.is_available() or not getattr(dist, f"is_{backend}_available")():
        raise Skip(f"torch.distributed has no {backend}")
    if dist.is_initialized():
        return
    try:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1, timeout=datetime.timedelta(seconds=20))
        dist.all_reduce(torch.ones(1, device=device))
        sync()
    except RuntimeError as why:
        if dist.is_initialized():
            dist.destroy_process_group()
        raise Skip(f"{backend} does not work on this machine: {str(why).splitlines()[0]}") from why


def distributed(module):
    processes()
    return nn.parallel.DistributedDataParallel(module, device_ids=[0] if device == "cuda" else None)


def trained(wrap):
    """Three steps of a model that `wrap` returns have the outputs of three steps of the model alone."""
    processes()
    found = []
    for make in (lambda model: model, wrap):
        torch.manual_seed(3)
        model = make(Model().to(device))
        optimizer, outputs = torch.optim.SGD(model.parameters(), 0.1), []
        for _ in range(3):
            optimizer.zero_grad()
            output = model(torch.randn(T, B, I, device=device))
            outputs.append(output.detach().clone())
            output.square().mean().backward()
            optimizer.step()
        found.append(outputs)
    return expect(error(*found), allowed(torch.float32, 2), "difference")


def sharded(use_orig_params):
    """Returns a function that wraps a model in FSDP, which joins all weights in one flat parameter."""
    from torch.distributed.fsdp import FullyShardedDataParallel
    where = torch.device(device, 0) if device == "cuda" else torch.device("cpu")
    return lambda model: FullyShardedDataParallel(model, use_orig_params=use_orig_params, device_id=where)


def fully_sharded(model):
    """Shards a model by FSDP2: every weight is a DTensor, which is whole only between its gathering and its release."""
    try:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
    except ImportError as why:
        raise Skip(str(why)) from why
    mesh = init_device_mesh(device, (1,))
    fully_shard(model.rnn, mesh=mesh)
    return fully_shard(model, mesh=mesh)


# ---- the list of all checks ----


def checks():
    """Yields the names and the functions of all checks; each function returns words, or raises."""
    for name, kind, layout in itertools.product(DTYPES, ("LSTM", "GRU", "RNN"), LAYOUTS):
        if ONLY.get(layout, kind) == kind:
            yield f"{kind} {name}, {layout}", lambda kind=kind, name=name, layout=layout: same_answers(kind, name, layout)
    for kind in ("LSTM", "GRU", "RNN"):
        yield f"torch.compile of {kind}", lambda kind=kind: like_itself(compiled, kind)
    yield "autocast with GradScaler", scaled
    yield "replace(model), 50 steps", replaced
    yield "dense copies", uncopied
    yield "dropout and checkpointing", dropped
    if device == "cuda":
        yield "other streams", streams
        yield "memory", memory
        yield "DataParallel", lambda: like_itself(lambda module: nn.DataParallel(module, device_ids=[0], dim=1))
        yield "replicas of DataParallel", lambda: like_itself(replicas)
    yield "DistributedDataParallel, gradients", lambda: like_itself(distributed)
    yield "DistributedDataParallel, training", lambda: trained(distributed)
    for is_original in (False, True):
        yield f"FSDP, use_orig_params={is_original}", lambda is_original=is_original: trained(sharded(is_original))
    yield "fully_shard", lambda: trained(fully_sharded)

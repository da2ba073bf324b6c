#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Audits graphs that PyTorch and CuPy have captured, by their raw handles.

    frameworks.py --library build/release/lib/libtarn.so --include include [--out LINES.jsonl]

Needs a GPU, a C compiler, PyTorch and CuPy, and for the training steps of models.py torchvision and transformers. Each
workload runs in a process of its own: once with the framework's own allocator, whose memory is nobody's that Tarn
knows, and once with Tarn as its allocator; the steps of models.py with Tarn alone. There an input is freed on purpose
after the capture, and the audit must name it; then another tensor takes its place, and the audit must name that, too.
One line of JSON for each: how many kernels there are and how many were looked through, the reasons where one was not,
the pointers by class, and what it says of the freed input. Exit status 1 where a kernel was left out without a reason,
a graph was found wrong that is not, or a freed input was missed.
"""

import argparse
import concurrent.futures
import ctypes
import datetime
import json
import pathlib
import subprocess
import sys
import tempfile

import models

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))

import torch_plugin  # noqa: E402

TEXT, JSON = 0, 1
KERNEL_CHARACTERS = 72  # of a name that is kept with the figures: mangled ones have hundreds


class Info(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("ordinal", ctypes.c_int), ("driver_version", ctypes.c_int),
                ("total_bytes", ctypes.c_size_t), ("name", ctypes.c_char * 128), ("driver", ctypes.c_char * 256),
                ("simulated", ctypes.c_bool)]


class Tarn:
    """The calls of the library that are needed here."""

    def __init__(self, shim):
        self.shim = ctypes.CDLL(shim, mode=ctypes.RTLD_GLOBAL)
        self.shim.tarn_torch_device.restype = ctypes.c_void_p
        self.shim.tarn_torch_alloc.restype = ctypes.c_void_p
        self.shim.tarn_torch_alloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
        self.shim.tarn_torch_free.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
        self.shim.tarn_last_error.restype = ctypes.c_char_p

    def audit(self, graph):
        """The report of a raw graph: (object of JSON, text)."""
        audit = ctypes.c_void_p()
        status = self.shim.tarn_driver_graph_audit(ctypes.c_void_p(self.shim.tarn_torch_device()),
                                                   ctypes.c_void_p(graph), None, ctypes.byref(audit))
        if status != 0:
            raise RuntimeError(f"tarn_driver_graph_audit: {status}: {self.shim.tarn_last_error().decode()}")
        reports = [self.report(audit, form) for form in (JSON, TEXT)]
        self.shim.tarn_audit_destroy(audit)
        return json.loads(reports[0]), reports[1]

    def device(self):
        info = Info(size=ctypes.sizeof(Info))
        self.shim.tarn_device_describe(ctypes.c_void_p(self.shim.tarn_torch_device()), ctypes.byref(info))
        return {"device": info.name.decode(), "driver_version": info.driver_version}

    def report(self, audit, form):
        length = ctypes.c_size_t()
        self.shim.tarn_audit_report(audit, form, None, ctypes.c_size_t(0), ctypes.byref(length))
        text = ctypes.create_string_buffer(length.value + 1)
        self.shim.tarn_audit_report(audit, form, text, ctypes.c_size_t(len(text)), None)
        return text.value.decode()


# -- PyTorch ----------------------------------------------------------------------------------------


def torch_capture(step, warm_up=3):
    """Captures step() as PyTorch's users do, and keeps the graph itself."""
    import torch
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(warm_up):
            step()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph, stream=side):
        output = step()
    return graph, output


def training(torch):
    """A transformer block's training step with Adam: its input is one that can be freed."""
    nn, width, heads = torch.nn, 512, 8

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            batch, length, _ = x.shape
            parts = self.qkv(self.first(x)).view(batch, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
            mixed = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
            return x + self.down(nn.functional.gelu(self.up(self.second(x))))

    block = Block().cuda()
    adam = torch.optim.Adam(block.parameters(), lr=1e-3, capturable=True)
    inputs = {"x": torch.randn(8, 128, width, device="cuda"), "y": torch.randn(8, 128, width, device="cuda")}

    def step():
        adam.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(block(inputs["x"]), inputs["y"])
        loss.backward()
        adam.step()
        return loss

    return step, inputs, (block, adam)


def decode(torch):
    """An LLM's decode step: two layers with a cache of keys and values."""
    nn, width, heads, length, vocabulary, batch = torch.nn, 1024, 16, 256, 32000, 16
    half = {"dtype": torch.float16, "device": "cuda"}
    layers = [{"norm": nn.RMSNorm(width).cuda().half(), "qkv": nn.Linear(width, 3 * width, bias=False).cuda().half(),
               "out": nn.Linear(width, width, bias=False).cuda().half(),
               "up": nn.Linear(width, 4 * width, bias=False).cuda().half(),
               "down": nn.Linear(4 * width, width, bias=False).cuda().half(),
               "keys": torch.zeros(batch, heads, length, width // heads, **half),
               "values": torch.zeros(batch, heads, length, width // heads, **half)} for _ in range(2)]
    table = nn.Embedding(vocabulary, width).cuda().half()
    head = nn.Linear(width, vocabulary, bias=False).cuda().half()
    inputs = {"x": torch.zeros(batch, dtype=torch.long, device="cuda"),
              "place": torch.full((1,), 7, dtype=torch.long, device="cuda"),
              "mask": torch.zeros(1, 1, 1, length, **half)}

    @torch.no_grad()
    def step():
        state = table(inputs["x"])
        for layer in layers:
            query, key, value = layer["qkv"](layer["norm"](state)).view(batch, 3, heads, 1, -1).unbind(1)
            layer["keys"].index_copy_(2, inputs["place"], key)
            layer["values"].index_copy_(2, inputs["place"], value)
            mixed = nn.functional.scaled_dot_product_attention(query, layer["keys"], layer["values"],
                                                               attn_mask=inputs["mask"])
            state = state + layer["out"](mixed.reshape(batch, width))
            state = state + layer["down"](nn.functional.silu(layer["up"](state)))
        return head(state).argmax(-1)

    return step, inputs, (layers, table, head)


def convolution(torch):
    """A convolution net, forward and backward."""
    nn = torch.nn
    net = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
                        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
                        nn.Flatten(), nn.Linear(64, 10)).cuda()
    inputs = {"x": torch.randn(32, 3, 64, 64, device="cuda"),
              "y": torch.randint(0, 10, (32,), device="cuda")}

    def step():
        net.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(net(inputs["x"]), inputs["y"])
        loss.backward()
        return loss

    return step, inputs, net


WORKLOADS = {"training": training, "decode": decode, "convolution": convolution, **models.MODELS}


def run_torch(workload, tarn, owns):
    import torch
    if owns:
        allocator = torch.cuda.memory.CUDAPluggableAllocator(tarn.shim._name, "tarn_torch_alloc", "tarn_torch_free")
        torch.cuda.memory.change_current_allocator(allocator)
    torch.manual_seed(0)
    step, inputs, kept = WORKLOADS[workload](torch)
    graph, output = torch_capture(step)
    handle = graph.raw_cuda_graph()
    before, text = tarn.audit(handle)
    result = {"version": torch.__version__, "before": before, "text": text}
    if owns:
        freed = inputs["x"]
        address, shape, kind = freed.data_ptr(), freed.shape, freed.dtype
        del freed
        inputs["x"] = None
        torch.cuda.synchronize()
        result["freed"] = hex(address)
        result["after"], result["text_after"] = tarn.audit(handle)
        another = torch.empty(shape, dtype=kind, device="cuda")
        if another.data_ptr() == address:
            result["again"] = tarn.audit(handle)[0]
    del kept, output
    return result


# -- CuPy ------------------------------------------------------------------------------------------


def run_cupy(_, tarn, owns):
    import cupy
    stream = cupy.cuda.Stream(non_blocking=True)
    if owns:
        allocator = cupy.cuda.PythonFunctionAllocator(
            lambda bytes, device: tarn.shim.tarn_torch_alloc(bytes, device, cupy.cuda.get_current_stream().ptr),
            lambda address, device: tarn.shim.tarn_torch_free(address, 0, device, None))
        cupy.cuda.set_allocator(allocator.malloc)
    add = cupy.RawKernel(r"""extern "C" __global__ void add_scaled(const float *x, float *y, float by, int count)
        { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < count) y[i] += by * x[i]; }""", "add_scaled")
    with stream:
        x = cupy.arange(1 << 16, dtype=cupy.float32)
        y = cupy.zeros(1 << 16, dtype=cupy.float32)
        square = cupy.ones((256, 256), dtype=cupy.float32)

        def step():
            add((256,), (256,), (x, y, cupy.float32(2), cupy.int32(1 << 16)))
            cupy.sqrt(y, out=y)
            cupy.multiply(square, 2, out=square)

        for _ in range(2):
            step()
        stream.synchronize()
        stream.begin_capture()
        step()
        graph = stream.end_capture()
        handle = graph.graph
        before, text = tarn.audit(handle)
        result = {"version": cupy.__version__, "before": before, "text": text}
        if owns:
            result["freed"] = hex(x.data.ptr)
            del x
            result["after"], result["text_after"] = tarn.audit(handle)
    return result


# -- All of them -------------------------------------------------------------------------------------

RUNS = [(framework, workload, owns)
        for framework, workloads in (("PyTorch", ("training", "decode", "convolution")), ("CuPy", ("arrays",)))
        for workload in workloads for owns in (False, True)]
RUNS += [("PyTorch", model, True) for model in models.MODELS]


def faults(result):
    """What is wrong with the result, in words."""
    before = result["before"]
    found = [f"{node['node']} was not looked through" for node in before["uninspected"] if not node.get("reason")]
    found += [f"called a mistake: {mistake}" for mistake in before["mistakes"]]
    if before["kernels"] == 0:
        found.append("no kernels")
    for state, expected in (("after", "freed external"), ("again", "used again")):
        if state not in result:
            continue
        mistakes = result[state]["mistakes"]
        if not mistakes or any(mistake["class"] != expected for mistake in mistakes):
            found.append(f"the freed input is not what is named as {expected}: {mistakes}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=pathlib.Path, required=True)
    parser.add_argument("--include", type=pathlib.Path, required=True)
    parser.add_argument("--commit", default="unknown", help="of the library, for the lines")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--shim", type=pathlib.Path, help="torch_plugin.c, built before")
    parser.add_argument("--only", help="names of workloads, with commas between")
    parser.add_argument("--jobs", type=int, default=1, help="so many processes at a time")
    parser.add_argument("--one", nargs=4, metavar=("FRAMEWORK", "WORKLOAD", "OWNS", "SHIM"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        framework, workload, owns, shim = arguments.one
        run = run_torch if framework == "PyTorch" else run_cupy
        tarn = Tarn(shim)
        print(json.dumps({**run(workload, tarn, owns == "True"), **tarn.device()}))
        return 0
    runs = [run for run in RUNS if arguments.only is None or run[1] in arguments.only.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        shim = arguments.shim or torch_plugin.build(arguments.library.resolve(), arguments.include.resolve(),
                                                       folder)
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as threads:
            good = list(threads.map(lambda run: report(arguments, *run, shim), runs))
    print(f"{sum(good)} of {len(good)} as they should be")
    return 0 if all(good) else 1


def report(arguments, framework, workload, owns, shim):
    command = [sys.executable, __file__, "--library", arguments.library, "--include", arguments.include, "--one",
               framework, workload, str(owns), shim]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    name = f"{framework}, {workload}, {'Tarn as its allocator' if owns else 'its own allocator'}"
    if done.returncode != 0:
        print(f"{name}: failed\n{done.stderr}")
        return False
    result = json.loads(done.stdout.splitlines()[-1])
    found = faults(result)
    said = f"{name}: {'as it should be' if not found else '; '.join(found)}\n{result['text']}"
    if owns:
        said += f"with {result['freed']} freed:\n{result['text_after']}"
        said += "" if "again" in result else "its place was not used again\n"
    print(said, flush=True)
    if arguments.out:
        line = {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "commit": arguments.commit, "device": result["device"],
                "driver_version": result["driver_version"], "framework": framework, "version": result["version"],
                "workload": workload, "allocator": "Tarn" if owns else framework,
                **{key: result["before"][key] for key in ("nodes", "kernels", "pointers", "tensor_maps", "uninspected")},
                "counts": {name: count for name, count in result["before"]["counts"].items() if count},
                "freed_named": [{**{key: mistake.get(key) for key in ("node", "place", "index", "offset")},
                                 "kernel": (mistake.get("kernel") or "")[:KERNEL_CHARACTERS]}
                                for mistake in result.get("after", {}).get("mistakes", [])]}
        with arguments.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps({name: value for name, value in line.items() if value}) + "\n")
    return not found


if __name__ == "__main__":
    sys.exit(main())

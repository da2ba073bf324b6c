# SPDX-License-Identifier: Apache-2.0
"""What record.py and record_programs.py share: a workload runs in a process of its own, the child, and tells its facts
by a line of JSON, the last of its standard output. A workload is a function of (device, scale, notes, tiny)."""

import json
import sys
import traceback

import convert

DRY_RUN_SCALE = 0.25


class Failed(Exception):
    """The workload cannot be recorded; the sentence says why."""


class NoNotes:
    """For dry runs."""

    def __init__(self):
        self.steps = 0

    def step(self):
        self.steps += 1

    def use(self, tensor, stream):
        pass


# ---- in the child ----------------------------------------------------------------------------


def dry_run(name, workload):
    """The facts of a tiny run on the processor."""
    import torch

    torch.manual_seed(1)
    notes = NoNotes()
    workload(torch.device("cpu"), DRY_RUN_SCALE, notes, tiny=True)
    return {"trace": name, "dry_run": True, "steps": notes.steps}


def encode(torch, events, name, allocator, *peaks):
    """The bytes of a trace that this PyTorch and device have made."""
    source = f"PyTorch {torch.__version__}, {allocator}"
    device = torch.cuda.get_device_name()
    return convert.encode(events, name, source[: convert.TEXT_MAX], device[: convert.TEXT_MAX], *peaks)


def write(torch, folder, name, data, scale, seconds, facts):
    """Writes the trace and, beside it, its facts: those of every trace and the given ones. Returns them."""
    facts = {
        "trace": name,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "device": torch.cuda.get_device_name(),
        "scale": scale,
        "seconds": round(seconds, 1),
        "file_bytes": len(data),
        **facts,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.trace").write_bytes(data)
    (folder / f"{name}.json").write_text(json.dumps(facts, indent=2) + "\n")
    return facts


def tell(name, record):
    """Prints the line of facts that record returns. True where it has failed."""
    try:
        facts = record()
    except Exception as why:  # whatever it is, the parent gets a line
        traceback.print_exc()
        facts = {"trace": name, "error": f"{type(why).__name__}: {why}"}
    print(json.dumps(facts), flush=True)
    return "error" in facts


# ---- in the parent ---------------------------------------------------------------------------


def child_command(script, name, arguments, scale, *more):
    command = [sys.executable, str(script), "--child", "--only", name]
    command += ["--out", str(arguments.out), "--scale", str(scale), *more]
    return command + (["--dry-run"] if arguments.dry_run else [])


def heard(name, said, status):
    """The facts in a child's standard output."""
    try:
        return json.loads(said.decode().strip().splitlines()[-1])
    except (IndexError, ValueError):
        return {"trace": name, "error": f"ended with status {status}, and said nothing"}


def chosen(arguments, names):
    """The names that are to be recorded."""
    names = arguments.only or names
    if not arguments.missing:
        return list(names)
    return [name for name in names if not (arguments.out / f"{name}.trace").exists()]


def add_options(parser, names):
    parser.add_argument("--only", action="append", choices=names)
    parser.add_argument("--missing", action="store_true", help="leave out those whose trace is in OUT already")
    parser.add_argument("--scale", type=float, default=1.0, help="of the batches; 1: as large as meant")
    parser.add_argument("--dry-run", action="store_true", help="tiny, on the processor; nothing is recorded")

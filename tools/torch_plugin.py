# SPDX-License-Identifier: Apache-2.0
"""Builds torch_plugin.c, Tarn as PyTorch's allocator."""

import pathlib
import subprocess

SOURCE = pathlib.Path(__file__).resolve().with_suffix(".c")


def build(library, include, folder):
    """The plug-in's library, in the folder. library, include: Tarn's, as absolute paths."""
    built = pathlib.Path(folder) / "libtarn_torch.so"
    subprocess.run(["cc", "-std=c17", "-O2", "-shared", "-fPIC", f"-I{include}", "-o", str(built), str(SOURCE),
                    str(library), f"-Wl,-rpath,{library.parent}"], check=True)
    return built

# SPDX-License-Identifier: Apache-2.0
"""Which CUDA headers and library bench/rivals/build.sh takes, by trees that are not compiled: the
compilers and readelf are scripts, of which the former write down their arguments."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[2]


def write(path, text=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def script(path, text):
    write(path, "#!/bin/sh\n" + text)
    path.chmod(0o755)


class Build(unittest.TestCase):
    def setUp(self):
        self.base = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())).resolve()
        self.torch = self.base / "site" / "torch"
        write(self.torch / "include/c10/cuda/CUDACachingAllocator.h")
        write(self.torch / "lib/libc10_cuda.so")
        # What it writes goes below the root of the tree that it lies in.
        rivals = self.base / "tree/bench/rivals"
        rivals.mkdir(parents=True)
        shutil.copy(ROOT / "bench/rivals/build.sh", rivals)
        tools = self.base / "tools"
        script(tools / "readelf", "echo ' 0x1 (NEEDED) Shared library: [libcudart.so.13]'\n")
        script(tools / "cc", "true\n")
        script(tools / "c++", f'echo "$@" >>{self.base}/calls\n')

    def enterContext(self, context):  # there since Python 3.11
        entered = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        return entered

    def cuda(self, folder, version=None, complete=True, library=None, lib="lib"):
        if version is not None:
            write(folder / "include/cuda_runtime.h")
            write(folder / "include/cuda_runtime_api.h", f"#define CUDART_VERSION  {version}\n")
            if complete:
                write(folder / "include/crt/host_config.h")
        if library is not None:
            write(folder / lib / library)
        return folder

    def build(self, *arguments, **environment):
        path = f"{self.base}/tools:{os.environ['PATH']}"
        kept = {k: v for k, v in os.environ.items() if k not in ("CC", "CXX", "CUDA_HOME")}
        return subprocess.run(
            [self.base / "tree/bench/rivals/build.sh", self.torch, *arguments],
            env={**kept, "PATH": path, **environment}, capture_output=True, text=True)

    def expect(self, headers, library, *arguments, **environment):
        built = self.build(*arguments, **environment)
        self.assertEqual(built.returncode, 0, built.stderr)
        compiled, linked = (self.base / "calls").read_text().splitlines()
        self.assertIn(f"-isystem {headers}/include ", compiled)
        self.assertIn(f" {library} ", linked)
        self.assertTrue(linked.endswith(f":{pathlib.Path(library).parent}"), linked)

    def test_headers_without_those_of_the_compiler_are_passed_over(self):
        pip = self.cuda(self.base / "site/nvidia/cu13", 13000, False, "libcudart.so.13")
        home = self.cuda(self.base / "home", 13000, True, "libcudart.so.13", "lib64")
        self.expect(home, pip / "lib/libcudart.so.13", CUDA_HOME=str(home))

    def test_a_complete_folder_of_pip_has_both(self):
        pip = self.cuda(self.base / "site/nvidia/cu13", 13000, True, "libcudart.so.13")
        home = self.cuda(self.base / "home", 13000, True, "libcudart.so.13", "lib64")
        self.expect(pip, pip / "lib/libcudart.so.13", CUDA_HOME=str(home))

    def test_headers_of_the_same_major_version_are_preferred(self):
        named = self.cuda(self.base / "named", 12080, True, "libcudart.so.12")
        home = self.cuda(self.base / "home", 13010, True, "libcudart.so.13", "lib64")
        self.expect(home, home / "lib64/libcudart.so.13", str(named), CUDA_HOME=str(home))

    def test_what_is_named_comes_first(self):
        named = self.cuda(self.base / "named", 13000, True, "libcudart.so.13")
        home = self.cuda(self.base / "home", 13010, True, "libcudart.so.13", "lib64")
        self.expect(named, named / "lib/libcudart.so.13", str(named), CUDA_HOME=str(home))

    @unittest.skipIf(pathlib.Path("/usr/local/cuda").exists(), "it may be in the toolkit here")
    def test_a_library_that_is_missing_is_named(self):
        home = self.cuda(self.base / "home", 13010, True, "libcudart.so.12", "lib64")
        built = self.build(CUDA_HOME=str(home))
        self.assertEqual(built.returncode, 1)
        self.assertIn("no folder has libcudart.so.13", built.stderr)


if __name__ == "__main__":
    unittest.main()

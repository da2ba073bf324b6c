# SPDX-License-Identifier: Apache-2.0
"""Traces are packed and unpacked; bad files are refused."""

import contextlib
import io
import lzma
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tools" / "traces"))

import pack  # noqa: E402

DATA = bytes(range(256)) * 40


class Pack(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_main(self, *words):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
            status = pack.main([str(word) for word in words])
        return status, said.getvalue()

    def refuse(self, sentence, packed):
        with self.assertRaisesRegex(pack.Refused, sentence):
            pack.unpack(packed)

    def test_a_trace_comes_back_as_it_was(self):
        (self.folder / "a.trace").write_bytes(DATA)
        self.assertEqual(self.run_main("pack", self.folder / "a.trace", "--to", self.folder / "x")[0], 0)
        self.assertEqual(
            self.run_main("unpack", self.folder / "x" / "a.trace.xz", "--to", self.folder / "y")[0], 0
        )
        self.assertEqual((self.folder / "y" / "a.trace").read_bytes(), DATA)

    def test_the_same_trace_gives_the_same_bytes(self):
        self.assertEqual(pack.pack(DATA), pack.pack(DATA))

    def test_bad_files_are_refused(self):
        packed = pack.pack(DATA)
        self.refuse("is damaged", b"no xz at all")
        self.refuse("is damaged", packed[:60] + bytes([packed[60] ^ 1]) + packed[61:])
        self.refuse("is cut off", packed[:-1])
        self.refuse("bytes behind its end", packed + b"\0\0\0\0")
        self.refuse("unpacks to more", lzma.compress(bytes(pack.TRACE_MAX + 1)))

    def test_one_bad_file_does_not_stop_the_others(self):
        (self.folder / "a.trace.xz").write_bytes(b"no xz at all")
        (self.folder / "b.trace").write_bytes(b"no suffix")
        (self.folder / "c.trace.xz").write_bytes(pack.pack(DATA))
        files = sorted(self.folder.iterdir())
        status, said = self.run_main("unpack", *files, "--to", self.folder / "y")
        self.assertEqual(status, 1)
        self.assertIn("a.trace.xz: is damaged", said)
        self.assertIn("b.trace: does not end in .xz", said)
        self.assertEqual([path.name for path in (self.folder / "y").iterdir()], ["c.trace"])

    def test_too_much_for_the_repository_is_refused(self):
        (self.folder / "old.trace.xz").write_bytes(bytes(pack.PACKED_MAX))
        (self.folder / "a.trace").write_bytes(DATA)
        status, said = self.run_main("pack", self.folder / "a.trace", "--to", self.folder)
        self.assertEqual(status, 1)
        self.assertIn("3000000 are allowed", said)


if __name__ == "__main__":
    unittest.main()

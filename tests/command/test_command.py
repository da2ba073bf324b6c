# SPDX-License-Identifier: Apache-2.0
"""What the command tells of programs that record: of one that runs, and of one that was killed.

TARN_COMMAND is the command, and TARN_RECORDED the program tests/command/recorded.c.
"""

import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import unittest

COMMAND = os.environ["TARN_COMMAND"]
RECORDED = os.environ["TARN_RECORDED"]
SOURCE = pathlib.Path(__file__).with_name("recorded.c")
PAGE = 4096
SMALL = "history_bytes:65536,history_stacks:frames"


def line_of(mark):
    """The line of the program that says so."""
    lines = SOURCE.read_text().splitlines()
    return next(at for at, line in enumerate(lines, 1) if line.endswith(f"/* line of {mark} */"))


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tarn-command-"))
        self.programs = []
        self.environment = {**os.environ, "XDG_RUNTIME_DIR": str(self.folder)}

    def tearDown(self):
        for program in self.programs:
            program.kill()
            program.wait()
            program.stdout.close()
        shutil.rmtree(self.folder)

    def start(self, *arguments, conf="history_bytes:1M,history_stacks:frames", program=RECORDED):
        """The program, once it has done all and waits; and the address of its scratch block."""
        started = subprocess.Popen([program, *arguments], stdout=subprocess.PIPE, text=True,
                                   env={**self.environment, "TARN_CONF": conf})
        self.programs.append(started)
        while not (line := started.stdout.readline()).startswith("scratch "):
            self.assertTrue(line, "the program has ended")
        return started, "0x" + line.split()[1]

    def kill(self, program):
        program.send_signal(signal.SIGKILL)
        self.assertEqual(program.wait(), -signal.SIGKILL)

    def start_killed(self, *arguments, **more):
        program, scratch = self.start(*arguments, **more)
        self.kill(program)
        return program, scratch

    def file_of(self, program):
        return next(self.folder.glob(f"*-{program.pid}.ring"))

    def run_command(self, *arguments, status=0, **more):
        """The command's two outputs."""
        done = subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, env=self.environment,
                              timeout=120, check=False, **more)
        self.assertEqual(done.returncode, status, (arguments, done))
        return done.stdout.decode(), done.stderr.decode()

    def refused(self, *arguments, status=2):
        """The one line that says why."""
        out, said = self.run_command(*arguments, status=status)
        self.assertEqual(out, "")
        self.assertRegex(said, r"\Atarn: [^\n]+\n\Z")
        return said

    def read_json(self, *arguments, status=0):
        out, _ = self.run_command(*arguments, "--json", status=status)
        checked = subprocess.run([sys.executable, "-m", "json.tool"], input=out, text=True,
                                 capture_output=True, check=False)
        self.assertEqual(checked.returncode, 0, checked.stderr)
        return json.loads(out)


class Programs(Case):
    def test_leaks_name_functions_and_lines_worst_first(self):
        program, _ = self.start_killed()
        read = self.read_json("leaks", program.pid)
        self.assertFalse(read["running"])
        self.assertEqual(read["program"], pathlib.Path(RECORDED).name)
        self.assertEqual((read["live_blocks"], len(read["stacks"])), (4, 2))
        weights, table = read["stacks"]
        self.assertEqual((weights["blocks"], weights["requested"]), (3, 3000000))
        self.assertEqual((table["blocks"], table["requested"]), (1, 5000))
        for stack, name in ((weights, "leak_weights"), (table, "leak_table")):
            frames = [(frame.get("function"), frame["inlined"], frame.get("line"))
                      for frame in stack["frames"]]
            # An inlined function is told where there is an optimiser, and where there is none.
            self.assertIn((name, False, line_of(name)), frames)
            self.assertIn(("allocate", True, line_of("allocate")), frames)
            self.assertTrue(any(frame[0] == "main" for frame in frames), frames)
            self.assertTrue(stack["frames"][0]["file"].endswith("recorded.c"))
        text, _ = self.run_command("leaks", self.file_of(program))
        self.assertRegex(text, rf"leak_weights at \S*recorded\.c:{line_of('leak_weights')} in \S+\+0x")
        self.assertRegex(text, r"2\.9 MiB in 3 blocks: numbers \d+ to \d+, pool 1\n")

    def test_a_process_that_runs_is_dumped_by_its_number(self):
        program, _ = self.start()
        read = self.read_json("dump", program.pid)
        self.assertTrue(read["running"])
        self.assertEqual(read["process"], program.pid)
        self.assertEqual(read["pools"][0]["blocks"], 4)
        self.assertEqual(len(read["events"]), 20)
        times = [event["time_ns"] for event in read["events"]]
        self.assertEqual(times, sorted(times))
        self.assertEqual(read["events"][-1]["event"], "graph replayed")
        self.assertEqual(len(self.read_json("dump", program.pid, "--events", 3)["events"]), 3)
        text, _ = self.run_command("dump", program.pid)
        self.assertRegex(text, r"process +\d+ \(\w+\), running\n")
        program.send_signal(0)

    def test_a_freed_block_has_its_story(self):
        program, scratch = self.start_killed()
        read = self.read_json("dump", program.pid, "--block", scratch)
        self.assertEqual(read["live"], [])
        events = [event["event"] for event in read["events"]]
        at = [events.index(name) for name in
              ("memory mapped", "allocated", "freed", "graph made", "graph replayed")]
        self.assertEqual(at, sorted(at))
        allocated, freed = read["events"][at[1]], read["events"][at[2]]
        self.assertEqual(allocated["block"], freed["block"])
        self.assertEqual((allocated["address"], allocated["requested"]), (scratch, 70000))
        self.assertNotEqual(allocated["capture"], 0)
        self.assertIn("make_scratch", [frame.get("function") for frame in allocated["frames"]])
        self.assertEqual(events.count("graph replayed"), 1)
        inner = hex(int(scratch, 16) + 69999)
        self.assertEqual(self.read_json("dump", program.pid, "--block", inner)["events"], read["events"])
        text, _ = self.run_command("dump", program.pid, "--block", scratch)
        self.assertIn(f"address {scratch} is in no live block\n", text)
        self.assertRegex(text, rf"make_scratch at \S*recorded\.c:{line_of('make_scratch')} ")
        self.assertEqual(self.run_command("dump", program.pid, "--block", "0x10", status=1)[1], "")

    def test_a_live_block_is_told_by_any_address_of_it(self):
        program, _ = self.start_killed()
        events = self.read_json("dump", program.pid, "--events", 1000)["events"]
        block = next(event for event in events if event.get("requested") == 5000)
        read = self.read_json("dump", program.pid, "--block", hex(int(block["address"], 16) + 5))
        self.assertEqual([live["block"] for live in read["live"]], [block["block"]])

    def test_a_pool_is_told_alone(self):
        program, _ = self.start_killed()
        read = self.read_json("dump", program.pid, "--pool", 2, "--events", 1000)
        self.assertEqual(read["pools"], [])
        self.assertTrue(read["events"])
        self.assertEqual({event.get("pool", 2) for event in read["events"]}, {2})
        self.run_command("leaks", program.pid, "--pool", 2, status=1)
        self.run_command("dump", program.pid, "--pool", 99, status=1)

    def test_stacks_of_some_allocations_stand_for_all(self):
        program, _ = self.start_killed(
            conf="history_bytes:1M,history_stacks:frames,history_sample_bytes:300000")
        read = self.read_json("leaks", program.pid)
        self.assertEqual(read["sample_bytes"], 300000)
        for stack in read["stacks"]:
            if stack["stack"]:
                self.assertGreater(stack["estimated_requested"], stack["requested"])
            else:
                self.assertEqual(stack["estimated_requested"], stack["requested"])

    def test_without_stacks_blocks_are_told_all_the_same(self):
        program, _ = self.start_killed(conf="history_bytes:65536")
        read = self.read_json("leaks", program.pid)
        self.assertEqual([(stack["blocks"], stack["frames"]) for stack in read["stacks"]], [(4, [])])
        self.assertIn("no stacks: see history_stacks", self.run_command("leaks", program.pid)[0])

    def copy_program(self):
        copy = self.folder / "program"
        shutil.copy(RECORDED, copy)
        self.environment["LD_LIBRARY_PATH"] = str(pathlib.Path(RECORDED).parents[1] / "lib")
        return copy

    def test_names_of_cpp_are_readable_where_its_library_is(self):
        try:
            ctypes.CDLL("libstdc++.so.6")
            name = "tables::make(int)"
        except OSError:
            name = "_ZN6tables4makeEi"
        program, _ = self.start_killed()
        stacks = self.read_json("leaks", program.pid)["stacks"]
        self.assertIn(name, [frame.get("function") for frame in stacks[1]["frames"]])

    @unittest.skipIf(shutil.which("objcopy") is None, "no objcopy")
    def test_names_are_found_in_a_file_of_debug_information(self):
        copy = self.copy_program()
        debug = f"{copy}.debug"
        for arguments in (["--only-keep-debug", copy, debug], ["--strip-all", copy],
                          [f"--add-gnu-debuglink={debug}", copy]):
            subprocess.run(["objcopy", *arguments], check=True)
        program, _ = self.start_killed(program=str(copy))
        text, _ = self.run_command("leaks", program.pid)
        self.assertRegex(text, rf"leak_weights at \S*recorded\.c:{line_of('leak_weights')} in program")
        build_id = next(frame["build_id"] for frame in
                        self.read_json("leaks", program.pid)["stacks"][0]["frames"])
        place = self.folder / "symbols" / ".build-id" / build_id[:2]
        place.mkdir(parents=True)
        os.rename(debug, place / f"{build_id[2:]}.debug")
        for _ in range(2):  # the program's own file is stripped, then it is gone
            self.assertNotIn("leak_weights", self.run_command("leaks", program.pid)[0])
            text, _ = self.run_command("leaks", program.pid, "--debug", self.folder / "symbols")
            self.assertRegex(text, rf"leak_weights at \S*recorded\.c:{line_of('leak_weights')} in program")
            copy.unlink(missing_ok=True)

    def test_a_program_that_was_built_anew_is_not_believed(self):
        copy = self.copy_program()
        program, _ = self.start_killed(program=str(copy))
        self.assertIn("leak_weights", self.run_command("leaks", program.pid)[0])
        build_id = bytes.fromhex(self.read_json("leaks", program.pid)["stacks"][0]["frames"][0]["build_id"])
        anew = copy.read_bytes()
        self.assertEqual(anew.count(build_id), 1)
        copy.unlink()
        copy.write_bytes(anew.replace(build_id, bytes(byte ^ 1 for byte in build_id)))
        text, _ = self.run_command("leaks", program.pid)
        self.assertNotIn("leak_weights", text)
        self.assertRegex(text, r"\n    program\+0x[0-9a-f]+\n")
        copy.unlink()
        os.mkfifo(copy)
        self.assertRegex(self.run_command("leaks", program.pid)[0], r"\n    program\+0x[0-9a-f]+\n")

    def test_ten_million_events_take_little_memory(self):
        count = int(os.environ.get("TARN_COMMAND_PAIRS", "500000"))
        program, _ = self.start_killed("churn", str(count), conf=f"history_bytes:{64 * count}")
        meter = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); "
                 "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
        done = subprocess.run([sys.executable, "-c", meter, COMMAND, "dump", str(program.pid), "--json"],
                              capture_output=True, text=True, env=self.environment, timeout=600, check=True)
        text, _, kilobytes = done.stdout.rstrip().rpartition("\n")
        read = json.loads(text)
        self.assertGreater(read["events_in_log"], 2 * count)
        self.assertEqual(len(read["events"]), 20)
        # The log may be one free behind.
        self.assertIn(read["events"][-1]["event"], ("allocated", "freed"))
        if "TARN_COMMAND_ANY_MEMORY" not in os.environ:
            self.assertLess(int(kilobytes), 64 << 10)


class Lists(Case):
    def test_histories_are_listed_running_and_ended(self):
        running, _ = self.start()
        killed, _ = self.start_killed(conf=SMALL)
        self.environment["TARN_SIM_DEVICES"] = "2"
        self.start("two", conf=SMALL)
        listed = {}
        for entry in self.read_json("list"):
            if entry["file"].startswith(str(self.folder)):
                listed.setdefault(entry["process"], []).append(entry)
        self.assertEqual([entry["state"] for entry in listed[running.pid]], ["running"])
        self.assertEqual([entry["state"] for entry in listed[killed.pid]], ["ended"])
        self.assertEqual(listed[killed.pid][0]["program"], pathlib.Path(RECORDED).name)
        self.assertGreater(listed[running.pid][0]["bytes"], 1 << 20)
        self.assertLess(listed[running.pid][0]["age_seconds"], 300)
        two = self.programs[-1].pid
        self.assertEqual(len(listed[two]), 2)
        said = self.refused("dump", two)
        self.assertIn("2 histories", said)
        self.run_command("dump", said.split()[-1])
        text, _ = self.run_command("list")
        self.assertRegex(text, rf"\n +{killed.pid}  ended .* {self.file_of(killed)}\n")

    def test_a_file_that_is_no_history_does_not_end_the_list(self):
        self.start_killed(conf=SMALL)
        name = f"tarn-{os.geteuid()}-0000000000000001-999999991.ring"
        (self.folder / name).write_bytes(b"nothing")
        entries = self.read_json("list")
        self.assertIn("no history", [entry["state"] for entry in entries])
        self.assertIn("ended", [entry["state"] for entry in entries])


class Refusals(Case):
    def test_processes_without_a_history_are_told_apart(self):
        gone = subprocess.Popen(["true"])
        gone.wait()
        self.assertIn("is gone", self.refused("dump", gone.pid, status=1))
        self.assertIn("has no history", self.refused("leaks", os.getpid(), status=1))

    def test_usage_is_said_in_one_line(self):
        self.assertIn("needs a PID", self.refused("dump"))
        self.assertIn("no command", self.refused("dunp", "1"))
        self.assertIn("does not take", self.refused("leaks", "1", "--events", "3"))
        self.assertIn("is no number", self.refused("dump", "1", "--events", "many"))
        self.assertIn("usage:", self.run_command("help")[0])
        self.assertIn("usage:", self.run_command(status=2)[1])
        self.assertRegex(self.run_command("--version")[0], r"\Atarn \d+\.\d+\.\d+\n\Z")

    def test_files_that_are_no_histories_are_refused(self):
        other = self.folder / "other"
        self.assertIn("cannot be opened", self.refused("dump", other))
        for content in (b"", b"\x89TRING\r\n", os.urandom(PAGE * 4), b"\0" * PAGE * 4):
            other.write_bytes(content)
            self.assertIn("no history", self.refused("dump", other))
        self.assertIn("no history", self.refused("dump", self.folder))
        self.assertIn("no history", self.refused("dump", "/dev/zero"))
        link = self.folder / "link"
        link.symlink_to(other)
        self.assertIn("symbolic link", self.refused("leaks", link))
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        self.assertIn("no history", self.refused("leaks", pipe))
        program, _ = self.start_killed(conf=SMALL)
        whole = bytearray(self.file_of(program).read_bytes())
        whole[8] += 1
        other.write_bytes(whole)
        self.assertRegex(self.refused("dump", other), r"of version \d+: this command reads version \d+")

    @unittest.skipIf(os.geteuid() == 0, "root reads all files")
    def test_a_file_of_another_user_is_refused(self):
        program, _ = self.start_killed(conf=SMALL)
        self.file_of(program).chmod(0)
        self.assertIn("another user's", self.refused("dump", self.file_of(program)))

    def test_a_file_cut_short_anywhere_is_read_or_refused(self):
        program, _ = self.start_killed(conf=SMALL)
        whole = self.file_of(program).read_bytes()
        cut = self.folder / "cut"
        answers = set()
        for length in range(0, len(whole), PAGE):
            cut.write_bytes(whole[:length])
            done = subprocess.run([COMMAND, "dump", str(cut), "--json"], capture_output=True, timeout=60,
                                  check=False)
            answers.add(done.returncode)
            self.assertIn(done.returncode, (0, 2), (length, done.stderr))
            if done.returncode == 0:
                self.assertEqual(json.loads(done.stdout)["unread_parts"], 1)
            else:
                self.assertRegex(done.stderr, rb"\Atarn: [^\n]+\n\Z")
        self.assertEqual(answers, {0, 2})

    def test_bytes_that_no_writer_wrote_do_no_harm(self):
        program, scratch = self.start_killed(conf=SMALL)
        whole = self.file_of(program).read_bytes()
        other = self.folder / "other"
        source = int.from_bytes(os.urandom(8), "little")
        for round_number in range(24):
            changed = bytearray(whole)
            state = source + round_number
            for _ in range(64 << round_number % 6):
                state = (state * 6364136223846793005 + 1442695040888963407) & (1 << 64) - 1
                at = 64 + (state >> 20) % (len(changed) - 72)
                if round_number % 2:
                    changed[at] = state >> 56
                else:
                    changed[at & ~7:(at & ~7) + 8] = state.to_bytes(8, "little")
            other.write_bytes(changed)
            for arguments in (["dump"], ["dump", "--block", scratch], ["leaks"]):
                done = subprocess.run([COMMAND, *arguments, str(other), "--json"], capture_output=True,
                                      timeout=60, check=False)
                self.assertIn(done.returncode, (0, 1, 2), (source, round_number, done))
                if done.returncode != 2:
                    json.loads(done.stdout)

    def test_no_text_of_a_file_moves_the_terminals_cursor(self):
        program, _ = self.start_killed(conf=SMALL)
        whole = self.file_of(program).read_bytes()
        name = pathlib.Path(RECORDED).name.encode()
        self.assertIn(name, whole)
        other = self.folder / "other"
        other.write_bytes(whole.replace(name, b"\x1b[2J" + name[4:]))
        text, _ = self.run_command("leaks", other)
        self.assertNotIn("\x1b", text)
        self.assertIn("?[2J", text)


class Shell(Case):
    def complete(self, *words):
        script = SOURCE.parents[2] / "command" / "tarn.bash"
        line = ('. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tarn; '
                'printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "-c", line, "bash", str(script), COMMAND, *words], text=True,
                              capture_output=True, env=self.environment, check=True)
        return done.stdout.split()

    def test_words_are_completed(self):
        program, _ = self.start_killed(conf=SMALL)
        self.assertEqual(self.complete("l"), ["list", "leaks"])
        self.assertEqual(self.complete("leaks", "--p"), ["--pool"])
        self.assertEqual(self.complete("leaks", "--e"), [])
        self.assertIn(str(program.pid), self.complete("dump", str(program.pid)[:1]))
        self.assertEqual(self.complete("dump", "1", "--events", ""), [])

    def test_the_page_of_the_manual_has_every_option(self):
        page = (SOURCE.parents[2] / "command" / "tarn.1").read_text().replace("\\-", "-")
        usage, _ = self.run_command("help")
        for option in re.findall(r"--\w+", usage):
            self.assertIn(option, page)
            if option not in ("--help", "--version"):
                self.assertIn(option, (SOURCE.parents[2] / "command" / "tarn.bash").read_text())


class Outputs(Case):
    def test_a_file_gets_its_name_when_it_is_whole(self):
        program, _ = self.start_killed(conf=SMALL)
        report = self.folder / "report.json"
        report.write_text("old")
        self.assertEqual(self.run_command("dump", program.pid, "--json", "-o", report), ("", ""))
        self.assertEqual(json.loads(report.read_text())["process"], program.pid)
        self.assertEqual(list(self.folder.glob("report*")), [report])
        mask = os.umask(0)
        os.umask(mask)
        self.assertEqual(stat.S_IMODE(report.stat().st_mode), 0o666 & ~mask)

    def test_what_cannot_be_written_is_said(self):
        program, _ = self.start_killed(conf=SMALL)
        with open("/dev/full", "wb") as full:
            for arguments in (["dump", str(program.pid)], ["list"], ["help"]):
                done = subprocess.run([COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE,
                                      env=self.environment, check=False)
                self.assertEqual(done.returncode, 2, arguments)
                self.assertRegex(done.stderr, rb"\Atarn: standard output cannot be written")
        self.refused("dump", program.pid, "-o", self.folder / "nowhere" / "report")
        self.refused("dump", program.pid, "-o", self.folder)
        self.assertEqual(re.findall(r"report|\.ring\.\w+", " ".join(os.listdir(self.folder))), [])


if __name__ == "__main__":
    unittest.main()

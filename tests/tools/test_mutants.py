# SPDX-License-Identifier: Apache-2.0
"""How tables of mutants are read, what is found wrong with them, and what a moved function does."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "mutants"))

import mutants  # noqa: E402
import tables  # noqa: E402

POOL = """\
static int first(int value)
{
    if (value > 0)
        return 1;
    return 0;
}

static int second(int value)
{
    if (value > 0)
        return 2;
    log(value);
    return 0;
}
"""

HEAD = ["mutant: a-name", "breaks: a rule", "caught: unit_pool a_case"]


class Mutants(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.write("src/pools/pool.c", POOL)
        self.write("src/vmm/chunk.c", "int chunk;\n")

    def write(self, file, text):
        path = pathlib.Path(self.folder.name, file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def mutant(self, *lines):
        return tables.read_mutant(HEAD + list(lines), "pools.mutants", 1)

    def sources(self):
        return tables.Sources(self.folder.name)

    def applied(self, *lines):
        return tables.apply(self.mutant(*lines), self.sources())

    def faults(self, *lines):
        return mutants.faults_of([self.mutant(*lines)], self.sources(), {"a_case"})

    def refuse(self, sentence, function, *arguments):
        with self.assertRaises(tables.Wrong) as raised:
            function(*arguments)
        self.assertIn(sentence, str(raised.exception))

    def test_a_part_of_a_line_is_replaced(self):
        changed = self.applied("in: src/pools/pool.c", "- return 2", "+ return 3")
        self.assertEqual(changed, {"src/pools/pool.c": POOL.replace("return 2", "return 3")})

    def test_a_function_tells_which_of_two_texts(self):
        changed = self.applied("in: src/pools/pool.c second", "- value > 0", "+ value > 1")
        second = POOL.index("0", POOL.index("second"))
        self.assertEqual(changed["src/pools/pool.c"], POOL[:second] + "1" + POOL[second + 1:])

    def test_without_a_new_text_lines_go_whole(self):
        changed = self.applied("in: src/pools/pool.c", "- log(value);")
        self.assertEqual(changed["src/pools/pool.c"], POOL.replace("    log(value);\n", ""))
        self.refuse("whole lines go", self.applied, "in: src/pools/pool.c", "- log(value)")

    def test_a_mutant_has_several_replacements_in_several_files(self):
        changed = self.applied("in: src/pools/pool.c", "- log(value);", "+ log(0);",
                               "- return 1", "+ return 4",
                               "in: src/vmm/chunk.c", "- int", "+ long", "+")
        self.assertEqual(changed, {
            "src/pools/pool.c": POOL.replace("(value);", "(0);").replace("return 1", "return 4"),
            "src/vmm/chunk.c": "long\n chunk;\n"})

    def test_replacements_do_not_overlap(self):
        self.refuse("overlap", self.applied, "in: src/pools/pool.c",
                    "- return 2;", "+ ;", "- 2;", "+ 3;")

    def test_a_text_that_is_nowhere_is_a_fault(self):
        self.assertEqual(len(self.faults("in: src/pools/pool.c", "- return 5", "+ return 6")), 1)
        self.assertEqual(len(self.faults("in: src/pools/pool.c first", "- log(value);")), 1)
        self.assertEqual(len(self.faults("in: src/pools/gone.c", "- return 5", "+ return 6")), 1)

    def test_a_text_that_stands_twice_is_a_fault(self):
        faults = self.faults("in: src/pools/pool.c first", "- value > 0", "+ gone(value)")
        self.assertEqual(faults, ["a-name: no source has the name gone"])
        self.assertEqual(self.faults("in: src/pools/pool.c first", "- value > 0", "+ second(value)"), [])
        faults = self.faults("in: src/pools/pool.c", "- value > 0", "+ value > 1")
        self.assertIn("more than once, in src/pools/pool.c:3, src/pools/pool.c:10", faults[0])

    def test_a_case_that_no_test_has_is_a_fault(self):
        self.assertEqual(self.faults("in: src/pools/pool.c", "- return 2", "+ return 3"), [])
        mutant = self.mutant("in: src/pools/pool.c", "- return 2", "+ return 3")
        self.assertEqual(len(mutants.faults_of([mutant], self.sources(), {"another_case"})), 1)

    def test_a_function_that_moved_is_found_told_and_followed(self):
        lines = ["in: src/pools/pool.c second", "- value > 0", "+ value > 1"]
        first, second = POOL.split("\n\n")
        self.write("src/pools/pool.c", first + "\n")
        self.write("src/vmm/chunk.c", "int chunk;\n\n" + second)
        self.assertEqual(list(self.applied(*lines)), ["src/vmm/chunk.c"])
        self.assertIn("is in src/vmm/chunk.c", self.faults(*lines)[0])
        mended = tables.mended([self.mutant(*lines)], self.sources())
        self.assertEqual(list(mended), ["vmm"])
        self.assertIn("in: src/vmm/chunk.c second\n- value > 0\n", mended["vmm"])

    def test_a_text_that_moved_to_two_places_is_a_fault(self):
        self.write("src/vmm/chunk.c", POOL)
        self.write("src/vmm/other.c", POOL)
        self.write("src/pools/pool.c", "int pool;\n")
        faults = self.faults("in: src/pools/pool.c", "- return 2", "+ return 3")
        self.assertIn("more than once", faults[0])

    def test_a_table_is_written_as_it_was_read_and_in_order(self):
        entry = "mutant: {}\n# why\nbreaks: a rule\n    of two lines\ncaught: unit_pool a_case\n" \
                "in: src/pools/pool.c\n- return 2\n+ return 3\n"
        one, two = entry.format("one"), entry.format("two")
        table = tables.read_table("pools.mutants", "\n".join(["# old head\n", two, one]))
        self.assertEqual(table[0].fields["breaks"], "a rule of two lines")
        self.assertEqual(tables.mended(table, self.sources()),
                         {"pools": "\n".join([tables.HEAD, one, two])})

    def test_files_outside_the_layers_have_a_table_of_their_own(self):
        self.assertEqual(tables.table_of("src/sim/event.c"), "sim")
        self.assertEqual(tables.table_of("src/tarn.map"), tables.OTHER)
        self.assertEqual(tables.table_of("include/tarn/pool.h"), tables.OTHER)

    def test_what_cannot_be_read_is_refused_with_its_line(self):
        place = "in: src/pools/pool.c"
        self.refuse("pools.mutants:4: - and + stand below", self.mutant, "- return 2")
        self.refuse("pools.mutants:5: + stands below a -", self.mutant, place, "+ return 2")
        self.refuse("pools.mutants:5: a space stands", self.mutant, place, "-return 2")
        self.refuse("pools.mutants:4: rule: is no field", self.mutant, "rule: another")
        self.refuse("pools.mutants:4: breaks: is no field, or s", self.mutant, "breaks: b")
        self.refuse("pools.mutants:5: no field goes on", self.mutant, "# comment", "  more")
        self.refuse("no in:", self.mutant)
        self.refuse("no text after -", self.mutant, place, "-", "+ return 2")
        self.refuse("nothing changes", self.mutant, place, "- return 2", "+ return 2")
        self.refuse("no caught:", tables.read_table, "pools.mutants", "mutant: a\nbreaks: b\n")
        self.refuse("pools.mutants:3: a comm", tables.read_table, "pools.mutants", "# a\n\n# b\n")

    def test_a_name_is_given_once(self):
        mutant = self.mutant("in: src/pools/pool.c", "- return 2", "+ return 3")
        self.refuse("two mutants", tables.all_of, {"pools": [mutant], "vmm": [mutant]})


if __name__ == "__main__":
    unittest.main()

// SPDX-License-Identifier: Apache-2.0
/* The main of all suites whose tests have entered themselves, and what they have entered. */
#include "support/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct test_suite *suites;
static struct test_group
    *groups; /* those of a file follow each other, in the order of their lines */

void test_enter_suite(struct test_suite *suite)
{
    suite->next = suites;
    suites = suite;
}

/* In which order a file enters what it has, no compiler says. All of one file comes before another file's. */
void test_enter_group(struct test_group *group)
{
    struct test_group **place = &groups;

    while (*place != NULL &&
           (strcmp((*place)->file, group->file) != 0 || (*place)->line < group->line))
        place = &(*place)->next;
    group->next = *place;
    *place = group;
}

void test_enter(struct test_group *group, struct test_entry *entry)
{
    struct test_entry **place = &group->tests;

    while (*place != NULL && (*place)->test->line <= entry->test->line)
        place = &(*place)->next;
    entry->next = *place;
    *place = entry;
}

/* unit/test_heap_check.c is heap_check, where it says nothing else. */
static Suite *suite_of(struct test_group *group)
{
    const char *name = strrchr(group->file, '/');

    for (const struct test_suite *suite = suites; suite != NULL; suite = suite->next) {
        if (strcmp(suite->file, group->file) == 0)
            return suite_create(suite->name);
    }
    name = name != NULL ? name + 1 : group->file;
    if (strncmp(name, "test_", 5) == 0)
        name += 5;
    (void)snprintf(group->suite, sizeof group->suite, "%.*s", (int)strcspn(name, "."), name);
    return suite_create(group->suite);
}

/* False: there is nothing to run where there should be. */
static bool add(Suite *suite, const struct test_group *group)
{
    const struct test_group_options *options = &group->options;
    TCase *tcase = tcase_create(options->name != NULL ? options->name : group->id);
    bool whole = group->tests != NULL;

    suite_add_tcase(suite, tcase);
    tcase_add_checked_fixture(tcase, options->begin, options->end);
    if (options->timeout > 0)
        tcase_set_timeout(tcase, options->timeout);
    if (!whole)
        (void)fprintf(stderr, "%s:%d: %s has no tests\n", group->file, group->line, group->id);
    for (const struct test_entry *entry = group->tests; entry != NULL; entry = entry->next) {
        if (options->left_out || entry->options.left_out)
            continue;
        if (entry->from >= entry->to) {
            (void)fprintf(stderr, "%s:%d: %s has no rounds\n", entry->test->file, entry->test->line,
                          entry->test->name);
            whole = false;
        }
        if (entry->options.signal != 0)
            tcase_add_loop_test_raise_signal(tcase, entry->test, entry->options.signal, entry->from,
                                             entry->to);
        else
            tcase_add_loop_exit_test(tcase, entry->test, entry->options.status, entry->from,
                                     entry->to);
    }
    return whole;
}

int main(void)
{
    SRunner *runner = srunner_create(NULL);
    const char *file = NULL;
    Suite *suite = NULL;
    bool whole = groups != NULL;

    if (!whole)
        (void)fprintf(stderr, "there are no tests\n");
    for (struct test_group *group = groups; group != NULL; group = group->next) {
        if (file == NULL || strcmp(file, group->file) != 0) {
            suite = suite_of(group);
            srunner_add_suite(runner, suite);
        }
        file = group->file;
        whole = add(suite, group) && whole;
    }
    return whole ? test_main(runner) : EXIT_FAILURE;
}

// SPDX-License-Identifier: Apache-2.0
/* registry.h -- tests that enter themselves, so that none is written and not run.
 *
 *     SUITE("tags of blocks")
 *     GROUP(tags, test_world_open, test_world_close)
 *
 *     TEST(tags, a_block_has_the_tag_that_was_set_last)
 *     {
 *         ...
 *     }
 *
 * Each file of tests is a suite of Check, each group a case of it, and one main runs them all, in the order of their
 * lines. A group without tests, or a loop without rounds, fails the run. A program that has a main of its own
 * can have no groups: it is not linked. */
#ifndef TARN_TESTS_SUPPORT_REGISTRY_H
#define TARN_TESTS_SUPPORT_REGISTRY_H

#include <check.h>
#include <stdbool.h>
#include <stddef.h>

struct test_group_options {
    void (*begin)(void); /* before each test, in its process */
    void (*end)(void);
    const char *name; /* NULL: as the source calls it */
    double timeout;   /* in seconds; 0: a minute */
    bool left_out;    /* its tests are for other builds */
};

struct test_options {
    int signal; /* that ends the test */
    int status; /* that it exits with */
    bool left_out;
};

struct test_entry {
    const TTest *test;
    int from;
    int to;
    struct test_options options;
    struct test_entry *next;
};

struct test_group {
    const char *id;
    const char *file;
    int line;
    struct test_group_options options;
    struct test_entry *tests;
    struct test_group *next;
    char suite[64]; /* the name of its file's, if none is given; Check keeps the address alone */
};

struct test_suite {
    const char *file;
    const char *name;
    struct test_suite *next;
};

/* What the suite of this file is called, where that is not the file's name. */
#define SUITE(words)                                                                               \
    __attribute__((constructor)) static void enter_suite(void)                                     \
    {                                                                                              \
        static struct test_suite suite = {.file = __FILE__, .name = words};                        \
        test_enter_suite(&suite);                                                                  \
    }

/* GROUP(id, begin, end, .timeout = 120): what stands before and behind each test, or NULL, then the other
 * options. Behind begin all may be left out. */
#define GROUP(id_, ...)                                                                            \
    static struct test_group group_##id_ = {.id = #id_, .file = __FILE__, .line = __LINE__};       \
    __attribute__((constructor)) static void enter_group_##id_(void)                               \
    {                                                                                              \
        group_##id_.options = (struct test_group_options){.begin = __VA_ARGS__};                   \
        test_enter_group(&group_##id_);                                                            \
    }

#define TEST(group, name) TEST_IN(group_##group, name, 0, 1, .signal = 0)

/* A test for each _i from the first to the one before the last. */
#define TEST_LOOP(group, name, first, last) TEST_IN(group_##group, name, first, last, .signal = 0)

/* The same with options: TEST_WITH(group, name, 0, 1, .status = 3). */
#define TEST_WITH(group, name, first, last, ...)                                                   \
    TEST_IN(group_##group, name, first, last, __VA_ARGS__)

/* A TEST from further up once more, in a second group. */
#define TEST_ALSO(group, name) TEST_ENTER(group_##group, also_##name, name, 0, 1, .signal = 0)

#define TEST_IN(group, name, first, last, ...)                                                     \
    static const TTest *name;                                                                      \
    TEST_ENTER(group, enter_##name, name, first, last, __VA_ARGS__)                                \
    START_TEST(name)

#define TEST_ENTER(group, function, name, first, last, ...)                                        \
    __attribute__((constructor)) static void function(void)                                        \
    {                                                                                              \
        static struct test_entry entry;                                                            \
        entry.test = name;                                                                         \
        entry.from = first;                                                                        \
        entry.to = last;                                                                           \
        entry.options = (struct test_options){__VA_ARGS__};                                        \
        test_enter(&group, &entry);                                                                \
    }

void test_enter_suite(struct test_suite *suite);
void test_enter_group(struct test_group *group);
void test_enter(struct test_group *group, struct test_entry *entry);

/* Runs what a main of its own has put together: forking unless CK_FORK=no. A test may take a minute, where its case
 * says nothing else. */
int test_main(SRunner *runner);

#endif

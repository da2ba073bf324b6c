// SPDX-License-Identifier: Apache-2.0
#include "planted/judge.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "planted/plant.h"

enum { GRAPH_NODES = 3, REPORT_BYTES = 16 << 10 };

static bool is_kernel(const struct planted_expected *expected)
{
    return expected->type == TN_CU_NODE_KERNEL;
}

/* -- Nodes ------------------------------------------------------------------------------------------ */

static void judge_nodes(const tarn_audit *audit, const struct planted_expected *expected)
{
    static const int outer[] = {[IN_CHILD] = TN_CU_NODE_GRAPH, [IN_BODY] = TN_CU_NODE_CONDITIONAL};
    bool is_in_graph = expected->graph == IN_GRAPH;
    size_t count = is_in_graph ? GRAPH_NODES : 2 * GRAPH_NODES;

    ck_assert_uint_eq(audit->node_count, count);
    ck_assert_uint_eq(audit->uninspected_count, 0);
    ck_assert_uint_eq(audit->kernel_count, is_kernel(expected) ? 1 : 0);
    for (uint32_t i = 0; i < count; i++) {
        const tarn_audit_node *node = &audit->nodes[i];
        bool is_planted = i + 2 == count;

        ck_assert_uint_eq(node->ordinal, i % GRAPH_NODES);
        ck_assert_uint_eq(node->parent, i < GRAPH_NODES ? TARN_NO_NODE : 1);
        ck_assert_int_eq(node->inspection, TARN_INSPECTED);
        if (is_planted)
            ck_assert_int_eq(node->type, expected->type);
        else if (i == 1)
            ck_assert_int_eq(node->type, outer[expected->graph]);
        else
            ck_assert_int_eq(node->type, TN_CU_NODE_MEMSET);
        if (is_planted && is_kernel(expected))
            ck_assert_str_eq(node->kernel, PLANTED_KERNEL);
        else
            ck_assert_ptr_null(node->kernel);
    }
}

/* -- Pointers --------------------------------------------------------------------------------------- */

static void judge_block(const tarn_block *block, const tarn_block *expected)
{
    ck_assert_ptr_eq(block->address, expected->address);
    ck_assert_uint_eq(block->bytes, expected->bytes);
    ck_assert_uint_eq(block->block_bytes, expected->block_bytes);
    ck_assert_uint_eq(block->sequence, expected->sequence);
    ck_assert_ptr_eq(block->pool, expected->pool);
}

static void judge_mistake(const tarn_audit *audit, const struct planted_expected *expected)
{
    const tarn_pointer *is = &audit->mistakes[0];
    const tarn_pointer *wanted = &expected->pointer;

    ck_assert_uint_eq(audit->mistake_count, 1);
    if (!expected->may_be_unknown || is->pointer_class != TARN_POINTER_UNKNOWN)
        ck_assert_str_eq(tarn_pointer_class_name(is->pointer_class),
                         tarn_pointer_class_name(wanted->pointer_class));
    ck_assert_uint_eq(is->node, audit->node_count - 2);
    ck_assert_int_eq(is->place, wanted->place);
    ck_assert_uint_eq(is->index, wanted->index);
    ck_assert_uint_eq(is->offset, wanted->offset);
    ck_assert_int_eq(is->device, wanted->device);
    ck_assert_uint_eq(is->address, wanted->address);
    ck_assert_uint_eq(is->bytes, wanted->bytes);
    ck_assert_uint_eq(is->at, 0);
    judge_block(&is->block, &wanted->block);
    ck_assert_pstr_eq(is->pool, wanted->pool);
}

/* A set on each side of the mistake, in a child graph or a body too, names a block of the default pool. */
static void judge_counts(const tarn_audit *audit, const struct planted_expected *expected)
{
    size_t sets = expected->graph == IN_GRAPH ? 2 : 4;
    size_t counts[TARN_POINTER_CLASSES] = {0};

    counts[TARN_POINTER_EXTERNAL] = sets + expected->external;
    counts[TARN_POINTER_PINNED] = expected->pinned;
    counts[audit->mistakes[0].pointer_class] += 1;
    for (size_t i = 0; i < TARN_POINTER_CLASSES; i++)
        ck_assert_msg(audit->counts[i] == counts[i], "%zu are %s, expected %zu", audit->counts[i],
                      tarn_pointer_class_name((tarn_pointer_class)i), counts[i]);
    ck_assert_uint_eq(audit->pointer_count, sets + expected->external + expected->pinned + 1);
    ck_assert_ptr_null(audit->pointers);
}

/* -- Reports ---------------------------------------------------------------------------------------- */

static void has(const char *report, const char *line)
{
    ck_assert_msg(strstr(report, line) != NULL, "the report lacks '%s':\n%s", line, report);
}

static void judge_text(const tarn_audit *audit, const struct planted_expected *expected)
{
    static const char *const paths[] = {"node 1, ", "node 1.1, ", "node 1.1, "};
    const tarn_pointer *mistake = &audit->mistakes[0];
    char report[REPORT_BYTES];
    char line[256];
    size_t length = 0;

    OK(tarn_audit_report(audit, TARN_REPORT_TEXT, report, sizeof report, &length));
    ck_assert_uint_eq(length, strlen(report));
    has(report, paths[expected->graph]);
    if (is_kernel(expected))
        has(report, PLANTED_KERNEL);
    (void)snprintf(line, sizeof line, "0x%" PRIx64, mistake->address);
    has(report, line);
    (void)snprintf(line, sizeof line, " is %s: ", tarn_pointer_class_name(mistake->pointer_class));
    has(report, line);
    if (mistake->pool != NULL) {
        (void)snprintf(line, sizeof line, "pool '%s'", mistake->pool);
        has(report, line);
    }
    if (mistake->block.sequence != 0) {
        (void)snprintf(line, sizeof line, "block %" PRIu64 " of", mistake->block.sequence);
        has(report, line);
    }
}

void planted_note_json(const tarn_audit *audit)
{
    const char *path = getenv("TARN_TEST_AUDITS");
    char report[REPORT_BYTES];
    size_t length = 0;
    int file;

    OK(tarn_audit_report(audit, TARN_REPORT_JSON, report, sizeof report, &length));
    ck_assert_uint_lt(length, sizeof report);
    ck_assert_ptr_eq(strchr(report, '\n'), report + length - 1);
    if (path == NULL)
        return;
    file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    ck_assert_int_ge(file, 0);
    ck_assert_int_eq(write(file, report, length), (ssize_t)length);
    (void)close(file);
}

/* What an earlier run appended. */
__attribute__((constructor)) static void forget_json(void)
{
    const char *path = getenv("TARN_TEST_AUDITS");

    if (path != NULL)
        (void)unlink(path);
}

void planted_judge(const tarn_audit *audit, const struct planted_expected *expected)
{
    judge_nodes(audit, expected);
    judge_mistake(audit, expected);
    judge_counts(audit, expected);
    judge_text(audit, expected);
    planted_note_json(audit);
}

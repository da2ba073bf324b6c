// SPDX-License-Identifier: Apache-2.0
#include "inspect/audit.h"
#include "unit/unit.h"

static char text[8192];

#define POOL ((tarn_pool *)(uintptr_t)0x77) /* compared alone */

static const tarn_audit_node nodes[] = {
    {.kernel = "scale", .parent = TARN_NO_NODE, .ordinal = 0},
    {.type = 4, .parent = TARN_NO_NODE, .ordinal = 7},
    {.type = 4, .parent = 1, .ordinal = 3},
    {.type = 1, .parent = 2, .ordinal = 12},
    {.kernel = "a\"b", .parent = 1, .ordinal = 4, .inspection = TARN_INSPECTION_NO_LAYOUT},
    {.type = 13, .parent = TARN_NO_NODE, .ordinal = 8, .inspection = TARN_INSPECTION_NO_BODIES},
    {.type = 8, .parent = TARN_NO_NODE, .ordinal = 9, .inspection = TARN_INSPECTION_OPAQUE},
};
static const size_t node_count = sizeof nodes / sizeof nodes[0];

static const tarn_pointer freed = {.pointer_class = TARN_POINTER_FREED_EXTERNAL,
                                   .place = TARN_PLACE_PARAMETER,
                                   .node = 0,
                                   .index = 2,
                                   .offset = 24,
                                   .device = -1,
                                   .address = 0x20c100002010,
                                   .block = {.pool = POOL},
                                   .pool = "weights"};
static const tarn_pointer beyond = {.pointer_class = TARN_POINTER_BEYOND,
                                    .place = TARN_PLACE_SOURCE,
                                    .node = 3,
                                    .device = -1,
                                    .address = 0x20c100000010,
                                    .bytes = 8192,
                                    .block = {.address = (void *)0x20c100000000,
                                              .bytes = 8192,
                                              .pool = POOL,
                                              .sequence = 41,
                                              .tag = 7},
                                    .pool = "it's \"one\""};
static const tarn_pointer foreign = {.pointer_class = TARN_POINTER_FOREIGN,
                                     .place = TARN_PLACE_DESTINATION,
                                     .node = 3,
                                     .device = 1,
                                     .address = 0x7f0000000008,
                                     .bytes = 4,
                                     .block = {.address = (void *)0x7f0000000000, .bytes = 512}};
static const tarn_pointer unknown = {.pointer_class = TARN_POINTER_UNKNOWN,
                                     .place = TARN_PLACE_DESTINATION,
                                     .node = 3,
                                     .device = -1,
                                     .address = 0x1000};

static const char *write_report(const tarn_audit *audit, tarn_report_format format)
{
    size_t length = tn_audit_write_report(audit, format, text, sizeof text);

    ck_assert_uint_eq(length, strlen(text));
    ck_assert_uint_eq(tn_audit_write_report(audit, format, NULL, 0), length);
    return text;
}

/* Where the pointer stands, as a sentence has it. */
static const char *place_of(const tarn_pointer *pointer)
{
    const tarn_audit audit = {.node_count = node_count, .nodes = nodes};

    tn_audit_write_pointer(&audit, pointer, text, sizeof text);
    return text;
}

SUITE("audit reports")
GROUP(reports, NULL)

TEST(reports, classes_have_names_and_sentences)
{
    ck_assert_str_eq(tn_pointer_class_name(TARN_POINTER_LIVE), "live");
    ck_assert_str_eq(tn_pointer_class_name(TARN_POINTER_USED_AGAIN), "used again");
    ck_assert_str_eq(tn_pointer_class_name(TARN_POINTER_UNKNOWN), "unknown");
    ck_assert_str_eq(tn_pointer_class_sentence(TARN_POINTER_UNKNOWN),
                     "in no memory that anyone knows");
    ck_assert_str_eq(tn_pointer_class_name((tarn_pointer_class)TARN_POINTER_CLASSES), "no class");
    ck_assert_str_eq(tn_pointer_class_name((tarn_pointer_class)-1), "no class");
    ck_assert_str_eq(tn_pointer_class_sentence((tarn_pointer_class)TARN_POINTER_CLASSES),
                     "no class");
    for (int i = 0; i < TARN_POINTER_CLASSES; i++) {
        ck_assert_uint_gt(strlen(tn_pointer_class_name((tarn_pointer_class)i)), 0);
        ck_assert_uint_gt(strlen(tn_pointer_class_sentence((tarn_pointer_class)i)), 0);
        ck_assert(tn_pointer_is_mistake((tarn_pointer_class)i) ==
                  (i >= TARN_POINTER_FREED && i != TARN_POINTER_OVERWRITES &&
                   i != TARN_POINTER_IMPORTED));
    }
}

TEST(reports, a_graph_without_pointers_is_one_line)
{
    const tarn_audit audit = {.node_count = 3, .nodes = nodes};

    ck_assert_str_eq(write_report(&audit, TARN_REPORT_TEXT),
                     "3 nodes, 0 of them kernels; 0 pointers, 0 mistakes\n");
    ck_assert_str_eq(
        write_report(&audit, TARN_REPORT_JSON),
        "{\"nodes\": 3, \"kernels\": 0, \"pointers\": 0, \"tensor_maps\": 0, "
        "\"scanned_bytes\": 0, \"counts\": {\"live\": 0, \"reused\": 0, \"external\": 0, "
        "\"node\": 0, \"foreign\": 0, \"pinned\": 0, \"argument\": 0, \"doubtful\": 0, \"kept\": 0, \"freed\": 0, "
        "\"freed external\": 0, \"used again\": 0, \"unordered\": 0, \"beyond\": 0, "
        "\"unmapped\": 0, \"pageable\": 0, \"unknown\": 0, \"overwrites\": 0, "
        "\"imported\": 0, \"let go\": 0}, "
        "\"mistakes\": [], \"overwrites\": [], \"uninspected\": []}\n");
}

/* Of all of an audit: mistakes, with the path of nodes in child graphs, what was not inspected, counts. */
static tarn_audit whole(const tarn_pointer *mistakes, const tarn_pointer *listed)
{
    tarn_audit audit = {.node_count = node_count,
                        .nodes = nodes,
                        .kernel_count = 2,
                        .uninspected_count = 3,
                        .tensor_map_count = 1,
                        .pointer_count = 3,
                        .mistake_count = 2,
                        .mistakes = mistakes,
                        .pointers = listed,
                        .scanned_bytes = 512};

    audit.counts[TARN_POINTER_FREED_EXTERNAL] = 1;
    audit.counts[TARN_POINTER_BEYOND] = 1;
    audit.counts[TARN_POINTER_FOREIGN] = 1;
    return audit;
}

TEST(reports, a_text_names_mistakes_what_was_not_inspected_and_counts)
{
    const tarn_pointer mistakes[] = {freed, beyond};
    const tarn_audit audit = whole(mistakes, NULL);

    ck_assert_str_eq(
        write_report(&audit, TARN_REPORT_TEXT),
        "7 nodes, 2 of them kernels; 3 pointers, 2 mistakes\n"
        "node 0, kernel scale, parameter 2, offset 24: 0x20c100002010 is freed external: in "
        "freed memory of another pool; pool 'weights'\n"
        "node 7.3.12, copy, source: 0x20c100000010, 8192 bytes, is beyond: in a live block, and "
        "bytes beyond its end; block 41 of pool 'it's \"one\"', 8192 bytes at 0x20c100000000, "
        "offset 16, tag 7\n"
        "node 7.4, kernel a\"b: not inspected, the driver does not tell how large its parameters "
        "are\n"
        "node 8, conditional: not inspected, its bodies were not handed in, and the driver does "
        "not give them\n"
        "node 9, semaphore signal: not inspected, nothing can be read of a node of "
        "this type\n"
        "foreign               1  in memory of a device that is not Tarn's\n"
        "freed external        1  in freed memory of another pool\n"
        "beyond                1  in a live block, and bytes beyond its end\n"
        "tensor maps           1  seen, and not to be relied on\n");
}

TEST(reports, a_json_object_has_the_same_and_what_was_listed)
{
    const tarn_pointer mistakes[] = {freed, beyond};
    const tarn_pointer listed[] = {freed, beyond, foreign};
    tarn_audit audit = whole(mistakes, NULL);
    static const char head[] =
        "{\"nodes\": 7, \"kernels\": 2, \"pointers\": 3, \"tensor_maps\": 1, "
        "\"scanned_bytes\": 512, \"counts\": {\"live\": 0, \"reused\": 0, \"external\": 0, "
        "\"node\": 0, \"foreign\": 1, \"pinned\": 0, \"argument\": 0, \"doubtful\": 0, \"kept\": 0, \"freed\": 0, "
        "\"freed external\": 1, \"used again\": 0, \"unordered\": 0, \"beyond\": 1, "
        "\"unmapped\": 0, \"pageable\": 0, \"unknown\": 0, \"overwrites\": 0, "
        "\"imported\": 0, \"let go\": 0}";
    static const char two[] =
        "{\"class\": \"freed external\", \"node\": \"0\", \"type\": \"kernel\", "
        "\"kernel\": \"scale\", \"place\": \"parameter\", \"index\": 2, \"offset\": 24, "
        "\"address\": \"0x20c100002010\", \"bytes\": 0, \"pool\": \"weights\"}, "
        "{\"class\": \"beyond\", \"node\": \"7.3.12\", \"type\": \"copy\", "
        "\"place\": \"source\", \"index\": 0, \"offset\": 0, "
        "\"address\": \"0x20c100000010\", \"bytes\": 8192, \"pool\": \"it's \\u0022one\\u0022\", "
        "\"block\": {\"address\": \"0x20c100000000\", \"bytes\": 8192, \"sequence\": 41, \"tag\": 7}}";
    static const char uninspected[] =
        "\"uninspected\": ["
        "{\"node\": \"7.4\", \"type\": \"kernel\", \"kernel\": \"a\\u0022b\", "
        "\"reason\": \"the driver does not tell how large its parameters are\"}, "
        "{\"node\": \"8\", \"type\": \"conditional\", "
        "\"reason\": \"its bodies were not handed in, and the driver does not give them\"}, "
        "{\"node\": \"9\", \"type\": \"semaphore signal\", "
        "\"reason\": \"nothing can be read of a node of this type\"}]";
    static const char third[] =
        "{\"class\": \"foreign\", \"node\": \"7.3.12\", \"type\": \"copy\", "
        "\"place\": \"destination\", \"index\": 0, \"offset\": 0, "
        "\"address\": \"0x7f0000000008\", \"bytes\": 4, \"device\": 1, "
        "\"block\": {\"address\": \"0x7f0000000000\", \"bytes\": 512, \"sequence\": 0, \"tag\": 0}}";
    static char expected[8192];

    (void)snprintf(expected, sizeof expected, "%s, \"mistakes\": [%s], \"overwrites\": [], %s}\n",
                   head, two, uninspected);
    ck_assert_str_eq(write_report(&audit, TARN_REPORT_JSON), expected);
    audit.pointers = listed;
    (void)snprintf(expected, sizeof expected,
                   "%s, \"mistakes\": [%s], \"overwrites\": [], %s, \"listed\": [%s, %s]}\n", head,
                   two, uninspected, two, third);
    ck_assert_str_eq(write_report(&audit, TARN_REPORT_JSON), expected);
}

TEST(reports, each_place_has_its_words)
{
    static const struct {
        tarn_pointer_place place;
        const char *words;
    } places[] = {
        {TARN_PLACE_PARAMETER, "node 7.3.12, copy, parameter 5, offset 6, 0x1000"},
        {TARN_PLACE_BUFFER, "node 7.3.12, copy, parameters, offset 6, 0x1000"},
        {TARN_PLACE_DESTINATION, "node 7.3.12, copy, destination, 0x1000"},
        {TARN_PLACE_SOURCE, "node 7.3.12, copy, source, 0x1000"},
        {TARN_PLACE_ARGUMENT, "node 7.3.12, copy, argument, 0x1000"},
        {TARN_PLACE_OPERATION, "node 7.3.12, copy, operation 5, 0x1000"},
        {TARN_PLACE_ALLOCATED, "node 7.3.12, copy, result, 0x1000"},
        {TARN_PLACE_FREED, "node 7.3.12, copy, freed, 0x1000"},
    };

    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        tarn_pointer pointer = unknown;

        pointer.place = places[i].place;
        pointer.index = 5;
        pointer.offset = 6;
        ck_assert_str_eq(place_of(&pointer), places[i].words);
    }
}

TEST(reports, each_kind_of_memory_has_its_words)
{
    ck_assert_str_eq(place_of(&beyond),
                     "node 7.3.12, copy, source, 0x20c100000010; block 41 of pool 'it's \"one\"', "
                     "8192 bytes at 0x20c100000000, offset 16, tag 7");
    ck_assert_str_eq(place_of(&foreign),
                     "node 7.3.12, copy, destination, 0x7f0000000008; memory of device 1, "
                     "512 bytes at 0x7f0000000000, offset 8");
    ck_assert_str_eq(
        place_of(&freed),
        "node 0, kernel scale, parameter 2, offset 24, 0x20c100002010; pool 'weights'");
}

/* Which is no node's. */
TEST(reports, a_pointer_in_memory_is_named_by_where_it_stands)
{
    tarn_pointer in_memory = freed;
    tarn_audit audit = {.pointer_count = 1, .mistake_count = 1, .mistakes = &in_memory};

    in_memory.place = TARN_PLACE_MEMORY;
    in_memory.node = TARN_NO_NODE;
    in_memory.at = 0x20c100000040;
    audit.counts[TARN_POINTER_FREED_EXTERNAL] = 1;
    ck_assert_str_eq(write_report(&audit, TARN_REPORT_TEXT),
                     "0 nodes, 0 of them kernels; 1 pointers, 1 mistakes\n"
                     "memory at 0x20c100000040: 0x20c100002010 is freed external: in freed memory "
                     "of another pool; pool 'weights'\n"
                     "freed external        1  in freed memory of another pool\n");
    ck_assert_ptr_nonnull(strstr(write_report(&audit, TARN_REPORT_JSON),
                                 "{\"class\": \"freed external\", \"at\": \"0x20c100000040\", "
                                 "\"place\": \"memory\", "));
}

TEST(reports, a_short_buffer_has_the_beginning)
{
    const tarn_audit audit = whole((const tarn_pointer[]){freed, beyond}, NULL);
    static char part[16];

    for (int format = TARN_REPORT_TEXT; format <= TARN_REPORT_JSON; format++) {
        size_t length = strlen(write_report(&audit, (tarn_report_format)format));

        memset(part, 'x', sizeof part);
        ck_assert_uint_eq(tn_audit_write_report(&audit, (tarn_report_format)format, part, 10),
                          length);
        ck_assert_mem_eq(part, text, 9);
        ck_assert(part[9] == '\0' && part[10] == 'x');
        ck_assert_uint_eq(tn_audit_write_report(&audit, (tarn_report_format)format, part, 1),
                          length);
        ck_assert(part[0] == '\0' && part[1] == text[1]);
        ck_assert_uint_eq(
            tn_audit_write_report(&audit, (tarn_report_format)format, text, length + 1), length);
        ck_assert_uint_eq(strlen(text), length);
    }
    memset(part, 'x', sizeof part);
    tn_audit_write_pointer(&audit, &freed, part, 7);
    ck_assert_str_eq(part, "node 0");
    ck_assert(part[7] == 'x');
}

// SPDX-License-Identifier: Apache-2.0
/* copies.c -- copies and sets: between which memory they go, and what of them is refused at the call.
 *
 * The cases of ranges are tables over a bench that has one piece of each kind of memory. */
#include <stdlib.h>
#include <string.h>

#include "contract/contract.h"

#define ALL_BYTES (64 * (size_t)1024)

/* A place: a kind of memory, and an offset into it. */
enum place {
    LINEAR, /* 64 KiB of linear memory */
    ODD,    /* 1000 bytes of it */
    PINNED, /* page-locked memory of the process */
    HOST,   /* other memory of the process */
    EMPTY,  /* reserved, and not mapped */
    CLOSED, /* mapped without access */
    READ,   /* mapped with access to read */
    MAPPED, /* mapped with access */
    NOWHERE,
    PLACES
};

struct bench {
    tn_cu_deviceptr start[PLACES];
    void *host;
    void *pinned;
    struct contract_mapped mapped[3];
    tn_cu_stream stream;
};

static struct bench bench_make(void)
{
    struct bench bench;
    memset(&bench, 0, sizeof bench);
    SET_UP(cuMemAlloc(&bench.start[LINEAR], ALL_BYTES));
    SET_UP(cuMemAlloc(&bench.start[ODD], 1000));
    SET_UP(cuMemHostAlloc(&bench.pinned, ALL_BYTES, 0));
    bench.start[PINNED] = (uintptr_t)bench.pinned;
    bench.host = calloc(1, ALL_BYTES);
    bench.start[HOST] = (uintptr_t)bench.host;
    SET_UP(cuMemAddressReserve(&bench.start[EMPTY], 2 * MIB, 0, 0, 0));
    for (int i = 0; i < 3; i++) {
        static const int rights[] = {TN_CU_MEM_ACCESS_NONE, TN_CU_MEM_ACCESS_READ,
                                     TN_CU_MEM_ACCESS_READWRITE};
        bench.mapped[i] = contract_map(2 * MIB);
        contract_access(bench.mapped[i].address, 2 * MIB, rights[i]);
        bench.start[CLOSED + i] = bench.mapped[i].address;
    }
    bench.stream = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    return bench;
}

static void bench_end(struct bench *bench)
{
    SET_UP(cuCtxSynchronize());
    SET_UP(cuStreamDestroy(bench->stream));
    SET_UP(cuMemFree(bench->start[LINEAR]));
    SET_UP(cuMemFree(bench->start[ODD]));
    SET_UP(cuMemFreeHost(bench->pinned));
    SET_UP(cuMemAddressFree(bench->start[EMPTY], 2 * MIB));
    for (int i = 0; i < 3; i++)
        contract_unmap(bench->mapped[i]);
    free(bench->host);
}

static const char *const place_names[PLACES] = {
    "linear",         "1000 bytes", "page-locked", "the process's", "reserved",
    "without access", "read-only",  "mapped",      "nothing",
};

static tn_cu_deviceptr at(const struct bench *bench, enum place place, size_t offset)
{
    return place == NOWHERE ? offset : bench->start[place] + offset;
}

/* -- Sets -- */

struct set_row {
    enum place place;
    size_t offset;
    size_t count;
    tn_cu_result expected;
};

static const struct set_row byte_rows[] = {
    {LINEAR, 0, ALL_BYTES, TN_CUDA_SUCCESS},
    {LINEAR, 0, ALL_BYTES + 1, TN_CUDA_ERROR_INVALID_VALUE},
    {LINEAR, 5, 0, TN_CUDA_SUCCESS},
    {ODD, 0, 1000, TN_CUDA_SUCCESS},
    {ODD, 0, 1001, TN_CUDA_ERROR_INVALID_VALUE},
    {ODD, 999, 1, TN_CUDA_SUCCESS},
    {PINNED, 0, 8, TN_CUDA_SUCCESS},
    {HOST, 0, 8, TN_CUDA_ERROR_INVALID_VALUE},
    {EMPTY, 0, 8, TN_CUDA_ERROR_INVALID_VALUE},
    {EMPTY, 0, 0, TN_CUDA_SUCCESS},
    {CLOSED, 0, 8, TN_CUDA_ERROR_INVALID_VALUE},
    {READ, 0, 8, TN_CUDA_ERROR_INVALID_VALUE},
    {MAPPED, 0, 2 * MIB, TN_CUDA_SUCCESS},
    {MAPPED, 0, 2 * MIB + 1, TN_CUDA_ERROR_INVALID_VALUE},
    {NOWHERE, 0, 0, TN_CUDA_SUCCESS},
    {NOWHERE, 0, 8, TN_CUDA_ERROR_INVALID_VALUE},
    {NOWHERE, 12345, 8, TN_CUDA_ERROR_INVALID_VALUE},
};

static void show_set(const struct set_row *row)
{
    STATE("%zu of %s from %zu", row->count, place_names[row->place], row->offset);
}

CASE_BODY(set_bytes)
{
    struct bench bench = bench_make();
    for (size_t i = 0; i < sizeof byte_rows / sizeof byte_rows[0]; i++) {
        const struct set_row *row = &byte_rows[i];
        tn_cu_deviceptr address = at(&bench, row->place, row->offset);
        show_set(row);
        contract_gives(row->expected, "cuMemsetD8(", cu.cuMemsetD8(address, 1, row->count));
    }
    bench_end(&bench);
}

CASE_BODY(set_bytes_ordered)
{
    struct bench bench = bench_make();
    for (size_t i = 0; i < sizeof byte_rows / sizeof byte_rows[0]; i++) {
        const struct set_row *row = &byte_rows[i];
        tn_cu_deviceptr address = at(&bench, row->place, row->offset);
        show_set(row);
        contract_gives(row->expected, "cuMemsetD8Async(",
                       cu.cuMemsetD8Async(address, 1, row->count, bench.stream));
    }
    bench_end(&bench);
}

CASE_BODY(set_words)
{
    static const struct set_row rows[] = {
        {LINEAR, 0, ALL_BYTES / 4, TN_CUDA_SUCCESS},
        {LINEAR, 0, ALL_BYTES / 4 + 1, TN_CUDA_ERROR_INVALID_VALUE},
        {LINEAR, 4, 1, TN_CUDA_SUCCESS},
        {LINEAR, 2, 1, TN_CUDA_ERROR_INVALID_VALUE},
        {LINEAR, 1, 0, TN_CUDA_SUCCESS},
        {ODD, 0, 250, TN_CUDA_SUCCESS},
        {ODD, 0, 251, TN_CUDA_ERROR_INVALID_VALUE},
        {READ, 0, 1, TN_CUDA_ERROR_INVALID_VALUE},
    };
    struct bench bench = bench_make();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tn_cu_deviceptr address = at(&bench, rows[i].place, rows[i].offset);
        show_set(&rows[i]);
        contract_gives(rows[i].expected, "cuMemsetD32(",
                       cu.cuMemsetD32(address, 0x01020304, rows[i].count));
        SET_UP(cuCtxSynchronize());
        contract_gives(rows[i].expected, "cuMemsetD32Async(",
                       cu.cuMemsetD32Async(address, 0x01020304, rows[i].count, bench.stream));
        SET_UP(cuStreamSynchronize(bench.stream));
    }
    HOLDS(contract_word(bench.start[LINEAR], 3) == 0x01020304, "the words are set");
    bench_end(&bench);
}

/* -- Copies -- */

struct copy_row {
    enum place to;
    enum place from;
    size_t from_offset;
    size_t bytes;
    tn_cu_result expected;
};

static void show_copy(const struct copy_row *row)
{
    STATE("%zu to %s from %s at %zu", row->bytes, place_names[row->to], place_names[row->from],
          row->from_offset);
}

/* By addresses alone: the driver finds out what they are. Without memory of the process, which it
 * would touch itself. */
static const struct copy_row any_rows[] = {
    {LINEAR, HOST, 0, 100, TN_CUDA_SUCCESS},
    {HOST, LINEAR, 0, 100, TN_CUDA_SUCCESS},
    {HOST, HOST, 200, 100, TN_CUDA_SUCCESS},
    {LINEAR, LINEAR, 200, 100, TN_CUDA_SUCCESS},
    {LINEAR, LINEAR, 4, 100, TN_CUDA_SUCCESS},
    {PINNED, HOST, 0, 100, TN_CUDA_SUCCESS},
    {LINEAR, MAPPED, 0, 100, TN_CUDA_SUCCESS},
    {MAPPED, PINNED, 0, 100, TN_CUDA_SUCCESS},
    {LINEAR, NOWHERE, 0, 8, TN_CUDA_ERROR_INVALID_VALUE},
    {NOWHERE, LINEAR, 0, 8, TN_CUDA_ERROR_INVALID_VALUE},
    {NOWHERE, NOWHERE, 0, 0, TN_CUDA_SUCCESS},
    {LINEAR, CLOSED, 0, 8, TN_CUDA_ERROR_INVALID_VALUE},
    {CLOSED, LINEAR, 0, 8, TN_CUDA_ERROR_INVALID_VALUE},
    {READ, LINEAR, 0, 8, TN_CUDA_ERROR_INVALID_VALUE},
    {LINEAR, READ, 0, 8, TN_CUDA_SUCCESS},
    {LINEAR, ODD, 0, 1001, TN_CUDA_ERROR_INVALID_VALUE},
};
static const struct copy_row up_rows[] = {
    {LINEAR, HOST, 0, 8, TN_CUDA_SUCCESS},
    {LINEAR, HOST, 0, 0, TN_CUDA_SUCCESS},
    {LINEAR, LINEAR, 64, 8, TN_CUDA_SUCCESS},
    {HOST, HOST, 100, 8, TN_CUDA_ERROR_INVALID_VALUE},
    {PINNED, HOST, 0, 8, TN_CUDA_SUCCESS},
    {NOWHERE, HOST, 0, 8, TN_CUDA_ERROR_INVALID_VALUE},
    {CLOSED, HOST, 0, 8, TN_CUDA_ERROR_INVALID_VALUE},
    {EMPTY, HOST, 0, 8, TN_CUDA_ERROR_INVALID_VALUE},
    {READ, HOST, 0, 8, TN_CUDA_ERROR_INVALID_VALUE},
    {MAPPED, HOST, 0, ALL_BYTES, TN_CUDA_SUCCESS},
    {ODD, HOST, 0, 1000, TN_CUDA_SUCCESS},
    {ODD, HOST, 0, 1001, TN_CUDA_ERROR_INVALID_VALUE},
};
static const struct copy_row down_rows[] = {
    {HOST, LINEAR, 0, 8, TN_CUDA_SUCCESS},
    {LINEAR, LINEAR, 64, 8, TN_CUDA_SUCCESS},
    {HOST, HOST, 100, 8, TN_CUDA_ERROR_INVALID_VALUE},
    {HOST, PINNED, 0, 8, TN_CUDA_SUCCESS},
    {HOST, NOWHERE, 0, 8, TN_CUDA_ERROR_INVALID_VALUE},
    {HOST, CLOSED, 0, 8, TN_CUDA_ERROR_INVALID_VALUE},
    {HOST, EMPTY, 0, 8, TN_CUDA_ERROR_INVALID_VALUE},
    {HOST, READ, 0, 8, TN_CUDA_SUCCESS},
    {HOST, ODD, 0, 1000, TN_CUDA_SUCCESS},
    {HOST, ODD, 996, 8, TN_CUDA_ERROR_INVALID_VALUE},
};
static const struct copy_row across_rows[] = {
    {LINEAR, ODD, 0, 1000, TN_CUDA_SUCCESS},
    {LINEAR, ODD, 0, 1001, TN_CUDA_ERROR_INVALID_VALUE},
    {LINEAR, HOST, 0, 8, TN_CUDA_ERROR_INVALID_VALUE},
    {HOST, LINEAR, 0, 8, TN_CUDA_ERROR_INVALID_VALUE},
    {LINEAR, PINNED, 0, 8, TN_CUDA_SUCCESS},
    {PINNED, LINEAR, 0, 8, TN_CUDA_SUCCESS},
    {EMPTY, EMPTY, 0, 0, TN_CUDA_SUCCESS},
    {MAPPED, LINEAR, 0, 8, TN_CUDA_SUCCESS},
    {READ, MAPPED, 0, 8, TN_CUDA_ERROR_INVALID_VALUE},
    {MAPPED, CLOSED, 0, 8, TN_CUDA_ERROR_INVALID_VALUE},
};

enum way { ANY, UP, DOWN, ACROSS };

struct copy_case {
    enum way way;
    bool ordered; /* on a stream */
    const struct copy_row *rows;
    size_t count;
};

static const char *copy(const struct copy_case *what, const struct copy_row *row,
                        const struct bench *bench, tn_cu_result *result)
{
    tn_cu_deviceptr to = at(bench, row->to, 0);
    tn_cu_deviceptr from = at(bench, row->from, row->from_offset);
    tn_cu_stream stream = bench->stream;
    switch (what->way) {
    case ANY:
        *result = what->ordered ? cu.cuMemcpyAsync(to, from, row->bytes, stream)
                                : cu.cuMemcpy(to, from, row->bytes);
        return what->ordered ? "cuMemcpyAsync(" : "cuMemcpy(";
    case UP:
        *result = what->ordered ? cu.cuMemcpyHtoDAsync(to, (void *)from, row->bytes, stream)
                                : cu.cuMemcpyHtoD(to, (void *)from, row->bytes);
        return what->ordered ? "cuMemcpyHtoDAsync(" : "cuMemcpyHtoD(";
    case DOWN:
        *result = what->ordered ? cu.cuMemcpyDtoHAsync((void *)to, from, row->bytes, stream)
                                : cu.cuMemcpyDtoH((void *)to, from, row->bytes);
        return what->ordered ? "cuMemcpyDtoHAsync(" : "cuMemcpyDtoH(";
    default:
        *result = what->ordered ? cu.cuMemcpyDtoDAsync(to, from, row->bytes, stream)
                                : cu.cuMemcpyDtoD(to, from, row->bytes);
        return what->ordered ? "cuMemcpyDtoDAsync(" : "cuMemcpyDtoD(";
    }
}

static void copies(const void *argument)
{
    const struct copy_case *what = argument;
    struct bench bench = bench_make();
    for (size_t i = 0; i < what->count; i++) {
        tn_cu_result result;
        show_copy(&what->rows[i]);
        const char *call = copy(what, &what->rows[i], &bench, &result);
        contract_gives(what->rows[i].expected, call, result);
    }
    bench_end(&bench);
}

#define COPIES(way, ordered, rows)                                                                 \
    {                                                                                              \
        way, ordered, rows, sizeof(rows) / sizeof(rows)[0]                                         \
    }
static const struct copy_case any = COPIES(ANY, false, any_rows);
static const struct copy_case any_ordered = COPIES(ANY, true, any_rows);
static const struct copy_case up = COPIES(UP, false, up_rows);
static const struct copy_case up_ordered = COPIES(UP, true, up_rows);
static const struct copy_case down = COPIES(DOWN, false, down_rows);
static const struct copy_case down_ordered = COPIES(DOWN, true, down_rows);
static const struct copy_case across = COPIES(ACROSS, false, across_rows);
static const struct copy_case across_ordered = COPIES(ACROSS, true, across_rows);

CASE_BODY(staged)
{
    static unsigned char source[16 * MIB];
    tn_cu_deviceptr to;
    SET_UP(cuMemAlloc(&to, sizeof source));
    struct contract_busy busy = contract_busy_begin();
    GIVES(SUCCESS, cuMemcpyHtoDAsync(to, source, MIB, busy.stream));
    HOLDS(contract_busy_runs(&busy), "1 MiB is not waited for");
    GIVES(SUCCESS, cuMemcpyHtoDAsync(to, source, sizeof source, busy.stream));
    HOLDS(!contract_busy_runs(&busy), "16 MiB are");
    contract_busy_end(&busy);
    SET_UP(cuMemFree(to));
}

CASE_BODY(bytes_arrive)
{
    struct bench bench = bench_make();
    uint32_t words[4] = {1, 2, 3, 4};
    uint32_t back[4] = {0};
    GIVES(SUCCESS, cuMemcpyHtoDAsync(bench.start[LINEAR], words, sizeof words, bench.stream));
    GIVES(SUCCESS,
          cuMemcpyDtoDAsync(bench.start[MAPPED], bench.start[LINEAR], sizeof words, bench.stream));
    GIVES(SUCCESS,
          cuMemcpyAsync(bench.start[PINNED], bench.start[MAPPED], sizeof words, bench.stream));
    GIVES(SUCCESS, cuMemcpyDtoHAsync(back, bench.start[MAPPED], sizeof words, bench.stream));
    GIVES(SUCCESS, cuStreamSynchronize(bench.stream));
    HOLDS(memcmp(back, words, sizeof words) == 0, "to the process");
    HOLDS(memcmp(bench.pinned, words, sizeof words) == 0, "to page-locked memory");
    bench_end(&bench);
}

/* -- Which calls wait for a blocking stream's work; those of the legacy stream do -- */

enum waiter { SET_LINEAR, SET_PINNED, COPY_UP, COPY_DOWN, COPY_ACROSS, COPY_HOST, WAITERS };

static void legacy_waits(const void *argument)
{
    const unsigned int flags = *(const unsigned int *)argument;
    static const struct {
        const char *what;
        const char *call;
        bool waits; /* for a blocking stream */
    } rows[WAITERS] = {
        {"linear memory", "cuMemsetD8(", false},
        {"page-locked memory", "cuMemsetD8(", true},
        {"the process's memory", "cuMemcpyHtoD(", true},
        {"to the process", "cuMemcpyDtoH(", true},
        {"on the device", "cuMemcpyDtoD(", false},
        {"inside the process", "cuMemcpy(", true},
    };
    struct bench bench = bench_make();
    for (int i = 0; i < WAITERS; i++) {
        tn_cu_result result = TN_CUDA_SUCCESS;
        struct contract_busy busy = contract_busy_begin();
        tn_cu_stream gate = contract_stream(flags);
        tn_cu_event passed = contract_event();
        SET_UP(cuStreamWaitEvent(gate, busy.done, 0));
        SET_UP(cuEventRecord(passed, gate));
        switch ((enum waiter)i) {
        case SET_LINEAR:
            result = cu.cuMemsetD8(bench.start[LINEAR], 1, 8);
            break;
        case SET_PINNED:
            result = cu.cuMemsetD8(bench.start[PINNED], 1, 8);
            break;
        case COPY_UP:
            result = cu.cuMemcpyHtoD(bench.start[LINEAR], bench.host, 8);
            break;
        case COPY_DOWN:
            result = cu.cuMemcpyDtoH(bench.host, bench.start[LINEAR], 8);
            break;
        case COPY_ACROSS:
            result = cu.cuMemcpyDtoD(bench.start[LINEAR], bench.start[ODD], 8);
            break;
        default:
            result = cu.cuMemcpy(bench.start[HOST], bench.start[HOST] + 500, 8);
            break;
        }
        bool waited = !contract_busy_runs(&busy);
        STATE("%s", rows[i].what);
        contract_gives(TN_CUDA_SUCCESS, rows[i].call, result);
        HOLDS(waited == (rows[i].waits && flags == TN_CU_STREAM_DEFAULT), "%s",
              waited ? "waited" : "did not wait");
        contract_busy_end(&busy);
        SET_UP(cuStreamSynchronize(gate));
        SET_UP(cuEventDestroy(passed));
        SET_UP(cuStreamDestroy(gate));
    }
    SET_UP(cuCtxSynchronize());
    bench_end(&bench);
}

static const unsigned int blocking = TN_CU_STREAM_DEFAULT;
static const unsigned int non_blocking = TN_CU_STREAM_NON_BLOCKING;

/* -- Many copies in one call -- */

struct batch {
    tn_cu_deviceptr to[3];
    tn_cu_deviceptr from[3];
    size_t bytes[3];
    tn_cu_memcpy_attributes attributes[2];
    size_t starts[2];
};

static struct batch batch_of(const struct bench *bench)
{
    struct batch batch = {
        .to = {bench->start[LINEAR], bench->start[LINEAR] + 1000, bench->start[MAPPED]},
        .from = {bench->start[ODD], bench->start[PINNED], bench->start[LINEAR] + 5000},
        .bytes = {8, 100, 8},
        .starts = {0, 1},
    };
    memset(batch.attributes, 0, sizeof batch.attributes);
    batch.attributes[0].source_order = 1;
    batch.attributes[1].source_order = 3;
    return batch;
}

/* Copies a batch; which copy failed is -1 for none in particular. */
static void batch_gives(tn_cu_result expected, const char *what, struct batch *batch,
                        size_t attribute_count, tn_cu_stream stream, size_t failed_expected)
{
    size_t failed = 7;
    STATE("%s", what);
    contract_gives(expected, "cuMemcpyBatchAsync(",
                   cu.cuMemcpyBatchAsync(batch->to, batch->from, batch->bytes, 3, batch->attributes,
                                         batch->starts, attribute_count, &failed, stream));
    HOLDS(failed == failed_expected, "failed %d", (int)failed);
}

#define NO_COPY SIZE_MAX

CASE_BODY(batch)
{
    struct bench bench = bench_make();
    struct batch batch = batch_of(&bench);
    memset(bench.pinned, 3, ALL_BYTES);
    batch_gives(TN_CUDA_SUCCESS, "three copies", &batch, 1, bench.stream, NO_COPY);
    SET_UP(cuStreamSynchronize(bench.stream));
    HOLDS(contract_word(bench.start[LINEAR], 250) == 0x03030303, "the bytes are there");
    batch_gives(TN_CUDA_SUCCESS, "two kinds of them", &batch, 2, bench.stream, NO_COPY);
    SET_UP(cuStreamSynchronize(bench.stream));
    batch_gives(TN_CUDA_SUCCESS, "on the thread's stream", &batch, 1, TN_CU_STREAM_PER_THREAD,
                NO_COPY);
    SET_UP(cuStreamSynchronize(TN_CU_STREAM_PER_THREAD));
    bench_end(&bench);
}

CASE_BODY(batch_refused)
{
    struct bench bench = bench_make();
    struct batch batch = batch_of(&bench);
    batch_gives(TN_CUDA_ERROR_INVALID_VALUE, "on no stream", &batch, 1, NULL, 7);
    batch_gives(TN_CUDA_ERROR_INVALID_VALUE, "on the legacy stream", &batch, 1, TN_CU_STREAM_LEGACY,
                NO_COPY);
    batch.attributes[0].source_order = 0;
    batch_gives(TN_CUDA_ERROR_INVALID_VALUE, "no order", &batch, 1, bench.stream, NO_COPY);
    batch.attributes[0].source_order = 4;
    batch_gives(TN_CUDA_ERROR_INVALID_VALUE, "order 4", &batch, 1, bench.stream, NO_COPY);
    batch.attributes[0].source_order = 1;
    batch.starts[0] = 1;
    batch_gives(TN_CUDA_ERROR_INVALID_VALUE, "a first copy of no kind", &batch, 1, bench.stream,
                NO_COPY);
    batch.starts[0] = 0;
    batch.starts[1] = 0;
    batch_gives(TN_CUDA_ERROR_INVALID_VALUE, "two kinds of one copy", &batch, 2, bench.stream,
                NO_COPY);
    batch.starts[1] = 5;
    batch_gives(TN_CUDA_ERROR_INVALID_VALUE, "a kind of the sixth copy", &batch, 2, bench.stream,
                NO_COPY);
    batch.bytes[1] = 0;
    batch_gives(TN_CUDA_ERROR_INVALID_VALUE, "a copy of no byte", &batch, 1, bench.stream, 1);
    batch.bytes[1] = 100;
    batch.from[1] = 0;
    batch_gives(TN_CUDA_ERROR_INVALID_VALUE, "a copy from address 0", &batch, 1, bench.stream, 1);
    bench_end(&bench);
}

CASE_BODY(batch_captured)
{
    struct bench bench = bench_make();
    struct batch batch = batch_of(&bench);
    tn_cu_capture_status status = TN_CU_CAPTURE_STATUS_NONE;
    tn_cu_graph graph = NULL;
    SET_UP(cuStreamBeginCapture(bench.stream, TN_CU_CAPTURE_MODE_GLOBAL));
    batch_gives(TN_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "in a capture", &batch, 1, bench.stream,
                NO_COPY);
    SET_UP(cuStreamIsCapturing(bench.stream, &status));
    HOLDS(status == TN_CU_CAPTURE_STATUS_ACTIVE, "the capture goes on");
    GIVES(SUCCESS, cuStreamEndCapture(bench.stream, &graph));
    SET_UP(cuGraphDestroy(graph));
    bench_end(&bench);
}

/* -- Writing one word in the order of a stream -- */

CASE_BODY(write_value)
{
    struct bench bench = bench_make();
    STATE("linear memory");
    GIVES(SUCCESS, cuStreamWriteValue32(bench.stream, bench.start[LINEAR], 77, 0));
    STATE("page-locked memory");
    GIVES(SUCCESS, cuStreamWriteValue32(bench.stream, bench.start[PINNED], 78, 0));
    STATE("the last word of 1000 bytes");
    GIVES(SUCCESS, cuStreamWriteValue32(bench.stream, bench.start[ODD] + 996, 79, 0));
    STATE("on the legacy stream");
    GIVES(SUCCESS, cuStreamWriteValue32(NULL, bench.start[LINEAR] + 4, 80, 0));
    GIVES(SUCCESS, cuStreamSynchronize(bench.stream));
    HOLDS(contract_word(bench.start[LINEAR], 0) == 77 &&
              contract_word(bench.start[LINEAR], 1) == 80 && *(uint32_t *)bench.pinned == 78 &&
              contract_word(bench.start[ODD], 249) == 79,
          "the words are there");
    bench_end(&bench);
}

CASE_BODY(write_value_refused)
{
    struct bench bench = bench_make();
    STATE("off a word");
    GIVES(INVALID_VALUE, cuStreamWriteValue32(bench.stream, bench.start[LINEAR] + 2, 1, 0));
    STATE("flags 2");
    GIVES(INVALID_VALUE, cuStreamWriteValue32(bench.stream, bench.start[LINEAR], 1, 2));
    STATE("address 0");
    GIVES(INVALID_VALUE, cuStreamWriteValue32(bench.stream, 0, 1, 0));
    STATE("a reservation");
    GIVES(INVALID_VALUE, cuStreamWriteValue32(bench.stream, bench.start[EMPTY], 1, 0));
    STATE("memory of the process");
    GIVES(INVALID_VALUE, cuStreamWriteValue32(bench.stream, bench.start[HOST], 1, 0));
    STATE("behind 1000 bytes");
    GIVES(INVALID_VALUE, cuStreamWriteValue32(bench.stream, bench.start[ODD] + 1000, 1, 0));
    bench_end(&bench);
}

static const struct contract_case cases[] = {
    CASE("set-bytes", "What may be set.", set_bytes),
    CASE("set-bytes-ordered", "What may be set on a stream.", set_bytes_ordered),
    CASE("set-words", "Words are set at multiples of 4.", set_words),
    CASE_OF("any", "Addresses tell what is copied.", copies, &any),
    CASE_OF("any-ordered", "Addresses tell what is copied on a stream.", copies, &any_ordered),
    CASE_OF("up", "What may be copied from the process.", copies, &up),
    CASE_OF("up-ordered", "What may be copied from the process on a stream.", copies, &up_ordered),
    CASE_OF("down", "What may be copied to the process.", copies, &down),
    CASE_OF("down-ordered", "What may be copied to the process on a stream.", copies,
            &down_ordered),
    CASE_OF("across", "What may be copied on the device.", copies, &across),
    CASE_OF("across-ordered", "What may be copied on the device on a stream.", copies,
            &across_ordered),
    CASE("bytes-arrive", "Copies of one stream run in order.", bytes_arrive),
    CASE("staged", "Few bytes of the process are taken at once, many are waited for.", staged),
    CASE_OF("waits-blocking", "Synchronous calls that touch the process wait for blocking streams.",
            legacy_waits, &blocking),
    CASE_OF("waits-non-blocking", "Synchronous calls wait for no other stream.", legacy_waits,
            &non_blocking),
    CASE("batch", "Many copies are made by one call.", batch),
    CASE("batch-refused", "Batches that are not whole are refused.", batch_refused),
    CASE("batch-captured", "A batch is not captured, and the capture goes on.", batch_captured),
    CASE("write-value", "A word is written in the order of a stream.", write_value),
    CASE("write-value-refused", "Only words of memory are written.", write_value_refused),
};
const struct contract_group contract_copies = CONTRACT_GROUP("copies", START_CONTEXT, cases);

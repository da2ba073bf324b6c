// SPDX-License-Identifier: Apache-2.0
/* pointer.c -- what can be asked of an address.
 *
 * For each kind of memory a case asks for every attribute of an address inside it, and shows the
 * answer as a relation: "itself" is the address that was asked about, "none" is NULL, "some" is a
 * number that differs from run to run. An attribute that is not in the kind's table must be
 * refused. */
#include <string.h>

#include "contract/contract.h"

#define TEXT_BYTES 48
/* Whether the hardware can unpack compressed data there; drivers have it from CUDA 12.8 on. */
#define HW_DECOMPRESS_CAPABLE ((tn_cu_pointer_attribute)21)
#define UNTOUCHED UINT64_C(0x1111111111111111)
#define INSIDE 100 /* the offset of the address that is asked about */

/* Memory of a kind, and what its attributes may be compared with. */
struct subject {
    tn_cu_deviceptr address; /* asked about */
    tn_cu_deviceptr start;   /* of what was allocated or mapped */
    tn_cu_deviceptr room;    /* start of the reservation, if any */
    tn_cu_mempool pool;      /* that it came from, if any */
};

struct expectation {
    tn_cu_pointer_attribute attribute;
    const char *text;
};

static const struct {
    tn_cu_pointer_attribute attribute;
    const char *name;
    size_t bytes; /* of its value */
} attributes[] = {
    {TN_CU_POINTER_CONTEXT, "CONTEXT", 8},
    {TN_CU_POINTER_MEMORY_TYPE, "MEMORY_TYPE", 4},
    {TN_CU_POINTER_DEVICE_POINTER, "DEVICE_POINTER", 8},
    {TN_CU_POINTER_HOST_POINTER, "HOST_POINTER", 8},
    {TN_CU_POINTER_SYNC_MEMOPS, "SYNC_MEMOPS", 4},
    {TN_CU_POINTER_BUFFER_ID, "BUFFER_ID", 8},
    {TN_CU_POINTER_IS_MANAGED, "IS_MANAGED", 4},
    {TN_CU_POINTER_DEVICE_ORDINAL, "DEVICE_ORDINAL", 4},
    {TN_CU_POINTER_LEGACY_IPC_CAPABLE, "LEGACY_IPC_CAPABLE", 4},
    {TN_CU_POINTER_RANGE_START, "RANGE_START", 8},
    {TN_CU_POINTER_RANGE_SIZE, "RANGE_SIZE", 8},
    {TN_CU_POINTER_MAPPED, "MAPPED", 4},
    {TN_CU_POINTER_ALLOWED_HANDLE_TYPES, "ALLOWED_HANDLE_TYPES", 8},
    {TN_CU_POINTER_RDMA_CAPABLE, "RDMA_CAPABLE", 4},
    {TN_CU_POINTER_ACCESS_FLAGS, "ACCESS_FLAGS", 4},
    {TN_CU_POINTER_MEMPOOL_HANDLE, "MEMPOOL_HANDLE", 8},
    {TN_CU_POINTER_MAPPING_SIZE, "MAPPING_SIZE", 8},
    {TN_CU_POINTER_MAPPING_BASE, "MAPPING_BASE", 8},
    {TN_CU_POINTER_MEMORY_BLOCK_ID, "MEMORY_BLOCK_ID", 8},
    {HW_DECOMPRESS_CAPABLE, "HW_DECOMPRESS_CAPABLE", 4},
};
#define ATTRIBUTE_COUNT (sizeof attributes / sizeof attributes[0])

/* The answer for an attribute in words. */
static void describe(char *text, const struct subject *subject, tn_cu_pointer_attribute attribute,
                     uint64_t value)
{
    tn_cu_context current = NULL;
    const char *word = NULL;
    switch (attribute) {
    case TN_CU_POINTER_CONTEXT:
        cu.cuCtxGetCurrent(&current);
        word = value == 0 ? "none" : value == (uintptr_t)current ? "the current" : "another";
        break;
    case TN_CU_POINTER_BUFFER_ID:
    case TN_CU_POINTER_MEMORY_BLOCK_ID:
        word = value == 0 ? "0" : "some";
        break;
    case TN_CU_POINTER_MEMPOOL_HANDLE:
        word = value == 0 ? "none" : value == (uintptr_t)subject->pool ? "the pool" : "another";
        break;
    case TN_CU_POINTER_DEVICE_POINTER:
    case TN_CU_POINTER_HOST_POINTER:
    case TN_CU_POINTER_RANGE_START:
    case TN_CU_POINTER_MAPPING_BASE:
        if (value == subject->address)
            word = "itself";
        else if (value == subject->start)
            word = "the start";
        else if (value == subject->room)
            word = value == 0 ? "0" : "the reservation";
        else
            word = "elsewhere";
        break;
    default:
        break;
    }
    if (word != NULL)
        snprintf(text, TEXT_BYTES, "%s", word);
    else
        snprintf(text, TEXT_BYTES, "%llu", (unsigned long long)value);
}

/* Asks for every attribute; those that are not expected must be refused. */
static void ask(const struct subject *subject, const struct expectation *expected, size_t count)
{
    for (size_t i = 0; i < ATTRIBUTE_COUNT; i++) {
        const char *text = NULL;
        char got[TEXT_BYTES];
        uint64_t value = 0;
        for (size_t j = 0; j < count; j++) {
            if (expected[j].attribute == attributes[i].attribute)
                text = expected[j].text;
        }
        STATE("%s", attributes[i].name);
        if (contract_gives(text == NULL ? TN_CUDA_ERROR_INVALID_VALUE : TN_CUDA_SUCCESS,
                           "cuPointerGetAttribute(",
                           cu.cuPointerGetAttribute(&value, attributes[i].attribute,
                                                    subject->address)) != TN_CUDA_SUCCESS)
            continue;
        describe(got, subject, attributes[i].attribute, value);
        if (text == NULL || strcmp(text, got) == 0)
            STATE("%s", got);
        else
            HOLDS(false, "%s, but %s", text, got);
    }
}

#define ASK(subject, table) ask(subject, table, sizeof(table) / sizeof(table)[0])

/* What mappings have in common: of 2 MiB, the second in a reservation of 64 MiB. */
#define MAPPING_ROWS                                                                               \
    {TN_CU_POINTER_CONTEXT, "none"}, {TN_CU_POINTER_BUFFER_ID, "some"},                            \
        {TN_CU_POINTER_IS_MANAGED, "0"}, {TN_CU_POINTER_DEVICE_ORDINAL, "0"},                      \
        {TN_CU_POINTER_LEGACY_IPC_CAPABLE, "0"}, {TN_CU_POINTER_RANGE_START, "the reservation"},   \
        {TN_CU_POINTER_RANGE_SIZE, "67108864"}, {TN_CU_POINTER_MAPPED, "1"},                       \
        {TN_CU_POINTER_MEMPOOL_HANDLE, "none"}, {TN_CU_POINTER_MAPPING_SIZE, "2097152"},           \
        {TN_CU_POINTER_MAPPING_BASE, "the start"},                                                 \
    {                                                                                              \
        TN_CU_POINTER_MEMORY_BLOCK_ID, "some"                                                      \
    }

static const struct expectation mapping_rows[] = {
    MAPPING_ROWS,
    {HW_DECOMPRESS_CAPABLE, "0"},
    {TN_CU_POINTER_SYNC_MEMOPS, "0"},
    {TN_CU_POINTER_MEMORY_TYPE, "2"},
    {TN_CU_POINTER_DEVICE_POINTER, "itself"},
    {TN_CU_POINTER_ALLOWED_HANDLE_TYPES, "0"},
    {TN_CU_POINTER_RDMA_CAPABLE, "0"},
    {TN_CU_POINTER_ACCESS_FLAGS, "3"},
};
static const struct expectation closed_rows[] = {
    MAPPING_ROWS,
    {HW_DECOMPRESS_CAPABLE, "0"},
    {TN_CU_POINTER_SYNC_MEMOPS, "0"},
    {TN_CU_POINTER_MEMORY_TYPE, "2"},
    {TN_CU_POINTER_ALLOWED_HANDLE_TYPES, "0"},
    {TN_CU_POINTER_RDMA_CAPABLE, "0"},
    {TN_CU_POINTER_ACCESS_FLAGS, "0"},
};
static const struct expectation read_rows[] = {
    MAPPING_ROWS,
    {HW_DECOMPRESS_CAPABLE, "0"},
    {TN_CU_POINTER_SYNC_MEMOPS, "0"},
    {TN_CU_POINTER_MEMORY_TYPE, "2"},
    {TN_CU_POINTER_DEVICE_POINTER, "itself"},
    {TN_CU_POINTER_ALLOWED_HANDLE_TYPES, "0"},
    {TN_CU_POINTER_RDMA_CAPABLE, "0"},
    {TN_CU_POINTER_ACCESS_FLAGS, "1"},
};
static const struct expectation shared_rows[] = {
    MAPPING_ROWS,
    {HW_DECOMPRESS_CAPABLE, "0"},
    {TN_CU_POINTER_SYNC_MEMOPS, "0"},
    {TN_CU_POINTER_MEMORY_TYPE, "2"},
    {TN_CU_POINTER_DEVICE_POINTER, "itself"},
    {TN_CU_POINTER_ALLOWED_HANDLE_TYPES, "1"},
    {TN_CU_POINTER_RDMA_CAPABLE, "0"},
    {TN_CU_POINTER_ACCESS_FLAGS, "3"},
};
static const struct expectation rdma_rows[] = {
    MAPPING_ROWS,
    {HW_DECOMPRESS_CAPABLE, "0"},
    {TN_CU_POINTER_SYNC_MEMOPS, "0"},
    {TN_CU_POINTER_MEMORY_TYPE, "2"},
    {TN_CU_POINTER_DEVICE_POINTER, "itself"},
    {TN_CU_POINTER_ALLOWED_HANDLE_TYPES, "0"},
    {TN_CU_POINTER_RDMA_CAPABLE, "1"},
    {TN_CU_POINTER_ACCESS_FLAGS, "3"},
};
/* Memory of a NUMA node, with access for the device. */
static const struct expectation node_rows[] = {
    MAPPING_ROWS,
    {HW_DECOMPRESS_CAPABLE, "0"},
    {TN_CU_POINTER_SYNC_MEMOPS, "0"},
    {TN_CU_POINTER_MEMORY_TYPE, "1"},
    {TN_CU_POINTER_DEVICE_POINTER, "itself"},
    {TN_CU_POINTER_ALLOWED_HANDLE_TYPES, "0"},
    {TN_CU_POINTER_RDMA_CAPABLE, "0"},
    {TN_CU_POINTER_ACCESS_FLAGS, "3"},
};
/* The same, with access for the node alone, and for both. */
static const struct expectation node_only_rows[] = {
    MAPPING_ROWS,
    {HW_DECOMPRESS_CAPABLE, "0"},
    {TN_CU_POINTER_SYNC_MEMOPS, "0"},
    {TN_CU_POINTER_MEMORY_TYPE, "1"},
    {TN_CU_POINTER_HOST_POINTER, "itself"},
    {TN_CU_POINTER_ALLOWED_HANDLE_TYPES, "0"},
    {TN_CU_POINTER_RDMA_CAPABLE, "0"},
    {TN_CU_POINTER_ACCESS_FLAGS, "0"},
};
static const struct expectation both_rows[] = {
    MAPPING_ROWS,
    {HW_DECOMPRESS_CAPABLE, "0"},
    {TN_CU_POINTER_SYNC_MEMOPS, "0"},
    {TN_CU_POINTER_MEMORY_TYPE, "1"},
    {TN_CU_POINTER_DEVICE_POINTER, "itself"},
    {TN_CU_POINTER_HOST_POINTER, "itself"},
    {TN_CU_POINTER_ALLOWED_HANDLE_TYPES, "0"},
    {TN_CU_POINTER_RDMA_CAPABLE, "0"},
    {TN_CU_POINTER_ACCESS_FLAGS, "3"},
};
static const struct expectation linear_rows[] = {
    {TN_CU_POINTER_CONTEXT, "the current"},
    {TN_CU_POINTER_MEMORY_TYPE, "2"},
    {TN_CU_POINTER_DEVICE_POINTER, "itself"},
    {TN_CU_POINTER_SYNC_MEMOPS, "0"},
    {TN_CU_POINTER_BUFFER_ID, "some"},
    {TN_CU_POINTER_IS_MANAGED, "0"},
    {TN_CU_POINTER_DEVICE_ORDINAL, "0"},
    {TN_CU_POINTER_LEGACY_IPC_CAPABLE, "1"},
    {TN_CU_POINTER_RANGE_START, "the start"},
    {TN_CU_POINTER_RANGE_SIZE, "1000"},
    {TN_CU_POINTER_MAPPED, "1"},
    {TN_CU_POINTER_ALLOWED_HANDLE_TYPES, "0"},
    {TN_CU_POINTER_RDMA_CAPABLE, "1"},
    {TN_CU_POINTER_ACCESS_FLAGS, "3"},
    {TN_CU_POINTER_MEMPOOL_HANDLE, "none"},
    {TN_CU_POINTER_MAPPING_SIZE, "2097152"},
    {TN_CU_POINTER_MAPPING_BASE, "the start"},
    {TN_CU_POINTER_MEMORY_BLOCK_ID, "some"},
    {HW_DECOMPRESS_CAPABLE, "0"},
    {HW_DECOMPRESS_CAPABLE, "1"},
};

/* What stream-ordered memory and graphs' memory have in common: 1000 bytes of them. */
#define ORDERED_ROWS                                                                               \
    {TN_CU_POINTER_CONTEXT, "none"}, {TN_CU_POINTER_MEMORY_TYPE, "2"},                             \
        {TN_CU_POINTER_DEVICE_POINTER, "itself"}, {TN_CU_POINTER_SYNC_MEMOPS, "0"},                \
        {TN_CU_POINTER_BUFFER_ID, "some"}, {TN_CU_POINTER_IS_MANAGED, "0"},                        \
        {TN_CU_POINTER_DEVICE_ORDINAL, "0"}, {TN_CU_POINTER_LEGACY_IPC_CAPABLE, "0"},              \
        {TN_CU_POINTER_RANGE_START, "the start"}, {TN_CU_POINTER_RANGE_SIZE, "1000"},              \
        {TN_CU_POINTER_MAPPED, "1"}, {TN_CU_POINTER_ALLOWED_HANDLE_TYPES, "0"},                    \
        {TN_CU_POINTER_RDMA_CAPABLE, "0"}, {TN_CU_POINTER_ACCESS_FLAGS, "3"},                      \
        {TN_CU_POINTER_MAPPING_SIZE, "33554432"},                                                  \
    {                                                                                              \
        TN_CU_POINTER_MEMORY_BLOCK_ID, "some"                                                      \
    }

static const struct expectation pool_rows[] = {
    ORDERED_ROWS,
    {HW_DECOMPRESS_CAPABLE, "0"},
    {TN_CU_POINTER_MEMPOOL_HANDLE, "the pool"},
    {TN_CU_POINTER_MAPPING_BASE, "the start"},
};
static const struct expectation graph_rows[] = {
    ORDERED_ROWS,
    {HW_DECOMPRESS_CAPABLE, "0"},
    {TN_CU_POINTER_MEMPOOL_HANDLE, "none"},
    {TN_CU_POINTER_MAPPING_BASE, "the start"},
};
static const struct expectation pinned_rows[] = {
    {TN_CU_POINTER_CONTEXT, "the current"},
    {TN_CU_POINTER_MEMORY_TYPE, "1"},
    {TN_CU_POINTER_DEVICE_POINTER, "itself"},
    {TN_CU_POINTER_HOST_POINTER, "itself"},
    {TN_CU_POINTER_SYNC_MEMOPS, "0"},
    {TN_CU_POINTER_BUFFER_ID, "some"},
    {TN_CU_POINTER_IS_MANAGED, "0"},
    {TN_CU_POINTER_DEVICE_ORDINAL, "0"},
    {TN_CU_POINTER_LEGACY_IPC_CAPABLE, "0"},
    {TN_CU_POINTER_RANGE_START, "the start"},
    {TN_CU_POINTER_RANGE_SIZE, "1000"},
    {TN_CU_POINTER_MAPPED, "1"},
    {TN_CU_POINTER_ALLOWED_HANDLE_TYPES, "0"},
    {TN_CU_POINTER_RDMA_CAPABLE, "0"},
    {TN_CU_POINTER_ACCESS_FLAGS, "3"},
    {TN_CU_POINTER_MEMPOOL_HANDLE, "none"},
    {TN_CU_POINTER_MAPPING_SIZE, "2097152"},
    {TN_CU_POINTER_MAPPING_BASE, "the start"},
    {TN_CU_POINTER_MEMORY_BLOCK_ID, "some"},
    {HW_DECOMPRESS_CAPABLE, "0"},
    {HW_DECOMPRESS_CAPABLE, "0"},
};
static const struct expectation registered_rows[] = {
    {TN_CU_POINTER_CONTEXT, "the current"},    {TN_CU_POINTER_MEMORY_TYPE, "1"},
    {TN_CU_POINTER_DEVICE_POINTER, "itself"},  {TN_CU_POINTER_HOST_POINTER, "itself"},
    {TN_CU_POINTER_SYNC_MEMOPS, "0"},          {TN_CU_POINTER_BUFFER_ID, "some"},
    {TN_CU_POINTER_IS_MANAGED, "0"},           {TN_CU_POINTER_DEVICE_ORDINAL, "0"},
    {TN_CU_POINTER_LEGACY_IPC_CAPABLE, "0"},   {TN_CU_POINTER_RANGE_START, "the start"},
    {TN_CU_POINTER_RANGE_SIZE, "8192"},        {TN_CU_POINTER_MAPPED, "1"},
    {TN_CU_POINTER_ALLOWED_HANDLE_TYPES, "0"}, {TN_CU_POINTER_RDMA_CAPABLE, "0"},
    {TN_CU_POINTER_ACCESS_FLAGS, "3"},         {TN_CU_POINTER_MEMPOOL_HANDLE, "none"},
    {TN_CU_POINTER_MAPPING_SIZE, "8192"},      {TN_CU_POINTER_MAPPING_BASE, "the start"},
    {TN_CU_POINTER_MEMORY_BLOCK_ID, "some"},   {HW_DECOMPRESS_CAPABLE, "0"},
};

/* -- Mappings -- */

#define ROOM (64 * MIB)

/* What is mapped, who may access it, and what its attributes are then. */
struct mapping {
    int location; /* 0: the device */
    int handle_types;
    bool rdma;
    int rights;      /* of the device */
    bool taken_away; /* they are, afterwards */
    bool node;       /* the NUMA node may access it */
    const struct expectation *expected;
    size_t count;
};

#define MAPPING_OF(table) .expected = (table), .count = sizeof(table) / sizeof(table)[0]

static void set_rights(tn_cu_deviceptr address, int rights)
{
    contract_set_up("cuMemSetAccess(", contract_access(address, 2 * MIB, rights), __FILE__,
                    __LINE__);
}

/* Maps 2 MiB as the second of a reservation, and asks. */
static void mapping(const void *argument)
{
    const struct mapping *what = argument;
    const tn_cu_access_desc node = {
        .location = {.type = TN_CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 0},
        .flags = TN_CU_MEM_ACCESS_READWRITE,
    };
    struct subject subject = {.pool = NULL};
    tn_cu_allocation_prop prop = contract_prop(0);
    tn_cu_memhandle handle = 0;
    prop.requested_handle_types = what->handle_types;
    prop.alloc_flags.gpu_direct_rdma_capable = what->rdma;
    if (what->location != 0)
        prop.location.type = what->location;
    SET_UP(cuMemAddressReserve(&subject.room, ROOM, 0, 0, 0));
    SET_UP(cuMemCreate(&handle, 2 * MIB, &prop, 0));
    subject.start = subject.room + 2 * MIB;
    subject.address = subject.start + INSIDE;
    SET_UP(cuMemMap(subject.start, 2 * MIB, 0, handle, 0));
    if (what->rights != TN_CU_MEM_ACCESS_NONE)
        set_rights(subject.start, what->rights);
    if (what->taken_away)
        set_rights(subject.start, TN_CU_MEM_ACCESS_NONE);
    if (what->node)
        SET_UP(cuMemSetAccess(subject.start, 2 * MIB, &node, 1));
    ask(&subject, what->expected, what->count);
    SET_UP(cuMemUnmap(subject.room, ROOM));
    SET_UP(cuMemRelease(handle));
    SET_UP(cuMemAddressFree(subject.room, ROOM));
}

static const struct mapping plain = {.rights = TN_CU_MEM_ACCESS_READWRITE,
                                     MAPPING_OF(mapping_rows)};
static const struct mapping closed = {.rights = TN_CU_MEM_ACCESS_NONE, MAPPING_OF(closed_rows)};
static const struct mapping taken_away = {
    .rights = TN_CU_MEM_ACCESS_READWRITE, .taken_away = true, MAPPING_OF(closed_rows)};
static const struct mapping read_only = {.rights = TN_CU_MEM_ACCESS_READ, MAPPING_OF(read_rows)};
static const struct mapping shared = {.handle_types = TN_CU_MEM_HANDLE_TYPE_POSIX_FD,
                                      .rights = TN_CU_MEM_ACCESS_READWRITE,
                                      MAPPING_OF(shared_rows)};
static const struct mapping for_rdma = {
    .rdma = true, .rights = TN_CU_MEM_ACCESS_READWRITE, MAPPING_OF(rdma_rows)};
static const struct mapping of_node = {.location = TN_CU_MEM_LOCATION_TYPE_HOST_NUMA,
                                       .rights = TN_CU_MEM_ACCESS_READWRITE,
                                       MAPPING_OF(node_rows)};
static const struct mapping of_node_only = {
    .location = TN_CU_MEM_LOCATION_TYPE_HOST_NUMA, .node = true, MAPPING_OF(node_only_rows)};
static const struct mapping of_host = {.location = TN_CU_MEM_LOCATION_TYPE_HOST,
                                       .rights = TN_CU_MEM_ACCESS_READWRITE,
                                       .node = true,
                                       MAPPING_OF(both_rows)};

/* -- Other memory -- */

CASE_BODY(linear)
{
    struct subject subject = {.pool = NULL};
    SET_UP(cuMemAlloc(&subject.start, 1000));
    subject.address = subject.start + INSIDE;
    ASK(&subject, linear_rows);
    SET_UP(cuMemFree(subject.start));
}

CASE_BODY(ordered)
{
    struct subject subject = {.room = 0};
    tn_cu_stream stream = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    SET_UP(cuDeviceGetDefaultMemPool(&subject.pool, 0));
    SET_UP(cuMemAllocAsync(&subject.start, 1000, stream));
    subject.address = subject.start + INSIDE;
    ASK(&subject, pool_rows);
    SET_UP(cuMemFreeAsync(subject.start, stream));
    SET_UP(cuStreamSynchronize(stream));
    SET_UP(cuStreamDestroy(stream));
}

CASE_BODY(ordered_own_pool)
{
    struct subject subject = {.room = 0};
    tn_cu_pool_props props;
    memset(&props, 0, sizeof props);
    props.type = TN_CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = TN_CU_MEM_LOCATION_TYPE_DEVICE;
    tn_cu_stream stream = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    SET_UP(cuMemPoolCreate(&subject.pool, &props));
    SET_UP(cuMemAllocFromPoolAsync(&subject.start, 1000, subject.pool, stream));
    subject.address = subject.start + INSIDE;
    ASK(&subject, pool_rows);
    SET_UP(cuMemFreeAsync(subject.start, stream));
    SET_UP(cuStreamSynchronize(stream));
    SET_UP(cuMemPoolDestroy(subject.pool));
    SET_UP(cuStreamDestroy(stream));
}

CASE_BODY(graph)
{
    struct subject subject = {.room = 0};
    tn_cu_stream stream = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_graph graph;
    tn_cu_graphexec exec;
    tn_cu_deviceptr base = 0;
    size_t bytes = 0;
    SET_UP(cuStreamBeginCapture(stream, TN_CU_CAPTURE_MODE_RELAXED));
    SET_UP(cuMemAllocAsync(&subject.start, 1000, stream));
    SET_UP(cuStreamEndCapture(stream, &graph));
    subject.address = subject.start + INSIDE;
    STATE("captured");
    ask(&subject, NULL, 0);
    GIVES(NOT_FOUND, cuMemGetAddressRange(&base, &bytes, subject.address));
    SET_UP(cuGraphInstantiateWithFlags(&exec, graph, TN_CU_GRAPH_INSTANTIATE_AUTO_FREE_ON_LAUNCH));
    STATE("instantiated");
    GIVES(INVALID_VALUE, cuPointerGetAttribute(&bytes, TN_CU_POINTER_RANGE_SIZE, subject.address));
    SET_UP(cuGraphLaunch(exec, stream));
    SET_UP(cuStreamSynchronize(stream));
    STATE("launched");
    ASK(&subject, graph_rows);
    GIVES(SUCCESS, cuMemGetAddressRange(&base, &bytes, subject.address));
    HOLDS(base == subject.start && bytes == 1000, "what was asked for");
    SET_UP(cuMemFree(subject.start));
    SET_UP(cuGraphExecDestroy(exec));
    SET_UP(cuGraphDestroy(graph));
    SET_UP(cuStreamDestroy(stream));
    SET_UP(cuDeviceGraphMemTrim(0));
}

CASE_BODY(pinned)
{
    void *host;
    SET_UP(cuMemHostAlloc(&host, 1000, 0));
    struct subject subject = {.address = (uintptr_t)host + INSIDE, .start = (uintptr_t)host};
    ASK(&subject, pinned_rows);
    SET_UP(cuMemFreeHost(host));
}

CASE_BODY(registered)
{
    static _Alignas(4096) char page[3 * 4096];
    SET_UP(cuMemHostRegister(page, 2 * 4096, 0));
    struct subject subject = {.address = (uintptr_t)page + INSIDE, .start = (uintptr_t)page};
    ASK(&subject, registered_rows);
    SET_UP(cuMemHostUnregister(page));
}

/* -- Addresses without memory -- */

enum nowhere { NOWHERE_NULL, NOWHERE_LOCAL, NOWHERE_FREED, NOWHERE_END, NOWHERE_UNMAPPED };

/* What the plural form says of an attribute that an address does not have. */
static const char *plural_answer(size_t number, uint64_t value, const struct subject *subject)
{
    uint64_t untouched = attributes[number].bytes == 8 ? UNTOUCHED : (uint32_t)UNTOUCHED;
    if (value == 0)
        return "0";
    if (value == untouched)
        return "untouched";
    if (attributes[number].bytes == 4 && (int32_t)value == -2)
        return "-2";
    if (value == subject->address)
        return "itself";
    if (value == subject->room)
        return "the reservation";
    return value == ROOM ? "its size" : "something";
}

/* Asks for every attribute at once, of an address that has none. */
static void ask_all(const struct subject *subject)
{
    uint64_t values[ATTRIBUTE_COUNT];
    void *places[ATTRIBUTE_COUNT];
    tn_cu_pointer_attribute asked[ATTRIBUTE_COUNT];
    for (size_t i = 0; i < ATTRIBUTE_COUNT; i++) {
        values[i] = UNTOUCHED;
        places[i] = &values[i];
        asked[i] = attributes[i].attribute;
    }
    GIVES(SUCCESS, cuPointerGetAttributes(ATTRIBUTE_COUNT, asked, places, subject->address));
    for (size_t i = 0; i < ATTRIBUTE_COUNT; i++) {
        uint64_t value = 0;
        memcpy(&value, &values[i], attributes[i].bytes);
        const char *text = plural_answer(i, value, subject);
        const char *expected = "0";
        if (asked[i] == TN_CU_POINTER_DEVICE_ORDINAL)
            expected = "-2";
        else if (asked[i] == TN_CU_POINTER_HOST_POINTER && subject->address != 0)
            expected = "itself";
        else if (asked[i] == TN_CU_POINTER_RANGE_START)
            expected = subject->room == 0 ? "untouched" : "the reservation";
        else if (asked[i] == TN_CU_POINTER_RANGE_SIZE)
            expected = subject->room == 0 ? "untouched" : "its size";
        HOLDS(strcmp(text, expected) == 0, "%s %s", attributes[i].name, text);
    }
}

static void nowhere(const void *argument)
{
    struct subject subject = {.address = 0};
    int local = 0;
    tn_cu_deviceptr other = 0;
    switch (*(const enum nowhere *)argument) {
    case NOWHERE_NULL:
        break;
    case NOWHERE_LOCAL:
        subject.address = (uintptr_t)&local;
        break;
    case NOWHERE_FREED:
        SET_UP(cuMemAlloc(&subject.address, 8 * MIB));
        SET_UP(cuMemFree(subject.address));
        break;
    case NOWHERE_END:
        SET_UP(cuMemAlloc(&other, 2 * MIB));
        subject.address = other + 2 * MIB;
        break;
    case NOWHERE_UNMAPPED:
        SET_UP(cuMemAddressReserve(&subject.room, ROOM, 0, 0, 0));
        subject.address = subject.room + 4 * MIB + INSIDE;
        break;
    }
    ask(&subject, NULL, 0);
    ask_all(&subject);
    if (other != 0)
        SET_UP(cuMemFree(other));
    if (subject.room != 0)
        SET_UP(cuMemAddressFree(subject.room, ROOM));
}

static const enum nowhere no_address = NOWHERE_NULL;
static const enum nowhere no_pinned = NOWHERE_LOCAL;
static const enum nowhere no_more = NOWHERE_FREED;
static const enum nowhere no_end = NOWHERE_END;
static const enum nowhere no_mapping = NOWHERE_UNMAPPED;

static const struct contract_case cases[] = {
    CASE_OF("mapping", "Every attribute of a mapping.", mapping, &plain),
    CASE_OF("mapping-closed", "Every attribute of a mapping without access.", mapping, &closed),
    CASE_OF("mapping-taken-away", "Every attribute of a mapping whose access was taken away.",
            mapping, &taken_away),
    CASE_OF("mapping-read", "Every attribute of a mapping that may only be read.", mapping,
            &read_only),
    CASE_OF("mapping-shared", "Every attribute of a mapping of memory to be exported.", mapping,
            &shared),
    CASE_OF("mapping-rdma", "Every attribute of a mapping of memory for RDMA.", mapping, &for_rdma),
    CASE_OF("mapping-node", "Every attribute of a mapping of a NUMA node's memory.", mapping,
            &of_node),
    CASE_OF("mapping-node-only",
            "Every attribute of a mapping of it that the node alone may access.", mapping,
            &of_node_only),
    CASE_OF("mapping-host", "Every attribute of a mapping of the host's memory.", mapping,
            &of_host),
    CASE("linear", "Every attribute of linear memory.", linear),
    CASE("ordered", "Every attribute of stream-ordered memory.", ordered),
    CASE("ordered-own-pool", "Every attribute of memory from a pool of one's own.",
         ordered_own_pool),
    CASE("graph", "A graph's memory is unknown until the graph was launched.", graph),
    CASE("pinned", "Every attribute of page-locked memory.", pinned),
    CASE("registered", "Every attribute of registered memory.", registered),
    CASE_OF("nowhere-null", "NULL has no attributes.", nowhere, &no_address),
    CASE_OF("nowhere-local", "Memory of the process has no attributes.", nowhere, &no_pinned),
    CASE_OF("nowhere-freed", "Freed memory has no attributes.", nowhere, &no_more),
    CASE_OF("nowhere-end", "The end of an allocation is not part of it.", nowhere, &no_end),
    CASE_OF("nowhere-unmapped", "A reservation without memory has no attributes but a start.",
            nowhere, &no_mapping),
};
const struct contract_group contract_pointer = CONTRACT_GROUP("pointer", START_CONTEXT, cases);

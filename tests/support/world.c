// SPDX-License-Identifier: Apache-2.0
#include "support/world.h"

#include <time.h>

struct test_world world;

const struct test_refusal test_refusals[TEST_REFUSALS] = {
    {TN_CUDA_ERROR_OUT_OF_MEMORY, TARN_ERR_DEVICE_MEMORY},
    {TN_CUDA_ERROR_UNKNOWN, TARN_ERR_DRIVER},
};

void test_world_open(void)
{
    test_world_open_with(NULL);
}

void test_world_open_with(const tarn_device_options *device_options)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;

    test_start();
    world.stream = test_stream();
    world.side = test_stream();
    world.ledger = test_ledger();
    OK(tarn_device_open(0, device_options, &world.device));
    OK(tarn_device_default_pool(world.device, &world.default_pool));
    options.name = "test";
    OK(tarn_pool_create(world.device, &options, &world.pool));
}

void test_world_close(void)
{
    if (world.device != NULL) {
        OK(tarn_pool_destroy(world.pool));
        OK(tarn_device_close(world.device));
        test_same_ledger(&world.ledger);
    }
    world.device = NULL;
    world.pool = NULL;
    test_destroy_stream(world.stream);
    test_destroy_stream(world.side);
}

void test_outputs_open(void)
{
    test_world_open();
    for (size_t i = 0; i < 2; i++)
        world.outputs[i] = test_alloc(world.default_pool, 16 << 10, world.stream);
}

void test_outputs_close(void)
{
    for (size_t i = 0; i < 2; i++) {
        OK(tarn_free(world.outputs[i]));
        world.outputs[i] = NULL;
    }
    test_world_close();
}

void test_world_abandon(void)
{
    world.device = NULL;
    world.pool = NULL;
}

tarn_pool *test_pool_with(const tarn_pool_options *options)
{
    tarn_pool *pool = NULL;

    OK(tarn_pool_create(world.device, options, &pool));
    return pool;
}

tarn_pool *test_pool(const char *name)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;

    options.name = name;
    return test_pool_with(&options);
}

tarn_route *test_route(tarn_pool *pool, tarn_route_filter filter, void *user)
{
    tarn_route *route = NULL;

    OK(tarn_begin_allocate_to_pool(world.device, pool, filter, user, &route));
    return route;
}

void *test_malloc(size_t bytes)
{
    void *address = NULL;

    OK(tarn_malloc(world.device, bytes, world.stream, &address));
    ck_assert_ptr_nonnull(address);
    return address;
}

void *test_alloc(tarn_pool *pool, size_t bytes, tn_cu_stream stream)
{
    void *address = NULL;

    OK(tarn_pool_malloc(pool, bytes, 0, stream, &address));
    ck_assert_ptr_nonnull(address);
    return address;
}

void *test_filled(size_t words, uint32_t value)
{
    void *address = test_alloc(world.pool, words * sizeof value, world.stream);

    test_fill(world.stream, address, value, words);
    return address;
}

tarn_pool *test_pool_of(const void *address)
{
    tarn_block block;

    OK(tarn_block_at(address, &block));
    return block.pool;
}

tarn_pool *test_chosen_pool(tn_cu_stream stream)
{
    void *address = NULL;
    tarn_pool *pool;

    OK(tarn_malloc(world.device, 512, stream, &address));
    pool = test_pool_of(address);
    OK(tarn_free(address));
    return pool;
}

bool test_is_given(const void *address, size_t bytes, tn_cu_stream stream)
{
    uint64_t mapped = test_stats(world.pool).mapped_bytes;
    uintptr_t begin = (uintptr_t)address;
    void *blocks[64];
    size_t count = 0;
    bool given = false;

    while (!given && test_stats(world.pool).mapped_bytes == mapped) {
        uintptr_t at;

        ck_assert_uint_lt(count, 64);
        blocks[count] = test_alloc(world.pool, bytes, stream);
        at = (uintptr_t)blocks[count];
        given = at < begin + bytes && begin < at + bytes;
        count += 1;
    }
    for (size_t i = 0; i < count; i++)
        OK(tarn_free(blocks[i]));
    return given;
}

void test_trim_with_a_wait(tarn_pool *pool)
{
    uint64_t waits = test_device_stats().idle_waits;

    OK(tarn_free(test_alloc(pool, 4 * MIB, world.side)));
    OK(tarn_pool_trim(pool, NULL));
    ck_assert_uint_eq(test_device_stats().idle_waits, waits + 1);
}

char *test_live_block(tarn_pool *pool)
{
    tarn_layout *layout = NULL;
    char *found = NULL;

    OK(tarn_pool_layout(pool, &layout));
    for (size_t i = 0; i < layout->extent_count; i++) {
        if (layout->extents[i].state == TARN_EXTENT_LIVE)
            found = layout->extents[i].address;
    }
    tarn_layout_destroy(layout);
    ck_assert_ptr_nonnull(found);
    return found;
}

struct test_stats test_stats(tarn_pool *pool)
{
    tarn_stats stats = {.size = sizeof stats, .walk = true};

    OK(tarn_pool_stats(pool, &stats));
    return test_stats_in(&stats);
}

struct test_device_stats test_device_stats(void)
{
    tarn_stats stats = TARN_STATS_INIT;

    OK(tarn_device_stats(world.device, &stats));
    return test_device_stats_in(&stats);
}

tarn_extent_state test_state_of(tarn_pool *pool, const void *address)
{
    tarn_extent_state state = TARN_EXTENT_UNMAPPED;
    tarn_layout *layout = NULL;

    OK(tarn_pool_layout(pool, &layout));
    for (size_t i = 0; i < layout->extent_count; i++) {
        const tarn_extent *extent = &layout->extents[i];

        if ((uintptr_t)extent->address <= (uintptr_t)address &&
            (uintptr_t)address < (uintptr_t)extent->address + extent->bytes)
            state = extent->state;
    }
    tarn_layout_destroy(layout);
    return state;
}

tarn_capture *test_capture_on(tarn_pool *pool, tn_cu_stream stream, tarn_capture_mode mode)
{
    tarn_capture *capture = NULL;

    OK(tarn_capture_begin(pool, stream, CAPTURE_MODE(mode), &capture));
    ck_assert_ptr_nonnull(capture);
    return capture;
}

tarn_capture *test_capture_begin(tarn_capture_mode mode)
{
    return test_capture_on(world.pool, world.stream, mode);
}

tarn_graph *test_capture_end(tarn_capture *capture)
{
    tarn_graph *graph = NULL;

    OK(tarn_capture_end(capture, &graph));
    ck_assert_ptr_nonnull(graph);
    return graph;
}

tarn_capture *test_begin_body(tarn_capture *outer, uint64_t group, tn_cu_graph body)
{
    tarn_capture *capture = NULL;

    OK(tarn_capture_begin(world.pool, world.side,
                          CAPTURE_INTO(outer, group, body, TARN_CAPTURE_THREAD_LOCAL), &capture));
    return capture;
}

void *test_copy_through(tarn_pool *pool, tn_cu_stream stream, uint32_t value, void *output,
                        size_t words)
{
    void *temporary = test_alloc(pool, 4 * MIB, stream);

    test_fill(stream, temporary, value, words);
    test_copy(stream, output, temporary, words * sizeof value);
    OK(tarn_free(temporary));
    return temporary;
}

tarn_checkpoint *test_take(tarn_contents contents)
{
    tarn_checkpoint *checkpoint = NULL;

    OK(tarn_checkpoint_take(world.pool, contents, world.stream, &checkpoint));
    ck_assert_ptr_nonnull(checkpoint);
    return checkpoint;
}

tarn_delta *test_restore(tarn_checkpoint *checkpoint, size_t freed, size_t revived)
{
    tarn_delta *delta = NULL;

    OK(tarn_checkpoint_restore(checkpoint, world.stream, &delta));
    ck_assert_uint_eq(delta->freed_count, freed);
    ck_assert_uint_eq(delta->revived_count, revived);
    OK(tarn_pool_validate(world.pool));
    return delta;
}

tn_cu_stream test_blocking_stream(void)
{
    tn_cu_stream stream = NULL;

    CU_OK(cu.cuStreamCreate(&stream, TN_CU_STREAM_DEFAULT));
    return stream;
}

void test_destroy_stream(tn_cu_stream stream)
{
    (void)cu.cuStreamDestroy(stream); /* on a lost device it answers the fault */
}

void test_wait_for_all(void)
{
    CU_OK(cu.cuCtxSynchronize());
}

void test_begin_capture(tn_cu_stream stream, tn_cu_capture_mode mode)
{
    CU_OK(cu.cuStreamBeginCapture(stream, mode));
}

tn_cu_graph test_end_capture(tn_cu_stream stream)
{
    tn_cu_graph graph = NULL;

    CU_OK(cu.cuStreamEndCapture(stream, &graph));
    return graph;
}

tn_cu_graph test_try_end_capture(tn_cu_stream stream)
{
    tn_cu_graph graph = NULL;

    return cu.cuStreamEndCapture(stream, &graph) == TN_CUDA_SUCCESS ? graph : NULL;
}

void test_end_broken_capture(tn_cu_stream stream)
{
    tn_cu_graph graph = NULL;

    ck_assert_int_ne(cu.cuStreamEndCapture(stream, &graph), TN_CUDA_SUCCESS);
    ck_assert_ptr_null(graph);
}

tn_cu_graphnode test_last_node(tn_cu_stream stream)
{
    tn_cu_capture_status status = TN_CU_CAPTURE_STATUS_NONE;
    const tn_cu_graphnode *nodes = NULL;
    const tn_cu_edge_data *edges = NULL;
    size_t count = 0;

    CU_OK(cu.cuStreamGetCaptureInfo(stream, &status, NULL, NULL, &nodes, &edges, &count));
    ck_assert_int_eq(status, TN_CU_CAPTURE_STATUS_ACTIVE);
    ck_assert_uint_eq(count, 1);
    return nodes[0];
}

void test_set_past(tn_cu_stream stream, tn_cu_graphnode node, bool whole)
{
    const tn_cu_edge_data edge = {.from_port = whole ? 0 : 1, .type = whole ? 0 : 1};

    CU_OK(cu.cuStreamUpdateCaptureDependencies(stream, &node, &edge, 1, 1)); /* 1: set, not add */
}

void test_drop_capture(tn_cu_stream stream)
{
    tn_cu_graph graph = NULL;

    if (cu.cuStreamEndCapture(stream, &graph) == TN_CUDA_SUCCESS)
        test_destroy_graph(graph);
}

tn_cu_capture_status test_capture_status(tn_cu_stream stream)
{
    tn_cu_capture_status status = TN_CU_CAPTURE_STATUS_NONE;

    CU_OK(cu.cuStreamIsCapturing(stream, &status));
    return status;
}

void test_break_capture(void)
{
    tn_cu_deviceptr memory = 0;

    ck_assert_int_eq(cu.cuMemAlloc(&memory, 512), TN_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

void test_order(tn_cu_stream first, tn_cu_stream then)
{
    tn_cu_event event = NULL;

    CU_OK(cu.cuEventCreate(&event, TN_CU_EVENT_DISABLE_TIMING));
    CU_OK(cu.cuEventRecord(event, first));
    CU_OK(cu.cuStreamWaitEvent(then, event, 0));
    CU_OK(cu.cuEventDestroy(event));
}

void test_copy(tn_cu_stream stream, void *to, const void *from, size_t bytes)
{
    CU_OK(cu.cuMemcpyDtoDAsync((tn_cu_deviceptr)(uintptr_t)to, (tn_cu_deviceptr)(uintptr_t)from,
                               bytes, stream));
}

void test_set_words(tn_cu_stream stream, void *address, uint32_t value, size_t count)
{
    CU_OK(cu.cuMemsetD32Async((tn_cu_deviceptr)(uintptr_t)address, value, count, stream));
}

void test_write(tn_cu_stream stream, void *to, const void *from, size_t bytes)
{
    CU_OK(cu.cuMemcpyHtoDAsync((tn_cu_deviceptr)(uintptr_t)to, from, bytes, stream));
    test_synchronize(stream);
}

void test_read_bytes(tn_cu_stream stream, void *to, const void *from, size_t bytes)
{
    CU_OK(cu.cuMemcpyDtoHAsync(to, (tn_cu_deviceptr)(uintptr_t)from, bytes, stream));
    test_synchronize(stream);
}

void test_flip_byte(tn_cu_stream stream, void *address)
{
    unsigned char byte = 0;

    test_read_bytes(stream, &byte, address, 1);
    byte ^= 0x10;
    test_write(stream, address, &byte, 1);
}

void *test_host_alloc(size_t bytes)
{
    void *memory = NULL;

    CU_OK(cu.cuMemHostAlloc(&memory, bytes, 0));
    return memory;
}

void test_host_free(void *memory)
{
    CU_OK(cu.cuMemFreeHost(memory));
}

size_t test_node_count(tn_cu_graph graph)
{
    size_t count = 0;

    CU_OK(cu.cuGraphGetNodes(graph, NULL, &count));
    return count;
}

tn_cu_graph test_clone(tn_cu_graph graph)
{
    tn_cu_graph clone = NULL;

    CU_OK(cu.cuGraphClone(&clone, graph));
    return clone;
}

tn_cu_graphexec test_instantiate(tn_cu_graph graph)
{
    tn_cu_graphexec exec = NULL;

    CU_OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
}

void test_launch(tn_cu_graphexec exec, tn_cu_stream stream)
{
    CU_OK(cu.cuGraphLaunch(exec, stream));
}

void test_destroy_exec(tn_cu_graphexec exec)
{
    CU_OK(cu.cuGraphExecDestroy(exec));
}

void test_launch_once(tn_cu_graph graph, tn_cu_stream stream)
{
    tn_cu_graphexec exec = test_instantiate(graph);

    test_launch(exec, stream);
    test_synchronize(stream);
    test_destroy_exec(exec);
}

void test_destroy_graph(tn_cu_graph graph)
{
    CU_OK(cu.cuGraphDestroy(graph));
}

size_t test_free_bytes(void)
{
    size_t free_bytes = 0;
    size_t total_bytes = 0;

    CU_OK(cu.cuMemGetInfo(&free_bytes, &total_bytes));
    return free_bytes;
}

struct test_properties test_properties(const void *address)
{
    tn_cu_allocation_prop prop;
    tn_cu_memhandle handle;

    CU_OK(cu.cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)address));
    CU_OK(cu.cuMemGetAllocationPropertiesFromHandle(&prop, handle));
    CU_OK(cu.cuMemRelease(handle));
    return (struct test_properties){prop.requested_handle_types,
                                    prop.alloc_flags.gpu_direct_rdma_capable != 0};
}

unsigned long long test_access(int ordinal, const void *address)
{
    tn_cu_location location = {.type = TN_CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal};
    unsigned long long flags = 7;

    CU_OK(cu.cuMemGetAccess(&flags, &location, (tn_cu_deviceptr)(uintptr_t)address));
    return flags;
}

int test_export(const void *address)
{
    tn_cu_memhandle handle;
    int descriptor = -1;

    CU_OK(cu.cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)address));
    CU_OK(cu.cuMemExportToShareableHandle(&descriptor, handle, TN_CU_MEM_HANDLE_TYPE_POSIX_FD, 0));
    CU_OK(cu.cuMemRelease(handle));
    return descriptor;
}

void *test_import(int descriptor, size_t bytes)
{
    const tn_cu_access_desc access = {.location = {TN_CU_MEM_LOCATION_TYPE_DEVICE, 0},
                                      .flags = TN_CU_MEM_ACCESS_READWRITE};
    tn_cu_deviceptr address = 0;
    tn_cu_memhandle handle;

    CU_OK(cu.cuMemImportFromShareableHandle(&handle, (void *)(uintptr_t)descriptor,
                                            TN_CU_MEM_HANDLE_TYPE_POSIX_FD));
    CU_OK(cu.cuMemAddressReserve(&address, bytes, 0, 0, 0));
    CU_OK(cu.cuMemMap(address, bytes, 0, handle, 0));
    CU_OK(cu.cuMemSetAccess(address, bytes, &access, 1));
    CU_OK(cu.cuMemRelease(handle)); /* the mapping keeps it */
    return (void *)(uintptr_t)address;
}

void test_end_import(void *address, size_t bytes)
{
    CU_OK(cu.cuMemUnmap((tn_cu_deviceptr)(uintptr_t)address, bytes));
    CU_OK(cu.cuMemAddressFree((tn_cu_deviceptr)(uintptr_t)address, bytes));
}

void *test_linear_alloc(size_t bytes)
{
    tn_cu_deviceptr memory = 0;

    CU_OK(cu.cuMemAlloc(&memory, bytes));
    return (void *)(uintptr_t)memory;
}

void test_linear_free(void *memory)
{
    CU_OK(cu.cuMemFree((tn_cu_deviceptr)(uintptr_t)memory));
}

size_t test_linear_fill(void **memory, size_t most, size_t bytes)
{
    size_t count = 0;
    tn_cu_deviceptr piece = 0;

    while (count < most && cu.cuMemAlloc(&piece, bytes) == TN_CUDA_SUCCESS)
        memory[count++] = (void *)(uintptr_t)piece;
    ck_assert_uint_lt(count, most);
    return count;
}

tn_cu_context test_context(void)
{
    tn_cu_context context = NULL;

    CU_OK(cu.cuCtxGetCurrent(&context));
    return context;
}

tn_cu_context test_retain(int ordinal)
{
    tn_cu_context context = NULL;

    CU_OK(cu.cuDevicePrimaryCtxRetain(&context, ordinal));
    return context;
}

void test_release(int ordinal)
{
    CU_OK(cu.cuDevicePrimaryCtxRelease(ordinal));
}

tn_cu_context test_make_context(void)
{
    tn_cu_context made = NULL;

    CU_OK(cu.cuCtxCreate(&made, 0, 0));
    return made;
}

void test_end_context(tn_cu_context context)
{
    CU_OK(cu.cuCtxDestroy(context));
}

void test_pop_context(void)
{
    tn_cu_context popped;

    CU_OK(cu.cuCtxPopCurrent(&popped));
}

void test_set_context(tn_cu_context context)
{
    CU_OK(cu.cuCtxSetCurrent(context));
}

void test_await_destructors(uint64_t left)
{
    const struct timespec pause = {0, 1000000};
    int64_t deadline = test_deadline();

    for (int tries = 0; tries < 50 && !test_is_simulated(); tries++)
        (void)nanosleep(&pause, NULL);
    while (test_ledger().user_objects > left && test_pause(deadline))
        continue;
    ck_assert_uint_le(test_ledger().user_objects, left);
}

tn_cu_result test_stream_result(tn_cu_stream stream)
{
    return cu.cuStreamSynchronize(stream);
}

static uint64_t hash_layout(tarn_pool *pool)
{
    uint64_t hash = 1469598103934665603U; /* FNV-1a */
    tarn_layout *layout = NULL;

    OK(tarn_pool_layout(pool, &layout));
    for (size_t i = 0; i < layout->extent_count; i++) {
        const tarn_extent *extent = &layout->extents[i];
        uint64_t words[] = {(uintptr_t)extent->address, extent->bytes, extent->segment_index,
                            (uint64_t)extent->state, extent->sequence};

        for (size_t word = 0; word < sizeof words / sizeof words[0]; word++)
            hash = (hash ^ words[word]) * 1099511628211U;
    }
    tarn_layout_destroy(layout);
    return hash;
}

struct test_picture test_picture(void)
{
    struct test_picture picture;

    memset(&picture, 0, sizeof picture);
    if (world.device != NULL) {
        picture.device = test_device_stats();
        picture.device.idle_waits = 0; /* to have waited, or tried again, changes nothing */
        picture.device.ladder_retries = 0;
        picture.device.out_of_memory_count = 0;
        picture.default_pool = test_stats(world.default_pool);
    }
    if (world.pool != NULL) {
        picture.pool = test_stats(world.pool);
        picture.layout = hash_layout(world.pool);
        OK(tarn_pool_validate(world.pool));
    }
    picture.ledger = test_ledger();
    if (cu.cuCtxGetCurrent != NULL)
        picture.context = test_context();
    return picture;
}

/* An arena is only where its order begins to look: a refused call may leave an empty one. */
static void same_stats(const struct test_stats *before, const struct test_stats *now,
                       const char *pool)
{
#define SAME(field)                                                                                \
    ck_assert_msg(before->field == now->field, "%s pool's " #field ": %llu, before %llu", pool,    \
                  (unsigned long long)now->field, (unsigned long long)before->field)
    SAME(mapped_bytes);
    SAME(mapped_peak_bytes);
    SAME(live_bytes);
    SAME(live_peak_bytes);
    SAME(requested_bytes);
    SAME(pending_bytes);
    SAME(captured_bytes);
    SAME(live_count);
    SAME(pending_count);
    SAME(alloc_count);
    SAME(free_count);
    SAME(segment_count);
    SAME(chunk_count);
    SAME(capture_count);
    SAME(graph_count);
    SAME(checkpoint_count);
    SAME(map_count);
    SAME(unmap_count);
#undef SAME
}

void test_same_picture(const struct test_picture *before)
{
    struct test_picture now = test_picture();

    same_stats(&before->default_pool, &now.default_pool, "default");
    same_stats(&before->pool, &now.pool, "test");
    ck_assert_msg(before->layout == now.layout, "the pool's layout has changed");
    ck_assert_mem_eq(&before->device, &now.device, sizeof now.device);
    ck_assert_ptr_eq(before->context, now.context);
    if (test_is_simulated())
        test_same_ledger(&before->ledger);
}

// SPDX-License-Identifier: Apache-2.0
/* world.h -- what suites of the public API begin with: an open device, a private pool, two streams;
 * the driver's calls that a user makes beside the library; and pictures of all that a refused call
 * must leave as it was. */
#ifndef TARN_TESTS_SUPPORT_WORLD_H
#define TARN_TESTS_SUPPORT_WORLD_H

#include <string.h>

#include "support/cuda.h"
#include "support/stats.h"

struct test_world {
    tarn_device *device; /* NULL after test_world_abandon */
    tarn_pool *default_pool;
    tarn_pool *pool;     /* "test"; a test that ends it sets it to NULL */
    tn_cu_stream stream; /* both non-blocking */
    tn_cu_stream side;
    void *outputs[2];       /* of test_outputs_open: what sections write; NULL: none */
    tarn_sim_ledger ledger; /* before the device was opened */
};
extern struct test_world world;

/* A fixture. Closing asserts that pool and device can go and leave nothing behind. */
void test_world_open(void);
void test_world_open_with(const tarn_device_options *device_options);
void test_world_close(void);

/* A fixture where free memory stays where it was mapped. */
static inline void test_world_open_still(void)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.move_limit_bytes = TARN_NO_MOVES;
    test_world_open_with(&options);
}

/* A fixture whose device keeps no history. */
static inline void test_world_open_unrecorded(void)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.history_bytes = TARN_NO_HISTORY;
    test_world_open_with(&options);
}

/* A fixture, too: with two outputs of 16 KiB each, of the default pool. */
void test_outputs_open(void);
void test_outputs_close(void);

/* For tests that lose the device: nothing is closed afterwards. */
void test_world_abandon(void);

tarn_pool *test_pool(const char *name); /* another private pool */
tarn_pool *test_pool_with(const tarn_pool_options *options);
tarn_route *test_route(tarn_pool *pool, tarn_route_filter filter, void *user); /* open */
/* Whether the world's pool has the memory of a block that was there to give to the stream: whether an allocation
 * of that size gets some of it before the pool grows. */
bool test_is_given(const void *address, size_t bytes, tn_cu_stream stream);
/* A trim of the pool that has to wait for the device, since memory was just freed there. */
void test_trim_with_a_wait(tarn_pool *pool);
void *test_malloc(size_t bytes); /* tarn_malloc on the world's stream */
void *test_alloc(tarn_pool *pool, size_t bytes, tn_cu_stream stream);
void *test_filled(size_t words, uint32_t value);  /* of the world's pool, on its stream */
tarn_pool *test_pool_of(const void *address);     /* whose block it is */
tarn_pool *test_chosen_pool(tn_cu_stream stream); /* by tarn_malloc there, now */
char *test_live_block(tarn_pool *pool);           /* of a pool that has one */
struct test_stats test_stats(tarn_pool *pool);    /* walked */
struct test_device_stats test_device_stats(void);
/* What the pool's layout says of an address; UNMAPPED where the pool has none. */
tarn_extent_state test_state_of(tarn_pool *pool, const void *address);
/* A capture of the stream into the pool, one of the world's stream into the world's pool, and the end
 * of either. */
tarn_capture *test_capture_on(tarn_pool *pool, tn_cu_stream stream, tarn_capture_mode mode);
tarn_capture *test_capture_begin(tarn_capture_mode mode);
tarn_graph *test_capture_end(tarn_capture *capture);
/* A capture, on the world's side stream, of a body of a conditional node in the outer one's graph. */
tarn_capture *test_begin_body(tarn_capture *outer, uint64_t group, tn_cu_graph body);
/* What a section may do: it fills a temporary block of 4 MiB and copies words of it out. Where the
 * block was. */
void *test_copy_through(tarn_pool *pool, tn_cu_stream stream, uint32_t value, void *output,
                        size_t words);
/* A checkpoint of the world's pool; and its restore, which must free and revive so many blocks. */
tarn_checkpoint *test_take(tarn_contents contents);
tarn_delta *test_restore(tarn_checkpoint *checkpoint, size_t freed, size_t revived);

/* The driver beside the library. */
tn_cu_stream test_blocking_stream(void);
void test_destroy_stream(tn_cu_stream stream);
void test_wait_for_all(void); /* all work of the context, that of destroyed streams too */
void test_begin_capture(tn_cu_stream stream, tn_cu_capture_mode mode);
tn_cu_graph test_end_capture(tn_cu_stream stream);
void test_end_broken_capture(tn_cu_stream stream);
tn_cu_graph test_try_end_capture(tn_cu_stream stream); /* NULL when it cannot be had */
tn_cu_capture_status test_capture_status(tn_cu_stream stream);
/* The one node that ends what the stream has captured, and a stream whose next node depends on that alone:
 * on the whole of it, or only on its beginning. */
tn_cu_graphnode test_last_node(tn_cu_stream stream);
void test_set_past(tn_cu_stream stream, tn_cu_graphnode node, bool whole);
void test_drop_capture(tn_cu_stream stream);            /* whatever its state */
void test_break_capture(void);                          /* of this thread, not relaxed */
void test_order(tn_cu_stream first, tn_cu_stream then); /* forks and joins captures too */
void test_copy(tn_cu_stream stream, void *to, const void *from, size_t bytes);
void test_set_words(tn_cu_stream stream, void *address, uint32_t value,
                    size_t count);                                              /* no kernel */
void test_write(tn_cu_stream stream, void *to, const void *from, size_t bytes); /* both wait */
void test_read_bytes(tn_cu_stream stream, void *to, const void *from, size_t bytes);
void test_flip_byte(tn_cu_stream stream, void *address);
void *test_host_alloc(size_t bytes); /* page-locked */
void test_host_free(void *memory);
size_t test_node_count(tn_cu_graph graph);
void test_destroy_graph(tn_cu_graph graph);
tn_cu_graph test_clone(tn_cu_graph graph);
void test_launch_once(tn_cu_graph graph, tn_cu_stream stream); /* an executable of its own */
tn_cu_graphexec test_instantiate(tn_cu_graph graph);
void test_launch(tn_cu_graphexec exec, tn_cu_stream stream);
void test_destroy_exec(tn_cu_graphexec exec);
size_t test_free_bytes(void); /* as cuMemGetInfo says */
/* What the driver says of mapped memory, and a file descriptor for its chunk. */
struct test_properties {
    int handle_types;
    bool rdma;
};
struct test_properties test_properties(const void *address);
unsigned long long test_access(int ordinal, const void *address); /* flags of one device */
int test_export(const void *address);
/* That memory at addresses of its own, as another process would have it. */
void *test_import(int descriptor, size_t bytes);
void test_end_import(void *address, size_t bytes);
void *test_linear_alloc(size_t bytes);
void test_linear_free(void *memory);
/* Allocates pieces of that size until the device is full, which must be so with fewer than most. */
size_t test_linear_fill(void **memory, size_t most, size_t bytes);
tn_cu_context test_context(void);       /* the current one, or NULL */
tn_cu_context test_retain(int ordinal); /* a primary context, not made current */
void test_release(int ordinal);
tn_cu_context test_make_context(void); /* another of device 0, made current */
void test_end_context(tn_cu_context context);
void test_set_context(tn_cu_context context); /* NULL: none */
void test_pop_context(void);                  /* the one before is current again */
/* The driver destroys user objects a little after their graph: until no more than these are left. */
void test_await_destructors(uint64_t left);
tn_cu_result test_stream_result(tn_cu_stream stream); /* of synchronising it */

/* The state of everything that a caller can see. */
struct test_picture {
    struct test_device_stats device;
    struct test_stats default_pool;
    struct test_stats pool;
    uint64_t layout; /* a hash of the pool's */
    tarn_sim_ledger ledger;
    tn_cu_context context;
};
struct test_picture test_picture(void);
void test_same_picture(const struct test_picture *before);

/* What the driver may refuse a call of any kind with, and the library's status then. */
struct test_refusal {
    tn_cu_result result;
    tarn_status status;
};
enum { TEST_REFUSALS = 2 };
extern const struct test_refusal test_refusals[TEST_REFUSALS];

/* Asserts that the call is refused with that status and a sentence that contains the word, and that
 * nothing has changed. */
#define REFUSE(expected, word, call)                                                               \
    do {                                                                                           \
        struct test_picture test_before = test_picture();                                          \
        STATUS(expected, call);                                                                    \
        ck_assert_msg(strstr(tarn_last_error(), word) != NULL, "%s: the sentence lacks '%s': %s",  \
                      #call, word, tarn_last_error());                                             \
        test_same_picture(&test_before);                                                           \
    } while (0)

/* A handle or pointer that no call may write, and the assertion that it was not written. */
#define UNTOUCHED ((void *)(uintptr_t)0x5e17)
#define ck_assert_untouched(handle) ck_assert_ptr_eq((void *)(handle), UNTOUCHED)

#endif

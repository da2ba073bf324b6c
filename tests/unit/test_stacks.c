// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/stacks.h"
#include "unit/unit.h"

SUITE("stacks by their ids")

enum { BYTES = 256 * 1024 };

/* Shared with children. */
struct shared {
    uint64_t words[BYTES / 8];
    atomic_uint_fast64_t written; /* stacks that the writer has entered */
};
static struct shared *shared;
static struct tn_stacks stacks;
static struct tn_scroll_reader reader;

static void open_table(size_t bytes)
{
    ck_assert(tn_stacks_init(&stacks, shared->words, bytes));
    reader = (struct tn_scroll_reader){tn_scroll_from_memory, &stacks.scroll, bytes};
}

static void map_table(void)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(shared, MAP_FAILED);
    open_table(BYTES);
}

static void unmap_table(void)
{
    tn_stacks_drop(&stacks);
    ck_assert_int_eq(munmap(shared, sizeof *shared), 0);
}

GROUP(stacks, map_table, .end = unmap_table)

/* The nth stack: the outer frames are those of many. */
static struct tn_stack make(uint64_t n, size_t count)
{
    struct tn_stack stack = {.count = count};

    for (size_t i = 0; i < count; i++)
        stack.frames[i] = 0x7f0000001000 + 64 * i + (i < 3 ? (n + i) * 16 : 0);
    return stack;
}

static uint32_t enter(const struct tn_stack *stack)
{
    bool is_new;
    uint32_t id = tn_stacks_enter(&stacks, stack, &is_new);

    ck_assert_uint_ne(id, TN_STACKS_NONE);
    return id;
}

static bool is_equal(const struct tn_stack *a, const struct tn_stack *b)
{
    return a->count == b->count && memcmp(a->frames, b->frames, a->count * 8) == 0;
}

static void expect_read(uint32_t id, const struct tn_stack *expected)
{
    struct tn_stack stack;

    ck_assert_int_eq(tn_stacks_read(&reader, id, &stack), TN_SCROLL_READ);
    ck_assert(is_equal(&stack, expected));
}

TEST(stacks, equal_stacks_have_one_id_and_others_have_others)
{
    enum { STACKS = 300 };
    uint32_t ids[STACKS];
    bool is_new;

    for (uint64_t n = 0; n < STACKS; n++) {
        struct tn_stack stack = make(n, 1 + n % TN_STACK_FRAMES_MAX);

        ids[n] = tn_stacks_enter(&stacks, &stack, &is_new);
        ck_assert(is_new);
        ck_assert_uint_ge(ids[n], TN_SCROLL_FIRST);
        for (uint64_t i = 0; i < n; i++)
            ck_assert_uint_ne(ids[i], ids[n]);
    }
    for (uint64_t n = 0; n < STACKS; n++) {
        struct tn_stack stack = make(n, 1 + n % TN_STACK_FRAMES_MAX);

        ck_assert_uint_eq(tn_stacks_enter(&stacks, &stack, &is_new), ids[n]);
        ck_assert(!is_new);
        expect_read(ids[n], &stack);
    }
    ck_assert_uint_eq(tn_scroll_lost(&stacks.scroll), 0);
}

/* Each frame, the order of frames and their number count. */
TEST(stacks, stacks_that_differ_in_one_frame_have_two_ids)
{
    const struct tn_stack stack = make(0, 17);
    const uint32_t id = enter(&stack);
    struct tn_stack other;

    for (size_t i = 0; i < stack.count; i++) {
        other = stack;
        other.frames[i] += 1;
        ck_assert_uint_ne(enter(&other), id);
        other = stack;
        other.frames[i] ^= TN_STACK_TITLE;
        ck_assert_uint_ne(enter(&other), id);
        other = stack;
        other.frames[i] = stack.frames[(i + 1) % stack.count];
        other.frames[(i + 1) % stack.count] = stack.frames[i];
        ck_assert_uint_ne(enter(&other), id);
        other = stack;
        other.count = i;
        ck_assert_uint_ne(enter(&other), id);
    }
    ck_assert_uint_eq(enter(&stack), id);
}

/* The first frame makes its product 0, whatever the second is. */
TEST(stacks, stacks_with_one_hash_have_two_ids)
{
    struct tn_stack one = {.count = 2, .frames = {-TN_GOLDEN, 0x1000}};
    struct tn_stack two = {.count = 2, .frames = {-TN_GOLDEN, 0x2000}};
    const uint32_t id = enter(&one);
    uint64_t entry = 0;

    for (size_t i = 0; i <= stacks.index_mask; i++)
        entry |= atomic_load(&stacks.index[i]);
    ck_assert_uint_ne(enter(&two), id);
    ck_assert_uint_eq(enter(&one), id);
    expect_read(id, &one);
    expect_read(enter(&two), &two);
    /* so they have: a second entry with the same half of the hash */
    for (size_t i = 0; i <= stacks.index_mask; i++) {
        if (atomic_load(&stacks.index[i]) != 0)
            ck_assert_uint_eq(atomic_load(&stacks.index[i]) >> 32, entry >> 32);
    }
}

TEST(stacks, a_stack_without_frames_has_an_id)
{
    const struct tn_stack none = {.count = 0};
    const struct tn_stack one = make(0, 1);
    const uint32_t id = enter(&none);

    ck_assert_uint_ne(enter(&one), id);
    ck_assert_uint_eq(enter(&none), id);
    expect_read(id, &none);
}

/* Long stacks fill the memory, short ones the index. */
TEST_LOOP(stacks, where_no_room_is_left_stacks_have_the_id_of_a_full_table, 0, 2)
{
    const size_t count = _i == 0 ? 64 : 2;
    const struct tn_stack none = {.count = 0};
    struct tn_stack stack;
    uint64_t entered = 0;
    uint64_t lost;
    bool is_new;

    tn_stacks_drop(&stacks);
    open_table(BYTES / 8);
    for (uint64_t n = 0; tn_scroll_lost(&stacks.scroll) == 0; n++) {
        stack = make(n, count);
        entered += enter(&stack) != TN_STACKS_FULL;
    }
    ck_assert_uint_gt(entered, _i == 0 ? 50 : 500);
    ck_assert_uint_eq(stacks.count, entered);
    ck_assert_uint_lt(stacks.count, stacks.index_mask);
    for (uint64_t n = 0; n < 2 * entered; n++) {
        uint32_t id;

        stack = make(n, count);
        lost = tn_scroll_lost(&stacks.scroll);
        id = tn_stacks_enter(&stacks, &stack, &is_new);
        ck_assert(!is_new);
        ck_assert_int_eq(id == TN_STACKS_FULL, n >= entered);
        ck_assert_uint_eq(tn_scroll_lost(&stacks.scroll), lost + (n >= entered));
        expect_read(id, n < entered ? &stack : &none);
    }
    for (size_t i = BYTES / 64; i < BYTES / 8; i++)
        ck_assert_uint_eq(shared->words[i], 0);
}

TEST(stacks, without_memory_for_the_index_none_is_made)
{
    struct tn_stacks other;

    (void)tn_host_plan_fault(1, false);
    ck_assert(!tn_stacks_init(&other, shared->words, BYTES));
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 1);
}

TEST(stacks, records_that_are_no_stacks_are_refused)
{
    uint64_t words[TN_STACK_FRAMES_MAX + 1] = {0};
    struct tn_stack stack;
    uint32_t id = tn_scroll_add(&stacks.scroll, words, TN_STACK_FRAMES_MAX + 1);

    ck_assert_int_eq(tn_stacks_read(&reader, id, &stack), TN_SCROLL_BROKEN);
    ck_assert_uint_eq(stack.count, 0);
    ck_assert_int_eq(tn_stacks_read(&reader, TN_STACKS_NONE, &stack), TN_SCROLL_BROKEN);
    ck_assert_int_eq(tn_stacks_read(&reader, 3, &stack), TN_SCROLL_BROKEN);
    ck_assert_int_eq(tn_stacks_read(&reader, id + 1, &stack), TN_SCROLL_EMPTY);
    ck_assert_uint_eq(stack.count, 0);
}

/* Any bytes at all: a sanitizer sees whether a read goes beyond. */
TEST(stacks, a_reader_of_hostile_memory_stays_inside)
{
    enum { HOSTILE = 512 };
    struct tn_scroll hostile;
    struct tn_scroll_reader of_hostile = {tn_scroll_from_memory, &hostile, HOSTILE * 8};
    uint64_t *words = malloc(HOSTILE * 8);
    uint64_t random = 1;
    uint64_t found = 0;

    tn_scroll_init(&hostile, words, HOSTILE * 8);
    for (unsigned round = 0; round < 50; round++) {
        for (size_t i = 0; i < HOSTILE; i++) {
            random = random * 6364136223846793005 + 1442695040888963407;
            words[i] = (random >> 62 == 0 ? (uint64_t)i << 32 : random & 1) | random >> 54;
        }
        for (uint32_t id = 0; id < HOSTILE + 4; id++) {
            struct tn_stack stack;

            found += tn_stacks_read(&of_hostile, id, &stack) == TN_SCROLL_READ;
            ck_assert(stack.count <= TN_STACK_FRAMES_MAX);
        }
    }
    ck_assert_uint_gt(found, 50);
    free(words);
}

enum { THREADS = 4, SHARED_STACKS = 1000 };

struct work {
    uint32_t ids[SHARED_STACKS];
    unsigned new_count;
    uint64_t first; /* where this thread begins */
};

static void *enter_all(void *argument)
{
    struct work *work = argument;

    for (unsigned round = 0; round < 3; round++) {
        for (uint64_t i = 0; i < SHARED_STACKS; i++) {
            uint64_t n = (work->first + i) % SHARED_STACKS;
            struct tn_stack stack = make(n, 5 + n % 12);
            struct tn_stack seen;
            bool is_new;

            work->ids[n] = tn_stacks_enter(&stacks, &stack, &is_new);
            work->new_count += is_new;
            if (tn_stacks_read(&reader, work->ids[n], &seen) != TN_SCROLL_READ ||
                !is_equal(&seen, &stack))
                work->ids[n] = TN_STACKS_NONE;
        }
    }
    return NULL;
}

TEST(stacks, threads_give_a_stack_one_id)
{
    static struct work work[THREADS];
    pthread_t threads[THREADS];
    unsigned new_count = 0;

    for (unsigned i = 0; i < THREADS; i++) {
        work[i].first = i * SHARED_STACKS / 8;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, enter_all, &work[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        new_count += work[i].new_count;
        ck_assert_mem_eq(work[i].ids, work[0].ids, sizeof work[0].ids);
    }
    for (unsigned i = 0; i < SHARED_STACKS; i++)
        ck_assert_uint_ge(work[0].ids[i], TN_SCROLL_FIRST);
    ck_assert_uint_eq(new_count, SHARED_STACKS);
    ck_assert_uint_eq(stacks.count, SHARED_STACKS);
}

static atomic_uint begun;

static void *enter_one(void *argument)
{
    struct tn_stack stack = make(0, 16);
    bool is_new;

    atomic_fetch_add(&begun, 1);
    *(uint32_t *)argument = tn_stacks_enter(&stacks, &stack, &is_new);
    return is_new ? argument : NULL;
}

TEST(stacks, two_threads_that_miss_a_stack_add_it_once)
{
    pthread_t threads[2];
    uint32_t ids[2];
    unsigned new_count = 0;

    tn_spin_acquire(&stacks.lock);
    for (unsigned i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, enter_one, &ids[i]), 0);
    while (atomic_load(&begun) < 2) {
    }
    (void)usleep(20000); /* both wait for the lock by then */
    tn_spin_release(&stacks.lock);
    for (unsigned i = 0; i < 2; i++) {
        void *is_new;

        ck_assert_int_eq(pthread_join(threads[i], &is_new), 0);
        new_count += is_new != NULL;
    }
    ck_assert_uint_eq(ids[0], ids[1]);
    ck_assert_uint_eq(new_count, 1);
    ck_assert_uint_eq(stacks.count, 1);
}

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
/* Instruction by instruction: whatever is there is a whole stack, and all that were entered are. */
static void check_what_is_left(void)
{
    uint64_t written = atomic_load(&shared->written);
    uint32_t id = TN_SCROLL_FIRST;
    uint64_t n = 0;
    struct tn_stack stack;

    while (tn_stacks_read(&reader, id, &stack) == TN_SCROLL_READ) {
        struct tn_stack expected = make(n, 3 + n % 4);

        if (!is_equal(&stack, &expected))
            ck_abort_msg("stack %lu is broken", (unsigned long)n);
        id += 1 + (uint32_t)stack.count;
        n += 1;
    }
    ck_assert_int_eq(tn_stacks_read(&reader, id, &stack), TN_SCROLL_EMPTY);
    if (n < written || n > written + 1)
        ck_abort_msg("%lu stacks of %lu", (unsigned long)n, (unsigned long)written);
}

TEST(stacks, between_any_two_instructions_only_whole_stacks_are_there)
{
    enum { STACKS = 12, STEPS_MAX = 200000 };
    uint64_t steps = 0;
    int status;
    pid_t child = fork();

    ck_assert_int_ge(child, 0);
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(77);
        (void)raise(SIGSTOP);
        for (uint64_t n = 0; n < STACKS; n++) {
            struct tn_stack stack = make(n, 3 + n % 4);
            bool is_new;

            (void)tn_stacks_enter(&stacks, &stack, &is_new);
            atomic_store(&shared->written, n + 1);
        }
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    if (WIFEXITED(status)) { /* an emulator, or a machine that forbids it */
        ck_assert_int_eq(WEXITSTATUS(status), 77);
        return;
    }
    while (WIFSTOPPED(status) && steps < STEPS_MAX) {
        check_what_is_left();
        ck_assert_int_eq(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        steps += 1;
    }
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ck_assert_uint_gt(steps, 1000);
    ck_assert_uint_eq(atomic_load(&shared->written), STACKS);
}
#endif

// SPDX-License-Identifier: Apache-2.0
/* Compiled with frame pointers, and without calls that leave their caller's frame. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/hot.h"
#include "base/stack.h"
#include "unit/unit.h"

SUITE("stacks of threads")
GROUP(stacks, NULL)

/* On the thread's own stack, not in a sanitizer's memory. */
#define ON_STACK __attribute__((noinline, no_sanitize("address")))

/* Behind a call: the compiler does not make the call its last act. */
#define STAY __asm__ volatile("" ::: "memory")

enum { DEPTH = 20, DEEP = 100 };

static const struct tn_stack_settings by_frames = {.level = TN_STACK_FRAMES,
                                                   .most = TN_STACK_FRAMES_MAX};

/* What each function returned to, the innermost first. */
static uint64_t expected[DEEP + 1];

static struct tn_stack stack;
static size_t count_there; /* frames, before the stack is taken */

/* In the place of a public function. */
static TN_APART void take(const struct tn_stack_settings *settings)
{
    expected[0] = (uint64_t)(uintptr_t)__builtin_return_address(0);
    stack.count = count_there;
    tn_stack_take(&stack, settings, TN_STACK_CALLER_HERE, TN_STACK_FRAME_HERE);
    STAY;
}

/* Two calls, so that not all levels are alike. */
static TN_APART void take_from(unsigned depth, const struct tn_stack_settings *settings)
{
    if (depth == 0) {
        take(settings);
    } else if (depth % 2 == 0) {
        take_from(depth - 1, settings);
        STAY;
    } else {
        take_from(depth - 1, settings);
        __asm__ volatile("nop" ::: "memory");
    }
    expected[1 + depth] = (uint64_t)(uintptr_t)__builtin_return_address(0);
    STAY;
}

/* The stack has exactly these frames from first on. */
static void expect_frames(size_t first, size_t count)
{
    ck_assert_uint_eq(stack.count, count);
    for (size_t i = 0; i < count; i++)
        ck_assert_uint_eq(stack.frames[i], expected[first + i]);
}

/* At least as deep as the functions of this file. */
static void expect_at_least(size_t count)
{
    ck_assert_uint_ge(stack.count, count);
    for (size_t i = 0; i < count; i++)
        ck_assert_uint_eq(stack.frames[i], expected[i]);
}

TEST_LOOP(stacks, frames_are_what_the_functions_return_to, TN_STACK_FRAMES, TN_STACK_UNWIND + 1)
{
    const struct tn_stack_settings settings = {.level = (enum tn_stack_level)_i,
                                               .most = TN_STACK_FRAMES_MAX};

    ck_assert_int_eq(syscall(SYS_gettid), getpid()); /* the first thread */
    take_from(DEPTH, &settings);
    expect_at_least(DEPTH + 2);
}

TEST_LOOP(stacks, so_many_frames_are_skipped_and_so_many_taken, TN_STACK_FRAMES,
          TN_STACK_UNWIND + 1)
{
    struct tn_stack_settings settings = {.level = (enum tn_stack_level)_i, .most = 5};

    for (uint32_t skip = 0; skip < 4; skip++) {
        settings.skip = skip;
        take_from(DEPTH, &settings);
        expect_frames(skip, 5);
    }
    settings.most = TN_STACK_FRAMES_MAX;
    take_from(DEEP - 1, &settings);
    expect_frames(3, TN_STACK_FRAMES_MAX);
    settings.most = 0;
    take_from(DEPTH, &settings);
    ck_assert_uint_eq(stack.count, 0);
}

TEST(stacks, lower_levels_have_the_caller_or_nothing)
{
    struct tn_stack_settings settings = {.level = TN_STACK_CALLER, .most = TN_STACK_FRAMES_MAX};

    take_from(DEPTH, &settings);
    expect_frames(0, 1);
    settings.skip = 1;
    take_from(DEPTH, &settings);
    ck_assert_uint_eq(stack.count, 0);
    settings.skip = 0;
    settings.level = TN_STACK_NONE;
    take_from(DEPTH, &settings);
    ck_assert_uint_eq(stack.count, 0);
}

/* A caller that is no function of the stack. */
TEST(stacks, where_the_caller_is_not_found_it_is_all)
{
    const struct tn_stack_settings settings = {.level = TN_STACK_UNWIND,
                                               .most = TN_STACK_FRAMES_MAX};

    stack.count = 0;
    tn_stack_take(&stack, &settings, (const void *)0x123456, NULL);
    ck_assert_uint_eq(stack.count, 1);
    ck_assert_uint_eq(stack.frames[0], 0x123456);
}

TEST(stacks, addresses_are_added_to_the_frames_that_are_there)
{
    const uint64_t title = tn_stack_title(TN_STACK_LABEL, 42);
    struct tn_stack_settings settings = {.level = TN_STACK_FRAMES, .most = 4};

    stack.frames[0] = title;
    count_there = 1;
    take_from(DEPTH, &settings);
    ck_assert_uint_eq(stack.count, 4);
    ck_assert_uint_eq(stack.frames[0], title);
    for (size_t i = 0; i < 3; i++)
        ck_assert_uint_eq(stack.frames[1 + i], expected[i]);
    settings.most = 1;
    take_from(DEPTH, &settings);
    ck_assert_uint_eq(stack.count, 1);
    settings.level = TN_STACK_NONE;
    settings.most = 4;
    take_from(DEPTH, &settings);
    ck_assert_uint_eq(stack.count, 1);
    ck_assert_uint_eq(stack.frames[0], title);
    count_there = 0;
}

TEST(stacks, a_title_is_known_by_its_place)
{
    const uint64_t title = tn_stack_title(TN_STACK_LABEL, 42);

    ck_assert_uint_eq(tn_stack_title_of(title, TN_STACK_LABEL), 42);
    ck_assert_uint_eq(tn_stack_title_of(title | UINT64_C(1) << 32, TN_STACK_LABEL), 0);
    ck_assert_uint_eq(tn_stack_title_of(title & ~TN_STACK_TITLE, TN_STACK_LABEL), 0);
}

/* The C library's answer about a thread. */
int __real_pthread_getattr_np(pthread_t thread, pthread_attr_t *attributes);
int __wrap_pthread_getattr_np(pthread_t thread, pthread_attr_t *attributes);

static unsigned answers;
static bool is_refused;
static bool calls_back; /* before the answer, as an allocator may */
static size_t count_meanwhile;

int __wrap_pthread_getattr_np(pthread_t thread, pthread_attr_t *attributes)
{
    answers += 1;
    pthread_testcancel();            /* as calls about files do */
    if (calls_back && answers < 3) { /* or it would never end, where each stack asks */
        take_from(DEPTH, &by_frames);
        count_meanwhile = stack.count;
    }
    return is_refused ? ENOENT : __real_pthread_getattr_np(thread, attributes);
}

TEST(stacks, a_thread_asks_once_and_until_then_the_caller_is_all)
{
    calls_back = true;
    take_from(DEPTH, &by_frames);
    ck_assert_uint_eq(count_meanwhile, 1);
    for (unsigned i = 0; i < 3; i++) {
        take_from(DEPTH, &by_frames);
        expect_at_least(DEPTH + 2);
        ck_assert_uint_eq(answers, 1);
    }
}

TEST(stacks, where_the_bounds_are_not_known_the_caller_is_all)
{
    is_refused = true;
    for (unsigned i = 0; i < 3; i++) {
        take_from(DEPTH, &by_frames);
        expect_frames(0, 1);
        ck_assert_uint_eq(answers, 1);
    }
    ck_assert(!tn_stack_is_own((uintptr_t)__builtin_frame_address(0)));
}

struct frame {
    uintptr_t outer;
    uintptr_t returns;
};

enum { CODE = 0x400000, LINKS = 4 };

/* Frames from links[0] to links[LINKS - 1], which has none around it. */
static void make_chain(struct frame *links)
{
    for (unsigned i = 0; i < LINKS; i++) {
        links[i].outer = i + 1 < LINKS ? (uintptr_t)&links[i + 1] : 0;
        links[i].returns = CODE + i;
    }
}

static size_t follow(const void *frame)
{
    stack.count = 0;
    tn_stack_take(&stack, &by_frames, (const void *)CODE, frame);
    for (size_t i = 0; i < stack.count; i++)
        ck_assert_uint_eq(stack.frames[i], CODE + i);
    return stack.count;
}

/* The frame of the second link is said to be where none can be. */
static size_t follow_to(struct frame *links, uintptr_t outer)
{
    make_chain(links);
    links[1].outer = outer;
    return follow(links);
}

ON_STACK static void check_broken_chains(void)
{
    struct frame links[LINKS];
    struct frame *elsewhere = malloc(sizeof *elsewhere);

    *elsewhere = (struct frame){.outer = 0, .returns = CODE + 2};
    make_chain(links);
    ck_assert_uint_eq(follow(links), LINKS);
    ck_assert_uint_eq(follow_to(links, (uintptr_t)&links[2]), LINKS);
    ck_assert_uint_eq(follow_to(links, (uintptr_t)&links[1]), 2); /* itself */
    ck_assert_uint_eq(follow_to(links, (uintptr_t)&links[0]), 2); /* a circle */
    ck_assert_uint_eq(follow_to(links, (uintptr_t)&links[2] + 1), 2);
    ck_assert_uint_eq(follow_to(links, (uintptr_t)&links[2] + 4), 2);
    ck_assert_uint_eq(follow_to(links, (uintptr_t)elsewhere), 2);
    ck_assert_uint_eq(follow_to(links, 1), 2);
    ck_assert_uint_eq(follow_to(links, UINTPTR_MAX - 7), 2);
    ck_assert_uint_eq(follow_to(links, (uintptr_t)1 << 63), 2);
    ck_assert_uint_eq(follow(NULL), 1);
    ck_assert_uint_eq(follow((const char *)links + 1), 1);
    ck_assert_uint_eq(follow(elsewhere), 1);
    for (unsigned i = 0; i < 3; i++) {
        static const uintptr_t no_code[] = {0, 4095, (uintptr_t)1 << 63};

        make_chain(links);
        links[2].returns = no_code[i];
        ck_assert_uint_eq(follow(links), 2);
    }
    free(elsewhere);
}

TEST(stacks, a_broken_chain_ends_the_stack)
{
    check_broken_chains();
}

ON_STACK static void check_own(void)
{
    const uintptr_t place = (uintptr_t)__builtin_frame_address(0);
    void *elsewhere = malloc(16);

    ck_assert(tn_stack_is_own(place));
    ck_assert(!tn_stack_is_own((uintptr_t)elsewhere));
    ck_assert(!tn_stack_is_own(0));
    ck_assert(!tn_stack_is_own(UINTPTR_MAX));
    free(elsewhere);
}

/* A thread in the middle of pages that may not be read, with its stack's last words. The sanitizer's
 * own words of a thread are on the stack, too. */
#ifdef __SANITIZE_THREAD__
enum { SMALL_BYTES = 1 << 20 };
#else
enum { SMALL_BYTES = 64 * 1024 };
#endif
enum { GUARD_BYTES = 1 << 20 };

static char *small_stack;

ON_STACK static void check_last_frames(void)
{
    const uintptr_t end = (uintptr_t)small_stack + SMALL_BYTES;
    struct frame links[LINKS];

    ck_assert(tn_stack_is_own(end - 1));
    ck_assert(!tn_stack_is_own(end));
    ck_assert(!tn_stack_is_own((uintptr_t)small_stack - 1));
    (void)follow_to(links, end - sizeof(struct frame)); /* the last place: of whatever is there */
    ck_assert_uint_eq(follow_to(links, end - sizeof(struct frame) + sizeof(uintptr_t)), 2);
    ck_assert_uint_eq(follow_to(links, end), 2);
    ck_assert_uint_eq(follow_to(links, (uintptr_t)small_stack - 16), 2);
    ck_assert_uint_eq(follow((const void *)(end - sizeof(uintptr_t))), 1);
    ck_assert_uint_eq(follow((const void *)((uintptr_t)small_stack - 16)), 1);
}

static void *take_in_thread(void *unused)
{
    take_from(DEPTH, &by_frames);
    expect_at_least(DEPTH + 2);
    check_own();
    if (small_stack != NULL)
        check_last_frames();
    return unused;
}

TEST(stacks, a_thread_knows_its_own_stack)
{
    pthread_t thread;

    check_own();
    ck_assert_int_eq(pthread_create(&thread, NULL, take_in_thread, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    check_own();
}

TEST(stacks, nothing_beyond_a_small_stack_is_read)
{
    pthread_attr_t attributes;
    pthread_t thread;
    char *memory =
        mmap(NULL, SMALL_BYTES + 2 * GUARD_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    ck_assert_ptr_ne(memory, MAP_FAILED);
    small_stack = memory + GUARD_BYTES;
    ck_assert_int_eq(mprotect(small_stack, SMALL_BYTES, PROT_READ | PROT_WRITE), 0);
    ck_assert_int_eq(pthread_attr_init(&attributes), 0);
    if (pthread_attr_setstack(&attributes, small_stack, SMALL_BYTES) != 0)
        return; /* this system's threads need more */
    ck_assert_int_eq(pthread_create(&thread, &attributes, take_in_thread, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    (void)pthread_attr_destroy(&attributes);
    ck_assert_int_eq(munmap(memory, SMALL_BYTES + 2 * GUARD_BYTES), 0);
}

static int take_between(const void *a, const void *b)
{
    take_from(DEPTH, &by_frames);
    return *(const int *)a - *(const int *)b;
}

/* The C library's function may keep anything in the register. */
TEST(stacks, in_code_without_frame_pointers_the_stack_ends_or_goes_on)
{
    int numbers[] = {3, 1, 2};

    qsort(numbers, 3, sizeof *numbers, take_between);
    expect_at_least(DEPTH + 2);
}

static struct tn_stack in_handler;

static void take_in_handler(int signal)
{
    (void)signal;
    take_from(DEPTH, &by_frames);
    in_handler = stack;
}

/* The handler's frames lead to this stack, which is not the one that it runs on. */
TEST(stacks, on_an_alternate_stack_the_caller_is_all)
{
    struct sigaction action = {.sa_handler = take_in_handler, .sa_flags = SA_ONSTACK};
    const stack_t alternate = {.ss_sp = malloc(SMALL_BYTES * 4), .ss_size = SMALL_BYTES * 4};
    stack_t before;

    take_from(DEPTH, &by_frames); /* not for the first time in a handler */
    ck_assert_int_eq(sigaltstack(&alternate, &before), 0);
    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
    ck_assert_int_eq(raise(SIGUSR1), 0);
    ck_assert_uint_eq(in_handler.count, 1);
    ck_assert_uint_eq(in_handler.frames[0], expected[0]);
    action.sa_flags = 0; /* on the thread's own stack */
    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
    ck_assert_int_eq(raise(SIGUSR1), 0);
    ck_assert_uint_ge(in_handler.count, DEPTH + 2);
    ck_assert_int_eq(sigaltstack(&before, NULL), 0);
    free(alternate.ss_sp);
}

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
static ucontext_t here, there;

static void take_in_coroutine(void)
{
    take_from(DEPTH, &by_frames);
}

TEST(stacks, on_a_coroutines_stack_the_caller_is_all)
{
    void *memory = malloc(SMALL_BYTES);

    ck_assert_int_eq(getcontext(&there), 0);
    there.uc_stack.ss_sp = memory;
    there.uc_stack.ss_size = SMALL_BYTES;
    there.uc_link = &here;
    makecontext(&there, take_in_coroutine, 0);
    ck_assert_int_eq(swapcontext(&here, &there), 0);
    expect_frames(0, 1);
    take_from(DEPTH, &by_frames); /* back on its own */
    expect_at_least(DEPTH + 2);
    free(memory);
}
#endif

/* Its own calls alone: those of Check's may be cancellation points. */
static void *take_cancelled(void *unused)
{
    int state;

    (void)pthread_cancel(pthread_self());
    take_from(DEPTH, &by_frames);
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    return state == PTHREAD_CANCEL_ENABLE ? &stack : unused;
}

TEST(stacks, to_take_a_stack_is_no_cancellation_point)
{
    pthread_t thread;
    void *result;

    ck_assert_int_eq(pthread_create(&thread, NULL, take_cancelled, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    ck_assert_ptr_eq(result, &stack);
    ck_assert_uint_eq(answers, 1);
    expect_at_least(DEPTH + 2);
}

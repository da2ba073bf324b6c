// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/user_code.h"
#include "unit/unit.h"

SUITE("user code")
GROUP(code, NULL, .name = "user code")

TEST(code, a_function_that_returns_leaves_nothing)
{
    TN_USER_CODE(outer);

    tn_user_code_check();
    ck_assert(!tn_user_code_is_filter());
    tn_user_code_enter(&outer, TN_USER_FILTER);
    ck_assert(tn_user_code_is_filter());
    {
        TN_USER_CODE(inner);

        tn_user_code_enter(&inner, TN_USER_OBSERVER);
        ck_assert(!tn_user_code_is_filter());
        tn_user_code_leave(&inner);
    }
    ck_assert(tn_user_code_is_filter());
    tn_user_code_leave(&outer);
    ck_assert_ptr_null(tn_user_code_innermost);
}

static __attribute__((noinline)) void check_deeper(void)
{
    volatile char room[4096];

    room[0] = 1;
    tn_user_code_check();
    room[1] = room[0];
}

TEST(code, a_call_of_the_functions_is_let_pass)
{
    TN_USER_CODE(code);

    tn_user_code_enter(&code, TN_USER_FREE_CALLBACK);
    check_deeper();
    tn_user_code_leave(&code);
}

static ucontext_t own;
static ucontext_t elsewhere;
static _Alignas(16) char other_stack[64 << 10];

static void check_elsewhere(void)
{
    tn_user_code_check();
}

/* Places on another stack say nothing. */
TEST(code, a_call_from_a_stack_of_the_functions_own_is_let_pass)
{
    TN_USER_CODE(code);

    tn_user_code_enter(&code, TN_USER_FREE_CALLBACK);
    ck_assert_int_eq(getcontext(&elsewhere), 0);
    elsewhere.uc_stack.ss_sp = other_stack;
    elsewhere.uc_stack.ss_size = sizeof other_stack;
    elsewhere.uc_link = &own;
    makecontext(&elsewhere, check_elsewhere, 0);
    ck_assert_int_eq(swapcontext(&own, &elsewhere), 0);
    tn_user_code_leave(&code);
}

/* A function that returns with cancellation enabled was called in a call, which is no cancellation
 * point. */
TEST(code, cancellation_is_disabled_behind_a_function_that_enables_it)
{
    int state;
    TN_USER_CODE(code);

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    tn_user_code_enter(&code, TN_USER_FREE_CALLBACK);
    (void)pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
    tn_user_code_leave(&code);
    (void)pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
    ck_assert_int_eq(state, PTHREAD_CANCEL_DISABLE);
}

/* call_unknown calls from a frame without unwind information, call_on_stack on another stack, from a
 * frame that leads back to the own one. */
void call_unknown(void (*function)(void));
void call_on_stack(void (*function)(void), char *end);
#ifdef __x86_64__
__asm__(".text\n"
        ".globl call_unknown\n"
        ".type call_unknown, @function\n"
        "call_unknown:\n"
        "    push %rbp\n"
        "    call *%rdi\n"
        "    pop %rbp\n"
        "    ret\n"
        ".size call_unknown, . - call_unknown\n"
        ".globl call_on_stack\n"
        ".type call_on_stack, @function\n"
        "call_on_stack:\n"
        "    .cfi_startproc\n"
        "    push %rbp\n"
        "    .cfi_def_cfa_offset 16\n"
        "    .cfi_offset %rbp, -16\n"
        "    mov %rsp, %rbp\n"
        "    .cfi_def_cfa_register %rbp\n"
        "    mov %rsi, %rsp\n"
        "    call *%rdi\n"
        "    mov %rbp, %rsp\n"
        "    pop %rbp\n"
        "    .cfi_def_cfa %rsp, 8\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size call_on_stack, . - call_on_stack\n");
#else
__asm__(".text\n"
        ".globl call_unknown\n"
        ".type call_unknown, %function\n"
        "call_unknown:\n"
        "    stp x29, x30, [sp, #-16]!\n"
        "    blr x0\n"
        "    ldp x29, x30, [sp], #16\n"
        "    ret\n"
        ".size call_unknown, . - call_unknown\n"
        ".globl call_on_stack\n"
        ".type call_on_stack, %function\n"
        "call_on_stack:\n"
        "    .cfi_startproc\n"
        "    stp x29, x30, [sp, #-16]!\n"
        "    .cfi_def_cfa_offset 16\n"
        "    .cfi_offset x29, -16\n"
        "    .cfi_offset x30, -8\n"
        "    mov x29, sp\n"
        "    .cfi_def_cfa_register x29\n"
        "    mov sp, x1\n"
        "    blr x0\n"
        "    mov sp, x29\n"
        "    ldp x29, x30, [sp], #16\n"
        "    .cfi_def_cfa sp, 0\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size call_on_stack, . - call_on_stack\n");
#endif

static TN_USER_CODE_ON_STACK void call_inside(void)
{
    TN_USER_CODE(code);

    tn_user_code_enter(&code, TN_USER_FREE_CALLBACK);
    call_unknown(check_deeper);
    tn_user_code_leave(&code);
}

TEST(code, a_call_whose_frames_are_not_known_is_let_pass)
{
    call_inside();
}

/* Goes back to where it was called, and then is called again from inside of a function. */
static void check_again(void)
{
    (void)swapcontext(&elsewhere, &own);
    tn_user_code_check();
    (void)setcontext(&own);
}

static TN_USER_CODE_ON_STACK void go_there_inside(void)
{
    TN_USER_CODE(code);

    tn_user_code_enter(&code, TN_USER_FREE_CALLBACK);
    ck_assert_int_eq(swapcontext(&own, &elsewhere), 0);
    tn_user_code_leave(&code);
}

/* From there the frames lead past the function. */
TEST(code, a_call_from_a_stack_that_was_there_before_is_let_pass)
{
    static volatile bool is_back;

    is_back = false;
    ck_assert_int_eq(getcontext(&own), 0);
    if (!is_back) {
        is_back = true;
        call_on_stack(check_again, other_stack + sizeof other_stack);
    }
    go_there_inside();
}

static jmp_buf back;

static TN_USER_CODE_ON_STACK void enter_and_jump(void)
{
    TN_USER_CODE(code);

    tn_user_code_enter(&code, TN_USER_FREE_CALLBACK);
    longjmp(back, 1);
}

static __attribute__((noinline)) void jump_from_deeper(void)
{
    volatile char room[1024];

    room[0] = 1;
    enter_and_jump();
    room[1] = room[0];
}

/* Its frame is around what was left of the others, and changes nothing there. */
static __attribute__((noinline, no_sanitize("address"))) void check_far_deeper(void)
{
    volatile char room[65536];

    room[0] = 1;
    tn_user_code_check();
    room[1] = room[0];
}

TEST_WITH(code, a_record_in_the_frame_of_another_function_ends_the_process, 0, 1, .signal = SIGABRT)
{
    if (setjmp(back) == 0)
        jump_from_deeper();
    check_far_deeper();
}

/* Of two functions, one inside the other, the inner one was left. */
static TN_USER_CODE_ON_STACK void call_after_an_inner_jump(void)
{
    TN_USER_CODE(code);

    tn_user_code_enter(&code, TN_USER_FREE_CALLBACK);
    if (setjmp(back) == 0)
        jump_from_deeper();
    check_far_deeper();
    _exit(0);
}

TEST_WITH(code, an_inner_record_in_the_frame_of_another_function_ends_the_process, 0, 1,
          .signal = SIGABRT)
{
    call_after_an_inner_jump();
}

enum { WORDS = sizeof(struct tn_user_code) / sizeof(uintptr_t) };

/* One word is enough, whichever it is: what writes there may leave gaps. The last is a byte of one. */
TEST_WITH(code, a_record_that_was_written_over_ends_the_process, 0, WORDS + 1, .signal = SIGABRT)
{
    struct tn_user_code code;

    tn_user_code_enter(&code, TN_USER_FREE_CALLBACK);
    ((volatile unsigned char *)&code)[_i < WORDS ? (size_t)_i * sizeof(uintptr_t)
                                                 : offsetof(struct tn_user_code, inside)] ^= 2;
    check_deeper();
}

TEST_WITH(code, a_block_that_ends_inside_ends_the_process, 0, 1, .signal = SIGABRT)
{
    TN_USER_CODE(code);

    tn_user_code_enter(&code, TN_USER_FILTER);
}

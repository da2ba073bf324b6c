// SPDX-License-Identifier: Apache-2.0
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fork.h"
#include "unit/unit.h"

static atomic_int told;

static void note(void)
{
    atomic_fetch_add(&told, 1);
}

/* What the child is; its exit status says so. */
static int child_is(void)
{
    pid_t child = fork();
    int status = -1;

    if (child == 0)
        _exit((tn_is_forked() ? 2 : 0) + atomic_load(&told));
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

GROUP(fork, NULL)

TEST(fork, a_child_is_forked_where_somebody_had_a_stake)
{
    ck_assert_int_eq(child_is(), 0); /* nothing was used */
    tn_fork_stake();
    ck_assert_int_eq(child_is(), 2);
    tn_fork_stake();
    tn_fork_unstake();
    ck_assert_int_eq(child_is(), 2);
    tn_fork_unstake();
    ck_assert_int_eq(child_is(), 0); /* as when no driver was found */
    ck_assert(!tn_is_forked());
}

TEST(fork, a_child_tells_each_function_once)
{
    tn_fork_stake();
    tn_fork_tell(note);
    tn_fork_tell(note);
    ck_assert_int_eq(child_is(), 3);
    tn_fork_unstake();
    ck_assert_int_eq(child_is(), 0);
    ck_assert_int_eq(atomic_load(&told), 0);
}

TEST(fork, the_refusal_says_what_helps)
{
    STATUS(TARN_ERR_FORKED, tn_fork_refuse());
    unit_expect_sentence("exec");
}

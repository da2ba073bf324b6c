// SPDX-License-Identifier: Apache-2.0
/* Numbers come from a counter, one for each thread that asks. A mark is a record that the thread
 * shares with the keepers of the mark. At the thread's end the system runs a function, which sets
 * the mark.
 *
 * Trade-offs: the end of the process's first thread is not told; nothing runs after it. */
#include "base/thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/contract.h"
#include "base/fork.h"
#include "base/host.h"
#include "base/object.h"

struct tn_thread_mark {
    uint64_t magic;              /* unused: 0 */
    struct tn_thread_mark *next; /* links recycled records */
    atomic_uint_fast32_t claims; /* of the thread, and of each keeper of the mark */
    atomic_bool ended;
};

static struct tn_records mark_records = TN_RECORDS_INIT(struct tn_thread_mark);
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool key_is_made; /* written once, in key_once */
static atomic_uint_fast64_t last_id;
static _Thread_local uint64_t own_id;

uint64_t tn_thread_id(void)
{
    if (own_id == 0)
        own_id = atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1;
    return own_id;
}

void tn_thread_mark_end(struct tn_thread_mark *mark)
{
    uint_fast32_t before = atomic_fetch_sub(&mark->claims, 1);

    TN_ASSERT(before > 0);
    if (before == 1)
        tn_records_give(&mark_records, mark);
}

static void end_thread(void *mine)
{
    struct tn_thread_mark *mark = mine;

    if (tn_is_forked()) /* the lock of the records may be another thread's, for good */
        return;
    atomic_store(&mark->ended, true);
    tn_thread_mark_end(mark);
}

static void make_key(void)
{
    tn_object_keep(); /* end_thread is called when any thread ends that has a mark */
    key_is_made = pthread_key_create(&key, end_thread) == 0;
}

struct tn_thread_mark *tn_thread_mark_take(void)
{
    struct tn_thread_mark *mark;

    (void)pthread_once(&key_once, make_key);
    if (!key_is_made)
        return NULL;
    mark = pthread_getspecific(key);
    if (mark == NULL) {
        mark = tn_records_take(&mark_records);
        if (mark == NULL)
            return NULL;
        atomic_store(&mark->claims, 1);
        if (pthread_setspecific(key, mark) != 0) {
            tn_records_give(&mark_records, mark);
            return NULL;
        }
    }
    atomic_fetch_add(&mark->claims, 1);
    return mark;
}

bool tn_thread_has_ended(const struct tn_thread_mark *mark)
{
    return atomic_load(&mark->ended);
}
